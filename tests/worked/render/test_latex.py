from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from glassformer.worked import library
from glassformer.worked.arithmetic import EXACT
from glassformer.worked.display import tree
from glassformer.worked.expression import evaluate, parse
from glassformer.worked.render import render
from glassformer.worked.render.latex import escape, number
from glassformer.worked.solve import solve


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("-3/4", r"-\frac{3}{4}"),
        ("2*sqrt(3)", r"2 \sqrt{3}"),
        ("exp(2)/(1+exp(1))", r"\frac{e^{2}}{e + 1}"),
        ("(1+sqrt(5))/2", r"\frac{1 + \sqrt{5}}{2}"),
        ("exp(-1/2)", r"e^{-\frac{1}{2}}"),
        ("sin(1)", r"\sin\left(1\right)"),
    ],
)
def test_numbers(expression: str, expected: str) -> None:
    assert number(tree(evaluate(parse(expression), EXACT))) == expected


def test_words_are_escaped() -> None:
    assert escape("50 % of a_b & {x}") == r"50 \% of a\_b \& \{x\}"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
@pytest.mark.parametrize("name", library.names())
def test_it_compiles(name: str, tmp_path: Path) -> None:
    source = tmp_path / "solution.tex"
    source.write_text(render(solve(library.get(name)), "latex"), encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", source.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "solution.pdf").stat().st_size > 1000
    assert "Overfull \\hbox" not in done.stdout  # nothing runs off the page
