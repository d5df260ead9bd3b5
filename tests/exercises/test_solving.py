"""Exercises are solved step by step: plan, operations, steps and solution."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from glassformer.core.attention import attend
from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.arithmetic import EXACT, FLOATS, INTERVALS, Arithmetic
from glassformer.exercises.exercise import Exercise, from_data
from glassformer.exercises.expression import Name, parse
from glassformer.exercises.grade import grade
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import MASKED, Exact
from glassformer.exercises.operations import OPS
from glassformer.exercises.plan import Operation, evaluate_plan, plan
from glassformer.exercises.printers.text import text
from glassformer.exercises.reader import read as read_document
from glassformer.exercises.reader import read_file
from glassformer.exercises.solution import FORMATS, render, solve
from glassformer.exercises.steps import decimal_array, decimals, name

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
    values, balls, floats = (evaluate_plan(made, arithmetic) for arithmetic in (EXACT, INTERVALS, FLOATS))
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
    values = evaluate_plan(FOUR, EXACT, {"S": wrong})
    assert values["A"] == Matrix.of([[Exact(1) / 4] * 4] * 4)
    assert values["H"][0, 1] == 1
    assert values["Q"] == evaluate_plan(FOUR, EXACT)["Q"]


def test_cells_left_open_are_computed() -> None:
    row = Matrix.of([[None, Exact(0), None, None]] + [[None] * 4] * 3)
    values = evaluate_plan(FOUR, EXACT, {"S": row})
    assert values["S"].rows[0] == (Exact(1), Exact(0), Exact(0), Exact(1))
    assert values["S"].rows[1] == (Exact(2), Exact(4), Exact(0), Exact(2))


def test_written_sums_are_used_where_there_are_any() -> None:
    """With balls the weights come from S; a written Z or E takes over."""
    Z = Matrix.of([[arb(10)]] * 4)
    values = evaluate_plan(FOUR, INTERVALS, {"Z": Z})
    assert values["A"][0, 2].overlaps(arb(fmpq(1, 10)))
    E = Matrix.of([[arb(1)] * 4] * 4)
    values = evaluate_plan(FOUR, INTERVALS, {"E": E})
    assert values["A"][0, 1].overlaps(arb(fmpq(1, 4)))


def test_until_stops() -> None:
    assert "A" not in evaluate_plan(FOUR, EXACT, until=lambda symbol: symbol == "S")


def test_edited_plans_do_as_they_say() -> None:
    """Slips are edits: K not transposed, softargmax over columns, exponentials not normalised, other weights."""
    right = evaluate_plan(FOUR, EXACT)
    by_column = FOUR.with_params(["Z", "A"], axis="columns")
    for arithmetic in (EXACT, INTERVALS):
        values = evaluate_plan(by_column, arithmetic)
        assert float(sum((row[0] for row in values["A"]), arithmetic.rational(0))) == pytest.approx(1)
    only_sum = FOUR.with_params(["Z"], axis="columns")  # Z is now a row under E
    tight, plain = evaluate_plan(only_sum, INTERVALS)["A"], evaluate_plan(only_sum, EXACT)["A"]
    assert all(tight[i, j].overlaps(x.ball_at(128)) for i, j, x in plain.cells())
    plain_copy = FOUR.replace(Operation("A", "copy", ("E",)))
    assert evaluate_plan(plain_copy, EXACT)["A"] == right["E"]
    swapped = replace(FOUR, given={**FOUR.given, "WQ": FOUR.given["WK"]})
    assert evaluate_plan(swapped, EXACT)["Q"] == right["K"]
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


M = Matrix.of([[1, 2, 4], [3, 0, -1]])


def lifted(arithmetic: Arithmetic, matrix: Matrix[int] = M) -> Matrix[object]:
    return matrix.map(lambda x: arithmetic.lift(Exact(x)))


def floats(matrix: Matrix[object]) -> np.ndarray:
    return np.array([[float(x) for x in row] for row in matrix])  # type: ignore[arg-type]


A = np.array(M.rows, dtype=float)


@pytest.mark.parametrize("arithmetic", [EXACT, INTERVALS, FLOATS], ids=lambda a: a.name)
@pytest.mark.parametrize(
    ("op", "params", "wanted"),
    [
        ("total", {"axis": "rows"}, A.sum(1, keepdims=True)),
        ("total", {"axis": "columns"}, A.sum(0, keepdims=True)),
        ("mean", {"axis": "rows"}, A.mean(1, keepdims=True)),
        ("exp", {}, np.exp(A)),
        ("relu", {}, A.clip(0)),
        ("softargmax", {"axis": "rows"}, np.exp(A) / np.exp(A).sum(1, keepdims=True)),
        ("softargmax", {"axis": "columns"}, np.exp(A) / np.exp(A).sum(0, keepdims=True)),
        ("scale", {"factor": Exact(2).sqrt(), "text": "√2"}, A * 2**0.5),
        ("keep", {"allowed": ((1, 0, 1), (0, 1, 1))}, A * np.array([[1, 0, 1], [0, 1, 1]])),
    ],
)
def test_agree_with_numpy(arithmetic: Arithmetic, op: str, params: dict[str, object], wanted: np.ndarray) -> None:
    with arithmetic.precision():
        result = OPS[op].run(arithmetic, [lifted(arithmetic)], params)
    np.testing.assert_allclose(floats(result), wanted, rtol=1e-14, atol=1e-15)


def test_shares_are_the_quotients() -> None:
    E = lifted(INTERVALS, Matrix.of([[1, 2, 4], [3, 0, 1]]))
    with INTERVALS.precision():
        result = OPS["shares"].run(INTERVALS, [E], {"axis": "rows"})
    np.testing.assert_allclose(floats(result), [[1 / 7, 2 / 7, 4 / 7], [3 / 4, 0, 1 / 4]], rtol=1e-15)


def test_masked_scores_have_no_weight() -> None:
    for arithmetic in (EXACT, INTERVALS, FLOATS):
        S = OPS["mask"].run(arithmetic, [lifted(arithmetic)], {"allowed": ((1, 1, 0), (1, 0, 0))})
        assert S[0, 2] is MASKED
        assert float(OPS["exp"].run(arithmetic, [S], {})[0, 2]) == 0
        weights = floats(OPS["softargmax"].run(arithmetic, [S], {"axis": "rows"}))
        np.testing.assert_allclose(weights[1], [1, 0, 0])
        assert weights[0, 2] == 0


def test_interval_weights_are_as_tight_as_can_be() -> None:
    """For s = (x, 0) with x in [0.9, 1.1], the weight of x is exactly [σ(0.9), σ(1.1)]."""
    S = Matrix.of([[arb(1, 0.1), arb(0)]])
    weight = OPS["softargmax"].run(INTERVALS, [S], {"axis": "rows"})[0, 0]
    sigma = lambda x: 1 / (1 + np.exp(-x))
    assert float(weight.lower()) == pytest.approx(sigma(0.9), rel=1e-2)
    assert float(weight.upper()) == pytest.approx(sigma(1.1), rel=1e-2)
    assert weight.contains(arb(sigma(0.95)))


def test_layernorm_of_a_constant_token_needs_eps() -> None:
    flat = lifted(EXACT, Matrix.of([[1, 2], [3, 3]]))
    mu = OPS["mean"].run(EXACT, [flat], {"axis": "rows"})
    var = OPS["variance"].run(EXACT, [flat, mu], {"axis": "rows"})
    with pytest.raises(InputError, match="token 2 has variance 0"):
        OPS["standardise"].run(EXACT, [flat, mu, var], {"axis": "rows", "eps": Exact(0)})


def test_sinusoids_agree_with_the_formula() -> None:
    table = floats(OPS["sinusoidal"].run(FLOATS, [], {"tokens": 5, "width": 6, "axis": "rows"}))
    for t in range(5):
        for i in range(3):
            angle = t / 10000 ** (2 * i / 6)
            assert table[t, 2 * i] == pytest.approx(np.sin(angle), rel=1e-14, abs=1e-15)
            assert table[t, 2 * i + 1] == pytest.approx(np.cos(angle), rel=1e-14)


def test_patches_are_cut_as_numpy_reshapes() -> None:
    image = np.arange(24).reshape(4, 6)
    wanted = image.reshape(2, 2, 3, 2).transpose(0, 2, 1, 3).reshape(6, 4)
    cut = OPS["cut"].run(EXACT, [Matrix.of(image.tolist())], {"size": 2, "axis": "rows"})
    assert [list(row) for row in cut] == wanted.tolist()


def test_every_formula_can_be_written() -> None:
    params = {
        "axis": "rows", "text": "1/sqrt(dk)", "eps": Exact(1), "width": 2, "size": 2,
        "source": 0, "target": 1, "distance": 1, "weights": (1,), "formula": parse("h/p"),
    }  # fmt: skip
    for op in OPS.values():
        assert op.formula(["Q", "Kᵀ", "Z"], params)
    assert OPS["scale"].formula(["QKt"], params) == "QKt/sqrt(dk)"
    assert OPS["matmul"].formula(["Q", "Kᵀ"], {}) == "Q·Kᵀ"


@pytest.mark.parametrize(
    ("symbol", "shown"),
    [
        ("Q", "Q"),
        ("Q2", "Q2"),
        ("WQ", "WQ"),
        ("WO", "WO"),
        ("bK1", "bK1"),
        ("QKt", "Q·Kᵀ"),
        ("QKt2", "Q2·K2ᵀ"),
        ("KtQ", "Kᵀ·Q"),
        ("Su", "Ŝ"),
        ("K^T", "Kᵀ"),
        ("mu", "μ"),
        ("varF", "σF²"),
        ("F1", "F1"),
    ],
)
def test_names(symbol: str, shown: str) -> None:
    assert text(name(symbol)) == shown


def test_heads_are_indices() -> None:
    assert name("A3") == Name("A", (3,))
    assert name("WV2") == Name("W", ("V", 2))


def test_every_operation_of_every_exercise_has_an_equation() -> None:
    for exercise in library.names():
        for step in solve(exercise).steps:
            sides = step.equation(4)
            assert len(sides) >= 2
            assert sides[0][0] == ""
            assert {relation for relation, _ in sides[1:]} <= {"=", "≈"}


def test_an_equation_says_nothing_twice() -> None:
    """Whole numbers need no decimals; weights do."""
    solution = solve("four-tokens")
    assert [relation for relation, _ in solution.step("Q").equation(4)] == ["", "=", "=", "="]
    assert [relation for relation, _ in solution.step("A").equation(4)] == ["", "=", "=", "≈"]


def test_long_forms_are_left_to_decimals() -> None:
    sides = solve("block").step("NF").equation(4)
    assert [relation for relation, _ in sides] == ["", "=", "≈"]


def test_counts_are_shown_with_their_letters() -> None:
    cost = solve("cost")
    assert cost.step("total").formula == "4N·D² + 2N²·D"
    assert text(solve("patch-count").step("nh").equation()[1][1]) == "height/size"


@pytest.mark.parametrize(
    ("power", "shown"),
    [(17, "2.4155·10⁷"), (40, "2.3539·10¹⁷"), (65, "1.6949·10²⁸"), (700, "1.0142·10³⁰⁴"), (5000, "2.9676·10²¹⁷¹")],
)
def test_large_numbers_have_their_power_of_ten(power: int, shown: str) -> None:
    assert text(decimal_array(Matrix.of([[Exact(power).exp()]]), 4)) == shown


def array(matrix: Matrix[Exact], exercise: Exercise | None = None) -> np.ndarray:
    """In row layout."""
    value = np.array([[float(x) for x in row] for row in matrix])
    return value.T if exercise is not None and not exercise.rows else value


def normalised(x: np.ndarray, exercise: Exercise) -> np.ndarray:
    norm = exercise.layernorm
    assert norm is not None
    y = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + float(norm.eps))
    gamma = [float(g) for g in norm.gamma] if norm.gamma else 1.0
    return y * gamma + ([float(b) for b in norm.beta] if norm.beta else 0.0)


def vector(value: tuple[Exact, ...] | None) -> Any:
    return 0.0 if value is None else np.array([float(x) for x in value])


def in_floats(exercise: Exercise, X: np.ndarray | None) -> dict[str, np.ndarray]:
    """The whole exercise again, in row layout and float64, with core's attention."""
    source = X if exercise.memory is None else array(exercise.memory, exercise)
    values: dict[str, np.ndarray] = {}
    heads = exercise.all_heads
    for number, head in enumerate(heads, 1):
        i = str(number) if len(heads) > 1 else ""
        for letter, tokens in (("Q", X), ("K", source), ("V", source)):
            direct, W = getattr(head, letter), getattr(head, f"W{letter}")
            if direct is not None:
                values[letter + i] = array(direct, exercise)
            else:
                assert tokens is not None
                values[letter + i] = tokens @ array(W, exercise) + vector(getattr(head, f"b{letter}"))
        Q, K, V = (values[letter + i] for letter in "QKV")
        d = X.shape[1] if X is not None else Q.shape[1]
        allowed = exercise.allowed(len(Q), len(K))
        mask = None if allowed is None else torch.tensor(allowed if exercise.rows else list(zip(*allowed, strict=True)))
        beta = float(exercise.beta(Q.shape[1], d))
        found = attend(*(torch.tensor(m, dtype=torch.float64) for m in (Q, K, V)), beta=beta, mask=mask)
        values |= {f"S{i}": found.S.numpy(), f"A{i}": found.A.numpy(), f"H{i}": found.H.numpy()}
    if heads:
        C = np.concatenate([values[f"H{i}"] for i in (range(1, len(heads) + 1) if len(heads) > 1 else [""])], axis=1)
        values["O"] = C if exercise.WO is None else C @ array(exercise.WO, exercise) + vector(exercise.bO)
    out = values.get("O", X)
    assert out is not None
    if exercise.residual and heads and X is not None:
        out = values["R"] = X + out
    if exercise.layernorm:
        out = normalised(out, exercise)
    if exercise.ffn:
        hidden = np.maximum(out @ array(exercise.ffn.W1, exercise) + vector(exercise.ffn.b1), 0)
        values["F"] = hidden @ array(exercise.ffn.W2, exercise) + vector(exercise.ffn.b2)
        out = out + values["F"] if exercise.residual else values["F"]
        out = normalised(out, exercise) if exercise.layernorm else out
    values["last"] = out
    return values


