"""How far back a network can use a token: ‖∂y_n/∂x_1‖ / ‖∂y_n/∂x_n‖ before training, recall after training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.lab.comparison.networks import LastTokenNetwork, build_sequence_network, parameters
from glassformer.lab.comparison.objectives import (
    TEST,
    VALIDATION,
    VOCABULARY,
    EvalScore,
    SequenceObjective,
    previous,
    recall,
    score,
    search,
    train_network,
)
from glassformer.lab.comparison.plan import SEARCH_SEED, ComparisonPlan, Unit
from glassformer.lab.tensors import generator

ROWS = 4  # sequences over which a gradient is averaged
VARIANTS = {"Transformer, learned": "learned", "Transformer, rotary": "rotary"}  # positions on longer sequences


def units(plan: ComparisonPlan) -> Iterator[Unit]:
    for architecture in plan.architectures:
        yield Unit("reach", "search", {"architecture": architecture}, SEARCH_SEED)
    for name in longer_names(plan.architectures):
        yield Unit("reach", "longer search", {"architecture": name}, SEARCH_SEED)
    for seed in plan.seeds:
        for architecture in plan.architectures:
            for distance in plan.reach.gradients:
                yield Unit("reach", "gradient", {"architecture": architecture, "distance": distance}, seed)
        for distance in plan.reach.distances:
            for architecture in plan.architectures:
                yield Unit("reach", "recall", {"architecture": architecture, "distance": distance}, seed)
        for name in longer_names(plan.architectures):
            yield Unit("reach", "longer", {"architecture": name}, seed)


def longer_names(architectures: Sequence[str]) -> list[str]:
    """Return every architecture, the Transformer once for each position encoding."""
    return [kind for name in architectures for kind in (VARIANTS if name == "Transformer" else [name])]


def weight(plan: ComparisonPlan, unit: Unit) -> float:
    """Return a rough duration in seconds, for the progress bar."""
    reach, name = plan.reach, str(unit.settings["architecture"]).partition(",")[0]
    each = lambda n: {"MLP": 1.6e-3, "LSTM": 2e-3 + 4e-5 * n}.get(name, 5e-3 + 1e-4 * n)
    match unit.part:
        case "search":
            return len(reach.rates) * reach.steps * sum(map(each, reach.search))
        case "longer":
            return reach.longer_steps * each(reach.length)
        case "longer search":
            return len(reach.rates) * reach.longer_steps * each(reach.length)
        case "gradient":
            return 4 * each(int(unit.settings["distance"]))
    return reach.steps * each(int(unit.settings["distance"]))


def measure(plan: ComparisonPlan, unit: Unit, lr: float) -> dict[str, Any]:
    reach, name = plan.reach, str(unit.settings["architecture"])
    if unit.part == "search":
        return search(reach.rates, reach.search, lambda rate, n: _validated(plan, name, rate, n))
    if unit.part == "longer search":
        tried = lambda rate, n: _longer(plan, name, rate, SEARCH_SEED, VALIDATION)[0][n]
        return search(reach.rates, (reach.length,), tried)
    if unit.part == "longer":
        scores, count = _longer(plan, name, lr, unit.seed, TEST)
        return {"accuracy": {str(n): each.accuracy for n, each in scores.items()}, "lr": lr, "parameters": count}
    distance = int(unit.settings["distance"])
    net = _network(plan, name, distance, unit.seed)
    if unit.part == "gradient":
        return {"gradient": gradient(net, distance, unit.seed), "parameters": parameters(net)}
    objective = SequenceObjective(make=recall, length=distance, batch_size=reach.batch_size)
    train_network(net, objective, steps=reach.steps, lr=lr, seed=unit.seed)
    accuracy = score(net, *objective.examples(reach.tests, unit.seed)).accuracy
    return {"accuracy": accuracy, "lr": lr, "parameters": parameters(net)}


def _network(plan: ComparisonPlan, architecture: str, distance: int, seed: int) -> LastTokenNetwork:
    return build_sequence_network(
        architecture,
        plan.reach.budget,
        vocabulary=VOCABULARY,
        length=distance + 1,
        window=plan.reach.window,
        seed=seed,
        positions="sinusoidal",
    )


def _validated(plan: ComparisonPlan, architecture: str, lr: float, distance: int) -> EvalScore:
    reach = plan.reach
    net = _network(plan, architecture, distance, SEARCH_SEED)
    objective = SequenceObjective(make=recall, length=distance, batch_size=reach.batch_size)
    train_network(net, objective, steps=reach.steps, lr=lr, seed=SEARCH_SEED)
    return score(net, *objective.examples(reach.tests, SEARCH_SEED, split=VALIDATION))


def gradient(net: LastTokenNetwork, distance: int, seed: int) -> float:
    """Return the effect of the first token's embedding on the logits, relative to the last; 0 outside the window."""
    net = net.double()
    random = generator(seed)
    X = torch.randint(0, VOCABULARY, (ROWS, distance + 1), generator=random)
    table = next(m for m in net.modules() if isinstance(m, nn.Embedding) and m.num_embeddings == VOCABULARY)
    seen: list[Tensor] = []
    hook = table.register_forward_hook(lambda module, given, out: seen.append(out))
    try:
        y = net(X)
    finally:
        hook.remove()
    (slope,) = torch.autograd.grad((y * torch.randn(y.shape, generator=random, dtype=y.dtype)).sum(), seen[0])
    first = slope.shape[1] - X.shape[1]  # an MLP's window is shorter, or longer and padded at the front
    if first < 0:
        return 0.0
    return float((slope[:, first].norm(dim=-1) / slope[:, -1].norm(dim=-1)).mean())


def _longer(plan: ComparisonPlan, name: str, lr: float, seed: int, split: int) -> tuple[dict[int, EvalScore], int]:
    """Train to predict the second-to-last token of short sequences; return scores by length and parameter count."""
    reach = plan.reach
    net = build_sequence_network(
        name.partition(",")[0],
        reach.budget,
        vocabulary=VOCABULARY,
        length=max(reach.longer),
        window=reach.length,
        seed=seed,
        positions=VARIANTS.get(name, "learned"),  # type: ignore[arg-type]
    )
    objective = SequenceObjective(make=previous, length=reach.length, batch_size=reach.batch_size)
    train_network(net, objective, steps=reach.longer_steps, lr=lr, seed=seed)
    scores = {n: score(net, *objective.examples(reach.tests, seed, length=n, split=split)) for n in reach.longer}
    return scores, parameters(net)
