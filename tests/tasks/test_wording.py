from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import CheckpointError, ConfigError
from glassformer.tasks.spelling import Spelling
from glassformer.tasks.wording import NAMES, PAIRS, START, Wording

LINES = [line.split() for line in ("press one", "press two", "press one now", "say one", "rare press")]


def test_half_by_the_word_before_and_half_by_letters() -> None:
    """By hand, as Witten and Bell do: p(one | press) = (2 + 2 p(one)) / (3 + 2)."""
    wording = Wording.of(LINES, most=10)
    assert sorted(wording.names) == ["", "now", "one", "press", "rare", "say", "two"]
    p0 = 1 / 7
    one = (3 + 7 * p0) / (16 + 7)  # 11 words and 5 beginnings, 7 kinds
    known = (2 + 2 * one) / (3 + 2)  # press was followed thrice, by one and by two
    assert math.exp(wording.logp("press", "one", math.log(0.1))) == pytest.approx(known / 2 + 0.05)
    assert math.exp(wording.logp("never heard", "one", math.log(0.1))) == pytest.approx(one / 2 + 0.05)
    assert math.exp(wording.logp("press", "pressed", math.log(0.1))) == pytest.approx(0.05)


def test_all_words_together_are_sure() -> None:
    wording = Wording.of(LINES, most=10)
    for before in (START, "press", "now"):
        total = sum(2 * math.exp(wording.logp(before, name, -math.inf)) for name in wording.names)
        assert total == pytest.approx(1)


def test_rare_words_part_sentences() -> None:
    wording = Wording.of([*LINES, ["one", "rare", "rare"]], most=3)
    assert set(wording.names) == {START, "press", "one", "rare"}
    assert wording.pairs.counts.get(_run(wording, "one", "rare")) == 1
    assert _run(wording, "rare", "one") not in wording.pairs.counts


def _run(wording: Wording, *words: str) -> int:
    first, second = (wording.names.index(word) + 1 for word in words)
    return first * (len(wording.names) + 1) + second


def test_written_and_read(tmp_path: Path, refused: Any) -> None:
    wording = Wording.of(LINES, most=10, least=1)
    wording.write(tmp_path)
    again = Wording.read(tmp_path / NAMES, tmp_path / PAIRS)
    assert again.names == wording.names
    assert again.pairs.counts == wording.pairs.counts
    refused(ConfigError, "2 words (1 different)", lambda: Wording(["a", "a"], Spelling(2, 2, {})))
    none = tmp_path / "none"
    refused(CheckpointError, f"{none} cannot be read", lambda: Wording.read(none, tmp_path / PAIRS))
