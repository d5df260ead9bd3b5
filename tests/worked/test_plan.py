from __future__ import annotations

from dataclasses import replace

import pytest
from flint import arb, fmpq

from glassformer.errors import InputError
from glassformer.worked import library
from glassformer.worked.arithmetic import BALLS, EXACT, FLOATS
from glassformer.worked.matrix import Matrix
from glassformer.worked.numbers import MASKED, Exact
from glassformer.worked.plan import Operation, evaluate, plan

FOUR = plan(library.get("four-tokens"))


def exact(rows: list[list[int]]) -> Matrix[Exact]:
    return Matrix.of(rows).map(Exact)


def test_symbols_and_operations() -> None:
    assert FOUR.symbols == ("Q", "K", "V", "S", "E", "Z", "A", "H", "O")
    assert FOUR["S"] == Operation("S", "matmul", ("Q", "K^T"))
    assert FOUR["S"].formula == "Q·Kᵀ"
    assert FOUR["S"].inputs == ("Q", "K")
    assert FOUR.output == "O"
    assert FOUR.before("S") == {"Q", "K", "X", "WQ", "WK"}
    assert FOUR.after("A") == ("H", "O")
    with pytest.raises(InputError, match="choose from Q"):
        FOUR["B"]


@pytest.mark.parametrize("name", library.names())
def test_every_arithmetic_agrees(name: str) -> None:
    """Balls, which take the tight way, enclose the exact values; floats are near."""
    made = plan(library.get(name))
    values, balls, floats = (evaluate(made, arithmetic) for arithmetic in (EXACT, BALLS, FLOATS))
    for symbol in made.symbols:
        for i, j, x in values[symbol].cells():
            if x is MASKED:
                assert balls[symbol][i, j] is MASKED
                continue
            assert balls[symbol][i, j].overlaps(x.ball_at(128)), (symbol, i, j)
            assert balls[symbol][i, j].rel_accuracy_bits() > 90 or abs(float(x)) < 1e-15, (symbol, i, j)
            assert floats[symbol][i, j] == pytest.approx(float(x), rel=1e-10, abs=1e-11)


def test_given_values_carry_through() -> None:
    """A wrong S changes A and H as if it were right, and leaves Q alone."""
    wrong = exact([[0, 0, 0, 0]] * 4)
    values = evaluate(FOUR, EXACT, {"S": wrong})
    assert values["A"] == Matrix.of([[Exact(1) / 4] * 4] * 4)
    assert values["H"][0, 1] == 1
    assert values["Q"] == evaluate(FOUR, EXACT)["Q"]


def test_cells_left_open_are_computed() -> None:
    row = Matrix.of([[None, Exact(0), None, None]] + [[None] * 4] * 3)
    values = evaluate(FOUR, EXACT, {"S": row})
    assert values["S"].rows[0] == (Exact(1), Exact(0), Exact(0), Exact(1))
    assert values["S"].rows[1] == (Exact(2), Exact(4), Exact(0), Exact(2))


def test_written_sums_are_used_where_there_are_any() -> None:
    """With balls the weights come from S; a written Z or E takes over."""
    Z = Matrix.of([[arb(10)]] * 4)
    values = evaluate(FOUR, BALLS, {"Z": Z})
    assert values["A"][0, 2].overlaps(arb(fmpq(1, 10)))
    E = Matrix.of([[arb(1)] * 4] * 4)
    values = evaluate(FOUR, BALLS, {"E": E})
    assert values["A"][0, 1].overlaps(arb(fmpq(1, 4)))


def test_until_stops() -> None:
    assert "A" not in evaluate(FOUR, EXACT, until=lambda symbol: symbol == "S")


def test_edited_plans_do_as_they_say() -> None:
    """Slips are edits: K not transposed, softargmax over columns, exponentials not normalised, other weights."""
    right = evaluate(FOUR, EXACT)
    by_column = FOUR.with_params(["Z", "A"], axis="columns")
    for arithmetic in (EXACT, BALLS):
        values = evaluate(by_column, arithmetic)
        assert float(sum((row[0] for row in values["A"]), arithmetic.rational(0))) == pytest.approx(1)
    only_sum = FOUR.with_params(["Z"], axis="columns")  # Z is now a row under E
    tight, plain = evaluate(only_sum, BALLS)["A"], evaluate(only_sum, EXACT)["A"]
    assert all(tight[i, j].overlaps(x.ball_at(128)) for i, j, x in plain.cells())
    plain_copy = FOUR.replace(Operation("A", "copy", ("E",)))
    assert evaluate(plain_copy, EXACT)["A"] == right["E"]
    swapped = FOUR.with_given({"WQ": FOUR.given["WK"]})
    assert evaluate(swapped, EXACT)["Q"] == right["K"]
    with pytest.raises(InputError):
        FOUR.replace(Operation("B", "copy", ("E",)))


def test_plans_are_values() -> None:
    assert plan(library.get("four-tokens")) == FOUR
    assert replace(FOUR["S"], operands=("Q", "K")) != FOUR["S"]
