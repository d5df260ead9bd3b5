from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import CheckpointError, ConfigError
from glassformer.pipelines.speech.ngram import CharNgram

texts = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=12), min_size=1, max_size=5)


@given(texts, st.lists(st.integers(1, 3), max_size=6), st.integers(1, 4), st.integers(1, 3))
def test_probabilities(some: list[list[int]], context: list[int], order: int, least: int) -> None:
    """Of all letters they add up to 1, whatever was counted and whatever came before."""
    spelling = CharNgram.of(some, 3, order=order, least=least)
    assert sum(math.exp(spelling.logp(tuple(context), letter)) for letter in (1, 2, 3)) == pytest.approx(1)


def test_by_hand() -> None:
    """aab: n(a) = 2, n(b) = 1; after a: once a, once b; each of the two orders is mixed with the one below."""
    spelling = CharNgram.of([[1, 1, 2]], 2, order=2)
    first = (2 + 2 * 1 / 2) / (3 + 2)
    assert math.exp(spelling.logp((), 1)) == pytest.approx(first)
    assert math.exp(spelling.logp((1,), 1)) == pytest.approx((1 + 2 * first) / (2 + 2))
    assert spelling.logp((2, 2, 1), 1) == spelling.logp((1,), 1)  # no further back than its order
    assert math.exp(spelling.logp((2,), 1)) == pytest.approx(first)  # nothing ever followed b


@given(texts)
def test_single_characters_are_counted(some: list[list[int]]) -> None:
    spelling = CharNgram.of(some, 3, order=3)
    assert spelling.counts[some[0][0]] == sum(text.count(some[0][0]) for text in some)


def test_a_file(tmp_path: Path) -> None:
    spelling = CharNgram.of([[1, 2, 3, 1, 2]], 3, order=3)
    spelling.write(tmp_path / "a.npz")
    read = CharNgram.read(tmp_path / "a.npz")
    assert (read.order, read.symbols, read.counts) == (3, 3, spelling.counts)
    (tmp_path / "b.npz").write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match="cannot be read"):
        CharNgram.read(tmp_path / "b.npz")
    with pytest.raises(ConfigError, match="order is 0"):
        CharNgram(0, 3, {})
