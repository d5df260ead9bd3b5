"""Evaluation of an expression in any arithmetic: the value is a number or a Matrix of numbers.

Written sums and products are interpreted as intended: a list is a row or a column, whichever fits, and a single row is
added to every row. Powers, exponentials and matrix products are bounded, so that evaluation never runs for long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from flint import ctx

from glassformer.exercises.arithmetic import (
    EXACT,
    HALF,
    MAX_BITS,
    Arithmetic,
    IntervalArithmetic,
    Mismatch,
    Unevaluated,
)
from glassformer.exercises.expression import (
    Array,
    Blank,
    Call,
    Constant,
    Expression,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Quotient,
    Root,
    Several,
    Struck,
    Sum,
    Transpose,
    Unknown,
    shorten,
)
from glassformer.exercises.matrix import Matrix, dot, size
from glassformer.exercises.printers.text import label

Value: TypeAlias = Any  # a number of the arithmetic, or a Matrix of them
Axis: TypeAlias = Literal["rows", "columns"]
Names: TypeAlias = Mapping[str, Any] | Callable[[Name], Value | None]
BITS = 128
MAX_PRODUCTS = 2_000_000  # scalar multiplications in one matrix product
MIN_PLACES = 2  # an integer beside decimals of at least this many places is a decimal with its trailing zeros omitted


def evaluate_expression(
    expression: Expression, arithmetic: Arithmetic = EXACT, names: Names | None = None, *, axis: Axis | None = None
) -> Value:
    """Evaluate an expression. `names` maps names to values, `axis` is the axis of softargmax in a matrix.

    Raises Unevaluated, or Mismatch if sizes do not match; both are InputErrors.
    """
    return _Evaluator(arithmetic, names, axis).value(expression)


def enclose(
    expression: Expression, *, slack: Fraction = HALF, names: Names | None = None, axis: Axis | None = None
) -> Value:
    """Return the interval, or Matrix of intervals, that the written numbers allow: each ± `slack` of its last digit."""
    arithmetic = IntervalArithmetic(BITS, slack, MAX_BITS)
    with ctx.workprec(BITS):
        value = evaluate_expression(expression, arithmetic, names or (lambda name: None), axis=axis)
        if any(cell.is_nan() for row in as_matrix(value) for cell in row):
            raise Unevaluated(f"{shorten(label(expression), 60)} has no value")
        return value


class _Evaluator:
    def __init__(self, arithmetic: Arithmetic, names: Names | None, axis: Axis | None) -> None:
        self.arithmetic, self.names, self.axis = arithmetic, names, axis

    def value(self, expression: Expression) -> Value:
        match expression:
            case Number():
                return self.arithmetic.number(expression)
            case Constant(symbol):
                return self.arithmetic.constant(symbol)
            case Name():
                return self.named(expression)
            case Negative(inner):
                return cellwise(self.value(inner), lambda x: -x)
            case Struck(inner):
                return self.value(inner)
            case Sum(terms):
                return self.folded(add, terms)
            case Product(factors):
                return self.folded(multiply, factors)
            case Quotient(top, bottom):
                return self.divided(self.value(top), self.value(bottom))
            case Power(Constant("e"), exponent):
                return cellwise(self.value(exponent), self.arithmetic.exp)
            case Power(base, exponent):
                return self.power(base, exponent)
            case Root(radicand, degree):
                return self.root(radicand, degree)
            case Transpose(inner):
                return transpose(self.value(inner))
            case Array():
                return self.array(expression)
            case Several(items):
                return self.array(Array((items,), flat=True))
            case Call(_, _, over) if over:
                raise Unevaluated(f"the range of {_shown(expression)} is not given in numbers")
            case Call(function, arguments):
                return self.call(function, [self.value(argument) for argument in arguments])
            case Blank():
                raise Unevaluated("a cell is empty")
            case Unknown(source):
                raise Unevaluated(f"{source[:60]} could not be read")

    def named(self, name: Name) -> Value:
        found = self.names(name) if callable(self.names) else (self.names or {}).get(label(name))
        if found is not None:
            return found
        if callable(self.names):
            raise Unevaluated(f"{_shown(name)} is not a number", "write a number")
        known = " or ".join(["a number such as 0.5, 1/2, sqrt(3) or e", *(self.names or {})])
        raise Unevaluated(f"{shorten(name.name, 20)!r} is not a number", f"write {known}")

    def folded(self, operation: Callable[[Value, Value], Value], parts: tuple[Expression, ...]) -> Value:
        total = self.value(parts[0])
        for part in parts[1:]:
            total = operation(total, self.value(part))
        return total

    def divided(self, top: Value, bottom: Value) -> Value:
        if isinstance(bottom, Matrix) and bottom.shape != (1, 1):
            raise Mismatch("division by a matrix is not defined")
        divisor = single(bottom, "a quotient")
        return cellwise(top, lambda x: self.arithmetic.divide(x, divisor))

    def power(self, base: Expression, exponent: Expression) -> Value:
        x, ratio = self.value(base), _ratio(exponent)
        if isinstance(x, Matrix) and x.shape != (1, 1):
            if ratio is None or ratio.denominator != 1 or not 1 <= ratio <= 8:
                raise Unevaluated("the exponent of a matrix is not a small integer")
            result: Value = x
            for _ in range(int(ratio) - 1):
                result = multiply(result, x)
            return result
        y = None if self.arithmetic is EXACT else single(self.value(exponent), "a power")
        return self.arithmetic.raised(single(x, "a power"), y, ratio)

    def root(self, radicand: Expression, degree: Expression | None) -> Value:
        index = Fraction(2) if degree is None else _ratio(degree)
        if index is None or index.denominator != 1 or not 1 <= index <= 100:
            raise Unevaluated("the degree of a root is not an integer up to 100")
        return self.arithmetic.root(single(self.value(radicand), "a root"), int(index))

    def array(self, array: Array) -> Value:
        if array.ragged:
            raise Mismatch("the rows of the matrix differ in length")
        places = zeros_left_out(array)
        rows = [[self.value(_padded(cell, places)) for cell in row] for row in array.rows]
        if any(isinstance(cell, Matrix) for row in rows for cell in row):
            return block_matrix(rows)
        return Matrix(tuple(map(tuple, rows)), array.flat)

    def call(self, function: str, arguments: list[Value]) -> Value:
        a = self.arithmetic
        if not arguments:
            raise Unevaluated(f"{function} has no argument")
        first = arguments[0]
        if len(arguments) == 1 and (one := self.function(function)) is not None:
            return cellwise(first, one)
        match function:
            case "softmax":
                return self.softargmax(first if len(arguments) == 1 else Matrix((tuple(arguments),), flat=True))
            case "concat":
                return block_matrix([list(arguments)])
            case "hadamard" if len(arguments) == 2:
                return _hadamard(*arguments)
            case "inner" if len(arguments) == 2:
                return _inner(*arguments)
            case "factorial":
                return self.factorial(single(first, "the factorial"))
            case "max" | "min":
                choose = a.maximum if function == "max" else a.minimum
                return _fold(choose, _flattened(arguments))
            case "mean" | "var" | "norm":
                return self.statistic(function, _flattened(arguments))
        raise Unevaluated(f"{function} is not computed here")

    def function(self, name: str) -> Callable[[Any], Any] | None:
        """Return a function of one number, applied cell by cell; None if the arithmetic does not define it."""
        a = self.arithmetic
        match name:
            case "relu":
                return lambda x: a.maximum(x, a.rational(0))
            case "abs":
                return a.absolute
            case "sigmoid":
                return lambda x: a.rational(1) / (a.rational(1) + a.exp(-x))
            case "gelu" if isinstance(a, IntervalArithmetic):
                return lambda x: x * (1 + a.erf(x / a.sqrt(a.rational(2)))) / 2
            case "exp" | "log" | "sin" | "cos" | "tan" | "tanh":
                found: Callable[[Any], Any] | None = getattr(a, name, None)
                return found
        return None

    def softargmax(self, value: Value) -> Value:
        if not isinstance(value, Matrix):
            return self.arithmetic.rational(1)
        rows, columns = value.shape
        if rows == 1 or (self.axis == "rows" and columns > 1):
            return Matrix(tuple(tuple(self.arithmetic.softargmax(row)) for row in value), value.flat)
        if columns == 1 or self.axis == "columns":
            return Matrix(tuple(tuple(self.arithmetic.softargmax(column)) for column in value.T)).T
        raise Unevaluated("it is not stated whether the softargmax runs over rows or columns")

    def statistic(self, function: str, cells: list[Any]) -> Any:
        a = self.arithmetic
        if function == "norm":
            return a.sqrt(_fold(lambda x, y: x + y, [x * x for x in cells]))
        mean = _fold(lambda x, y: x + y, cells) / a.rational(len(cells))
        if function == "mean":
            return mean
        return _fold(lambda x, y: x + y, [(x - mean) * (x - mean) for x in cells]) / a.rational(len(cells))

    def factorial(self, x: Any) -> Any:
        whole = next((n for n in range(101) if x == n), None)
        if whole is None:
            raise Unevaluated("the factorial is only defined for integers up to 100")
        return _fold(lambda p, q: p * q, [self.arithmetic.rational(n) for n in range(1, max(whole, 1) + 1)])


def _shown(expression: Expression) -> str:
    return shorten(label(expression), 60)


def _ratio(expression: Expression) -> Fraction | None:
    """Return a plain exponent as a fraction; None if it is anything else."""
    match expression:
        case Number(_, value):
            return value
        case Negative(inner) | Struck(inner):
            ratio = _ratio(inner)
            return ratio if ratio is None or isinstance(expression, Struck) else -ratio
        case Quotient(top, bottom):
            p, q = _ratio(top), _ratio(bottom)
            return None if p is None or not q else p / q
        case Array(((inner,),)):
            return _ratio(inner)
    return None


def zeros_left_out(array: Array) -> int | None:
    """Return the decimal places of integers in this matrix: 8 beside 11.98 is 8.00. None if its integers are exact."""
    places = [cell.places for row in array.rows for cell in map(_unsigned, row) if isinstance(cell, Number)]
    most = max((p for p in places if p is not None), default=0)
    return most if most >= MIN_PLACES else None


def _padded(cell: Expression, places: int | None) -> Expression:
    bare = _unsigned(cell)
    if places is None or not isinstance(bare, Number) or bare.places is not None:
        return cell
    padded = replace(bare, places=places)
    return Negative(padded) if isinstance(cell, Negative) else padded


def _unsigned(expression: Expression) -> Expression:
    return expression.term if isinstance(expression, Negative) else expression


# -- numbers and matrices --------------------------------------------------------------------------------------------


def as_matrix(value: Value) -> Matrix[Any]:
    return value if isinstance(value, Matrix) else Matrix(((value,),))


def cellwise(value: Value, function: Callable[[Any], Any]) -> Value:
    return value.map(function) if isinstance(value, Matrix) else function(value)


def transpose(value: Value) -> Value:
    return value.T if isinstance(value, Matrix) else value


def single(value: Value, what: str) -> Any:
    """Return a value that must be a single number."""
    if isinstance(value, Matrix):
        if value.shape != (1, 1):
            raise Mismatch(f"{what} needs a number, not a matrix")
        return value[0, 0]
    return value


def shape_text(value: Value) -> str:
    """Return the shape as text: "2×3", or "a number"."""
    if not isinstance(value, Matrix):
        return "a number"
    return f"a list of {value.shape[1]}" if value.flat else size(value)


def add(a: Value, b: Value) -> Value:
    if not isinstance(a, Matrix) and not isinstance(b, Matrix):
        return a + b
    if not isinstance(a, Matrix) or not isinstance(b, Matrix):
        raise Mismatch(f"{shape_text(a)} and {shape_text(b)} cannot be added")
    if a.shape != b.shape:
        a, b = _spread(a, b.shape), _spread(b, a.shape)
    if a.shape != b.shape:
        a, b = (a.T, b) if a.flat else (a, b.T) if b.flat else (a, b)
    if a.shape != b.shape:
        raise Mismatch(f"{shape_text(a)} and {shape_text(b)} cannot be added")
    return Matrix((a + b).rows, a.flat and b.flat)


def _spread(value: Matrix[Any], shape: tuple[int, int]) -> Matrix[Any]:
    """Broadcast a bias: one row is added to every row, one column to every column."""
    if value.shape == (1, shape[1]) and shape[1] > 1:
        return Matrix(value.rows * shape[0])
    if value.shape == (shape[0], 1) and shape[0] > 1:
        return Matrix(tuple(row * shape[1] for row in value.rows))
    return value


def multiply(a: Value, b: Value) -> Value:
    """Multiply numbers and matrices. Lists act as a row or a column, whichever fits; two lists give a dot product."""
    if not isinstance(a, Matrix):
        return cellwise(b, lambda x: a * x)
    if not isinstance(b, Matrix):
        return a.map(lambda x: x * b)
    if a.flat and b.flat:
        if a.shape != b.shape:
            raise Mismatch(f"{shape_text(a)} times {shape_text(b)}: the lengths differ")
        return dot(a.rows[0], b.rows[0])
    left = a.T if a.flat and a.shape[1] != b.shape[0] and b.shape[0] == 1 else a
    right = b.T if b.flat and b.shape[0] != a.shape[1] else b
    if left.shape[1] != right.shape[0]:
        if (1, 1) in (a.shape, b.shape):  # [78] is a number
            return multiply(a[0, 0], b) if a.shape == (1, 1) else multiply(a, b[0, 0])
        width, height = a.shape[1], b.shape[0]
        raise Mismatch(
            f"a {size(a)} matrix cannot be multiplied by a {size(b)} matrix: width {width} meets height {height}"
        )
    if left.shape[0] * left.shape[1] * right.shape[1] > MAX_PRODUCTS:
        raise Unevaluated("the product of matrices is too large to compute")
    return Matrix((left @ right).rows, a.flat and left is a)


def block_matrix(rows: list[list[Value]]) -> Matrix[Any]:
    """Assemble a block matrix."""
    bands: list[tuple[tuple[Any, ...], ...]] = []
    for row in rows:
        parts = [as_matrix(cell).rows for cell in row]
        if len({len(part) for part in parts}) > 1:
            raise Mismatch(f"matrices of {' and '.join(str(len(part)) for part in parts)} rows are side by side")
        bands.append(tuple(tuple(x for part in line for x in part) for line in zip(*parts, strict=True)))
    if len({len(band[0]) for band in bands}) > 1:
        raise Mismatch("matrices of different widths are stacked")
    return Matrix(tuple(line for band in bands for line in band))


def _flattened(arguments: list[Value]) -> list[Any]:
    return [x for value in arguments for row in as_matrix(value) for x in row]


def _fold(function: Callable[[Any, Any], Any], cells: list[Any]) -> Any:
    result = cells[0]
    for x in cells[1:]:
        result = function(result, x)
    return result


def _hadamard(a: Value, b: Value) -> Value:
    if not isinstance(a, Matrix) or not isinstance(b, Matrix):
        return multiply(a, b)
    if a.shape != b.shape:
        raise Mismatch("matrices of different sizes cannot be multiplied cell by cell")
    return Matrix(a.zip(b, lambda x, y: x * y).rows, a.flat and b.flat)


def _inner(a: Value, b: Value) -> Value:
    x, y = _flattened([a]), _flattened([b])
    if len(x) != len(y):
        raise Mismatch("the lengths of the two vectors differ")
    return dot(x, y)
