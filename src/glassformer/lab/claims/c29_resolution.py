"""E at another grid by interpolation; E = 0 and the patches in another order: what positions carry in a ViT."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import interpolate

from glassformer.lab import pictures
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.parts import generator, largest
from glassformer.lab.teaching import teach
from glassformer.lens import edit
from glassformer.models import ViT
from glassformer.models.vit import plain
from glassformer.nn import initialise

PATCH, GRID = 4, 4
SAME = 1e-5  # float32 adds up patches in another order
CHANCE = 0.25  # of four quarters
ERRORS = 3  # standard errors between two shares that no luck explains


def measure(seed: int, *, steps: int = 250, images: int = 256) -> Result:
    random = generator(seed)
    model = _trained(seed, steps)
    with torch.no_grad():
        X, y = _images(images, random)
        large, y_large = _images(images, random, scale=2)
        own, interpolated = _accuracy(model, X, y), _accuracy(model, large, y_large)
        E = model.table((2 * GRID, 2 * GRID))
        with edit(model, "E", E[torch.randperm(len(E), generator=random)]):
            mixed = _accuracy(model, large, y_large)
        shuffled = _shuffled(X, random)
        placed = _accuracy(model, shuffled, y)
        model.positions.zero_()
        before, after = model(X), model(shuffled)
    return {
        "accuracy": {"as trained": own, "interpolated": interpolated, "positions mixed up": mixed, "shuffled": placed},
        "images": images,
        "without": largest(after - before) / max(largest(before), 1e-9),
        "same_class": float((after.argmax(-1) == before.argmax(-1)).float().mean()),
    }


def _trained(seed: int, steps: int) -> ViT:
    """One layer that learns in which quarter of the image the bright square is."""
    config = plain(PATCH * GRID, PATCH, 32, 1, 2, classes=4, channels=1)
    model = ViT(replace(config, prefix=0, pool="mean"), seed=seed)
    initialise(model, seed)
    teach(model, lambda random: _images(32, random), steps=steps, rate=1e-2, seed=seed)
    return model


def _images(n: int, random: torch.Generator, scale: int = 1) -> tuple[Tensor, Tensor]:
    """A bright square on one of 4 × 4 places, in noise; and its quarter."""
    place = torch.randint(0, GRID * GRID, (n,), generator=random)
    X = torch.zeros(n, GRID * GRID)
    X[torch.arange(n), place] = 4.0
    X = interpolate(X.unflatten(1, (1, GRID, GRID)), scale_factor=PATCH * scale)
    row, column = place // GRID, place % GRID
    return X + 0.5 * torch.randn(X.shape, generator=random), row // 2 * 2 + column // 2


def _shuffled(X: Tensor, random: torch.Generator) -> Tensor:
    """The same patches in another order."""
    cut = X.unflatten(2, (GRID, PATCH)).unflatten(4, (GRID, PATCH)).movedim(4, 3).flatten(2, 3)
    cut = cut[:, :, torch.randperm(GRID * GRID, generator=random)]
    return cut.unflatten(2, (GRID, GRID)).movedim(3, 4).flatten(4, 5).flatten(2, 3)


def _accuracy(model: ViT, X: Tensor, y: Tensor) -> float:
    return float((model(X).argmax(-1) == y).float().mean())


def judge(result: Result) -> tuple[Kind, str]:
    a = result["accuracy"]
    told = (
        f"trained at one resolution {a['as trained']:.0%}, at twice that with interpolated positions "
        f"{a['interpolated']:.0%}, with the same positions mixed up {a['positions mixed up']:.0%}; without "
        "positions shuffled "
        f"patches change the logits by {result['without']:.1g} of the largest (with them the accuracy falls to "
        f"{a['shuffled']:.0%})"
    )
    carried = a["interpolated"] - CHANCE > (a["as trained"] - CHANCE) / 2
    error = math.sqrt(sum(a[k] * (1 - a[k]) for k in ("interpolated", "positions mixed up")) / result["images"])
    works = carried and a["interpolated"] - a["positions mixed up"] > ERRORS * error
    if works and result["without"] < SAME and result["same_class"] == 1:
        return "holds", told
    return "fails", told


def draw(result: Result) -> Figure:
    return pictures.bars(result["accuracy"], up="accuracy", title="positions at another resolution", level=CHANCE)


CLAIM = Experiment(
    number=29,
    name="positions of patches",
    statement="Position embeddings learned at one resolution can be interpolated to another; without any, shuffled "
    "patches give the same class.",
    formula="f(P X) = f(X) if E = 0",
    measured="The accuracy of a small vision Transformer that learned to say in which quarter a square is, at "
    "twice the "
    "resolution with its positions interpolated, and mixed up; and what shuffled patches change without positions.",
    rule="holds if with interpolated positions it is nearer to what was learned than to chance (1/4), better than with "
    f"mixed-up ones by over {ERRORS} standard errors of the difference, and without positions shuffled patches give "
    "every "
    f"class again and the same logits (to {SAME:g}, the rounding of float32); else fails.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"steps": "steps of training", "images": "how many images it is tested on"},
    circumstances="Images made from a seed: a bright square in noise, 16×16 and 32×32, patches of 4×4; mean pooling.",
)
