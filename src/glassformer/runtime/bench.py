"""Benchmark of one model on this machine: time of a forward pass and tokens per second, in every precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from glassformer.models.protocols import TextGenerator, can, context_length
from glassformer.nn.linear import Kernel
from glassformer.runtime.calibration import vectors
from glassformer.runtime.example import LENGTH, example
from glassformer.runtime.machine import machine
from glassformer.runtime.measure import interleaved
from glassformer.runtime.precision import kernels_of, prepare, prepared, set_kernels

PROMPT, ANSWER = 32, 32


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One precision: seconds of a forward pass, tokens per second of greedy decoding, and agreement with float32."""

    precision: str
    kernel: str
    """The kernel of the model's large layers, or "torch" if none is large enough to pack."""
    seconds: float
    relative: float
    """Time relative to torch's own float32 products."""
    cosine: float
    """The minimum cosine between an output vector and its float32 counterpart."""
    tokens_per_second: float | None


def bench(model: nn.Module, *, batch: int = 1, length: int = LENGTH, rounds: int = 5, seed: int = 0) -> list[Measured]:
    """Time a model on random input in every precision that works here, in interleaved rounds, with torch's threads.

    The first row, "torch", is float32 without packed weights. Afterwards the model is prepared for fp32.
    """
    model.eval()
    forward = example(model, batch=batch, length=length, seed=seed)
    names = ["torch", *(name for name in ("fp32", "bf16", "int8") if name in machine().chosen)]
    kernels: dict[str, list[Kernel | None]] = {"torch": [None] * len(kernels_of(model)), **prepared(model, names[1:])}
    outputs: dict[str, Tensor] = {}

    def run(name: str) -> Callable[[], None]:
        def once() -> None:
            set_kernels(model, kernels[name])
            with torch.no_grad():
                outputs[name] = vectors(forward())

        return once

    times = interleaved({name: run(name) for name in names}, rounds=rounds)
    speeds = _decoding(model, kernels, rounds) if can(model, "generate") else {}
    prepare(model, "fp32")
    return [
        Measured(
            precision=name,
            kernel=next((type(kernel).__name__ for kernel in kernels[name] if kernel is not None), "torch"),
            seconds=times[name],
            relative=times[name] / times["torch"],
            cosine=float(cosine_similarity(outputs[name], outputs["torch"], dim=-1).min()),
            tokens_per_second=speeds.get(name),
        )
        for name in names
    ]


def _decoding(model: nn.Module, kernels: Mapping[str, Sequence[Kernel | None]], rounds: int) -> dict[str, float]:
    """Tokens per second after the prompt, computed from the time of a long answer minus that of a short one."""
    assert isinstance(model, TextGenerator)
    room = context_length(model) or PROMPT + ANSWER
    unknown = getattr(model, "start_token", 0) is None  # every token takes the same time
    prompt, answer = torch.ones(min(PROMPT, room // 2), dtype=torch.long), min(ANSWER, room // 2)

    def decode(name: str, count: int) -> Callable[[], None]:
        def run() -> None:
            set_kernels(model, kernels[name])
            session = model.session(start=(0,), ends=(0,)) if unknown else model.session()
            logits = session.prefill([session.prefix(prompt)], count)
            for _ in range(count - 1):
                logits = session.step(logits.argmax(-1))

        return run

    runs = {(name, count): decode(name, count) for name in kernels for count in (1, answer)}
    times = interleaved({f"{name} {count}": run for (name, count), run in runs.items()}, rounds=max(2, rounds // 2))
    return {name: (answer - 1) / max(times[f"{name} {answer}"] - times[f"{name} 1"], 1e-9) for name in kernels}
