"""Solving: every step of an exercise as data, with its exact value; rendering is elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from glassformer.worked.arithmetic import EXACT
from glassformer.worked.matrix import Matrix
from glassformer.worked.numbers import READABLE, Exact, Masked
from glassformer.worked.plan import Operation, Plan, evaluate, plan
from glassformer.worked.problem import Exercise


@dataclass(frozen=True, slots=True)
class Step:
    """symbol = formula = (the operands put in) = value. An operand named `K^T` has the transposed matrix."""

    symbol: str
    formula: str
    operands: tuple[tuple[str, Matrix[Any]], ...]  # cells are Exact, or MASKED
    value: Matrix[Any]
    operation: Operation

    def to_json(self) -> dict[str, Any]:
        return {
            "symbol": self.symbol,
            "formula": self.formula,
            "op": self.operation.op,
            "operands": [name for name, _ in self.operands],
            "exact": [[exact_text(x) for x in row] for row in self.value],
            "decimal": decimals(self.value),
        }


@dataclass(frozen=True, slots=True)
class Solution:
    """The exercise, what was given and every step; `values` has all matrices by symbol, the given ones too."""

    exercise: Exercise
    plan: Plan
    steps: tuple[Step, ...]
    values: Mapping[str, Matrix[Any]]

    def __getitem__(self, symbol: str) -> Matrix[Any]:
        return self.values[symbol] if symbol in self.values else self.values[self.plan[symbol].symbol]

    def step(self, symbol: str) -> Step:
        wanted = self.plan[symbol].symbol
        return next(step for step in self.steps if step.symbol == wanted)

    def to_json(self) -> dict[str, Any]:
        """Floats (17 digits) in `values`, −∞ as the string "-inf"; exact strings in `steps`."""
        return {
            "title": self.exercise.title,
            "layout": self.exercise.layout,
            "values": {symbol: decimals(matrix) for symbol, matrix in self.values.items()},
            "steps": [step.to_json() for step in self.steps],
        }


def exact_text(x: Exact | Masked) -> str:
    """The exact form, as expressions are written; a decimal marked ≈ where the form is too long to read."""
    return str(x) if x.size <= READABLE else f"≈{x.significant(17)}"


def decimals(matrix: Matrix[Any]) -> list[list[float | int | str]]:
    """Each cell as the nearest float, which JSON writes with up to 17 digits; whole numbers stay whole.

    What JSON has no number for is a string that float() reads: "-inf", "1.97e+434".
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


def solve(exercise: Exercise) -> Solution:
    """Every step of the exercise, exactly."""
    made = plan(exercise)
    values = evaluate(made, EXACT)
    steps = tuple(
        Step(
            operation.symbol,
            operation.formula,
            tuple((name, _operand(values, name)) for name in operation.operands),
            values[operation.symbol],
            operation,
        )
        for operation in made.operations
    )
    return Solution(exercise, made, steps, values)


def _operand(values: Mapping[str, Matrix[Any]], name: str) -> Matrix[Any]:
    return values[name.removesuffix("^T")].T if name.endswith("^T") else values[name]
