"""The lexer: kinds, lines, numbers, brackets."""

from __future__ import annotations

import pytest

from glassformer.worked.read.tokens import closing_brace, lex


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


def test_closing_brace_skips_escapes() -> None:
    assert closing_brace(r"{a\}b{c}}d", 0) == 8
    assert closing_brace("{a", 0) == -1
