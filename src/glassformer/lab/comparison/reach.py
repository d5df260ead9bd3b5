"""‖∂y_n/∂x_1‖ / ‖∂y_n/∂x_n‖ untrained, and how often the first of n tokens is recalled after training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.lab.comparison.lessons import WORDS, Sequences, learn, recall
from glassformer.lab.comparison.nets import answer, parameters, sequence
from glassformer.lab.comparison.plan import Plan, Setting, Unit
from glassformer.lab.parts import generator
from glassformer.models import MLP
from glassformer.nn import Embedding

ROWS = 4  # sequences that a gradient is averaged over


def units(plan: Plan, seed: int) -> Iterator[tuple[str, Mapping[str, Setting]]]:
    for architecture in plan.architectures:
        for distance in plan.reach.gradients:
            yield "gradient", {"architecture": architecture, "distance": distance}
    for distance in plan.reach.distances:
        for architecture in plan.architectures:
            yield "recall", {"architecture": architecture, "distance": distance}


def weight(plan: Plan, unit: Unit) -> float:
    name, distance = unit.settings["architecture"], int(unit.settings["distance"])
    each = {"MLP": 2e-3, "LSTM": 5e-3 + 4e-4 * distance}.get(str(name), 8e-3 + 6e-4 * distance)
    return each * (plan.reach.steps if unit.part == "recall" else 4)


def measure(plan: Plan, unit: Unit) -> dict[str, Any]:
    reach, distance = plan.reach, int(unit.settings["distance"])
    net = sequence(
        str(unit.settings["architecture"]),
        reach.budget,
        words=WORDS,
        length=distance + 1,
        window=reach.window,
        seed=unit.seed,
        positions="sinusoidal",
    )
    if unit.part == "gradient":
        return {"gradient": gradient(net, distance, unit.seed), "parameters": parameters(net)}
    lesson = Sequences(make=recall, length=distance, size=reach.batch, tests=reach.tests, seed=unit.seed)
    accuracy = learn(net, lesson, steps=reach.steps, rate=reach.rate, seed=unit.seed)
    return {"accuracy": accuracy, "parameters": parameters(net)}


def gradient(net: nn.Module, distance: int, seed: int) -> float:
    """How strongly the first token's vector moves the answer, against the last one's; 0 if it is not in the window."""
    net = net.double()
    random = generator(seed)
    X = torch.randint(0, WORDS, (ROWS, distance + 1), generator=random)
    table = next(m for m in net.modules() if isinstance(m, Embedding) and m.num_embeddings == WORDS)
    seen: list[Tensor] = []
    with_hook = table.register_forward_hook(lambda module, given, out: seen.append(out))
    try:
        y = answer(net, X)
    finally:
        with_hook.remove()
    (slope,) = torch.autograd.grad((y * torch.randn(y.shape, generator=random, dtype=y.dtype)).sum(), seen[0])
    first = slope.shape[1] - X.shape[1] if isinstance(net, MLP) else 0
    if first < 0:
        return 0.0
    return float((slope[:, first].norm(dim=-1) / slope[:, -1].norm(dim=-1)).mean())
