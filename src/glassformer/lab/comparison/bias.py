"""Inductive bias of image networks: accuracy on shifted images, and ‖f(shift x) − shift f(x)‖ of their features.

A CNN of stride 4 commutes exactly with shifts by 4 pixels away from the border. Its accuracy can still drop under a
shift: zero padding marks the border, smaller shifts are a fraction of the stride, and without augmentation it does not
learn to tolerate shifts. Every network is therefore trained twice: on centred images, and with random shifts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from glassformer.lab.comparison.data import ImageSplits, splits
from glassformer.lab.comparison.networks import ImageNetwork, build_image_network, parameters
from glassformer.lab.comparison.objectives import EvalScore, ImageObjective, score, search, shifted, train_network
from glassformer.lab.comparison.plan import SEARCH_SEED, ComparisonPlan, Unit

NETWORKS = ("Transformer", "CNN", "MLP")
WITH_FEATURES = ("Transformer", "CNN")  # an MLP's features have no position
TRAINED = ("centred", "shifted")
SAMPLES = 8  # images whose features are compared


def units(plan: ComparisonPlan) -> Iterator[Unit]:
    chosen = [name for name in plan.architectures if name in NETWORKS]
    for architecture in chosen:
        yield Unit("bias", "search", {"architecture": architecture}, SEARCH_SEED)
    for seed in plan.seeds:
        for architecture in chosen:
            for way in TRAINED:
                yield Unit("bias", "images", {"architecture": architecture, "trained": way}, seed)
            if architecture in WITH_FEATURES:
                yield Unit("bias", "features", {"architecture": architecture}, seed)


def weight(plan: ComparisonPlan, unit: Unit) -> float:
    """Return a rough duration in seconds, for the progress bar."""
    once = plan.bias.steps * {"CNN": 0.09, "Transformer": 0.015}.get(str(unit.settings["architecture"]), 0.004)
    return {"search": len(plan.bias.rates) * once, "features": 0.5}.get(unit.part, once)


def measure(plan: ComparisonPlan, unit: Unit, lr: float) -> dict[str, Any]:
    architecture = str(unit.settings["architecture"])
    if unit.part == "search":
        return search(plan.bias.rates, (0,), lambda rate, case: _validated(plan, architecture, rate))
    if unit.part == "features":
        return _features(plan, architecture, unit.seed)
    shift = max(plan.bias.shifts) if unit.settings["trained"] == "shifted" else 0
    network, parts = _trained(plan, architecture, lr, unit.seed, shift)
    X, y = parts.test
    found = {str(by): score(network.net, shifted(X, by, by), y).accuracy for by in (0, *plan.bias.shifts)}
    return {"accuracy": found, "lr": lr, "parameters": parameters(network.net), "stride": network.stride}


def _parts(plan: ComparisonPlan, seed: int) -> ImageSplits:
    """Return the images with a margin, so that a shift moves nothing out of the image."""
    bias = plan.bias
    margin = max(bias.shifts)
    parts = splits(bias.dataset, bias.embedded, bias.images, seed, validation=bias.validation, tests=bias.tests)
    framed = lambda X, y: (pad(X, (margin,) * 4, value=float(X.min())), y)
    return ImageSplits(framed(*parts.train), framed(*parts.validation), framed(*parts.test), parts.classes)


def _network(plan: ComparisonPlan, architecture: str, X: Tensor, classes: int, seed: int) -> ImageNetwork:
    shape = {"size": X.shape[-1], "channels": X.shape[1]}
    return build_image_network(
        architecture, plan.bias.budget, **shape, patches=plan.bias.patches, classes=classes, seed=seed
    )


def _trained(
    plan: ComparisonPlan, architecture: str, lr: float, seed: int, shift: int
) -> tuple[ImageNetwork, ImageSplits]:
    bias, parts = plan.bias, _parts(plan, seed)
    X, y = parts.train
    network = _network(plan, architecture, X, parts.classes, seed)
    objective = ImageObjective(X=X, y=y, batch_size=bias.batch_size, seed=seed, shift=shift)
    train_network(network.net, objective, steps=bias.steps, lr=lr, seed=seed)
    return network, parts


def _validated(plan: ComparisonPlan, architecture: str, lr: float) -> EvalScore:
    network, parts = _trained(plan, architecture, lr, SEARCH_SEED, 0)
    return score(network.net, *parts.validation)


@torch.no_grad()
def _features(plan: ComparisonPlan, architecture: str, seed: int) -> dict[str, Any]:
    """‖f(shift x) − shift f(x)‖ / ‖f(x)‖ before training, of images far from the border of a larger canvas."""
    X = splits(plan.bias.dataset, plan.bias.embedded, 1, seed, tests=SAMPLES).test[0]
    framed = _parts(plan, seed).test[0]
    network = _network(plan, architecture, framed, 10, seed)
    network.net.eval().double()
    features, stride = network.features, network.stride
    assert features is not None
    side = stride * (-(-(X.shape[-1] + 24 * stride) // stride))
    before = (side - X.shape[-1]) // 2
    X = pad((X - X.min()).double(), (before, side - before - X.shape[-1]) * 2)

    def error(by: int) -> float:
        """Return the error; part of a stride has no exact counterpart, so the better of the two nearest is used."""
        whole, moved = features(X), features(X.roll((by, by), (-2, -1)))
        steps = {by // stride, -(-by // stride)}
        return min(float((moved - whole.roll((k, k), (-2, -1))).norm() / whole.norm()) for k in steps)

    return {"stride": stride, "one pixel": error(1), "one stride": error(stride)}
