"""p(word) = ½ p(word | the word before it) + ½ p(its letters): how likely a word is, known or not.

Words are counted in pairs as letters are in runs (`spelling`). A word that no text had is as likely as its letters.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from glassformer.errors import CheckpointError, ConfigError
from glassformer.tasks.spelling import Spelling

NAMES, PAIRS = "words.txt", "words.npz"
START = ""  # the word before the first


class Wording:
    """`names[i]` is word i + 1 of the runs that `pairs` counts."""

    def __init__(self, names: Sequence[str], pairs: Spelling) -> None:
        if len(names) != pairs.symbols or len(set(names)) != len(names):
            fact = f"{len(names)} words ({len(set(names))} different) for runs of {pairs.symbols}"
            raise ConfigError(fact, "give each word that was counted once")
        self.names, self.pairs = tuple(names), pairs
        self._numbers = {name: i for i, name in enumerate(names, 1)}

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], *, most: int, least: int = 1) -> Wording:
        """The `most` commonest words; pairs that came at least `least` times. A rarer word parts a sentence."""
        found = Counter(word for sentence in sentences for word in sentence)
        names = [START, *(word for word, _ in found.most_common(most))]
        numbers = {name: i for i, name in enumerate(names, 1)}
        return cls(names, Spelling.of(_parted(sentences, numbers), len(names), order=2, least=least))

    def logp(self, before: str, word: str, letters: float) -> float:
        """log p(word), `letters` being log p of its letters and the space after them."""
        number = self._numbers.get(word)
        if number is None:
            return letters - math.log(2)
        known = self._numbers.get(before)
        p = self.pairs.logp(() if known is None else (known,), number)
        high, low = max(p, letters), min(p, letters)
        return high + math.log1p(math.exp(low - high)) - math.log(2)

    def write(self, folder: Path) -> None:
        (folder / NAMES).write_text("\n".join(self.names) + "\n", encoding="utf-8")
        self.pairs.write(folder / PAIRS)

    @classmethod
    def read(cls, names: Path, pairs: Path) -> Wording:
        try:
            text = names.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{names} cannot be read ({str(error)[:60]})", "save the model again") from None
        return cls(text.removesuffix("\n").split("\n"), Spelling.read(pairs))


def _parted(sentences: Iterable[Sequence[str]], numbers: dict[str, int]) -> Iterable[list[int]]:
    for sentence in sentences:
        run = [numbers[START]]
        for word in sentence:
            if word in numbers:
                run.append(numbers[word])
            else:
                yield run
                run = []
        yield run
