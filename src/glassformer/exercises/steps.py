"""A step of a solution, and its equation `Q = X W_Q = [ ][ ] = [ ] ≈ [ ]` as expressions that all printers accept."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

from glassformer.exercises.expression import (
    Array,
    Call,
    Expression,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Quotient,
    Root,
    Sum,
    Transpose,
    names_in,
    substitute,
    whole,
)
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import READABLE, Exact, Masked
from glassformer.exercises.plan import Operation

LONGEST = 200  # characters of an exact form that is shown next to its decimals
SHORT = 6  # the size of 3√2/2
LARGE = 1e7  # from here on a number is written with a power of ten

Sides = list[tuple[str, Expression]]  # each expression with the relation before it: "", "=" or "≈"

# titles of the steps whose formula is not self-explanatory
_TITLES = {
    "scale": "Scaled by β",
    "mask": "Masked: −∞ where attention is not allowed",
    "keep": "Masked",
    "exp": "Exponentials",
    "total": "Their sum for each query",
    "softargmax": "Weights: each exponential over its sum",
    "concat": "The heads side by side",
    "mean": "Mean of each token",
    "variance": "Variance of each token",
    "standardise": "Normalised",
    "relu": "ReLU",
    "sinusoidal": "Positions",
    "cut": "Patches",
    "affine": "Scaled by γ and shifted by β",
    "gap": "Distance between the running sums",
    "monotone": "Transport plan: mass moved in order",
    "move": "A move: mass times distance",
    "gather": "Cost of the plan",
    "weigh": "Cost: the area between the running sums",
}


@dataclass(frozen=True, slots=True)
class Step:
    """symbol = formula = (operands substituted) = value. An operand named `K^T` holds the transposed matrix."""

    symbol: str
    formula: str
    operands: tuple[tuple[str, Matrix[Any]], ...]  # cells are Exact, or MASKED
    value: Matrix[Any]
    operation: Operation

    @property
    def title(self) -> str:
        """A short description of the step; empty where its formula is self-explanatory."""
        if self.operation.op == "cumulate":
            return f"Running sums of {self.operation.operands[0]}"
        return _TITLES.get(self.operation.op, "")

    def equation(self, digits: int = 4) -> Sides:
        """name = formula = numbers substituted = exact value ≈ decimals; redundant sides are omitted."""
        return equation(self, digits)

    def to_json(self) -> dict[str, Any]:
        return {
            "symbol": self.symbol,
            "formula": self.formula,
            "op": self.operation.op,
            "operands": [operand for operand, _ in self.operands],
            "exact": [[exact_text(x) for x in row] for row in self.value],
            "decimal": decimals(self.value),
        }


def exact_text(x: Exact | Masked) -> str:
    """Return the exact form in expression syntax, or a decimal marked ≈ if the form is too long to read."""
    return str(x) if x.size <= READABLE else f"≈{x.significant(17)}"


def decimals(matrix: Matrix[Any]) -> list[list[float | int | str]]:
    """Return each cell as the nearest float, which JSON writes with up to 17 digits; integers stay integers.

    Values that JSON cannot represent are strings that float() accepts: "-inf", "1.97e+434".
    """

    def cell(x: Exact | Masked) -> float | int | str:
        if isinstance(x, Masked):
            return "-inf"
        q = x.rational()
        if q is not None and q.q == 1:
            return int(q.p)
        value = float(x)
        return value if isfinite(value) else x.significant(17)

    return [[cell(x) for x in row] for row in matrix]


# -- the equation of a step ------------------------------------------------------------------------------------------

_NAMES: dict[str, Expression] = {
    "mu": Name("μ"), "var": Power(Name("σ"), whole(2)), "gamma": Name("γ"), "beta": Name("β"),
    "muF": Name("μ", ("F",)), "varF": Power(Name("σ", ("F",)), whole(2)), "NF": Name("N", ("F",)),
    "LF": Name("L", ("F",)), "RF": Name("R", ("F",)), "Wc": Name("W", ("c",)), "nh": Name("n", ("h",)),
    "nw": Name("n", ("w",)), "PE": Name("PE"), "total": Name("total"), "QKV": Name("QKV"), "height": Name("height"),
    "width": Name("width"), "size": Name("size"),
}  # fmt: skip


def name(symbol: str) -> Expression:
    """Convert a symbol: `Q1` is Q with index 1, `WQ2` is W with Q2, `QKt1` is Q₁K₁ᵀ, `Su` is S before masking."""
    if symbol.endswith("^T"):
        return Transpose(name(symbol[:-2]))
    if symbol in _NAMES:
        return _NAMES[symbol]
    parts = re.fullmatch(r"([A-Za-z]+?)(\d*)", symbol)
    base, number = parts.groups() if parts else (symbol, "")
    index = (int(number),) if number else ()
    match base:
        case "QKt":
            return Product((Name("Q", index), Transpose(Name("K", index))))
        case "KtQ":
            return Product((Transpose(Name("K", index)), Name("Q", index)))
        case "Su":
            return Name("S\u0302", index)
        case _ if len(base) == 2 and base[0] in "Wb":
            return Name(base[0], (base[1], *index))
    return Name(base, index)


def equation(step: Step, digits: int) -> Sides:
    """name = formula = numbers substituted = exact value ≈ decimals; redundant sides are omitted."""
    sides: Sides = [("", name(step.symbol))]
    made = formula(step)
    if made is not None and made != sides[0][1]:
        sides.append(("=", made))
    put_in = substitution(step)
    if put_in is not None:
        sides.append(("=", put_in))
    rational = all(_is_rational(x) for _, _, x in step.value.cells())
    if rational or is_readable(step.value):
        sides.append(("=", exact_array(step.value)))
    if not all(_is_whole(x) for _, _, x in step.value.cells()):
        sides.append(("≈", decimal_array(step.value, digits)))
    return sides


def is_readable(matrix: Matrix[Exact]) -> bool:
    """Return whether every cell's exact form is short and all of them together still fit on a page."""
    cells = [x for _, _, x in matrix.cells()]
    if max(x.size for x in cells) > READABLE or sum(x.size for x in cells) > 12 * READABLE:
        return False
    return max(len(str(x)) for x in cells) <= LONGEST  # `size` counts neither coefficients nor nested fractions


