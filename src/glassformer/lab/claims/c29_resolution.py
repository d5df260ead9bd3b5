"""E interpolated to another grid; E = 0 with permuted patches: what positions contribute in a ViT."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import interpolate

from glassformer.lab import plots
from glassformer.lab.experiment import NOT_JUDGED, Experiment, Kind, Result
from glassformer.lab.tensors import generator, largest
from glassformer.lab.training import fit
from glassformer.lens import edit
from glassformer.models import ViT
from glassformer.models.vit import plain
from glassformer.nn import initialise

PATCH, GRID = 4, 4
SAME = 1e-5  # tolerance: float32 sums the patches in another order
CHANCE = 0.25  # one of four quarters
LEARNED, KEPT = 0.95, 0.9  # required accuracy as trained, and the fraction of it (above chance) that must be retained
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
        "accuracy": {
            "as trained": own,
            "positions interpolated": interpolated,
            "positions shuffled": mixed,
            "patches shuffled": placed,
        },
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
    good, bad = a["positions interpolated"], a["positions shuffled"]
    shown = (
        f"the accuracy is {a['as trained']:.1%} as trained; at twice the resolution it is {good:.1%} with interpolated "
        f"position embeddings and {bad:.1%} with shuffled ones. Without position embeddings, shuffled patches keep "
        f"{result['same_class']:.0%} of the predicted classes and change the logits by {result['without']:.1g} of the "
        f"largest. {NOT_JUDGED}: with position embeddings, the accuracy on shuffled patches is "
        f"{a['patches shuffled']:.1%}"
    )
    if a["as trained"] < LEARNED:
        return "fails", f"the model did not learn the task, so nothing can be concluded: {shown}"
    carried = good - CHANCE >= KEPT * (a["as trained"] - CHANCE)
    error = math.sqrt(sum(p * (1 - p) for p in (good, bad)) / result["images"])
    works = carried and good - bad > ERRORS * error
    if works and result["without"] < SAME and result["same_class"] == 1:
        return "holds", shown
    return "fails", shown


def draw(result: Result) -> Figure:
    return plots.bars(result["accuracy"], up="accuracy", title="positions at another resolution", level=CHANCE)


CLAIM = Experiment(
    number=29,
    name="position embeddings of patches",
    statement="Position embeddings learned at one resolution can be interpolated to another; without position "
    "embeddings, shuffled patches give the same class.",
    formula="f(P X) = f(X) if E = 0",
    measured="The accuracy of a small vision Transformer trained to predict which quarter of the image contains a "
    "bright square: as trained; on the same images at twice the resolution, with interpolated and with shuffled "
    "position embeddings; and the effect of shuffled patches without position embeddings.",
    rule=f"“holds” if the model learned the task ({LEARNED:.0%}), if with interpolated position embeddings it keeps "
    f"{KEPT:.0%} of its accuracy above chance (1/4) and is better than with shuffled ones by more than {ERRORS} "
    "standard errors of the difference, and if without position embeddings shuffled patches change neither the "
    f"predicted classes nor the logits (to {SAME:g}, float32 rounding); otherwise “fails”.",
    falsified_by="Accuracy lost at the other resolution, shuffled position embeddings that do as well as interpolated "
    "ones, or shuffled patches that change the logits without position embeddings.",
    measure=measure,
    judge=judge,
    draw=draw,
    meanings={"images": "number of test images"},
    least={"images": 32},
    circumstances="Synthetic 16×16 images: a bright square in noise; at 32×32 each pixel is repeated. Patches of 4×4, "
    "mean pooling, one layer.",
)
