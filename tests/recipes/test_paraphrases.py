"""Oracles: pairs made by hand, scikit-like TF-IDF by hand, brute force for the nearest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import paraphrases as p
import pytest

from glassformer.errors import InputError

PAIRS = [
    ("Go!", "Va !"),
    ("go.", "Allez !"),
    ("Leave.", "Va !"),
    ("Walk on.", "Allez !"),
    ("I am cold.", "J'ai froid."),
    ("I'm cold.", "J'ai froid !"),
    ("I am hungry.", "J'ai faim."),
    ("The dog is hungry.", "Le chien a faim."),
]


def test_what_shares_a_translation_means_the_same() -> None:
    found = p.paraphrases(PAIRS)
    assert found.texts == ["Go!", "Leave.", "Walk on.", "I am cold.", "I'm cold.", "I am hungry.", "The dog is hungry."]
    assert found.same == [{1, 2}, {0}, {0}, {4}, {3}, set(), set()]
    assert found.pairs() == [(0, 1), (0, 2), (3, 4)]
    assert found.cluster[1] == found.cluster[2] == found.cluster[0]  # a chain, though they share nothing
    assert len(set(found.cluster)) == 4


def test_clusters_are_never_parted() -> None:
    many = p.paraphrases((f"sentence {i} {j}", f"phrase {i}") for i in range(300) for j in range(1 + i % 3))
    test = p.held_out(many, 0.3, 0.1)
    for i, others in enumerate(many.same):
        assert {test[j] for j in others} <= {test[i]}
    paired = [held for held, others in zip(test, many.same, strict=True) if others]
    alone = [held for held, others in zip(test, many.same, strict=True) if not others]
    assert 0.2 < np.mean(paired) < 0.4
    assert 0.03 < np.mean(alone) < 0.2


def test_bags_by_hand() -> None:
    B = p.bags(["the cat", "the the dog"]).toarray()
    assert B[0] == pytest.approx([1 / math.sqrt(2)] * 2 + [0])
    assert B[1] == pytest.approx([2 / math.sqrt(5), 0, 1 / math.sqrt(5)])
    known = ["the cat", "the dog", "the end"]
    weight = {"the": math.log(4 / 4), "cat": math.log(4 / 2), "dog": math.log(4 / 2)}
    B = p.bags(["the cat", "cat dog"], known).toarray()
    assert B[0] == pytest.approx([weight["the"], 1, 0])
    assert B[1] == pytest.approx([0, 1 / math.sqrt(2), 1 / math.sqrt(2)])


def test_retrieval_counts_neither_self_nor_the_rest_of_the_cluster() -> None:
    found = p.paraphrases(PAIRS)
    test = p.retrieval(found, range(len(found.texts)))
    assert test.queries == [0, 1, 2, 3, 4]
    X = np.eye(7, dtype=np.float32)
    X[1] = X[2] = [0.1, 0.7, 0.7, 0, 0, 0, 0]  # Leave and Walk on are nearest to each other: not asked for
    X[5] = [0, 0, 0, 1, 0, 0, 0]  # I am hungry looks like I am cold
    found_rank = test.score(X)
    # 0, 1, 2: the first; 3 and 4: their right one has 0, as all five wrong ones or four of them have
    expected = [1, 1, 1, 1 / 6, 1 / 6]
    assert found_rank["mean_reciprocal_rank"] == pytest.approx(np.mean(expected))
    assert found_rank["nearest"] == pytest.approx(3 / 5)
    bag = p.bags(test.texts)
    assert test.score(bag) == pytest.approx(test.score(bag.toarray()))


def test_hard_queries_share_few_words() -> None:
    found = p.paraphrases(PAIRS)
    test = p.retrieval(found, range(len(found.texts)))
    assert test.hard() == [0, 1, 2]  # {i, am, cold} and {i, m, cold} share 2 of 4, which is not less than half
    words = [set(p.tokens(text)) for text in test.texts]
    assert len(words[3] & words[4]) / len(words[3] | words[4]) == 0.5


def test_lookalikes_are_of_another_cluster() -> None:
    found = p.paraphrases(PAIRS)
    alike = p.lookalikes(found, [3, 5], range(7))
    assert found.texts[alike[3]] == "I am hungry."
    assert found.texts[alike[5]] == "I am cold."


def test_what_is_refused(refused: Any) -> None:
    lonely = p.retrieval(p.paraphrases(PAIRS[-2:]), [0, 1])
    refused(InputError, "0 queries", lambda: lonely.score(np.eye(2, dtype=np.float32)))
