"""Expressions of random shape, printed in three styles, read back: the value is what Python's own floats make of it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.worked.read.balls import Grid
from glassformer.worked.read.chain import formula
from glassformer.worked.read.evaluate import evaluate
from glassformer.worked.read.parse import Parser
from glassformer.worked.read.stream import Misread
from glassformer.worked.read.term import Unknown, walk
from glassformer.worked.read.tokens import lex


@dataclass(frozen=True)
class Shown:
    """An expression as LaTeX, as plain text and with unicode, and its value."""

    latex: str
    plain: str
    signs: str
    value: float
    loose: bool = False  # needs brackets inside a product

    def bracketed(self) -> Shown:
        if not self.loose:
            return self
        return Shown(rf"\left( {self.latex} \right)", f"({self.plain})", f"({self.signs})", self.value)


def number(value: float) -> Shown:
    text = f"{value}"
    return Shown(text, text, text, value)


numbers = st.one_of(st.integers(0, 20), st.decimals(0, 9, places=4).map(float)).map(number)


def added(parts: list[tuple[bool, Shown]]) -> Shown:
    latex, plain, signs, value = parts[0][1].latex, parts[0][1].plain, parts[0][1].signs, parts[0][1].value
    for minus, part in parts[1:]:
        part = part.bracketed() if minus else part
        latex += f" {'-' if minus else '+'} {part.latex}"
        plain += f" {'-' if minus else '+'} {part.plain}"
        signs += f" {'−' if minus else '+'} {part.signs}"
        value += -part.value if minus else part.value
    return Shown(latex, plain, signs, value, True)


def multiplied(parts: list[Shown]) -> Shown:
    parts = [part.bracketed() for part in parts]
    return Shown(
        r" \cdot ".join(p.latex for p in parts), "*".join(p.plain for p in parts), "·".join(p.signs for p in parts),
        math.prod(p.value for p in parts),
    )  # fmt: skip


def divided(top: Shown, bottom: Shown) -> Shown:
    t, b = top.bracketed(), bottom.bracketed()
    return Shown(
        rf"\frac{{{top.latex}}}{{{bottom.latex}}}", f"({t.plain})/({b.plain})", f"({t.signs})÷({b.signs})",
        top.value / bottom.value if bottom.value else math.nan,
    )  # fmt: skip


def rooted(x: Shown) -> Shown:
    value = math.sqrt(x.value) if x.value >= 0 else math.nan
    return Shown(rf"\sqrt{{{x.latex}}}", f"sqrt({x.plain})", f"√({x.signs})", value)


def exponential(x: Shown) -> Shown:
    value = math.exp(x.value) if abs(x.value) < 50 else math.nan
    return Shown(f"e^{{{x.latex}}}", f"exp({x.plain})", rf"\exp({x.signs})", value)


def squared(x: Shown) -> Shown:
    return Shown(f"{{\\left( {x.latex} \\right)}}^{{2}}", f"({x.plain})**2", f"({x.signs})²", x.value**2)


expressions = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.lists(st.tuples(st.booleans(), inner), min_size=2, max_size=4).map(added),
        st.lists(inner, min_size=2, max_size=3).map(multiplied),
        st.builds(divided, inner, inner),
        inner.map(rooted),
        inner.map(exponential),
        inner.map(squared),
    ),
    max_leaves=8,
)


def value_of(source: str) -> float:
    read = formula(source)
    assert not read.problems, read.problems
    value = evaluate(read.drafts[0].terms[0].term, slack=Fraction(0))
    assert not isinstance(value, Grid)
    return float(value.mid())


@given(expressions)
def test_any_expression_in_three_styles(shown: Shown) -> None:
    if not math.isfinite(shown.value) or abs(shown.value) > 1e12:
        return
    for source in (shown.latex, shown.plain, shown.signs):
        assert value_of(source) == pytest.approx(shown.value, rel=1e-6, abs=1e-6)


matrices = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.lists(st.integers(-9, 9), min_size=width, max_size=width), min_size=1, max_size=3)
)


STYLES = ("bmatrix", "pmatrix", "matrix", "vmatrix", "smallmatrix", "array", "commas", "list", "numpy")


@given(matrices, st.sampled_from(STYLES))
def test_any_matrix_in_nine_styles(rows: list[list[int]], style: str) -> None:
    body = r" \\ ".join(" & ".join(map(str, row)) for row in rows)
    if style == "array":
        source = rf"\left[\begin{{array}}{{{'c' * len(rows[0])}}} {body} \\ \end{{array}}\right]"
    elif style == "commas":
        source = r"\begin{bmatrix}" + r" \\ ".join(", ".join(map(str, row)) for row in rows) + r"\end{bmatrix}"
    elif style == "list":
        source = str(rows)
    elif style == "numpy":
        source = "[" + "\n ".join("[" + " ".join(map(str, row)) + "]" for row in rows) + "]"
    else:
        source = rf"\begin{{{style}}} {body} \end{{{style}}}"
    read = formula(source)
    assert not read.problems
    value = evaluate(read.drafts[0].terms[0].term)
    grid = value if isinstance(value, Grid) else Grid(((value,),))
    assert [[int(cell.unique_fmpz()) for cell in row] for row in grid.rows] == rows


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("-2^2", -4),
        ("2^-1", 0.5),
        ("2**3**2", 512),
        (r"1/2/2", 0.25),
        (r"2\sqrt{4}", 4),
        (r"2 \cdot -3", -6),
        (r"\sqrt[3]{8}", 2),
        (r"\log_2 8", 3),
        (r"\ln e", 1),
        (r"|1 - 3|", 2),
        (r"[1, 2] \cdot [3, 4]", 11),
        (r"\max(1, 3, 2)", 3),
        ("3!", 6),
        (r"\tfrac12 \cdot 4", 2),
        ("50%", 0.5),
        (r"\cancel{3} + 1", 4),
    ],
)
def test_precedence_and_functions(source: str, value: float) -> None:
    assert value_of(source) == pytest.approx(value)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("2 3", "no sign before it"),
        (r"1\frac{1}{2}", "mixed number"),
        (r"\foo{3}", r"\\foo is not known"),
        (r"2 \pm 1", "two numbers"),
        ("1 +", "missing"),
        ("[101211]", "6 digits side by side"),
        ("9" * 90, "a number of 90 digits"),
        ("1" + "/2" * 60, "quotients in a row"),
        ("-" * 60 + "1", "signs in a row"),
        ("x" + "^T" * 60, "scripts"),
        ("√" * 2000 + "3", "nested"),
        (r"\sqrt" * 2000 + "3", "nested"),
        (r"\hat" * 2000 + "x", "nested"),
        (r"\exp " * 2000 + "3", "nested"),
        ("K^{}", "empty"),
    ],
)
def test_what_is_not_read_says_why(source: str, reason: str) -> None:
    read = formula(source)
    assert any(re.search(reason, problem[2]) for problem in read.problems), read.problems


def test_a_part_that_is_not_read_leaves_the_rest() -> None:
    tokens = lex(r"\begin{bmatrix} 1 & 2 \\ \foo & 4 \end{bmatrix} .1")
    parser = Parser(tokens)
    term = parser.within(0, len(tokens.items))
    assert sum(isinstance(part, Unknown) for part in walk(term)) == 2
    assert len(parser.problems) == 2


def test_within_wants_all_of_the_range() -> None:
    tokens = lex("1 = 2")
    with pytest.raises(Misread, match="not expected"):
        Parser(tokens).within(0, 3)
