"""Matrices drawn over several lines."""

from __future__ import annotations

import sympy
from hypothesis import given
from hypothesis import strategies as st

from glassformer.exercises.reader import brackets


def test_matrices_are_put_on_the_line_of_their_equation() -> None:
    text = "\n".join(["Title", "           ⎡1  0⎤", "S = √2/2 · ⎢0  1⎥ = [5]", "           ⎣1  2⎦", "", "end"])
    inlined = brackets.inline(text).split("\n")
    assert inlined == ["Title", "", "S = √2/2 · [[1, 0], [0, 1], [1, 2]] = [5]", "", "", "end"]


def test_equations_under_each_other_stay_apart() -> None:
    text = "Q = ⎡1⎤\n    ⎣2⎦\n  = ⎡3⎤\n    ⎣4⎦"
    assert brackets.inline(text).split("\n") == ["Q = [[1], [2]]", "", "  = [[3], [4]]", ""]


def test_what_is_not_closed_is_left_alone() -> None:
    text = "⎡1  2⎤\n⎢3  4\n⎣"
    assert brackets.inline(text) == text


@given(st.lists(st.lists(st.integers(-99, 99), min_size=2, max_size=2), min_size=2, max_size=5))
def test_matrices_that_sympy_prints(rows: list[list[int]]) -> None:
    drawn = sympy.pretty(sympy.Matrix(rows), use_unicode=True)
    shown = [line for line in brackets.inline(drawn).split("\n") if line]
    assert shown == [str(rows)]


@given(st.text("⎡⎢⎣⎤⎥⎦⎛⎜⎝⎞⎟⎠ 1\n", max_size=60))
def test_any_text_keeps_its_lines(text: str) -> None:
    assert brackets.inline(text).count("\n") == text.count("\n")
