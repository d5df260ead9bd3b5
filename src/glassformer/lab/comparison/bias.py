"""What is built in: |f(shift x) − shift f(x)|, images whose patches are in another order, lengths never seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from glassformer.lab.comparison.data import pictures
from glassformer.lab.comparison.lessons import WORDS, Pictures, Sequences, before, learn, right
from glassformer.lab.comparison.nets import image, parameters, sequence
from glassformer.lab.comparison.plan import Plan, Setting, Unit
from glassformer.lab.parts import generator
from glassformer.models import ConvNet2d, ViT

SEEING = ("Transformer", "CNN", "MLP")
GRIDS = ("Transformer", "CNN")  # an MLP's features have no place to be shifted
VARIANTS = {"Transformer, learned": "learned", "Transformer, rotary": "rotary"}
SAMPLES = 8  # images whose features are shifted


def units(plan: Plan, seed: int) -> Iterator[tuple[str, Mapping[str, Setting]]]:
    seeing = [name for name in plan.architectures if name in SEEING]
    for architecture in seeing:
        for order in ("whole", "shuffled"):
            yield "images", {"architecture": architecture, "order": order}
    yield from (("features", {"architecture": name}) for name in seeing if name in GRIDS)
    for architecture in plan.architectures:
        for name in VARIANTS if architecture == "Transformer" else (architecture,):
            yield "longer", {"architecture": name}


def weight(plan: Plan, unit: Unit) -> float:
    if unit.part == "images":
        return plan.bias.steps * {"CNN": 0.03, "Transformer": 0.02}.get(str(unit.settings["architecture"]), 0.003)
    return 0.5 if unit.part == "features" else plan.bias.sequence_steps * 0.012


def measure(plan: Plan, unit: Unit) -> dict[str, Any]:
    if unit.part == "longer":
        return _longer(plan, unit)
    return _images(plan, unit) if unit.part == "images" else _features(plan, unit)


def _net(plan: Plan, unit: Unit, X: Tensor, classes: int) -> nn.Module:
    return image(
        str(unit.settings["architecture"]),
        plan.bias.budget,
        size=X.shape[-1],
        channels=X.shape[1],
        patch=plan.data.patch,
        classes=classes,
        seed=unit.seed,
    )


def _images(plan: Plan, unit: Unit) -> dict[str, Any]:
    """Learned from images as they are, or with their patches in one other order; then tested on changed ones."""
    bias, data = plan.bias, plan.data
    (X, y), (held, truth) = pictures(data, bias.images, data.tests, unit.seed)
    mix = mixer(X.shape[-1] // data.patch, data.patch, generator(unit.seed))
    if unit.settings["order"] == "shuffled":
        X, held = mix(X), mix(held)
    net = _net(plan, unit, X, int(truth.max()) + 1)
    lesson = Pictures(X=X, y=y, held=(held, truth), size=data.batch, seed=unit.seed)
    accuracy = learn(net, lesson, steps=bias.steps, rate=data.rate, seed=unit.seed)
    result: dict[str, Any] = {"accuracy": accuracy, "parameters": parameters(net)}
    if unit.settings["order"] == "whole":
        result["shifted"] = {str(by): right(net, shifted(held, by), truth) for by in bias.shifts}
        result["mixed"] = right(net, mix(held), truth)
    return result


def mixer(grid: int, patch: int, random: torch.Generator) -> Callable[[Tensor], Tensor]:
    """Every image's patches in one other order, the same for all."""
    order = torch.randperm(grid * grid, generator=random)

    def mix(X: Tensor) -> Tensor:
        cut = X.unflatten(2, (grid, patch)).unflatten(4, (grid, patch)).movedim(4, 3).flatten(2, 3)
        return cut[:, :, order].unflatten(2, (grid, grid)).movedim(3, 4).flatten(4, 5).flatten(2, 3)

    return mix


def shifted(X: Tensor, by: int) -> Tensor:
    """Each image `by` pixels down and to the right; what comes in is as dark as the corner."""
    rows, columns = X.shape[-2:]
    least = float(X.min())
    return pad(X, (by, 0, by, 0), value=least)[..., :rows, :columns]


@torch.no_grad()
def _features(plan: Plan, unit: Unit) -> dict[str, Any]:
    """Untrained, images far from the border on a dark ground: off by, of the features' size, for each shift."""
    _, (X, _) = pictures(plan.data, 1, SAMPLES, unit.seed)
    net = _net(plan, unit, X, 10).eval().double()
    stride = net.config.stride if isinstance(net, ConvNet2d) else plan.data.patch
    side = 16 * stride  # so wide that no feature of the image reaches the border
    margin = (side - X.shape[-1]) // 2
    X = pad((X - X.min()).double(), (margin, side - margin - X.shape[-1]) * 2)

    def features(Y: Tensor) -> Tensor:
        if isinstance(net, ConvNet2d):
            return net.features(Y)
        assert isinstance(net, ViT)
        grid = side // plan.data.patch
        return net.features(Y).mT.unflatten(-1, (grid, grid))

    def off(by: int) -> float:
        """By part of a stride no whole shift of the features is right, and the better one counts."""
        whole, moved = features(X), features(X.roll((by, by), (-2, -1)))
        steps = {by // stride, -(-by // stride)}
        return min(float((moved - whole.roll((k, k), (-2, -1))).norm() / whole.norm()) for k in steps)

    return {"stride": stride, "off by one pixel": off(1), "off by one stride": off(stride)}


def _longer(plan: Plan, unit: Unit) -> dict[str, Any]:
    """Learned to say the last token but one of short sequences; asked about longer ones."""
    bias, name = plan.bias, str(unit.settings["architecture"])
    net = sequence(
        name.partition(",")[0],
        bias.sequence_budget,
        words=WORDS,
        length=max(bias.longer),
        window=bias.length,
        seed=unit.seed,
        positions=VARIANTS.get(name, "learned"),  # type: ignore[arg-type]
    )
    lesson = Sequences(make=before, length=bias.length, size=plan.reach.batch, tests=plan.reach.tests, seed=unit.seed)
    learn(net, lesson, steps=bias.sequence_steps, rate=plan.reach.rate, seed=unit.seed)
    return {"accuracy": {str(n): lesson.accuracy(net, n) for n in bias.longer}, "parameters": parameters(net)}
