"""The lexer: kinds, lines, numbers, brackets."""

from __future__ import annotations

import pytest

from glassformer.exercises.reader.lexer import Misread, closing_brace, lex


def tokens_kinds(source: str) -> list[str]:
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
    assert tokens_kinds(source) == tokens


def test_lines_are_the_documents() -> None:
    tokens = lex("a\n= \\text{so\n\n} b", line=10).items
    assert [token.line for token in tokens] == [10, 11, 11, 13]


def test_closing_brace_skips_escapes() -> None:
    assert closing_brace(r"{a\}b{c}}d", 0) == 8
    assert closing_brace("{a", 0) == -1


def stream_kinds(source: str) -> list[str]:
    return [f"{token.kind}:{token.text}" for token in lex(source).items]


def test_ampersand_separates_in_matrices_aligns_at_relations_and_says_and_elsewhere() -> None:
    assert "op:&" in stream_kinds(r"\begin{bmatrix}1 & 2\end{bmatrix}")
    assert stream_kinds("a &= b") == ["name:a", "rel:=", "name:b"]
    assert "words:&" in stream_kinds("a = 1 & b = 2")


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
    assert stream_kinds("a {=} b") == ["name:a", "rel:=", "name:b"]


def commands_kinds(source: str) -> list[str]:
    return [f"{token.kind}:{token.text}" for token in lex(source).items]


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        (r"\text{ where } x", ["words:where", "name:x"]),
        (r"\text{out}_1", ["name:out", "op:_", "number:1"]),
        (r"\text{softmax} \left( x \right)", ["name:softmax", "open:(", "name:x", "close:("]),
        (r"\mathrm{head}_2", ["name:head", "op:_", "number:2"]),
        (r"\left. x \right|", ["name:x", "op:|"]),
        (r"\textcolor{red}{3}", ["open:{", "number:3", "close:{"]),
        (r"1 \label{eq:1} + 2 \tag{3} \nonumber", ["number:1", "op:+", "number:2"]),
        (r"1 \\[2pt] 2", ["number:1", "row:\\\\", "number:2"]),
        (r"\begin{array}{c|c} 1 \end{array}", ["begin:array", "number:1", "end:array"]),
        (r"\dfrac{1}{2}", ["cmd:frac", "open:{", "number:1", "close:{", "open:{", "number:2", "close:{"]),
        (r"a \quad b", ["name:a", "gap:quad", "name:b"]),
        (r"50\%", ["number:50", "op:%"]),
        (r"\overset{!}{=}", ["rel:="]),
        (r"a \xrightarrow{\text{softmax}} b", ["name:a", "rel:→", "name:b"]),
        ("x = 0.53 rounded", ["name:x", "rel:=", "number:0.53", "words:rounded"]),
        ("x = 0.53 (rounded)", ["name:x", "rel:=", "number:0.53", "words:(rounded)"]),
        ("for i", ["words:for", "name:i"]),
        ("out_1", ["name:out", "op:_", "number:1"]),
    ],
)
def test_commands(source: str, tokens: list[str]) -> None:
    assert commands_kinds(source) == tokens
