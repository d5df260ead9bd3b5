from __future__ import annotations

import numpy as np
import pytest
from flint import arb

from glassformer.errors import InputError
from glassformer.exercises.arithmetic import EXACT, FLOATS, INTERVALS, Arithmetic
from glassformer.exercises.expression import parse
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import MASKED, Exact
from glassformer.exercises.operations import OPS

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
