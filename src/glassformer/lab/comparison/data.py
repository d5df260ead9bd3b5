"""Test accuracy of a vision Transformer and a convolutional net of one budget as the training set grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.lab.comparison.lessons import Pair, Pictures, learn
from glassformer.lab.comparison.nets import image, parameters
from glassformer.lab.comparison.plan import DataPlan, Plan, Setting, Unit
from glassformer.tasks import sources
from glassformer.tasks.data import Images
from glassformer.tasks.data.order import shuffled

SEEING = ("Transformer", "CNN")


def units(plan: Plan, seed: int) -> Iterator[tuple[str, Mapping[str, Setting]]]:
    for size in plan.data.sizes:
        for architecture in plan.architectures:
            if architecture in SEEING:
                yield "images", {"architecture": architecture, "size": size}


def weight(plan: Plan, unit: Unit) -> float:
    return plan.data.steps * (0.02 if unit.settings["architecture"] == "Transformer" else 0.03)


def require(plan: Plan) -> None:
    """The largest set is there: said before the first unit, not when its turn comes."""
    if {"data", "bias"} & set(plan.tasks):
        pictures(plan.data, max(*plan.data.sizes, plan.bias.images), 1, plan.seeds[0])


def measure(plan: Plan, unit: Unit) -> dict[str, Any]:
    data, size = plan.data, int(unit.settings["size"])
    (X, y), held = pictures(data, size, data.tests, unit.seed)
    net = image(
        str(unit.settings["architecture"]),
        data.budget,
        size=X.shape[-1],
        channels=X.shape[1],
        patch=data.patch,
        classes=int(held[1].max()) + 1,
        seed=unit.seed,
    )
    lesson = Pictures(X=X, y=y, held=held, size=min(data.batch, size), seed=unit.seed)
    accuracy = learn(net, lesson, steps=data.steps, rate=data.rate, seed=unit.seed)
    return {"accuracy": accuracy, "parameters": parameters(net), "tested": len(held[1])}


def pictures(data: DataPlan, size: int, tests: int, seed: int) -> tuple[Pair, Pair]:
    """`size` images to learn from, drawn by the seed from all; `tests` to test on, the same for every seed."""
    X, y = _read(data.source, data.embedded, "train")
    if size > len(X):
        fact = f"{data.source} has {len(X)} images to learn from, not {size}"
        raise InputError(fact, f"glassformer data fetch {data.source}")
    chosen = shuffled(len(X), seed, 0)[:size]
    held_X, held_y = _read(data.source, data.embedded, "test")
    held = shuffled(len(held_X), 0, 0)[:tests]
    mean, std = X[:4000].float().mean(), X[:4000].float().std()

    def normal(pixels: Tensor) -> Tensor:
        return (pixels.float() - mean) / std

    return (normal(X[chosen]), y[chosen]), (normal(held_X[held]), held_y[held])


@cache
def _read(source: str, embedded: bool, part: str) -> Pair:
    """All images of one part as bytes, (n, c, h, w), and their classes; read once."""
    folder = sources.unpack(source) if embedded else sources.open_data(source)
    images = Images.open(folder / part)
    pixels = torch.stack([images.image(i) for i in range(len(images))])
    return pixels, torch.tensor([images.label(i) for i in range(len(images))])
