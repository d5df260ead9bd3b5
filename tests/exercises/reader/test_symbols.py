"""Which letters are one name and which are a product."""

from __future__ import annotations

import pytest

from glassformer.exercises.reader.symbols import GREEK, OPERATORS, RELATIONS, split_letters


@pytest.mark.parametrize(
    ("run", "pieces"),
    [
        ("Q", ["Q"]),
        ("QK", ["Q", "K"]),
        ("XWQ", ["X", "WQ"]),
        ("AV", ["A", "V"]),
        ("qk", ["q", "k"]),
        ("out", ["out"]),
        ("scores", ["scores"]),
        ("softmax", ["softmax"]),
        ("Attention", ["Attention"]),
        ("FFN", ["FFN"]),
        ("ND", ["N", "D"]),
        ("dk", ["dk"]),
    ],
)
def test_split(run: str, pieces: list[str]) -> None:
    assert split_letters(run) == pieces
    assert "".join(split_letters(run)) == run


def test_greek_has_both_cases() -> None:
    assert GREEK["Omega"] == "Ω"
    assert GREEK["beta"] == "β"


def test_no_sign_is_both_relation_and_operator() -> None:
    assert not set(RELATIONS) & set(OPERATORS)
