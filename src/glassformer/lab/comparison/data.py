"""Test accuracy of a vision Transformer and a CNN of equal size as the training set grows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.data import Images, sources
from glassformer.data.order import shuffled
from glassformer.errors import InputError
from glassformer.lab.comparison.networks import build_image_network, parameters
from glassformer.lab.comparison.objectives import EvalScore, ImageObjective, score, search, train_network
from glassformer.lab.comparison.plan import SEARCH_SEED, ComparisonPlan, DataPlan, Unit
from glassformer.lab.training import Examples

NETWORKS = ("Transformer", "CNN")


class ImageSplits(NamedTuple):
    train: Examples
    validation: Examples
    test: Examples
    classes: int


def units(plan: ComparisonPlan) -> Iterator[Unit]:
    """Yield the searches, then the networks by size and seed: a seed of the largest size is what is measured last."""
    chosen = [name for name in plan.architectures if name in NETWORKS]
    pairs = [(dataset, architecture) for dataset in plan.data.datasets for architecture in chosen]
    for dataset, architecture in pairs:
        yield Unit("data", "search", {"dataset": dataset, "architecture": architecture}, SEARCH_SEED)
    for size in plan.data.sizes:
        for seed in plan.data.seeds(plan.seeds, size):
            for dataset, architecture in pairs:
                settings: dict[str, int | float | str] = {
                    "dataset": dataset,
                    "architecture": architecture,
                    "size": size,
                }
                yield Unit("data", "images", settings, seed)


def weight(plan: ComparisonPlan, unit: Unit) -> float:
    """Return a rough duration in seconds, for the progress bar."""
    step = 0.012 if unit.settings["architecture"] == "Transformer" else 0.055
    if unit.part == "search":
        return step * len(plan.data.rates) * sum(map(plan.data.steps, plan.data.search))
    return step * plan.data.steps(int(unit.settings["size"]))


def require_datasets(plan: ComparisonPlan) -> None:
    """Check that every dataset is large enough before anything is measured."""
    data, bias = plan.data, plan.bias
    if "data" in plan.tasks:
        for dataset in data.datasets:
            splits(dataset, data.embedded, max(data.sizes), plan.seeds[0], validation=data.validation)
    if "bias" in plan.tasks:
        splits(bias.dataset, bias.embedded, bias.images, plan.seeds[0], validation=bias.validation)


def measure(plan: ComparisonPlan, unit: Unit, lr: float) -> dict[str, Any]:
    data = plan.data
    dataset, architecture = str(unit.settings["dataset"]), str(unit.settings["architecture"])
    if unit.part == "search":
        trial = lambda rate, size: trained(data, dataset, architecture, size, rate, SEARCH_SEED)[0]
        return search(data.rates, data.search, trial)
    _, test, count = trained(data, dataset, architecture, int(unit.settings["size"]), lr, unit.seed)
    return {"accuracy": test.accuracy, "lr": lr, "parameters": count}


def trained(
    data: DataPlan, dataset: str, architecture: str, size: int, lr: float, seed: int
) -> tuple[EvalScore, EvalScore, int]:
    """Train a network from scratch; return its validation score, test score and number of parameters."""
    parts = splits(dataset, data.embedded, size, seed, validation=data.validation, tests=data.tests)
    X, y = parts.train
    net = build_image_network(
        architecture,
        data.budget,
        size=X.shape[-1],
        channels=X.shape[1],
        patches=data.patches,
        classes=parts.classes,
        seed=seed,
    ).net
    train_network(
        net, ImageObjective(X=X, y=y, batch_size=data.batch_size, seed=seed), steps=data.steps(size), lr=lr, seed=seed
    )
    return score(net, *parts.validation), score(net, *parts.test), parameters(net)


def splits(
    dataset: str, embedded: bool, size: int, seed: int, *, validation: int = 0, tests: int | None = None
) -> ImageSplits:
    """Draw `size` training and `validation` validation images by seed; the test images do not depend on the seed.

    Validation images come from the training split and are never used for training with that seed.
    """
    X, y = _read(dataset, embedded, "train")
    if size + validation > len(X):
        fact = f"{dataset} has {len(X)} training images, {size + validation} are needed"
        raise InputError(fact, f"glassformer data fetch {dataset}")
    order = shuffled(len(X), seed, 0)
    train, val = order[:size], order[len(X) - validation :]
    test_X, test_y = _read(dataset, embedded, "test")
    test = shuffled(len(test_X), 0, 0)[:tests]
    mean, std = X[:4000].float().mean(), X[:4000].float().std()

    def normalised(pixels: Tensor) -> Tensor:
        return (pixels.float() - mean) / std

    return ImageSplits(
        (normalised(X[train]), y[train]),
        (normalised(X[val]), y[val]),
        (normalised(test_X[test]), test_y[test]),
        int(test_y.max()) + 1,
    )


@cache
def _read(dataset: str, embedded: bool, split: str) -> Examples:
    """Read all images of a split as bytes (n, c, h, w), and their labels."""
    folder = sources.unpack(dataset) if embedded else sources.open_data(dataset)
    images = Images.open(folder / split)
    pixels = torch.stack([images.image(i) for i in range(len(images))])
    return pixels, torch.tensor([images.label(i) for i in range(len(images))])