def _is_rational(x: Exact | Masked) -> bool:
    return isinstance(x, Masked) or x.rational() is not None


def _is_whole(x: Exact | Masked) -> bool:
    q = None if isinstance(x, Masked) else x.rational()
    return isinstance(x, Masked) or (q is not None and q.q == 1)


def exact_array(matrix: Matrix[Exact]) -> Expression:
    """Return the exact values; a single cell is returned as a scalar."""
    return _array(matrix, lambda x: x.expression)


def decimal_array(matrix: Matrix[Exact], digits: int) -> Expression:
    """Return the values rounded to `digits` places; integers stay integers."""

    def cell(x: Exact | Masked) -> Expression:
        if isinstance(x, Masked) or _is_whole(x):
            return x.expression
        if abs(float(x)) < LARGE:
            return decimal(x, digits)
        exponent = _magnitude(x)
        return Product((decimal(x / Exact(10) ** exponent, digits), Power(whole(10), whole(exponent))))

    return _array(matrix, cell)


def decimal(x: Exact, digits: int) -> Number:
    text = x.decimal(digits)
    return Number(text, Fraction(text), digits)


def _magnitude(x: Exact) -> int:
    """Return the power of ten of a large number; `significant` writes larger ones with it and others in full."""
    digits, _, exponent = x.significant(17).lstrip("-").partition("e")
    return int(exponent) if exponent else len(digits.partition(".")[0]) - 1


def _array(matrix: Matrix[Exact], cell: Callable[[Exact], Expression]) -> Expression:
    rows = tuple(tuple(cell(x) for x in row) for row in matrix)
    return rows[0][0] if matrix.shape == (1, 1) else Array(rows)


def substitution(step: Step) -> Expression | None:
    """Return the formula with operands substituted, where that shows how the value is obtained."""
    if step.operation.op not in ("matmul", "linear", "add", "scale"):
        return None
    if any(x.size > SHORT for _, value in step.operands for _, _, x in value.cells()):
        return None  # substituted fractions of exponentials are less readable than their symbols
    return _applied(step, [exact_array(value) for _, value in step.operands])


def formula(step: Step) -> Expression | None:
    """Return the right-hand side in symbols; None where words are clearer."""
    return _applied(step, [name(operand) for operand, _ in step.operands])


def _applied(step: Step, of: list[Expression]) -> Expression | None:
    """Apply the operation to names or values."""
    params = step.operation.params
    match step.operation.op:
        case "matmul":
            return Product(tuple(of))
        case "linear":
            return Sum((Product((of[0], of[1])), of[2]))
        case "add":
            return Sum((of[0], of[1]))
        case "scale":
            return Product((params["factor"].expression, of[0]))
        case "exp":
            return Call("exp", (of[0],))
        case "softargmax":
            return Call("softmax", (of[0],))
        case "divide":
            return Quotient(of[0], of[1])
        case "concat":
            return Call("concat", tuple(of))
        case "copy":
            return of[0]
        case "standardise":
            eps = params["eps"]
            below = Sum((of[2], eps.expression)) if eps else of[2]
            return Quotient(Sum((of[0], Negative(of[1]))), Root(below))
        case "affine":
            return Sum((Call("hadamard", (of[1], of[0])), of[2]))
        case "relu":
            return Call("max", (whole(0), of[0]))
        case "gap":
            return Call("abs", (Sum((of[0], Negative(of[1]))),))
        case "move":
            cell = Name("T", (params["source"] + 1, params["target"] + 1))
            return Product((cell, params["distance"].expression))
        case "weigh":
            weights = enumerate(params["weights"], 1)
            return _sum([Product((Name("D", (i,)), weight.expression)) for i, weight in weights if weight])
        case "gather":
            return _sum(of)
        case "count":
            symbols = {part.name for part in names_in(params["formula"])}
            return substitute(params["formula"], {symbol: name(symbol) for symbol in symbols})
    return None


def _sum(terms: list[Expression]) -> Expression | None:
    return Sum(tuple(terms)) if len(terms) > 1 else terms[0] if terms else None
