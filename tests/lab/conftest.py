"""Fixtures of the claims: verdicts over five seeds, and solved counterexamples."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from glassformer.exercises.exercise import load_exercise
from glassformer.exercises.solution import Solution, solve
from glassformer.figures import to_bytes
from glassformer.lab.claims import claim
from glassformer.lab.experiment import Result

Stable = Callable[..., list[Result]]


@pytest.fixture
def stable() -> Stable:
    """`stable(7, "holds when", queries=8)`: the verdict over five seeds, its figure, its counterexample."""

    def check(number: int, kind: str, *, counterexample: bool = True, **changes: Any) -> list[Result]:
        experiment = claim(number)
        assert experiment.number == number
        results = [experiment.run(experiment.settings(changes), seed) for seed in range(5)]
        for seed, result in enumerate(results):
            again = json.loads(json.dumps(result, allow_nan=False))
            verdict = experiment.verdict(again)
            assert verdict.kind == kind, (seed, verdict)
            assert verdict == experiment.verdict(result)
            text = experiment.counterexample(again)
            expected = counterexample and kind != "holds"
            assert (text is not None) == expected, "a claim that does not simply hold has a counterexample"
            if text is not None:
                assert solve(load_exercise(text)).steps
        assert to_bytes(experiment.figure(results[0])).startswith(b"\x89PNG")
        return results

    return check


@pytest.fixture
def solved() -> Callable[[int, Result], Solution]:
    """The solution of a result's counterexample."""

    def work(number: int, result: Result) -> Solution:
        text = claim(number).counterexample(result)
        assert text is not None
        return solve(load_exercise(text))

    return work
