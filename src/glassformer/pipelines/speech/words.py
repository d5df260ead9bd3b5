"""Rows of CTC logits → words, each returned once it is final.

score(prefix) = log Σ over alignments of p(rows) + α log p(characters) + γ · characters (prefix beam search with a
language model, Hannun et al. 2014), or the most likely character of each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappush, heappushpop
from typing import NamedTuple

from torch import Tensor

from glassformer.core.audio import RATE
from glassformer.decoding import CTCGreedy, CTCToken
from glassformer.decoding.ctc import EMPTY, Prefixes, extend, log_probabilities
from glassformer.errors import ConfigError
from glassformer.pipelines.speech.charset import Charset
from glassformer.pipelines.speech.ctc_stream import LogitRows
from glassformer.pipelines.speech.ngram import PAUSE, WORD_SEARCH, CharNgram, WordSearch

SILENCE = 1.0  # seconds without a character after which the next word counts as a first one
ROUNDING = 1e-6  # above the rounding errors of a prefix's score


class Word(NamedTuple):
    """A word from `start` to `end`, in seconds, final once `known` seconds of audio had arrived and never revised."""

    text: str
    start: float
    end: float
    known: float

    @property
    def latency(self) -> float:
        """Delay from its last character until it was final, excluding computing time."""
        return self.known - self.end


def _word(charset: Charset, letters: Sequence[tuple[int, int]], seconds: float, known: float) -> Word:
    """Build a word from (character, row at which it begins) pairs and the duration of a row."""
    text = charset.decode(letter for letter, _ in letters)
    start, end = letters[0][1] * seconds, (letters[-1][1] + 1) * seconds
    return Word(text, round(start, 3), round(min(end, known), 3), round(known, 3))


class GreedyWordDecoder:
    """Greedy decoding: the most likely character of each row; a space or a pause ends a word.

    The words depend only on the rows so far, not on their grouping or on later rows.
    """

    def __init__(self, charset: Charset, seconds: float, *, rate: int = RATE, pause: float = PAUSE) -> None:
        if not pause > 0:
            raise ConfigError(f"pause is {pause} s", "choose more than 0 s")
        self.charset, self.seconds, self.rate = charset, seconds, rate
        self.rows = max(1, round(pause / seconds))
        self._greedy = CTCGreedy()
        self._letters: list[CTCToken] = []

    def feed(self, rows: LogitRows) -> list[Word]:
        """Return the words that these rows complete."""
        known, words = rows.samples / self.rate, []
        for letter in self._greedy.feed(rows.logits):
            words += self._close(letter.frame, known)
            if letter.token == self.charset.space:
                words += self._finished(known)
            else:
                self._letters.append(letter)
        return words + self._close(self._greedy.frame, known)

    @property
    def pending(self) -> str:
        """The word that is being spoken, which may still change."""
        return self.charset.decode(letter.token for letter in self._letters)

    def finish(self, known: float) -> list[Word]:
        """Return the last word, if one is incomplete."""
        self._greedy.finish()
        return self._finished(known)

    def _close(self, frame: int, known: float) -> list[Word]:
        """End the word if there was no character in the `rows` rows before this one."""
        paused = bool(self._letters) and frame - self._letters[-1].frame > self.rows
        return self._finished(known) if paused else []

    def _finished(self, known: float) -> list[Word]:
        letters, self._letters = self._letters, []
        return [_word(self.charset, letters, self.seconds, known)] if letters else []


class BeamWordDecoder:
    """Prefix beam search with a character n-gram model. The words depend only on the rows so far.

    Once a word is final, prefixes with another word in its place are dropped.
    """

    def __init__(
        self,
        charset: Charset,
        seconds: float,
        ngram: CharNgram,
        search: WordSearch = WORD_SEARCH,
        *,
        rate: int = RATE,
    ) -> None:
        self.charset, self.seconds, self.ngram, self.search, self.rate = charset, seconds, ngram, search, rate
        rows = lambda pause: max(1, round(pause / seconds))
        self.rows, self.rows_of_first, self.silence, self.frame = *map(rows, (search.pause, search.first, SILENCE)), 0
        self._prefixes: Prefixes = dict(EMPTY)  # best first
        self._ngram: dict[tuple[int, ...], float] = {(): 0.0}  # log p of each prefix's characters
        self._past: tuple[int, ...] = (charset.space,)  # final characters, as far as the n-gram model's context reaches
        self._first: tuple[int, ...] = ()  # the first word of the best prefix, with its space
        self._stood = 0  # number of rows for which `_first` has not changed
        self._last = -1 - self.silence  # row of the last final character

    def feed(self, rows: LogitRows) -> list[Word]:
        """Return the words that became final with these rows."""
        known, words = rows.samples / self.rate, []
        for row in log_probabilities(rows.logits, 0, self.frame):
            self._advance(row)
            self.frame += 1
            words += self._settled(known)
        return words

    @property
    def pending(self) -> str:
        """The words of the best prefix, which may still change."""
        prefix, beams = next(iter(self._prefixes.items()))
        return " ".join(word.text for word in self._words(prefix, beams.all.frames, 0.0))

    def finish(self, known: float) -> list[Word]:
        """Return the remaining words of the best prefix."""
        prefix, beams = next(iter(self._prefixes.items()))
        self._restart()
        return self._words(prefix, beams.all.frames, known)

    def _restart(self) -> None:
        self._prefixes, self._ngram = dict(EMPTY), {(): 0.0}

    def _advance(self, row: Tensor) -> None:
        blank, *tokens = row.tolist()
        least = max(blank, *tokens) - self.search.reach
        near = sorted(((token, logp) for token, logp in enumerate(tokens, 1) if logp > least), key=lambda one: -one[1])
        promising, ngram = self._promising(near, blank)
        space, alpha, gamma = self.charset.space, self.search.alpha, self.search.gamma
        following = extend(self._prefixes, promising, blank, self.frame, before=self._past[-1], never_twice=space)
        score = lambda prefix: following[prefix].total + alpha * ngram[prefix] + gamma * len(prefix)
        best = [prefix for _, prefix in sorted((-score(prefix), prefix) for prefix in following)[: self.search.width]]
        self._prefixes = {prefix: following[prefix] for prefix in best}
        self._ngram = {prefix: ngram[prefix] for prefix in best}

    def _promising(
        self, near: list[tuple[int, float]], blank: float
    ) -> tuple[dict[tuple[int, ...], list[tuple[int, float]]], dict[tuple[int, ...], float]]:
        """Return the tokens that may extend each prefix to one of the best, and log p of the characters of all of them.

        An extension scores at most as much as if the n-gram model were certain of its character. It is left out if
        `width` others are known to score more, which changes no result.
        """
        prefixes, ngram, width = self._prefixes, dict(self._ngram), self.search.width
        alpha, gamma = self.search.alpha, self.search.gamma
        scores = {prefix: one.total + alpha * ngram[prefix] + gamma * len(prefix) for prefix, one in prefixes.items()}
        known = [score + blank for score in scores.values()]  # scores that are reached, the least first
        heapify(known)
        promising: dict[tuple[int, ...], list[tuple[int, float]]] = {}
        for prefix, score in scores.items():
            promising[prefix], context = [], self._context(prefix)
            last = prefix[-1] if prefix else self._past[-1]
            for token, logp in near:
                longer = (*prefix, token)
                another = token != last and longer not in prefixes  # neither repeated nor merged with a known prefix
                if another and len(known) >= width and score + logp + gamma < known[0] - ROUNDING:
                    continue
                promising[prefix].append((token, logp))
                if longer not in ngram:
                    ngram[longer] = ngram[prefix] + self.ngram.logp(context, token)
                if another:
                    reached = score + logp + gamma + alpha * (ngram[longer] - ngram[prefix])
                    (heappushpop if len(known) >= width else heappush)(known, reached)
        return promising, ngram

    def _context(self, prefix: tuple[int, ...]) -> tuple[int, ...]:
        return (self._past + prefix)[-(self.ngram.order - 1) :] if self.ngram.order > 1 else ()

    def _settled(self, known: float) -> list[Word]:
        """Return the first word of the best prefix if its space has been there for `hold` rows; after a pause, all."""
        prefix, beams = next(iter(self._prefixes.items()))
        frames = beams.all.frames
        first = prefix[: prefix.index(self.charset.space) + 1] if self.charset.space in prefix else ()
        self._stood = self._stood + 1 if first == self._first else 0
        self._first = first
        awaited = bool(prefix) and frames[0] - self._last > self.silence
        hold, rows = (0, self.rows_of_first) if awaited else (self.search.hold, self.rows)
        if first and self._stood >= hold:
            final, paused = first, False
        elif prefix and not first and self.frame - frames[-1] > rows:
            final, paused = prefix, True
        else:
            return []
        self._first, self._last = (), frames[len(final) - 1]
        self._drop(final, paused)
        return self._words(final, frames[: len(final)], known)

    def _drop(self, final: tuple[int, ...], paused: bool) -> None:
        """Keep only prefixes that begin with the final characters, and remove these; a pause counts as a space."""
        size = len(final)
        self._past = (*self._past, *final, *((self.charset.space,) if paused else ()))[-self.ngram.order :]
        if paused:
            self._restart()
            return
        kept = [prefix for prefix in self._prefixes if prefix[:size] == final]
        top = max(self._prefixes[prefix].total for prefix in kept)  # near 0, to keep precision over hours
        base = self._ngram[kept[0]]
        self._ngram = {prefix[size:]: self._ngram[prefix] - base for prefix in kept}
        self._prefixes = {prefix[size:]: self._prefixes[prefix].without(size, top) for prefix in kept}

    def _words(self, prefix: tuple[int, ...], frames: tuple[int, ...], known: float) -> list[Word]:
        words, letters = [], list[tuple[int, int]]()
        for token, frame in [*zip(prefix, frames, strict=True), (self.charset.space, 0)]:
            if token != self.charset.space:
                letters.append((token, frame))
            elif letters:
                words.append(_word(self.charset, letters, self.seconds, known))
                letters = []
        return words
