from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from glassformer.core.attention import attend
from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.exercise import Exercise, from_data
from glassformer.exercises.grade import grade
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import MASKED, Exact
from glassformer.exercises.reader import read as read_document
from glassformer.exercises.reader import read_file
from glassformer.exercises.solution import FORMATS, render, solve
from glassformer.exercises.steps import decimals


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
        for name, tokens in (("Q", X), ("K", source), ("V", source)):
            direct, W = getattr(head, name), getattr(head, f"W{name}")
            if direct is not None:
                values[name + i] = array(direct, exercise)
            else:
                assert tokens is not None
                values[name + i] = tokens @ array(W, exercise) + vector(getattr(head, f"b{name}"))
        Q, K, V = (values[name + i] for name in "QKV")
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
    with pytest.raises(InputError, match=r"larger than|MB"):
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
