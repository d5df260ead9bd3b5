from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.pipelines.speech.charset import LETTERS
from glassformer.pipelines.speech.ctc_stream import LogitRows
from glassformer.pipelines.speech.words import GreedyWordDecoder, Word

ROW = 0.04
texts = st.text("ab  ___", min_size=1, max_size=40)


def rows(text: str) -> Tensor:
    """Logits that say one symbol a row; _ is the blank."""
    logits = torch.zeros(len(text), len(LETTERS) + 1)
    for row, letter in zip(logits, text, strict=True):
        row[0 if letter == "_" else LETTERS.encode(letter)[0]] = 9.0
    return logits


def read(text: str, cuts: list[int] | None = None, pause: float = 0.32) -> list[Word]:
    reader, heard, words = GreedyWordDecoder(LETTERS, ROW, rate=1000, pause=pause), 0, []
    for piece in rows(text).tensor_split(cuts or []):
        heard += len(piece)
        words += reader.feed(LogitRows(piece, heard * 40))
    return words + reader.finish(len(text) * ROW)


def test_words_and_their_times() -> None:
    assert read("_cca_t  d_o__gg_", cuts=list(range(1, 16))) == [
        Word("cat", pytest.approx(0.04), pytest.approx(0.24), pytest.approx(0.28)),
        Word("dog", pytest.approx(0.32), pytest.approx(0.56), pytest.approx(0.64)),
    ]
    assert [word.text for word in read("a_a aa  ")] == ["aa", "a"]
    assert read("____  __") == []


def test_a_pause_ends_a_word() -> None:
    """Eight rows, or 320 ms, without a letter: known then, without waiting for what follows."""
    long, short = "ab" + "_" * 8 + "c_______", "ab" + "_" * 7 + "c_______"
    assert [word.text for word in read(long)] == ["ab", "c"]
    assert [word.text for word in read(short)] == ["abc"]
    first = read(long, cuts=list(range(1, len(long))))[0]
    assert first.known == pytest.approx(10 * ROW)
    assert first.latency == pytest.approx(8 * ROW)


@given(texts, st.lists(st.integers(0, 40), max_size=5))
def test_grouping_does_not_matter(text: str, cuts: list[int]) -> None:
    said = [(word.text, word.start, word.end) for word in read(text)]
    assert said == [(word.text, word.start, word.end) for word in read(text, sorted(min(c, len(text)) for c in cuts))]


@given(texts, texts)
def test_nothing_is_taken_back(text: str, later: str) -> None:
    """What is given before the end is what is given if more comes."""
    reader = GreedyWordDecoder(LETTERS, ROW, rate=1000)
    given_ = [word.text for word in reader.feed(LogitRows(rows(text), 0))]
    assert [word.text for word in read(text + later)][: len(given_)] == given_


def test_no_pause(refused: Any) -> None:
    refused(ConfigError, "pause is 0 s", lambda: GreedyWordDecoder(LETTERS, ROW, pause=0))