def compare(exercise: Exercise) -> None:
    solution = solve(exercise)
    X = array(solution.values["X"], exercise) if "X" in solution.values else None
    wanted = in_floats(exercise, X)
    for symbol, value in wanted.items():
        name = solution.plan.output if symbol == "last" else symbol
        np.testing.assert_allclose(array(solution.values[name], exercise), value, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", [n for n in library.names() if library.get(n).kind in ("attention", "tokens")])
def test_embedded_exercises_agree_with_core(name: str) -> None:
    compare(library.get(name))


@st.composite
def exercises(draw: st.DrawFn) -> dict[str, Any]:
    n, m, d, dk, dv = (draw(st.integers(1, 3)) for _ in range(5))
    rows = draw(st.booleans())

    def matrix(a: int, b: int) -> list[list[int]]:
        a, b = (a, b) if rows else (b, a)
        return draw(st.lists(st.lists(st.integers(-2, 2), min_size=b, max_size=b), min_size=a, max_size=a))

    count = draw(st.integers(1, 2))
    data: dict[str, Any] = {
        "layout": "rows" if rows else "columns",
        "X": matrix(n, d),
        "heads": [{"WQ": matrix(d, dk), "WK": matrix(d, dk), "WV": matrix(d, dv)} for _ in range(count)],
        "scale": draw(st.sampled_from(["none", "1/sqrt(dk)", "1/sqrt(d)", "sqrt(3)/2", 0.5])),
    }
    if draw(st.booleans()):
        data["WO"] = matrix(count * dv, d)
        data["residual"] = draw(st.booleans())
        data["layernorm"] = draw(st.sampled_from([None, {"eps": "1/10"}]))
        data["ffn"] = draw(st.sampled_from([None, {"W1": matrix(d, m), "W2": matrix(m, d)}]))
    kind = draw(st.sampled_from(["plain", "memory", "causal", "positions"]))
    if kind == "memory":
        data["memory"] = matrix(m, d)
    elif kind == "causal":
        data["mask"] = "causal"
    elif kind == "positions":
        data["positions"] = "sinusoidal"
    return data


@settings(max_examples=60)
@given(exercises())
def test_any_exercise_agrees_with_core(data: dict[str, Any]) -> None:
    compare(from_data(data))


def test_columns_are_rows_turned() -> None:
    """The same exercise in both layouts has the same steps, transposed."""
    rows = library.get("two-heads")

    def turned(matrix: Matrix[Exact]) -> Matrix[Exact]:
        return matrix.T

    columns = from_data(
        {
            "layout": "columns",
            "X": turned(rows.X),
            "heads": [{w: turned(getattr(h, w)) for w in ("WQ", "WK", "WV")} for h in rows.heads],
            "WO": turned(rows.WO),
        }
    )
    a, b = solve(rows), solve(columns)
    for symbol in ("Q1", "S2", "A1", "H2", "C", "O"):
        assert a.values[symbol] == b.values[symbol].T


def test_four_tokens_by_hand() -> None:
    solution = solve(library.get("four-tokens"))
    assert [[x.decimal(4) for x in row] for row in solution["A"]][:2] == [
        ["0.1966", "0.5344", "0.0723", "0.1966"],
        ["0.1050", "0.7758", "0.0142", "0.1050"],
    ]
    assert [row[1].decimal(4) for row in solution["H"]] == ["0.6622", "0.3292", "1.0000", "0.6622"]
    step = solution.step("S")
    assert [name for name, _ in step.operands] == ["Q", "K^T"]
    assert step.operands[1][1] == solution["K"].T
    assert solution.step("Z").value[0, 0] == Exact(2).exp() + 2 * Exact(1).exp() + 1
    with pytest.raises(InputError, match="choose from"):
        solution["nothing"]


def test_two_heads_as_on_the_sheet() -> None:
    solution = solve(library.get("two-heads"))
    assert decimals(solution["V1"]) == [[12, 8, 10], [11, 9, 13]]
    np.testing.assert_allclose(array(solution["A1"]), [[0.98273, 0.01727], [0.94719, 0.05281]], atol=5e-6)
    sheet = [[53.854, 43.615, 29.325, 37.944, 57.723, 20.102], [52.446, 42.501, 28.397, 37.276, 56.571, 20.318]]
    np.testing.assert_allclose(array(solution["O"]), sheet, atol=0.02)


def test_json() -> None:
    solution = solve(library.get("causal"))
    data = json.loads(json.dumps(solution.to_json(), allow_nan=False))
    assert data["values"]["S"][0] == [1, "-inf", "-inf"]
    assert set("QKVSAHO") <= set(data["values"])
    assert data["values"]["A"][2][0] == float(solution["A"][2, 0])
    steps = {step["symbol"]: step for step in data["steps"]}
    assert steps["A"]["exact"][2][0] == "e^3/(e^5 + e^3 + e^2)"
    assert steps["QKt"]["formula"] == "Q·Kᵀ"
    assert solution["S"][0, 1] is MASKED


def test_json_has_no_infinities() -> None:
    solution = solve(from_data({"Q": [[1000]], "K": [[1], [2]], "V": [[1], [2]], "scale": "none"}))
    data = json.loads(json.dumps(solution.to_json(), allow_nan=False))
    assert float(data["values"]["A"][0][0]) == pytest.approx(np.exp(-1000))
    assert data["values"]["E"][0][0].startswith("1.97007")


masses = st.lists(st.integers(0, 5), min_size=2, max_size=6).filter(any)


@given(masses, st.randoms(use_true_random=False))
def test_transport_agrees_with_scipy(p: list[int], random: Any) -> None:
    q = p[:]
    random.shuffle(q)
    places = sorted(random.sample(range(30), len(p)))
    solution = solve(from_data({"transport": {"p": p, "q": q, "positions": places}}))
    wanted = wasserstein_distance(places, places, p, q) * sum(p)
    assert float(solution["W"][0, 0]) == pytest.approx(wanted, abs=1e-12)
    assert solution["W"] == solution["Wc"]
    T = array(solution["T"])
    np.testing.assert_allclose(T.sum(1), p)
    np.testing.assert_allclose(T.sum(0), q)
    assert (T >= 0).all()


def test_counts() -> None:
    N, D, M = 196, 768, 49
    assert solve(library.get("cost"))["total"][0, 0] == 4 * N * D**2 + 2 * N**2 * D
    windowed = solve(from_data({"cost": {"N": N, "D": D, "window": M}}))
    assert windowed["total"][0, 0] == 4 * N * D**2 + 2 * M * N * D
    assert solve(library.get("patch-count"))["n"][0, 0] == 196


# -- what real exercises contain -------------------------------------------------------------------------------------

HALVES = {
    "X": [["-2", "-1/2"], ["-1/2", "-5/2"], ["2", "-2"]],
    "heads": [
        {"WQ": [["5/2", "3/2"], ["5/2", "-3/2"]], "WK": [[-1, "-1/2"], [-2, "-3/2"]], "WV": [[1, 0], ["1/2", "5/2"]]},
        {"WQ": [[1, "5/2"], [1, "5/2"]], "WK": [["5/2", -2], [2, 1]], "WV": [[2, -2], ["5/2", "-5/2"]]},
    ],
    "mask": "causal", "residual": True, "scale": "none",
    "WO": [["-1/2", "-1/2"], ["-3/2", "3/2"], [1, 2], ["5/2", 0]],
    "ffn": {"W1": [[-1, 0], ["-5/2", "-5/2"]], "W2": [[1, "3/2"], [-1, "1/2"]]},
}  # fmt: skip


@pytest.mark.parametrize("eps", ["1e-5", 1e-5, "1/100000"])
@pytest.mark.timeout(120)
def test_half_integers_with_layernorm(eps: object) -> None:
    """Differences that cancel to a hundred digits: more precision is used until every decimal is certain."""
    exercise = from_data({**HALVES, "layernorm": {"eps": eps}})
    solution = solve(exercise)
    assert json.loads(render(solution, "json"))["steps"][-1]["symbol"] == "NF"
    assert array(solution["NF"]) == pytest.approx(normalised(array(solution["RF"]), exercise), abs=1e-9)


def test_numbers_smaller_than_any_float() -> None:
    solution = solve("Q: [[1e-320, 2], [3, 4]]\nK: [[1, 2], [3, 4]]\nV: [[1, 2], [3, 4]]\n")
    for form in FORMATS:
        assert render(solution, form)
    assert solution["Q"][0, 0].significant(3) == "1e-320"
    assert float(solution["A"][0, 0]) == pytest.approx(1 / (1 + np.exp(4 / np.sqrt(2))))


@pytest.mark.timeout(120)
def test_forty_tokens_of_width_forty() -> None:
    """Products of rational matrices are made by FLINT at once, not term by term."""
    rng = np.random.default_rng(0)
    X, WQ, WK, WV = (rng.integers(-2, 3, (40, 40)).tolist() for _ in range(4))
    solution = solve(from_data({"X": X, "heads": [{"WQ": WQ, "WK": WK, "WV": WV}]}))
    Q, K, V = (np.array(X) @ np.array(W) for W in (WQ, WK, WV))
    assert array(solution["Q"]).tolist() == Q.tolist()
    H = attend(*(torch.tensor(x, dtype=torch.float64) for x in (Q, K, V)), beta=40**-0.5).H
    assert array(solution["H"]) == pytest.approx(H.numpy(), abs=1e-9)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("read", [solve, read_file], ids=["solve", "check"])
def test_an_endless_file_is_refused(read: Callable[[str], object]) -> None:
    with pytest.raises(InputError, match=r"larger than|MB|not a regular file"):
        read("/dev/zero")


@pytest.mark.variants(4)
@pytest.mark.parametrize("name", ["four-tokens", "causal", "columns", "layernorm"])
@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_a_shown_solution_is_graded_as_right(name: str, form: str) -> None:
    ending = {"text": "txt", "markdown": "md", "latex": "tex", "html": "html"}[form]
    graded = grade(library.get(name), read_document(render(solve(name), form), f"solution.{ending}"))
    assert graded.score == 1
    assert not graded.unread


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "markdown", "latex", "html"])
@pytest.mark.parametrize("name", library.names())
def test_every_solution_is_graded_as_right_in_every_form(name: str, form: str) -> None:
    ending = {"text": "txt", "markdown": "md", "latex": "tex", "html": "html"}[form]
    graded = grade(library.get(name), read_document(render(solve(name), form), f"solution.{ending}"))
    assert graded.score == 1
    assert graded.accounting.unread == 0
