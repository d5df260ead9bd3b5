"""Workloads of `benchmarks/peers.py`: what is timed, by whom, and the target of each.

A contender is a function that loads its model and returns `Ready`: a function that does the work once, and facts about
it. It runs in a process of its own, so a peer that cannot be imported is missing without disturbing the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

THREADS = int(os.environ["OMP_NUM_THREADS"])
CPU_TIME = "GLASSFORMER_CPU_TIME" in os.environ
SHORT = "GLASSFORMER_SHORT" in os.environ  # small inputs, to see that every contender runs


class Ready(NamedTuple):
    """`run` does the work once; if it returns a number, that is the time in seconds instead of the clock's.

    `warm` is called once before the first turn, if the whole work would take long.
    """

    run: Callable[[], Any]
    facts: Mapping[str, Any] = {}
    warm: Callable[[], Any] | None = None


class Target(NamedTuple):
    """`ours` is to take at most `ratio` times what `peer` takes.

    `peer` may be "the best int8 peer" of the row.
    """

    ours: str
    peer: str
    ratio: float


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One row of the table: contenders by name, of which those that start with "glassformer" are ours."""

    name: str
    title: str
    contenders: Mapping[str, Callable[[], Ready]]
    targets: tuple[Target, ...] = ()
    today: str | None = None
    """What most people use for this today."""
    bytes_read: Mapping[str, float] = field(default_factory=dict)
    """Ours → bytes that must be read from memory."""
    operations: Mapping[str, float] = field(default_factory=dict)
    """Ours → multiplications and additions of its products."""
    limited_by: str = ""
    """What takes our time, from profiles, for docs/runtime.md."""
    unit: str = "ms"
    rounds: int = 5


def every() -> dict[str, Workload]:
    """All workloads by name."""
    from workloads import attention, decoding, encoders, loading, pipelines, training

    parts = (decoding, encoders, pipelines, training, attention, loading)
    return {workload.name: workload for part in parts for workload in part.WORKLOADS}
