"""What commands are: words, names, looks, environments."""

from __future__ import annotations

import pytest

from glassformer.worked.read.tokens import lex


def kinds(source: str) -> list[str]:
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
    assert kinds(source) == tokens
