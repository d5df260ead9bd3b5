"""p(c | h) = (n(hc) + d(h) p(c | h′)) / (n(h) + d(h)): how likely a letter follows others, from counts of text.

n counts, d(h) is how many different letters followed h, h′ is h without its first letter: Witten, Bell 1991. A reader
of CTC rows that knows it prefers what is spelt as words are.
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
PAUSE = 0.28  # seconds without a letter that end a word, if no space did


@dataclass(frozen=True, kw_only=True)
class Search:
    """`alpha`: weight of the spelling, `gamma`: what each letter is worth besides; `width` prefixes are followed, each
    row's letters within `reach` nats of its best; a word is given once the best prefix has had its space for `hold`
    rows more, or after `pause` seconds without a letter. The first word after a second of silence is waited for: it is
    given with its space, or after `first` seconds without a letter."""

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
                raise ConfigError(f"a pause of {pause} s ends a word", "choose more than 0 s")


SEARCH = Search()


class Spelling:
    """Counts of up to `order` letters in a row, letters numbered 1 … `symbols`; a run of letters is one number."""

    def __init__(self, order: int, symbols: int, counts: dict[int, int]) -> None:
        if order < 1 or symbols < 1:
            raise ConfigError(f"runs of {order} letters of {symbols}", "choose at least 1 of each")
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
    def of(cls, texts: Iterable[Sequence[int]], symbols: int, *, order: int = 6, least: int = 1) -> Spelling:
        """Of texts in numbers. The longest runs are kept if they came `least` times."""
        found: Counter[int] = Counter()
        base = symbols + 1
        for text in texts:
            for i in range(len(text)):
                run, place = 0, 1
                for size in range(1, min(order, i + 1) + 1):
                    run, place = run + text[i - size + 1] * place, place * base
                    found[run] += 1
        longest = base ** (order - 1)  # runs of full length are numbers from here on
        return cls(order, symbols, {run: n for run, n in found.items() if run < longest or n >= least})

    def _logp(self, context: tuple[int, ...], letter: int) -> float:
        """log p(letter | context), of which the last order − 1 letters count."""
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
        with path.open("wb") as file:  # by name it would add another suffix
            np.savez_compressed(file, runs=np.diff(runs, prepend=0), counts=numbers, sizes=sizes)

    @classmethod
    def read(cls, path: Path) -> Spelling:
        try:
            with np.load(path, allow_pickle=False) as held:
                order, symbols = (int(one) for one in held["sizes"])
                runs, counts = held["runs"].cumsum().tolist(), held["counts"].tolist()
                return cls(order, symbols, dict(zip(runs, counts, strict=True)))
        except (OSError, ValueError, KeyError) as error:
            raise CheckpointError(f"{path} cannot be read ({str(error)[:60]})", "save the model again") from None
