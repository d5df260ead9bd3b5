from __future__ import annotations

from dataclasses import replace

import pytest
from flint import arb, fmpq

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.arithmetic import EXACT, FLOATS, INTERVALS
from glassformer.exercises.exercise import from_data
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import MASKED, Exact
from glassformer.exercises.plan import Operation, evaluate, plan

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
    values, balls, floats = (evaluate(made, arithmetic) for arithmetic in (EXACT, INTERVALS, FLOATS))
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
    values = evaluate(FOUR, INTERVALS, {"Z": Z})
    assert values["A"][0, 2].overlaps(arb(fmpq(1, 10)))
    E = Matrix.of([[arb(1)] * 4] * 4)
    values = evaluate(FOUR, INTERVALS, {"E": E})
    assert values["A"][0, 1].overlaps(arb(fmpq(1, 4)))


def test_until_stops() -> None:
    assert "A" not in evaluate(FOUR, EXACT, until=lambda symbol: symbol == "S")


def test_edited_plans_do_as_they_say() -> None:
    """Slips are edits: K not transposed, softargmax over columns, exponentials not normalised, other weights."""
    right = evaluate(FOUR, EXACT)
    by_column = FOUR.with_params(["Z", "A"], axis="columns")
    for arithmetic in (EXACT, INTERVALS):
        values = evaluate(by_column, arithmetic)
        assert float(sum((row[0] for row in values["A"]), arithmetic.rational(0))) == pytest.approx(1)
    only_sum = FOUR.with_params(["Z"], axis="columns")  # Z is now a row under E
    tight, plain = evaluate(only_sum, INTERVALS)["A"], evaluate(only_sum, EXACT)["A"]
    assert all(tight[i, j].overlaps(x.ball_at(128)) for i, j, x in plain.cells())
    plain_copy = FOUR.replace(Operation("A", "copy", ("E",)))
    assert evaluate(plain_copy, EXACT)["A"] == right["E"]
    swapped = replace(FOUR, given={**FOUR.given, "WQ": FOUR.given["WK"]})
    assert evaluate(swapped, EXACT)["Q"] == right["K"]
    with pytest.raises(InputError):
        FOUR.replace(Operation("B", "copy", ("E",)))


def test_plans_are_values() -> None:
    assert plan(library.get("four-tokens")) == FOUR
    assert replace(FOUR["S"], operands=("Q", "K")) != FOUR["S"]


EYE = [[1, 0], [0, 1]]
HEAD = {"WQ": EYE, "WK": EYE, "WV": EYE}
BASE = {"X": [[1, 2], [3, 4]], "heads": [HEAD]}
AFTER_S = ("E", "Z", "A", "H", "O")


@pytest.mark.parametrize(
    ("extra", "symbols"),
    [
        ({"scale": "none"}, ("Q", "K", "V", "S", *AFTER_S)),
        ({}, ("Q", "K", "V", "QKt", "S", *AFTER_S)),
        ({"scale": "none", "mask": "causal"}, ("Q", "K", "V", "QKt", "S", *AFTER_S)),
        ({"mask": "causal"}, ("Q", "K", "V", "QKt", "Su", "S", *AFTER_S)),
        ({"layout": "columns"}, ("Q", "K", "V", "KtQ", "S", *AFTER_S)),
        ({"positions": "sinusoidal", "scale": 1}, ("PE", "X", "Q", "K", "V", "S", *AFTER_S)),
        ({"scale": 1, "residual": True, "layernorm": True}, ("Q", "K", "V", "S", *AFTER_S, "R", "mu", "var", "N")),
        (
            {"scale": 1, "ffn": {"W1": EYE, "W2": EYE}, "residual": True, "layernorm": {"gamma": [1, 2]}},
            ("Q", "K", "V", "S", *AFTER_S, "R", "mu", "var", "N", "L", "F1", "G", "F", "RF", "muF", "varF", "NF", "LF"),
        ),
    ],
)
def test_symbols(extra: dict[str, object], symbols: tuple[str, ...]) -> None:
    assert plan(from_data({**BASE, **extra})).symbols == symbols


def test_several_heads_are_numbered() -> None:
    made = plan(from_data({**BASE, "heads": [HEAD, HEAD], "WO": [[1]] * 4, "scale": "none"}))
    heads = [f"{s}{i}" for i in (1, 2) for s in ("Q", "K", "V", "S", "E", "Z", "A", "H")]
    assert made.symbols == (*heads, "C", "O")
    assert made["C"].operands == ("H1", "H2")
    assert set(made.given) == {"X", "WO", *(f"W{s}{i}" for s in "QKV" for i in (1, 2))}


def test_memory_feeds_keys_and_values() -> None:
    made = plan(from_data({**BASE, "memory": [[1, 1]]}))
    assert (made["Q"].inputs[0], made["K"].inputs[0], made["V"].inputs[0]) == ("X", "Y", "Y")


def test_columns_multiply_from_the_left() -> None:
    made = plan(from_data({**BASE, "layout": "columns", "WO": EYE}))
    assert made["Q"].operands == ("WQ", "X")
    assert made["KtQ"].operands == ("K^T", "Q")
    assert made["H"].operands == ("V", "A")
    assert made["O"].operands == ("WO", "H")
    assert made["Z"].params == {"axis": "columns"}


def test_head_widths_scale_each_head() -> None:
    wide = {"WQ": [[1, 0, 1]] * 2, "WK": [[1, 0, 1]] * 2, "WV": EYE}
    made = plan(from_data({**BASE, "heads": [HEAD, wide]}))
    assert made["S1"].params["factor"] ** -2 == 2
    assert made["S2"].params["factor"] ** -2 == 3
