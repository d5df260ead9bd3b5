"""The words that are likeliest by the sound and by how words are spelt, each given once nothing can change it.

score(prefix) = log Σ over alignments of p(rows) + α log p(letters) + γ · letters (prefix beam search,
Hannun et al. 2014).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

from glassformer.core.audio import RATE
from glassformer.decoding.ctc import log_probabilities
from glassformer.tasks.ears import Rows
from glassformer.tasks.reading import Word, worded
from glassformer.tasks.spelling import SEARCH, Search, Spelling
from glassformer.tasks.symbols import Symbols

NEVER = -math.inf
SILENCE = 1.0  # seconds without a letter after which a word is a first one


class Beam(NamedTuple):
    """log p of the alignments that end in a blank, and in the last letter; the spelling; where each letter began."""

    blank: float
    letter: float
    spelling: float
    frames: tuple[int, ...]

    @property
    def sound(self) -> float:
        return _add(self.blank, self.letter)


FRESH = Beam(0.0, NEVER, 0.0, ())


def _add(a: float, b: float) -> float:
    low, high = (a, b) if a < b else (b, a)
    return high if low == NEVER else high + math.log1p(math.exp(low - high))


class SpeltReader:
    """As `WordReader`, and a function of the rows alone too: prefixes that say another word are dropped with it."""

    def __init__(
        self,
        symbols: Symbols,
        seconds: float,
        spelling: Spelling,
        search: Search = SEARCH,
        *,
        rate: int = RATE,
    ) -> None:
        self.symbols, self.seconds, self.spelling, self.search, self.rate = symbols, seconds, spelling, search, rate
        rows = lambda pause: max(1, round(pause / seconds))
        self.rows, self.rows_of_first, self.silence, self.frame = *map(rows, (search.pause, search.first, SILENCE)), 0
        self._beams: dict[tuple[int, ...], Beam] = {(): FRESH}
        self._past: tuple[int, ...] = (symbols.space,)  # what was given, as far as the spelling looks back
        self._first: tuple[int, ...] = ()  # the first word of the best prefix with its space,
        self._stood = 0  # and for how many rows it has been that
        self._last = -1 - self.silence  # the row of the last symbol that was given

    def feed(self, rows: Rows) -> list[Word]:
        known, words = rows.samples / self.rate, []
        for row in log_probabilities(rows.logits, 0, self.frame):
            self._advance(row)
            self.frame += 1
            words += self._settled(known)
        return words

    def finish(self, known: float) -> list[Word]:
        """The words of the best prefix that are left."""
        prefix, beam = next(iter(self._beams.items()))
        self._beams = {(): FRESH}
        return self._words(prefix, beam.frames, known)

    def _advance(self, row: Tensor) -> None:
        best = float(row.max())
        near = [(token, logp) for token, logp in enumerate(row.tolist()) if token and logp > best - self.search.reach]
        blank, following = float(row[0]), dict[tuple[int, ...], Beam]()

        def add(prefix: tuple[int, ...], new: Beam) -> None:
            old = following.get(prefix)
            if old is not None:
                frames = old.frames if old.sound >= new.sound else new.frames
                new = Beam(_add(old.blank, new.blank), _add(old.letter, new.letter), new.spelling, frames)
            following[prefix] = new

        for prefix, beam in self._beams.items():
            last = prefix[-1] if prefix else self._past[-1]
            add(prefix, beam._replace(blank=beam.sound + blank, letter=NEVER))
            for token, logp in near:
                if token == last:
                    add(prefix, beam._replace(blank=NEVER, letter=beam.letter + logp))
                before = beam.blank if token == last else beam.sound  # the same letter again: a blank lies between
                if before > NEVER and not token == last == self.symbols.space:
                    spelling = beam.spelling + self.spelling.logp(self._context(prefix), token)
                    add((*prefix, token), Beam(NEVER, before + logp, spelling, (*beam.frames, self.frame)))
        ranked = sorted(following.items(), key=lambda one: (-self._score(*one), one[0]))
        self._beams = dict(ranked[: self.search.width])

    def _score(self, prefix: tuple[int, ...], beam: Beam) -> float:
        return beam.sound + self.search.alpha * beam.spelling + self.search.gamma * len(prefix)

    def _context(self, prefix: tuple[int, ...]) -> tuple[int, ...]:
        return (self._past + prefix)[-(self.spelling.order - 1) :] if self.spelling.order > 1 else ()

    def _settled(self, known: float) -> list[Word]:
        """The first word of the best prefix, if its space has been there for `hold` rows; all of it after a pause."""
        prefix, beam = next(iter(self._beams.items()))
        first = prefix[: prefix.index(self.symbols.space) + 1] if self.symbols.space in prefix else ()
        self._stood = self._stood + 1 if first == self._first else 0
        self._first = first
        awaited = bool(prefix) and beam.frames[0] - self._last > self.silence
        hold, rows = (0, self.rows_of_first) if awaited else (self.search.hold, self.rows)
        if first and self._stood >= hold:
            given, paused = first, False
        elif prefix and not first and self.frame - beam.frames[-1] > rows:
            given, paused = prefix, True
        else:
            return []
        self._first, self._last = (), beam.frames[len(given) - 1]
        self._drop(given, paused)
        return self._words(given, beam.frames[: len(given)], known)

    def _drop(self, given: tuple[int, ...], paused: bool) -> None:
        """Only prefixes that begin with what was given go on, without it; after a pause as if a space had been said."""
        size = len(given)
        self._past = (*self._past, *given, *((self.symbols.space,) if paused else ()))[-self.spelling.order :]
        if paused:
            self._beams = {(): FRESH}
            return
        kept = {p[size:]: b._replace(frames=b.frames[size:]) for p, b in self._beams.items() if p[:size] == given}
        top = max(beam.sound for beam in kept.values())  # kept near 0, so that an hour of sound loses no digits
        least = next(iter(kept.values())).spelling
        self._beams = {
            prefix: beam._replace(blank=beam.blank - top, letter=beam.letter - top, spelling=beam.spelling - least)
            for prefix, beam in kept.items()
        }

    def _words(self, prefix: tuple[int, ...], frames: tuple[int, ...], known: float) -> list[Word]:
        words, letters = [], list[tuple[int, int]]()
        for token, frame in [*zip(prefix, frames, strict=True), (self.symbols.space, 0)]:
            if token != self.symbols.space:
                letters.append((token, frame))
            elif letters:
                words.append(worded(self.symbols, letters, self.seconds, known))
                letters = []
        return words
