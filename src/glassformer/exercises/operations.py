"""The operations of a plan: small pure functions of matrices, the same in every arithmetic.

Each has a formula in plain text. `axis` selects what one token is: "rows" (each row) or "columns" (each column).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from flint import arb, fmpq

from glassformer.errors import InputError
from glassformer.exercises.arithmetic import EXACT, Arithmetic
from glassformer.exercises.evaluation import evaluate_expression
from glassformer.exercises.matrix import Matrix, hstack, vstack
from glassformer.exercises.numbers import MASKED, Exact
from glassformer.exercises.printers.text import text

Values = Sequence[Matrix[Any]]
Params = Mapping[str, Any]


class Op(NamedTuple):
    run: Callable[[Arithmetic, Values, Params], Matrix[Any]]
    formula: Callable[[Sequence[str], Params], str]


def _by_axis(matrix: Matrix[Any], axis: str, line: Callable[[Sequence[Any]], Sequence[Any]]) -> Matrix[Any]:
    """Apply `line` to every row or every column."""
    turned = matrix if axis == "rows" else matrix.T
    result = Matrix(tuple(tuple(line(row)) for row in turned))
    return result if axis == "rows" else result.T


def _sum(values: Sequence[Any]) -> Any:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def matmul(_: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    return values[0] @ values[1]


def linear(_: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    return values[0] @ values[1] + values[2]


def scale(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    factor = a.lift(params["factor"])
    return values[0].map(lambda x: x * factor)


def mask(_: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    return values[0].zip(Matrix(params["allowed"]), lambda x, may: x if may else MASKED, "masked")


def keep(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    zero = a.rational(0)
    return values[0].zip(Matrix(params["allowed"]), lambda x, may: x if may else zero, "masked")


def exp(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    """e^x, 0 where masked; with `of_zero`, the mistake e^0 = 0."""
    zero = a.rational(0)
    wrong = "of_zero" in params
    return values[0].map(lambda x: zero if x is MASKED or (wrong and not _nonzero(x)) else a.exp(x))


def total(_: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    """Σ of each line; `without` is the position of a term that is left out by mistake."""
    out = params.get("without")
    return _by_axis(values[0], params["axis"], lambda row: [_sum([x for j, x in enumerate(row) if j != out] or row)])


def divide(_: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    """E/Z, with the sums Z as a column beside the rows of E or as a row below its columns."""
    if isinstance(values[1][0, 0], Exact):  # one inverse per sum, shared by the whole row or column
        return values[0].zip(values[1].map(Exact.inverse), lambda x, y: x * y, "divided")
    return values[0].zip(values[1], lambda x, y: x / y, "divided")


def shares(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    """a_i = 1/Σ_j (e_j/e_i): gives the tightest result for intervals of exponentials."""
    one = a.rational(1)

    def line(row: Sequence[Any]) -> list[Any]:
        return [
            one / (one + _sum([a.rational(0), *(y / x for j, y in enumerate(row) if j != i)])) if _nonzero(x) else x
            for i, x in enumerate(row)
        ]

    return _by_axis(values[0], params["axis"], line)


def _nonzero(x: Any) -> bool:
    return not x.is_zero() if isinstance(x, arb) else bool(x != 0)


def softargmax(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    """a_i = 1/Σ_j exp(s_j − s_i): tight for intervals, never overflows."""
    return _by_axis(values[0], params["axis"], a.softargmax)


def concat(_: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    return hstack(values) if params["axis"] == "rows" else vstack(values)


def copy(_: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    return values[0]


def add(_: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    return values[0] + values[1]


def mean(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    return _by_axis(values[0], params["axis"], lambda row: [_sum(row) * a.rational(1, len(row))])


def variance(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    """σ² = (1/d) Σ (x − μ)²; with `less`, the mistake of dividing by d − 1."""
    squares = values[0].zip(values[1], lambda x, m: a.power(x - m, 2), "centred")
    return _by_axis(
        squares, params["axis"], lambda row: [_sum(row) * a.rational(1, max(1, len(row) - params.get("less", 0)))]
    )


def standardise(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    """(x − μ)/√(σ² + ε)"""
    eps = a.lift(params["eps"])
    spread = values[2].map(lambda v: v + eps)
    for i, j, value in spread.cells():
        if isinstance(value, Exact) and value.is_zero():
            raise InputError(f"token {i + j + 1} has variance 0, by which LayerNorm divides", "give layernorm an eps")
    centred = values[0].zip(values[1], lambda x, m: x - m, "centred")
    return divide(a, [centred, spread.map(a.sqrt)], params)


def affine(_: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    """γ∘x + β, or γ∘x if β is forgotten."""
    made = values[0].zip(values[1], lambda x, g: x * g, "multiplied")
    return made + values[2] if len(values) > 2 else made


def relu(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    zero = a.rational(0)
    return values[0].map(lambda x: a.maximum(x, zero))


def sinusoidal(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    """PE(t, 2i) = sin(t/10000^(2i/d)), PE(t, 2i+1) = cos of the same (Vaswani et al. 2017).

    t counts from 0, or from `first`, if a learner did so.
    """

    def wave(t: int, feature: int) -> Exact:
        angle = Exact(t) / EXACT.power(Exact(10000), *_reduced(2 * (feature // 2), params["width"]))
        return angle.cos() if feature % 2 else angle.sin()

    times = range(params.get("first", 0), params.get("first", 0) + params["tokens"])
    table = Matrix.of([a.lift(wave(t, f)) for f in range(params["width"])] for t in times)
    return table if params["axis"] == "rows" else table.T


def _reduced(p: int, q: int) -> tuple[int, int]:
    ratio = fmpq(p, q)
    return int(ratio.p), int(ratio.q)


def cut(_: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    """Cut an image into patches from left to right and top to bottom, each flattened row by row into one token."""
    image, side = values[0].rows, params["size"]
    corners = [(i, j) for i in range(0, len(image), side) for j in range(0, len(image[0]), side)]
    tokens = Matrix.of([x for row in image[i : i + side] for x in row[j : j + side]] for i, j in corners)
    return tokens if params["axis"] == "rows" else tokens.T


def count(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    """Compute a number from numbers, by an expression in their names."""
    names = {name: value[0, 0] for name, value in zip(params["names"], values, strict=True)}
    return Matrix(((evaluate_expression(params["expression"], a, names),),))


def cumulate(_: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    row = values[0].rows[0]
    return Matrix((tuple(_sum(row[: i + 1]) for i in range(len(row))),))


def gap(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    return values[0].zip(values[1], lambda x, y: a.absolute(x - y), "compared")


def monotone(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    """T_ij = max(0, min(F_i, G_j) − max(F_{i−1}, G_{j−1})): moves mass in order, which is optimal on a line."""
    zero = a.rational(0)
    F, G = ((zero, *matrix.rows[0]) for matrix in values)

    def cell(i: int, j: int) -> Any:
        return a.maximum(zero, a.minimum(F[i], G[j]) - a.maximum(F[i - 1], G[j - 1]))

    return Matrix.of([cell(i, j) for j in range(1, len(G))] for i in range(1, len(F)))


def move(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    return Matrix(((values[0][params["source"], params["target"]] * a.lift(params["distance"]),),))


def gather(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    return Matrix(((_sum([a.rational(0), *(value[0, 0] for value in values)]),),))


def weigh(a: Arithmetic, values: Values, params: Params) -> Matrix[Any]:
    return Matrix(((_sum([x * a.lift(w) for x, w in zip(values[0].rows[0], params["weights"], strict=True)]),),))


def _scaled(names: Sequence[str], params: Params) -> str:
    factor = str(params["text"])
    return f"{names[0]}/{factor[2:]}" if factor.startswith("1/") else f"{names[0]}·({factor})"


def _each(words: str) -> Callable[[Sequence[str], Params], str]:
    return lambda names, params: f"{words} of each {params['axis'][:-1]} of {names[0]}"


OPS: dict[str, Op] = {
    "matmul": Op(matmul, lambda n, p: f"{n[0]}·{n[1]}"),
    "linear": Op(linear, lambda n, p: f"{n[0]}·{n[1]} + {n[2]}"),
    "scale": Op(scale, _scaled),
    "mask": Op(mask, lambda n, p: f"{n[0]} where allowed, −∞ elsewhere"),
    "keep": Op(keep, lambda n, p: f"{n[0]} where allowed, 0 elsewhere"),
    "exp": Op(exp, lambda n, p: f"exp({n[0]})"),
    "total": Op(total, _each("sum")),
    "divide": Op(divide, lambda n, p: f"{n[0]}/{n[1]}"),
    "shares": Op(shares, _each("share")),
    "softargmax": Op(softargmax, lambda n, p: f"softargmax of each {p['axis'][:-1]} of {n[0]}: {n[1]}/{n[2]}"),
    "concat": Op(concat, lambda n, p: "[" + (" " if p["axis"] == "rows" else "; ").join(n) + "]"),
    "copy": Op(copy, lambda n, p: n[0]),
    "add": Op(add, lambda n, p: f"{n[0]} + {n[1]}"),
    "mean": Op(mean, _each("mean")),
    "variance": Op(variance, _each("variance")),
    "standardise": Op(standardise, lambda n, p: f"({n[0]} − {n[1]})/√({n[2]}{_eps(p)})"),
    "affine": Op(affine, lambda n, p: f"{n[1]}∘{n[0]} + {n[2]}"),
    "relu": Op(relu, lambda n, p: f"max(0, {n[0]})"),
    "sinusoidal": Op(sinusoidal, lambda n, p: f"sin and cos of t/10000^(2i/{p['width']})"),
    "cut": Op(cut, lambda n, p: f"patches of {p['size']}×{p['size']} of {n[0]}, flattened"),
    "count": Op(count, lambda n, p: text(p["formula"])),
    "cumulate": Op(cumulate, lambda n, p: f"running sums of {n[0]}"),
    "gap": Op(gap, lambda n, p: f"|{n[0]} − {n[1]}|"),
    "monotone": Op(monotone, lambda n, p: "mass moved in order from p to q"),
    "move": Op(move, lambda n, p: f"{n[0]}[{p['source'] + 1},{p['target'] + 1}]·{p['distance']}"),
    "gather": Op(gather, lambda n, p: " + ".join(n) or "0"),
    "weigh": Op(weigh, lambda n, p: " + ".join(f"{n[0]}[{i + 1}]·{w}" for i, w in enumerate(p["weights"]) if w)),
}


def _eps(params: Params) -> str:
    return f" + {params['eps']}" if params["eps"] else ""
