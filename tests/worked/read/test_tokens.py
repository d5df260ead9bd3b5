"""The lexer: kinds, lines, numbers, brackets."""

from __future__ import annotations

import pytest

from glassformer.worked.read.tokens import Misread, closing_brace, lex


def kinds(source: str) -> list[str]:
    return [f"{token.kind}:{token.text}" for token in lex(source).items]


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("0.5", ["number:0.5"]),
        (".5", ["number:.5"]),
        ("0{,}5", ["number:0.5"]),
        (r"12\,000", ["number:12000"]),
        ("2e^2", ["number:2", "name:e", "op:^", "number:2"]),
        ("2e-05", ["number:2e-05"]),
        (r"\frac12", ["cmd:frac", "number:1", "number:2"]),
        ("14 x 14", ["number:14", "op:*", "number:14"]),
        ("a ≈ b", ["name:a", "rel:≈", "name:b"]),
        (r"\Rightarrow", ["rel:→"]),
        ("x²", ["name:x", "op:^", "open:{", "number:2", "close:{"]),
        ("9**2", ["number:9", "op:^", "number:2"]),
        ("½", ["open:(", "number:1", "op:/", "number:2", "close:("]),
        ("1 ... 4", ["number:1", "name:…", "number:4"]),
        ("w_1,2 = 3", ["name:w", "op:_", "name:1,2", "rel:=", "number:3"]),
    ],
)
def test_kinds(source: str, tokens: list[str]) -> None:
    assert kinds(source) == tokens


def test_lines_are_the_documents() -> None:
    tokens = lex("a\n= \\text{so\n\n} b", line=10).items
    assert [token.line for token in tokens] == [10, 11, 11, 13]


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


def test_closing_brace_skips_escapes() -> None:
    assert closing_brace(r"{a\}b{c}}d", 0) == 8
    assert closing_brace("{a", 0) == -1
