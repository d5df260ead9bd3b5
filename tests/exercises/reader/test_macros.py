"""LaTeX files: preamble and comments go, own commands are expanded, lines stay."""

from __future__ import annotations

from glassformer.exercises.reader.macros import body, is_latex

FILE = r"""\documentclass{article}
\newcommand{\R}{\mathbb{R}}
\newcommand{\mat}[1]{\begin{bmatrix} #1 \end{bmatrix}}
\def\two{2}
\DeclareMathOperator{\soft}{softmax}
\begin{document}
$x$ % not $y$
$\mat{1 & \two}$ and $\soft(S)$, 50\% of $\R$
\end{document}
$z$
"""


def test_body() -> None:
    lines = body(FILE).split("\n")
    assert lines[6] == "$x$ "
    assert lines[7] == r"$\begin{bmatrix} 1 & 2 \end{bmatrix}$ and $\operatorname{softmax}(S)$, 50\% of $\mathbb{R}$"
    assert "z" not in "".join(lines[5:])
    assert is_latex(FILE)


def test_markdown_keeps_its_percent_signs() -> None:
    assert body("50% of $x$") == "50% of $x$"
    assert not is_latex("50% of $x$")


def test_commands_that_use_themselves_end() -> None:
    text = r"\newcommand{\a}{\b\b\b\b}\newcommand{\b}{\a\a\a\a}" + r"$\a$ " * 2000
    assert len(body(text)) < 5_000_000


def test_a_use_without_its_argument_stays() -> None:
    assert body(r"\newcommand{\f}[1]{(#1)} $\f$") == r" $\f$"
