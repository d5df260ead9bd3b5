"""Running experiments: one by its number, or all, with what was measured before taken from the cache."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from glassformer.lab import cache
from glassformer.lab.claims import claim
from glassformer.lab.experiment import Experiment, Result, Value, Verdict


class Outcome(NamedTuple):
    """One run of one experiment; `cached` if its numbers were measured earlier, in `seconds` then."""

    experiment: Experiment
    parameters: dict[str, Value]
    seed: int
    result: Result
    verdict: Verdict
    seconds: float
    cached: bool

    @property
    def command(self) -> str:
        """What repeats it on the command line."""
        return " ".join([f"glassformer lab {self.experiment.number}", *self._set("--set "), f"--seed {self.seed}"])

    @property
    def code(self) -> str:
        """What repeats it in Python."""
        arguments = ", ".join([str(self.experiment.number), f"seed={self.seed}", *self._set("")])
        return f"from glassformer.lab import run\n\noutcome = run({arguments})\nprint(outcome.verdict)"

    def _set(self, prefix: str) -> list[str]:
        defaults = self.experiment.settings({})
        return [f"{prefix}{name}={value}" for name, value in self.parameters.items() if value != defaults[name]]


@contextmanager
def one_thread() -> Iterator[None]:
    """The tensors of the lab are small: a second thread waits more than it works, most of all on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def run(number: int, *, seed: int = 0, keep: bool = True, **changes: str | Value) -> Outcome:
    """The outcome of one claim; `keep=False` measures anew and writes nothing."""
    experiment = claim(number)
    parameters = experiment.settings(changes)
    known = cache.load(number, parameters, seed) if keep else None
    if known is not None:
        result, seconds = known
        return Outcome(experiment, parameters, seed, result, experiment.verdict(result), seconds, True)
    start = time.perf_counter()
    with one_thread():
        result = experiment.run(parameters, seed)
    seconds = time.perf_counter() - start
    if keep:
        cache.store(number, parameters, seed, result, seconds)
    return Outcome(experiment, parameters, seed, result, experiment.verdict(result), seconds, False)
