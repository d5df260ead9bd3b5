"""Real text that contenders answer: a novel and a phrase collection."""

from __future__ import annotations

import random
import re

from workloads import assets


def novel() -> str:
    from glassformer.data.sources.opening import unpack

    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(unpack("moby-dick").rglob("*.txt")))


def of_the_novel() -> list[str]:
    """The sentences of the novel, of two words or more."""
    found = [" ".join(s.split()) for s in re.split(r"(?<=[.!?])\s+", novel())]
    return [s for s in found if len(s.split()) > 1]


def sentences(count: int) -> list[str]:
    """Sentences of the novel and of the phrase collection in random order: from two words to a few hundred."""
    from glassformer.data.sources.opening import unpack

    phrases = (unpack("tatoeba-en-fr") / "train.tsv").read_text(encoding="utf-8").splitlines()
    found = of_the_novel()[: count // 2]
    found += list(dict.fromkeys(line.split("\t")[0] for line in phrases))[: count - len(found)]
    random.Random(assets.SEED).shuffle(found)
    assert len(found) == count, len(found)
    return found
