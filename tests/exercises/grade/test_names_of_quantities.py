"""Names as learners write them."""

from __future__ import annotations

import pytest

from glassformer.exercises.grade.vocabulary import subject, topics
from glassformer.exercises.reader import read


def bases(text: str) -> tuple[str, ...] | None:
    target = read(f"$${text} = 1$$").statements[0].target
    assert target is not None
    found = subject(target.term)
    return None if found is None else found.bases


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("Q", "Q"), ("q_1", "Q"), (r"\Omega_2", "Q"), ("QK^T", "QKt"), ("Q_iK_i^{\\top}", "QKt"), ("S", "S"),
        (r"\alpha_2 k_2^T", "QKt"), (r"q_1 \cdot k_2", "QKt"), (r"\frac{QK^T}{\sqrt{d_k}}", "S"), ("w_{1,2}", "A"),
        (r"\alpha_{12}", "A"), (r"\text{softmax}(S)", "A"), (r"\mathrm{softmax}(S)V", "H"), ("AV", "H"),
        (r"\mathrm{head}_1", "H"), ("out_1", "O"), (r"\mathrm{Concat}(h_1, h_2)", "C"), ("W_Q", "WQ"), ("W_1^K", "WK"),
        (r"W^O", "WO"), ("XW_Q", "Q"), (r"\sigma^2", "var"), (r"\mu", "mu"), ("e^{s_{11}}", "E"), ("p_0", "P"),
        (r"\mathrm{MultiHead}(Q,K,V)", "O"), ("X + O", "R"), (r"\hat{S}", "Su"), (r"\sum_j e^{s_{1j}}", "Z"),
    ],
)  # fmt: skip
def test_a_name_is_its_symbol(text: str, base: str) -> None:
    found = bases(text)
    assert found is not None
    assert found[0] == base


@pytest.mark.parametrize("text", ["foo", "x_1 y_1", "3N'D^2"])
def test_what_is_not_known_is_none(text: str) -> None:
    assert bases(text) is None


def test_the_scores_of_two_tokens_are_a_cell() -> None:
    target = read(r"$q_2 \cdot k_3 = 1$").statements[0].target
    assert target is not None
    found = subject(target.term)
    assert found is not None
    assert found.indices == (2, 3)


def test_topics_are_the_last_mentioned_first() -> None:
    assert topics("Now the queries, then apply softmax")[0] == "A"
    assert topics("So, the confusion matrix is:")[0] == "S"
    assert topics("nothing of the kind") == ()
