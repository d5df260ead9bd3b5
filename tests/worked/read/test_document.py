"""Cutting documents: where mathematics begins and ends."""

from __future__ import annotations

import pytest

from glassformer.worked.read.document import pieces

ONE = r"\begin{bmatrix}1\end{bmatrix}"


def cut(text: str) -> list[tuple[str, str]]:
    return [(piece.kind, piece.text.strip()) for piece in pieces(text) if piece.text.strip()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("so $x = 1$.", [("prose", "so"), ("inline", "x = 1"), ("prose", ".")]),
        (r"so \(x = 1\)", [("prose", "so"), ("inline", "x = 1")]),
        ("$$x = 1$$", [("display", "x = 1")]),
        (r"\[x = 1\]", [("display", "x = 1")]),
        (r"\begin{align*}a&=1\end{align*}", [("display", r"\begin{align*}a&=1\end{align*}")]),
        ("it costs $5 and then $10", [("prose", "it costs $5 and then $10")]),
        (r"a \$5 note", [("prose", r"a \$5 note")]),
        ("```\nQ = 1\n```\nend", [("code", "Q = 1"), ("prose", "end")]),
        ("a `x = 1` b", [("prose", "a"), ("code", "x = 1"), ("prose", "b")]),
        ("a <!-- $x = 1$ --> b", [("prose", "a"), ("prose", "b")]),
        ("![a scan](scan.png)", [("picture", "![a scan](scan.png)")]),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n\nend", [("table", "| a | b |\n|---|---|\n| 1 | 2 |"), ("prose", "end")]),
        ("a\tb\n1\t2\nend", [("table", "a\tb\n1\t2"), ("prose", "end")]),
        (r"\begin{tabular}{cc}1&2\end{tabular}", [("tabular", "{cc}1&2")]),
        (r"\begin{verbatim}Q = 1\end{verbatim}", [("code", "Q = 1")]),
        ("open $$x = 1\n\nnext", [("prose", "open"), ("open", "x = 1"), ("prose", "next")]),
        (
            "$$a = 1\n\nhere we have some more words, then\n\n$$b = 2$$",
            [("open", "a = 1"), ("prose", "here we have some more words, then"), ("display", "b = 2")],
        ),
        (f"so Q = {ONE} {ONE} = {ONE}", [("prose", "so"), ("display", f"Q = {ONE} {ONE} = {ONE}")]),
    ],
)
def test_pieces(text: str, expected: list[tuple[str, str]]) -> None:
    assert cut(text) == expected


def test_lines() -> None:
    text = "one\n\n$$a\n= 1$$\ntwo $b$\n\n```\nc = 2\n```\n"
    assert [(piece.kind, piece.line) for piece in pieces(text) if piece.text.strip()] == [
        ("prose", 1), ("display", 3), ("prose", 4), ("inline", 5), ("code", 8),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["~~$x = 1$~~ $y = 2$", "<del>$x = 1$</del> $y = 2$", "<s>a $x = 1$</s> $y = 2$"])
def test_crossed_out(text: str) -> None:
    assert [piece.crossed for piece in pieces(text) if piece.kind == "inline"] == [True, False]


def test_a_strike_that_never_closes_is_none() -> None:
    assert not any(piece.crossed for piece in pieces("about ~~5 $x = 1$\n\n$y = 2$ ~~"))


def test_nothing_is_lost() -> None:
    text = "a $x$ b $$y$$ c `d` e\n"
    assert "".join(piece.text for piece in pieces(text)) == "a x b y c d e\n"
