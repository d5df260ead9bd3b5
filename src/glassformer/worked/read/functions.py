"""The functions a learner may write, on balls: exp, log, softmax, ReLU, …; on matrices cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flint import arb

from glassformer.worked.read.balls import (
    Ball,
    Grid,
    Mismatch,
    Unevaluated,
    Value,
    add,
    blocks,
    exponential,
    multiply,
    number,
)


def softmax(scores: Sequence[Ball]) -> tuple[Ball, ...]:
    """a_i = 1 / (1 + Σ_{j≠i} exp(s_j − s_i)): rises with s_i, falls with every other s_j; the ends give tight balls."""
    low = [score.lower() if score.is_finite() else score for score in scores]
    high = [score.upper() if score.is_finite() else score for score in scores]
    if all(not score.is_finite() and score < 0 for score in scores):
        raise Unevaluated("the softargmax of scores that are all −∞")
    return tuple(_end(i, low[i], high).union(_end(i, high[i], low)) for i in range(len(scores)))


def _end(i: int, own: Ball, others: list[Ball]) -> Ball:
    if not own.is_finite():
        return arb(0)
    total = arb(1)
    for j, other in enumerate(others):
        if j != i:
            total += exponential(other - own)
    return 1 / total


def _relu(x: Ball) -> Ball:
    return x.max(arb(0))


def _log(x: Ball) -> Ball:
    if not x > 0:
        raise Unevaluated("the logarithm of a number that is not positive")
    return x.log()


_CELLWISE: dict[str, Callable[[Ball], Ball]] = {
    "exp": exponential,
    "log": _log,
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "tan": lambda x: x.tan(),
    "tanh": lambda x: x.tanh(),
    "abs": abs,
    "relu": _relu,
    "sigmoid": lambda x: 1 / (1 + exponential(-x)),
    "gelu": lambda x: x * (1 + (x / arb(2).sqrt()).erf()) / 2,
}


def apply(function: str, arguments: list[Value], axis: str | None) -> Value:
    """f(a, b, …); Unevaluated if the function has no value here."""
    if not arguments:
        raise Unevaluated(f"{function} of nothing")
    first = arguments[0]
    if function in _CELLWISE and len(arguments) == 1:
        return first.map(_CELLWISE[function]) if isinstance(first, Grid) else _CELLWISE[function](first)
    if function == "softmax":
        return _softmax(first if len(arguments) == 1 else Grid((tuple(arguments),), flat=True), axis)
    if function == "concat":
        return blocks([list(arguments)])
    if function == "hadamard" and len(arguments) == 2:
        return _hadamard(*arguments)
    if function == "inner" and len(arguments) == 2:
        return _inner(*arguments)
    if function == "factorial":
        return _factorial(number(first, "the factorial"))
    if function in ("max", "min", "mean", "var", "norm"):
        return _gathered(function, _flattened(arguments))
    raise Unevaluated(f"{function} is not computed here")


def _softmax(value: Value, axis: str | None) -> Value:
    if not isinstance(value, Grid):
        return arb(1)
    rows, columns = value.shape
    if rows == 1 or (axis == "rows" and columns > 1):
        return Grid(tuple(softmax(row) for row in value.rows), value.flat)
    if columns == 1 or axis == "columns":
        return Grid(tuple(zip(*(softmax(column) for column in zip(*value.rows, strict=True)), strict=True)))
    raise Unevaluated("whether the softargmax runs over rows or columns is not said")


def _flattened(arguments: list[Value]) -> list[Ball]:
    return [x for value in arguments for row in (value.rows if isinstance(value, Grid) else ((value,),)) for x in row]


def _gathered(function: str, cells: list[Ball]) -> Ball:
    if function in ("max", "min"):
        result = cells[0]
        for x in cells[1:]:
            result = result.max(x) if function == "max" else result.min(x)
        return result
    count = arb(len(cells))
    if function == "norm":
        return sum((x * x for x in cells), arb(0)).sqrt()
    mean = sum(cells, arb(0)) / count
    return mean if function == "mean" else sum(((x - mean) * (x - mean) for x in cells), arb(0)) / count


def _hadamard(a: Value, b: Value) -> Value:
    if not isinstance(a, Grid) or not isinstance(b, Grid):
        return multiply(a, b)
    if a.shape != b.shape:
        raise Mismatch("matrices of different sizes cannot be multiplied cell by cell")
    pairs = zip(a.rows, b.rows, strict=True)
    return Grid(tuple(tuple(x * y for x, y in zip(r, s, strict=True)) for r, s in pairs), a.flat and b.flat)


def _inner(a: Value, b: Value) -> Value:
    x, y = _flattened([a]), _flattened([b])
    if len(x) != len(y):
        raise Mismatch("the lengths of the two vectors differ")
    total: Value = arb(0)
    for p, q in zip(x, y, strict=True):
        total = add(total, p * q)
    return total


def _factorial(x: Ball) -> Ball:
    whole = x.unique_fmpz() if x.is_exact() else None
    if whole is None or not 0 <= int(whole) <= 100:
        raise Unevaluated("the factorial of something that is not a whole number up to 100")
    return arb(whole).fac()
