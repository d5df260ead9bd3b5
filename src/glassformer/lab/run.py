"""Running a claim: its experiment with parameters and a seed, or the cached result of an earlier run."""

from __future__ import annotations

import time

from glassformer.lab import cache
from glassformer.lab.claims import claim
from glassformer.lab.experiment import Outcome, Value


def run_claim(number: int, *, seed: int = 0, keep: bool = True, **changes: str | Value) -> Outcome:
    """Run one claim and return its outcome; `keep=False` neither reads nor writes the cache."""
    from glassformer.runtime.measure import one_thread

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
