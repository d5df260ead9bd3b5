"""Oracles: sacrebleu's own functions, counts by hand, exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.pipelines import metrics

SAID = ["the cat sat on the mat", "he has gone home now", "a dog"]
MEANT = [["the cat sat on a mat", "the cat is on the mat"], ["he went home now"], ["a dog", "one dog", "the dog"]]


def test_bleu_and_chrf_are_sacrebleus() -> None:
    import sacrebleu

    single = [one[0] for one in MEANT]
    assert metrics.bleu(SAID, single) == pytest.approx(sacrebleu.corpus_bleu(SAID, [single]).score)
    assert metrics.chrf(SAID, single) == pytest.approx(sacrebleu.corpus_chrf(SAID, [single]).score)
    twice = [[one[0] for one in MEANT], [one[-1] for one in MEANT]]
    both = [list(one) for one in zip(*twice, strict=True)]
    assert metrics.bleu(SAID, both) == pytest.approx(sacrebleu.corpus_bleu(SAID, twice).score)


def test_another_reference_never_hurts_and_a_right_answer_is_100() -> None:
    assert metrics.chrf(SAID, MEANT) >= metrics.chrf(SAID, [one[0] for one in MEANT])
    right = [one[-1] for one in MEANT]
    assert metrics.chrf(right, MEANT) == pytest.approx(100)
    assert metrics.bleu(SAID, [[text] for text in SAID]) == pytest.approx(100)


def test_bleu_by_hand() -> None:
    """Ten words, one of them wrong: n-grams 9/10, 8/9, 7/8, 6/7 (the last word), and no penalty."""
    meant = ["a b c d e f g h i j"]
    assert metrics.bleu(["a b c d e f g h i x"], meant) == pytest.approx(
        100 * float(Fraction(9, 10) * Fraction(8, 9) * Fraction(7, 8) * Fraction(6, 7)) ** 0.25
    )


def test_words_in_error() -> None:
    assert metrics.word_error_rate(["the cat sat"], ["the cat sat"]) == 0
    assert metrics.word_error_rate(["the cat", "a b c"], ["the cat sat", "a x c"]) == pytest.approx(2 / 6)
    assert metrics.word_error_rate(["a b c d"], ["a"]) == 3  # more wrong than there is


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_word_errors_are_a_distance(a: list[int], b: list[int]) -> None:
    """Against the textbook recursion."""

    def distance(i: int, j: int, known: dict[tuple[int, int], int]) -> int:
        if (i, j) not in known:
            known[i, j] = (
                max(i, j)
                if not min(i, j)
                else min(
                    distance(i - 1, j, known) + 1,
                    distance(i, j - 1, known) + 1,
                    distance(i - 1, j - 1, known) + (a[i - 1] != b[j - 1]),
                )
            )
        return known[i, j]

    said, meant = " ".join(map(str, a)), " ".join(map(str, b))
    assert metrics.word_error_rate([said], [meant]) * len(b) == pytest.approx(distance(len(a), len(b), {}))


def test_bits_and_perplexity() -> None:
    assert metrics.bits_per_byte(8 * math.log(2), 4) == pytest.approx(2)
    assert metrics.perplexity(3 * math.log(7), 3) == pytest.approx(7)
    uniform = metrics.bits_per_byte(100 * math.log(256), 100)
    assert uniform == pytest.approx(8)
    assert metrics.perplexity(100 * math.log(256), 100) == pytest.approx(2**uniform)


def test_what_is_refused(refused: Any) -> None:
    refused(InputError, "there are 2 predictions for 1 references", lambda: metrics.word_error_rate(["a", "b"], ["a"]))
    refused(InputError, "there are 0 predictions", lambda: metrics.bleu([], []))
    refused(InputError, "an answer has 0 references", lambda: metrics.bleu(["a"], [[]]))
    refused(InputError, "the references have no words", lambda: metrics.word_error_rate(["a"], [""]))
    refused(InputError, "the text has 0 bytes", lambda: metrics.bits_per_byte(1.0, 0))
    refused(InputError, "there are 0 predictions", lambda: metrics.perplexity(1.0, 0))


texts = st.lists(st.sampled_from("abc"), max_size=6)


@given(texts, texts, texts)
def test_the_edit_distance_is_a_distance(a: list[str], b: list[str], c: list[str]) -> None:
    assert metrics.edit_distance(a, a) == 0
    assert metrics.edit_distance(a, b) == metrics.edit_distance(b, a)
    assert metrics.edit_distance(a, c) <= metrics.edit_distance(a, b) + metrics.edit_distance(b, c)
    assert abs(len(a) - len(b)) <= metrics.edit_distance(a, b) <= max(len(a), len(b))


def test_edit_distance_and_error_rate_by_hand() -> None:
    assert metrics.edit_distance(["the", "cat", "sat"], ["a", "cat", "sat", "down"]) == 2
    assert metrics.edit_distance("kitten", "sitting") == 3
    assert metrics.error_rate([(["a", "b"], ["a", "c"]), ([], ["d", "e"])]) == 3 / 4
    assert metrics.error_rate([]) == 0
