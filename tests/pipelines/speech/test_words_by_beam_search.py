from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.decoding import ctc_prefix_beam
from glassformer.errors import ConfigError
from glassformer.pipelines.speech.charset import LETTERS, Charset
from glassformer.pipelines.speech.ctc_stream import LogitRows
from glassformer.pipelines.speech.ngram import CharNgram, WordSearch
from glassformer.pipelines.speech.words import BeamWordDecoder, GreedyWordDecoder, Word

ROW = 0.04
FEW = Charset(tuple(" ab"))
FLAT = CharNgram(1, 3, {})  # every letter as likely


def random_rows(seed: int, n: int, size: int, sharp: float = 2.0) -> Tensor:
    return sharp * torch.randn(n, size, generator=torch.Generator().manual_seed(seed))


def read(reader: BeamWordDecoder | GreedyWordDecoder, logits: Tensor, cuts: list[int] | None = None) -> list[Word]:
    heard, words = 0, []
    for piece in logits.tensor_split(cuts or []):
        heard += len(piece)
        words += reader.feed(LogitRows(piece, heard * 40))
    return words + reader.finish(heard * ROW)


@settings(max_examples=10)
@given(st.integers(0, 1000), st.lists(st.integers(0, 30), max_size=5))
def test_grouping_does_not_matter(seed: int, cuts: list[int]) -> None:
    logits = random_rows(seed, 30, 4)
    spelling = CharNgram.of([[2, 3, 1, 3, 2, 1]], 3, order=3)
    one, two = (BeamWordDecoder(FEW, ROW, spelling, rate=1000) for _ in range(2))
    told = [word[:3] for word in read(one, logits)]
    assert told == [word[:3] for word in read(two, logits, sorted(cuts))]


@settings(max_examples=10)
@given(st.integers(0, 1000))
def test_the_most_likely_words_of_all(seed: int) -> None:
    """With no n-gram model and no hurry it finds the transcript that the plain search over prefixes finds."""
    logits = random_rows(seed, 5, 4)
    logits[:, FEW.space] = -60.0  # one word
    search = WordSearch(alpha=0.0, gamma=0.0, width=500, reach=1e9, hold=1000, pause=100.0)
    words = read(BeamWordDecoder(FEW, ROW, FLAT, search, rate=1000), logits)
    assert "".join(word.text for word in words) == FEW.decode(ctc_prefix_beam(logits, width=500)[0].tokens)


@pytest.mark.parametrize("sharp", [0.5, 2.0, 6.0])
def test_extensions_that_are_left_out_change_nothing(sharp: float, monkeypatch: pytest.MonkeyPatch) -> None:
    spelling = CharNgram.of([LETTERS.encode("the whale and the cat sat on the mat ")], 28)
    logits = random_rows(7, 60, 29, sharp)
    one, two = (BeamWordDecoder(LETTERS, ROW, spelling, rate=1000) for _ in range(2))
    for row in range(len(logits)):
        piece = LogitRows(logits[row : row + 1], 40 * (row + 1))
        found = one.feed(piece), one._prefixes, one._ngram
        with monkeypatch.context() as patch:
            patch.setattr("glassformer.pipelines.speech.words.ROUNDING", math.inf)  # nothing is left out
            assert found == (two.feed(piece), two._prefixes, two._ngram)


def test_negative_weights_of_the_ngram_model_are_refused() -> None:
    with pytest.raises(ConfigError, match="alpha is -1"):
        WordSearch(alpha=-1.0)


def test_spelling_decides_what_sound_does_not() -> None:
    """t and d are as likely; it has read "cat" and never "cad"."""
    logits = torch.full((9, 29), -8.0)
    for row, letters in enumerate(["c", "_", "a", "_", "td", "_", " ", "_", "_"]):
        for letter in letters:
            logits[row, 0 if letter == "_" else LETTERS.encode(letter)[0]] = 4.0
    for known, expected in (("cat sat ", "cat"), ("cad had ", "cad")):
        spelling = CharNgram.of([LETTERS.encode(known)], 28)
        words = read(BeamWordDecoder(LETTERS, ROW, spelling, rate=1000), logits)
        assert [word.text for word in words] == [expected]


def test_given_soon_and_once() -> None:
    """Two rows after its space, the first with its space; then the search begins anew, and memory stays."""
    logits = torch.full((400, 29), -8.0)
    logits[:, 0] = 4.0
    for start in range(0, 400, 20):
        for place, letter in enumerate("go "):
            logits[start + 2 * place, LETTERS.encode(letter)[0]] = 9.0
    reader = BeamWordDecoder(LETTERS, ROW, CharNgram(1, 28, {}), WordSearch(hold=2), rate=1000)
    words, most = [], 0
    for row, one in enumerate(logits):
        words += reader.feed(LogitRows(one[None], (row + 1) * 40))
        most = max(most, max(map(len, reader._prefixes)))
    assert [word.text for word in words] == ["go"] * 20
    after = [round((word.known - word.start) / ROW) for word in words]
    assert after == [5] + [7] * 19  # the space is the fifth row of each
    assert most < 12


def test_a_pause_ends_a_word() -> None:
    logits = torch.full((24, 29), -8.0)
    logits[:, 0] = 4.0
    logits[1, LETTERS.encode("a")[0]] = logits[14, LETTERS.encode("b")[0]] = 9.0
    reader = lambda: BeamWordDecoder(LETTERS, ROW, CharNgram(1, 28, {}), rate=1000)
    words = read(reader(), logits, list(range(1, 24)))
    assert [(word.text, round(word.known / ROW)) for word in words] == [("a", 9), ("b", 22)]
    assert [word.text for word in read(GreedyWordDecoder(LETTERS, ROW, rate=1000), logits)] == ["a", "b"]


def test_the_first_word_after_a_silence_is_given_sooner() -> None:
    """A letter alone every 10 rows ends by a pause; after 40 rows (1.6 s) without one the next is a first one again."""
    logits = torch.full((90, 29), -8.0)
    logits[:, 0] = 4.0
    begins = [1, 11, 21, 61, 71]
    for row in begins:
        logits[row, LETTERS.encode("a")[0]] = 9.0
    search = WordSearch(hold=2, pause=6 * ROW, first=3 * ROW)
    words = read(BeamWordDecoder(LETTERS, ROW, CharNgram(1, 28, {}), search, rate=1000), logits, list(range(1, 90)))
    assert [round(word.known / ROW) - row for word, row in zip(words, begins, strict=True)] == [4, 7, 7, 4, 7]


def test_a_space_that_keeps_being_likelier_later_ends_the_word_all_the_same() -> None:
    """The best alignment puts the space into the newest row each time; the prefix with it has long been the best."""
    logits = torch.full((22, 4), -8.0)
    for row, letter in enumerate("b a"):
        logits[row, FEW.encode(letter)[0]] = 9.0
    logits[3:, 0], logits[3:, FEW.space] = 4.0, 4.0 + 0.4 * torch.arange(19)
    reader = BeamWordDecoder(FEW, ROW, FLAT, WordSearch(alpha=0.0, gamma=1.0, hold=1), rate=1000)
    words = []
    for row in range(22):
        words += reader.feed(LogitRows(logits[row : row + 1], (row + 1) * 40))
    assert [(word.text, round(word.known / ROW)) for word in words] == [("b", 2), ("a", 5)]
