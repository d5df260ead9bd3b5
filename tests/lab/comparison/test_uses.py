from __future__ import annotations

import pytest

from glassformer.lab.comparison.nets import ARCHITECTURES
from glassformer.lab.comparison.results import Estimate, Results
from glassformer.lab.comparison.uses import Standing, Use, best_use, standing, uses


def use(share: bool, **values: tuple[float, float]) -> Use:
    """Means with the half-widths of their intervals."""
    return Use("made", {name: Estimate(mean, half, 3) for name, (mean, half) in values.items()}, share, str)


def test_who_is_ahead_is_told_by_intervals() -> None:
    times = use(False, a=(1.0, 0.1), b=(1.15, 0.1), c=(2.0, 0.1), d=(9.0, 8.5))
    assert standing(times, "a")[:2] == (0, 2)  # b and d may be as fast
    assert standing(times, "c")[:2] == (2, 1)
    assert standing(times, "a").lead < 0 < standing(times, "b").lead


def test_shares_are_better_the_larger() -> None:
    right = use(True, a=(0.9, 0.02), b=(0.5, 0.02), c=(0.5, 0.0))
    assert standing(right, "a")[:2] == (0, 0)
    assert standing(right, "b")[:2] == (1, 1)
    assert standing(right, "a").lead == pytest.approx(-1.609, abs=1e-3)  # a fifth of the wrong answers


def test_nothing_wrong_is_no_endless_lead() -> None:
    perfect = standing(use(True, a=(1.0, 0.0), b=(0.9, 0.0)), "a")
    assert perfect == Standing(0, 0, pytest.approx(-4.605, abs=1e-3))  # type: ignore[arg-type]


def test_every_architecture_has_a_best_use(results: Results) -> None:
    names = [each.name for each in uses(results)]
    assert len(set(names)) == len(names) == 2 + 2 + 2 + 2 + 1  # distances, sizes, stream, ends, longer
    for name in ARCHITECTURES:
        told = best_use(results, name)
        assert any(c.isdigit() for c in told)
    firsts = [best_use(results, name) for name in ARCHITECTURES]
    assert any("ahead" not in told for told in firsts)
