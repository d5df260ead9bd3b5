"""p(c | h) = (n(hc) + d(h) p(c | h′)) / (n(h) + d(h)): a character n-gram language model with Witten-Bell smoothing.

n are counts, d(h) is the number of distinct characters that followed h, h′ is h without its first character (Witten,
Bell 1991). Its score is added in the beam search over CTC rows.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from glassformer.errors import CheckpointError, ConfigError

FILE = "spelling.npz"
PAUSE = 0.28  # seconds without a character that end a word if no space did


@dataclass(frozen=True, kw_only=True)
class WordSearch:
    """Settings of the beam search for words.

    `alpha` is the weight of the n-gram model, `gamma` a bonus for each character, `width` the number of prefixes; each
    row's characters within `reach` nats of its best are tried. A word is final once the best prefix has kept its space
    for `hold` more rows, or after `pause` seconds without a character. The first word after a second of silence is
    final with its space, or after `first` seconds without a character.
    """

    alpha: float = 0.5
    gamma: float = 0.5
    width: int = 12
    reach: float = 7.0
    hold: int = 1
    pause: float = PAUSE
    first: float = PAUSE

    def __post_init__(self) -> None:
        for pause in (self.pause, self.first):
            if not pause > 0:
                raise ConfigError(f"pause is {pause} s", "choose more than 0 s")
        if self.alpha < 0:  # the search relies on unlikely characters scoring less
            raise ConfigError(f"alpha is {self.alpha}", "choose 0 or more")


WORD_SEARCH = WordSearch()


class CharNgram:
    """Counts of runs of up to `order` characters, numbered 1 … `symbols`; each run is encoded as one integer."""

    def __init__(self, order: int, symbols: int, counts: dict[int, int]) -> None:
        if order < 1 or symbols < 1:
            raise ConfigError(f"order is {order} and symbols is {symbols}", "choose at least 1 of each")
        self.order, self.symbols, self.counts = order, symbols, counts
        self._base = symbols + 1
        self._whole: defaultdict[int, int] = defaultdict(int)
        self._kinds: defaultdict[int, int] = defaultdict(int)
        for run, count in counts.items():
            context = run // self._base
            self._whole[context] += count
            self._kinds[context] += 1
        self.logp = lru_cache(maxsize=200_000)(self._logp)

    @classmethod
    def of(cls, texts: Iterable[Sequence[int]], symbols: int, *, order: int = 6, least: int = 1) -> CharNgram:
        """Count the n-grams of encoded texts. Runs of full length are kept if they occur at least `least` times."""
        found: Counter[int] = Counter()
        base = symbols + 1
        for text in texts:
            for i in range(len(text)):
                run, place = 0, 1
                for size in range(1, min(order, i + 1) + 1):
                    run, place = run + text[i - size + 1] * place, place * base
                    found[run] += 1
        longest = base ** (order - 1)  # smallest code of a run of full length
        return cls(order, symbols, {run: n for run, n in found.items() if run < longest or n >= least})

    def _logp(self, context: tuple[int, ...], letter: int) -> float:
        """log p(letter | context), using the last order − 1 characters of the context."""
        p = 1 / self.symbols
        whole, kinds, counts = self._whole, self._kinds, self.counts
        history, place = 0, 1
        for size in range(min(self.order - 1, len(context)) + 1):
            if size:
                history, place = history + context[-size] * place, place * self._base
            n = whole.get(history, 0)
            if not n:
                break
            p = (counts.get(history * self._base + letter, 0) + kinds[history] * p) / (n + kinds[history])
        return math.log(p)

    def write(self, path: Path) -> None:
        runs = np.array(sorted(self.counts), dtype=np.int64)
        numbers = np.array([self.counts[int(run)] for run in runs], dtype=np.int32)
        sizes = np.array([self.order, self.symbols], dtype=np.int32)
        with path.open("wb") as file:  # np.savez would append a suffix to a path
            np.savez_compressed(file, runs=np.diff(runs, prepend=0), counts=numbers, sizes=sizes)

    @classmethod
    def read(cls, path: Path) -> CharNgram:
        """Read a file made by `write`. All readers of one file share its counts."""
        try:
            return _read(path, path.stat().st_mtime_ns)
        except (OSError, ValueError, KeyError) as error:
            raise CheckpointError(f"{path} cannot be read ({str(error)[:60]})", "save the model again") from None


@lru_cache(maxsize=4)
def _read(path: Path, changed: int) -> CharNgram:
    with np.load(path, allow_pickle=False) as held:
        order, symbols = (int(one) for one in held["sizes"])
        runs, counts = held["runs"].cumsum().tolist(), held["counts"].tolist()
    return CharNgram(order, symbols, dict(zip(runs, counts, strict=True)))
