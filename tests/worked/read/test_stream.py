"""Brackets find their partners; alignment marks, indices and lone relations are tidied up."""

from __future__ import annotations

import pytest

from glassformer.worked.read.stream import Misread
from glassformer.worked.read.tokens import lex


def kinds(source: str) -> list[str]:
    return [f"{token.kind}:{token.text}" for token in lex(source).items]


def test_ampersand_separates_in_matrices_aligns_at_relations_and_says_and_elsewhere() -> None:
    assert "op:&" in kinds(r"\begin{bmatrix}1 & 2\end{bmatrix}")
    assert kinds("a &= b") == ["name:a", "rel:=", "name:b"]
    assert "words:&" in kinds("a = 1 & b = 2")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("(1 + 2", r"\( is never closed"),
        ("1 + 2)", r"\) closes nothing"),
        (r"\begin{bmatrix}1", "is never closed"),
        (r"\begin{bmatrix}1\end{pmatrix}", "is closed by"),
        ("{1]", "is closed by"),
        (r"\text{1", "brace"),
        ("(" * 60 + ")" * 60, "nested"),
    ],
)
def test_what_does_not_match(source: str, reason: str) -> None:
    with pytest.raises(Misread, match=reason):
        lex(source)


def test_half_open_intervals_match() -> None:
    assert lex("[0, 1)").match == {0: 4}


def test_a_relation_in_braces_is_a_relation() -> None:
    assert kinds("a {=} b") == ["name:a", "rel:=", "name:b"]
