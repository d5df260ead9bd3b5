from __future__ import annotations

from math import log2

import pytest
from scipy.stats import entropy as scipy_entropy

from glassformer.exercises import library
from glassformer.exercises.description import describe, entropy, say
from glassformer.exercises.numbers import Exact
from glassformer.exercises.solution import solve


def test_entropy_is_scipys() -> None:
    weights = [0.5, 0.25, 0.2, 0.05, 0.0]
    assert entropy(weights) == pytest.approx(scipy_entropy(weights, base=2))
    assert entropy([1.0]) == 0.0
    assert entropy([0.25] * 4) == pytest.approx(log2(4))


def test_what_four_tokens_say() -> None:
    said = describe(solve("four-tokens").step("A"))
    assert said[0].startswith("Token 1 attends most to token 2, 53.4 %")
    assert said[2].startswith("Token 3 attends evenly to all 4 tokens it sees (25.0 % each")


def test_ties_and_what_is_masked() -> None:
    half = Exact(1) / 2
    quarter = Exact(1) / 4
    assert say([quarter, half, quarter]).startswith("attends most to token 2, 50.0 %")
    third = Exact(2) / 5
    assert "tokens 1 and 3, which tie at 40.0 % each" in say([third, Exact(1) / 5, third])
    assert say([Exact(1), Exact(0)]) == "attends to token 1 alone: it sees no other."


def test_columns_are_read_by_column() -> None:
    assert len(describe(solve("columns").step("A"))) == solve(library.get("columns"))["A"].shape[1]


def test_what_is_tiny_is_still_seen() -> None:
    tiny = Exact(-1000).exp()
    assert say([Exact(1) - tiny, tiny]).startswith("attends most to token 1, 100.0 %")
