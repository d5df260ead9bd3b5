"""Rows of CTC logits → words, each given once nothing can change it any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from glassformer.core.audio import RATE
from glassformer.decoding import CTCGreedy, Heard
from glassformer.errors import ConfigError
from glassformer.tasks.ears import Rows
from glassformer.tasks.spelling import PAUSE
from glassformer.tasks.symbols import Symbols


class Word(NamedTuple):
    """From `start` to `end`, in seconds; final when the sound had come to `known`, and never taken back."""

    text: str
    start: float
    end: float
    known: float

    @property
    def latency(self) -> float:
        """How long after its last letter it was known, the computing left out."""
        return self.known - self.end


def worded(symbols: Symbols, letters: Sequence[tuple[int, int]], seconds: float, known: float) -> Word:
    """Of (letter, row at which it begins) and the length of a row."""
    text = symbols.decode(letter for letter, _ in letters)
    start, end = letters[0][1] * seconds, (letters[-1][1] + 1) * seconds
    return Word(text, round(start, 3), round(min(end, known), 3), round(known, 3))


class WordReader:
    """Letters of the likeliest symbols, row by row; a space ends a word, and so does a pause.

    What is given is a function of the rows that came so far: neither their grouping nor what comes later changes it.
    """

    def __init__(self, symbols: Symbols, seconds: float, *, rate: int = RATE, pause: float = PAUSE) -> None:
        if not pause > 0:
            raise ConfigError(f"a pause of {pause} s ends a word", "choose more than 0 s")
        self.symbols, self.seconds, self.rate = symbols, seconds, rate
        self.rows = max(1, round(pause / seconds))
        self._greedy = CTCGreedy()
        self._letters: list[Heard] = []

    def feed(self, rows: Rows) -> list[Word]:
        """The words that these rows end."""
        known, words = rows.samples / self.rate, []
        for letter in self._greedy.feed(rows.logits):
            words += self._close(letter.frame, known)
            if letter.token == self.symbols.space:
                words += self._word(known)
            else:
                self._letters.append(letter)
        return words + self._close(self._greedy.frame, known)

    def finish(self, known: float) -> list[Word]:
        """The word that was begun, if one was: nothing follows."""
        self._greedy.finish()
        return self._word(known)

    def _close(self, frame: int, known: float) -> list[Word]:
        """Ends the word if no letter came in `rows` rows before this one."""
        paused = bool(self._letters) and frame - self._letters[-1].frame > self.rows
        return self._word(known) if paused else []

    def _word(self, known: float) -> list[Word]:
        letters, self._letters = self._letters, []
        if not letters:
            return []
        return [worded(self.symbols, letters, self.seconds, known)]
