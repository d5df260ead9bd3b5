"""Time of one more token after 100, 1,000 and 10,000, and the values it needs: caches, states, buffers, windows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from glassformer.lab.comparison.networks import build_sequence_network, parameters
from glassformer.lab.comparison.objectives import VOCABULARY
from glassformer.lab.comparison.plan import ComparisonPlan, Unit
from glassformer.lab.tensors import generator
from glassformer.runtime import interleaved

WINDOWED = "Transformer, window"


def streaming_architectures(architectures: tuple[str, ...]) -> list[str]:
    """Return every architecture, plus a Transformer with windowed attention."""
    return [*architectures, *([WINDOWED] if "Transformer" in architectures else [])]


def units(plan: ComparisonPlan) -> Iterator[Unit]:
    for seed in plan.seeds:
        for after in plan.streaming.after:
            yield Unit("streaming", "token", {"after": after}, seed)


def weight(plan: ComparisonPlan, unit: Unit) -> float:
    """Return a rough duration in seconds, for the progress bar."""
    return 0.5 + 3e-4 * int(unit.settings["after"]) + 0.02 * plan.streaming.rounds


@torch.inference_mode()
def measure(plan: ComparisonPlan, unit: Unit, lr: float) -> dict[str, Any]:
    streaming, after = plan.streaming, int(unit.settings["after"])
    X = torch.randint(0, VOCABULARY, (1, after), generator=generator(unit.seed))
    runs: dict[str, Callable[[], object]] = {}
    kept, sizes = {}, {}
    for name in streaming_architectures(plan.architectures):
        net = build_sequence_network(
            name.partition(",")[0],
            streaming.budget,
            vocabulary=VOCABULARY,
            length=after + 1,
            window=streaming.window,
            seed=unit.seed,
            positions="rotary",
            attends=streaming.window if name == WINDOWED else None,
        ).eval()
        runs[name], kept[name] = net.stream(X, room=streaming.rounds + 2)
        sizes[name] = parameters(net)
    times = interleaved(runs, rounds=streaming.rounds, clock=time.process_time)
    return {"seconds": times, "kept": kept, "parameters": sizes}
