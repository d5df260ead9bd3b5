"""E interpolated to another grid; E = 0 with permuted patches: what positions contribute in a ViT."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import interpolate

from glassformer.lab import plots
from glassformer.lab.experiment import Experiment, Kind, Result
from glassformer.lab.tensors import generator, largest
from glassformer.lab.training import fit
from glassformer.lens import edit
from glassformer.models import ViT
from glassformer.models.vit import plain
from glassformer.nn import initialise

PATCH, GRID = 4, 4
SAME = 1e-5  # tolerance: float32 sums the patches in another order
CHANCE = 0.25  # of four quarters
LEARNED, KEPT = 0.95, 0.9  # accuracy as trained, and the share of it (above chance) that must be kept
ERRORS = 3  # standard errors between two accuracies


def measure(seed: int, *, steps: int = 600, images: int = 512) -> Result:
    random = generator(seed)
    model = _trained(seed, steps)
    with torch.no_grad():
        X, y = _images(images, random)
        large = interpolate(X, scale_factor=2)  # the same images: only the number of pixels and patches differs
        own, interpolated = _accuracy(model, X, y), _accuracy(model, large, y)
        E = model.table((2 * GRID, 2 * GRID))
        with edit(model, "E", E[torch.randperm(len(E), generator=random)]):
            mixed = _accuracy(model, large, y)
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
    """Train one layer to classify which quarter of the image contains the bright square."""
    config = plain(PATCH * GRID, PATCH, 32, 1, 2, classes=4, channels=1)
    model = ViT(replace(config, prefix=0, pool="mean"), seed=seed)
    initialise(model, seed)
    fit(model, lambda random: _images(32, random), steps=steps, lr=3e-3, seed=seed)
    return model


def _images(n: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Generate noisy images with a bright square at one of 4 × 4 positions, labelled by its quarter."""
    place = torch.randint(0, GRID * GRID, (n,), generator=random)
    X = torch.zeros(n, GRID * GRID)
    X[torch.arange(n), place] = 4.0
    X = interpolate(X.unflatten(1, (1, GRID, GRID)), scale_factor=PATCH)
    row, column = place // GRID, place % GRID
    return X + 0.5 * torch.randn(X.shape, generator=random), row // 2 * 2 + column // 2


def _shuffled(X: Tensor, random: torch.Generator) -> Tensor:
    """Return the images with their patches in another order."""
    cut = X.unflatten(2, (GRID, PATCH)).unflatten(4, (GRID, PATCH)).movedim(4, 3).flatten(2, 3)
    cut = cut[:, :, torch.randperm(GRID * GRID, generator=random)]
    return cut.unflatten(2, (GRID, GRID)).movedim(3, 4).flatten(4, 5).flatten(2, 3)


def _accuracy(model: ViT, X: Tensor, y: Tensor) -> float:
    return float((model(X).argmax(-1) == y).float().mean())


def judge(result: Result) -> tuple[Kind, str]:
    a = result["accuracy"]
    shown = (
        f"accuracy is {a['as trained']:.1%} as trained, {a['interpolated']:.1%} at twice the resolution with "
        f"interpolated positions, {a['positions mixed up']:.1%} with the same positions mixed up; without positions "
        f"shuffled patches keep {result['same_class']:.0%} of the classes and change the logits by "
        f"{result['without']:.1g} of the largest (with positions the accuracy on shuffled patches is "
        f"{a['shuffled']:.1%})"
    )
    if a["as trained"] < LEARNED:
        return "fails", f"the network did not learn the task, so nothing can be said: {shown}"
    carried = a["interpolated"] - CHANCE >= KEPT * (a["as trained"] - CHANCE)
    error = math.sqrt(sum(a[k] * (1 - a[k]) for k in ("interpolated", "positions mixed up")) / result["images"])
    works = carried and a["interpolated"] - a["positions mixed up"] > ERRORS * error
    if works and result["without"] < SAME and result["same_class"] == 1:
        return "holds", shown
    return "fails", shown


def draw(result: Result) -> Figure:
    return plots.bars(result["accuracy"], up="accuracy", title="positions at another resolution", level=CHANCE)


CLAIM = Experiment(
    number=29,
    name="positions of patches",
    statement="Position embeddings learned at one resolution can be interpolated to another; without any, shuffled "
    "patches give the same class.",
    formula="f(P X) = f(X) if E = 0",
    measured="The accuracy of a small vision Transformer trained to name the quarter of the image with a bright "
    "square: as trained, on the same images at twice the resolution with its positions interpolated, and with them "
    "mixed up; and what shuffled patches change without positions.",
    rule=f"holds if the network learned the task ({LEARNED:.0%}), with interpolated positions keeps {KEPT:.0%} of its "
    f"accuracy above chance (1/4) and is better than with mixed-up ones by over {ERRORS} standard errors of the "
    f"difference, and without positions shuffled patches keep every class and the logits (to {SAME:g}, the rounding of "
    "float32); else fails.",
    falsified_by="Accuracy lost at the other resolution, random positions that do as well as interpolated ones, or "
    "shuffled patches that change the logits without positions.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"steps": "training steps", "images": "number of test images"},
    circumstances="Generated images: a bright square in noise, 16×16; at 32×32 each pixel is repeated. Patches of "
    "4×4, mean pooling, one layer.",
)
