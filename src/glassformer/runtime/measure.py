"""Time as a ratio to a peer in the same run: contenders run in interleaved rounds, and the best time of each counts.

Machines are shared and noisy; a disturbance affects all contenders of the same round.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.errors import InputError


def interleaved(
    contenders: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    warm: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the best time of each in seconds over `rounds` rounds, in which each runs once, after `warm` warm-ups.

    Every other round runs in reverse order: otherwise a contender would always run with caches warmed by the same
    predecessor. Single-threaded work may be timed by `time.process_time`, which does not count other processes.
    """
    if rounds < 1 or not contenders:
        raise InputError(f"{rounds} rounds of {len(contenders)} contenders", "measure at least one of each")
    best = dict.fromkeys(contenders, float("inf"))
    for turn in range(warm + rounds):
        for name, run in list(contenders.items())[:: 1 if turn % 2 == 0 else -1]:
            start = clock()
            run()
            took = clock() - start
            if turn >= warm:
                best[name] = min(best[name], took)
    return best


@contextmanager
def one_thread() -> Iterator[None]:
    """Restrict torch to one thread inside the block.

    For measurements with `time.thread_time`, which counts this thread only; for sums, which several threads round
    differently; and for tensors that are too small to benefit from more threads.
    """
    import torch

    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def card() -> dict[str, Any]:
    """Return what is recorded with every measurement: machine, threads, versions, date and commit."""
    import torch

    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": _commit(),
    }


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def instructions() -> str:
    """The processor's advertised instruction sets, which a hypervisor may restrict; empty if they cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(("flags", "Features"))), "")


def _commit() -> str:
    """The commit measured, if this is a checkout."""
    try:
        command = ["git", "rev-parse", "--short", "HEAD"]
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"
