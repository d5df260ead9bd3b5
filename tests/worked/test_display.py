from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.worked.arithmetic import EXACT
from glassformer.worked.display import MINUS_INFINITY, Exp, Frac, Neg, Num, Prod, Root, Sum, size, text, tree
from glassformer.worked.expression import evaluate, parse
from glassformer.worked.numbers import MASKED, Exact

ROOT3 = Exact(3).sqrt()
E = Exact(1).exp()


@pytest.mark.parametrize(
    ("x", "shown"),
    [
        (Exact(0), Num(0)),
        (Exact(-2), Neg(Num(2))),
        (1 / ROOT3, Frac(Root(Num(3)), Num(3))),
        (26 * ROOT3, Prod((Num(26), Root(Num(3))))),
        (E, Exp(Num(1))),
        (ROOT3 - 1, Sum((Root(Num(3)), Neg(Num(1))))),
        (1 / (E + 1), Frac(Num(1), Sum((Exp(Num(1)), Num(1))))),
    ],
)
def test_tree(x: Exact, shown: object) -> None:
    assert tree(x) == shown


def test_masked() -> None:
    assert tree(MASKED) == MINUS_INFINITY
    assert text(MINUS_INFINITY) == "-inf"


@pytest.mark.parametrize(
    "x",
    [
        (1 + Exact(5).sqrt()) / 2,
        -E / (E + 1),
        -(E + 1),
        (E + ROOT3) / (2 * E * E + 1) - ROOT3 / 2,
        (1 + 1 / (E + 1)).sqrt() * 3,
        1 / (1 + 1 / (E + 1)).sqrt(),
        (E + 1) ** 6,
        Exact(1).sin() / 2 - Exact(2).cos() ** 2,
        (Exact(1).sin() + 1).exp(),
        Exact(2).root(3) / (ROOT3 * E),
        -(E - 2) / (E + 5) ** 2,
        Exact(-3).exp(),
    ],
    ids=str,
)
def test_text_reads_back_as_the_same_number(x: Exact) -> None:
    assert evaluate(parse(text(tree(x))), EXACT) == x


coefficients = st.integers(-4, 4).map(Exact)
terms = st.tuples(coefficients, st.sampled_from([1, 2, 3]), st.integers(-2, 2)).map(
    lambda t: t[0] * Exact(t[1]).sqrt() * Exact(t[2]).exp() / 3
)
sums = st.lists(terms, min_size=1, max_size=3).map(lambda many: sum(many, Exact(0)))


@given(sums, sums.filter(bool), sums)
def test_any_quotient_reads_back(a: Exact, b: Exact, c: Exact) -> None:
    x = a / b + c
    assert evaluate(parse(str(x)), EXACT) == x


def test_size_counts_signs() -> None:
    assert size(tree(Exact(2))) == 1
    assert size(tree(E)) == 2
    assert size(tree(1 / (E + 1))) < size(tree(1 / (E * E + E + 1)))
