"""Exercises as plain data for the workbench, the widget and the site: every number with its address and operands.

An address is `A.1.2`: symbol, row, column, counted from 1. Each function takes and returns JSON-serialisable values, so
it can run in a worker process or in a browser. The page uses `exercises` only through this module.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property, lru_cache
from html import escape
from typing import Any

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.arithmetic import EXACT, FLOATS, Arithmetic
from glassformer.exercises.description import describe_row
from glassformer.exercises.exercise import Exercise, from_data
from glassformer.exercises.expression import Expression, shorten, substitute
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import MASKED, READABLE, Exact, Masked
from glassformer.exercises.plan import Operation, Plan, evaluate_plan, plan
from glassformer.exercises.printers import text as printed
from glassformer.exercises.printers.mathml import mathml
from glassformer.exercises.question import question
from glassformer.exercises.safe_yaml import load_yaml
from glassformer.exercises.solution import Solution, render, solve
from glassformer.exercises.steps import Step, formula, name

DIGITS = 4
MOST_NUMBERS = 2000
"""Largest exercise that the page accepts, in numbers over all steps; `glassformer solve` accepts larger ones."""
MOST_OPERANDS = 20_000
"""Largest view that explains every cell, in operands; for a larger view the page requests each cell when needed."""
WHOLE = 10**15  # integers below this are written with all their digits
LARGE = 10**7  # other numbers from this on are written with a power of ten
SHORT = 6  # maximum size of an exact form written in a sum; longer ones are written as decimals

Values = Mapping[str, Matrix[Any]]
Place = tuple[str, int, int]


def exercises() -> list[dict[str, Any]]:
    """List the embedded exercises: name, title and kind."""
    found = [(key, library.get(key)) for key in library.names()]
    return [{"name": key, "title": exercise.title, "kind": exercise.kind} for key, exercise in found]


def embedded(key: str) -> dict[str, Any]:
    """Return an embedded exercise as data."""
    return to_data(library.get(key))


def parse(text: str) -> dict[str, Any]:
    """Parse the YAML or JSON text of an exercise into data."""
    return to_data(from_data(load_yaml(text)))


def to_data(exercise: Exercise) -> dict[str, Any]:
    """Convert an exercise to dictionaries, lists and strings; integers stay numbers."""
    from glassformer.exercises.practice import exercise_yaml

    return _whole(load_yaml(exercise_yaml(exercise)))


def dump(data: dict[str, Any]) -> str:
    """Return an exercise as YAML text."""
    from glassformer.exercises.practice import exercise_yaml as written

    return written(from_data(data))


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d{1,15}", value) else value


# -- one exercise, solved ----------------------------------------------------------------------------------------------


def view(data: dict[str, Any], exact: bool = True, explain: Sequence[str] | None = None) -> dict[str, Any]:
    """Return every step of an exercise; `scale: inf` is the limit β → ∞, where the largest scores share all weight.

    `explain` names the steps whose cells come with their operands and their sum: by default all of them, unless there
    are more than `MOST_OPERANDS` operands. `cell` explains any other cell."""
    work = _Work(data, EXACT if exact else FLOATS)
    if explain is None:
        explain = work.plan.symbols if work.count_operands() <= MOST_OPERANDS else ()
    return {
        "title": work.exercise.title,
        "text": question(work.exercise, limit=work.limit),
        "kind": work.exercise.kind,
        "layout": work.exercise.layout,
        "exact": exact,
        "output": work.plan.output,
        "attention": work.attention(),
        "given": [work.given(symbol) for symbol in work.plan.given],
        "steps": [work.step(operation, operation.symbol in explain) for operation in work.shown],
    }


def cell(data: dict[str, Any], address: str, exact: bool = True) -> dict[str, Any]:
    """Return the operands of one cell, and its computation written out."""
    work = _Work(data, EXACT if exact else FLOATS)
    parts = re.fullmatch(r"([A-Za-z]+\d*)\.(\d{1,2})\.(\d{1,2})", address)
    symbol, row, column = parts.groups() if parts else ("", "0", "0")
    if symbol not in work.plan:
        raise InputError(f"{address!r} is not the address of a computed number", "write one such as A.1.2")
    height, width = work.values[symbol].shape
    if not (1 <= int(row) <= height and 1 <= int(column) <= width):
        raise InputError(f"{address!r} is outside {symbol}, which is {height}×{width}", "choose a smaller one")
    return work.explain(work.plan[symbol], int(row) - 1, int(column) - 1)


class _Work:
    """An exercise with its plan and its values, exact or in floating point."""

    def __init__(self, data: dict[str, Any], arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        self.limit = str(data.get("scale", "")).strip().lower() in ("inf", "infinity", "∞")
        self.exercise = from_data({**data, "scale": "none"} if self.limit else data)
        self.plan: Plan = plan(self.exercise)
        self.values: Values = evaluate_plan(self.plan, arithmetic)
        numbers = sum(math.prod(matrix.shape) for matrix in self.values.values())
        if numbers > MOST_NUMBERS:
            remedy = f"the page shows at most {MOST_NUMBERS:,}; use glassformer solve"
            raise InputError(f"this exercise has {numbers:,} numbers", remedy)
        if any(isinstance(x, float) and math.isnan(x) for m in self.values.values() for row in m for x in row):
            raise InputError("these numbers are too large to compute with", "use smaller numbers, or β = ∞")
        if self.limit:
            weights = [op for op in self.plan.operations if op.op == "softargmax"]
            if not weights:
                raise InputError("scale is inf in an exercise without attention", "leave scale out")
            hard = {op.symbol: self._hard(op) for op in weights}
            self.values = evaluate_plan(self.plan, arithmetic, hard)
        self._put: dict[str, list[list[str]]] = {}
        hidden = {name for op in self.plan.operations if op.op == "softargmax" for name in op.inputs[1:]}
        self.shown = [op for op in self.plan.operations if not (self.limit and op.symbol in hidden)]

    def _hard(self, operation: Operation) -> Matrix[Any]:
        """lim softargmax(β S) for β → ∞: the largest scores of a query share its weight equally."""
        S = self.values[operation.inputs[0]]
        one, zero = self.arithmetic.rational(1), self.arithmetic.rational(0)

        def line(row: Sequence[Any]) -> list[Any]:
            top = max(x for x in row if x is not MASKED)
            share = one / sum(1 for x in row if x is not MASKED and x == top)
            return [share if x is not MASKED and x == top else zero for x in row]

        queries = S if operation.params["axis"] == "rows" else S.T
        made = Matrix.of(line(row) for row in queries)
        return made if operation.params["axis"] == "rows" else made.T

    def count_operands(self) -> int:
        return sum(
            math.prod(self.values[op.symbol].shape) * len(_places(self.values, op, 0, 0)) for op in self.plan.operations
        )

    # -- numbers -------------------------------------------------------------------------------------------------------

    def put(self, place: Place) -> str:
        """Return a number as it is written within a sum; cached, since every number occurs in many sums."""
        symbol, i, j = place
        if symbol not in self._put:
            self._put[symbol] = [[_put(x) for x in row] for row in self.values[symbol].rows]
        return self._put[symbol][i][j]

    def matrix(self, symbol: str) -> dict[str, Any]:
        value = self.values[symbol]
        rows = value.rows
        made: dict[str, Any] = {
            "symbol": symbol,
            "name": f"<math>{_marked(symbol)}</math>",
            "spoken": _spoken(symbol),
            "rows": value.shape[0],
            "columns": value.shape[1],
            "value": [[_float(x) for x in row] for row in rows],
            "decimal": [[_decimal(x) for x in row] for row in rows],
            "text": [[_text(x) for x in row] for row in rows],
        }
        if self.arithmetic is EXACT:
            made["math"] = [[_math(x) for x in row] for row in rows]
        return made

    def given(self, symbol: str) -> dict[str, Any]:
        """Return a given matrix and the path of its numbers in the exercise."""
        return self.matrix(symbol) | {"path": _path(self.exercise, symbol), "title": _GIVEN.get(symbol, "")}

    def step(self, operation: Operation, explained: bool) -> dict[str, Any]:
        value = self.values[operation.symbol]
        step = Step(
            operation.symbol,
            operation.formula,
            tuple((each, _operand(self.values, each)) for each in operation.operands),
            value,
            operation,
        )
        made = self.matrix(operation.symbol)
        title = step.title or self._title(operation)
        if self.limit and operation.op == "softargmax":
            title = "Weights: the largest scores share all of the weight (β → ∞)"
        made |= {
            "op": operation.op,
            "title": title,
            "words": _words(operation.formula, operation.inputs),
            "formula": _formula(step.symbol, formula(step), operation.operands),
            "operands": list(dict.fromkeys(operation.inputs)),
            "cells": None,
        }
        if explained:
            height, width = value.shape
            made["cells"] = [[self.explain(operation, i, j) for j in range(width)] for i in range(height)]
        if operation.op == "softargmax" and self.arithmetic is EXACT:
            tokens = value if operation.params["axis"] == "rows" else value.T
            made["sentences"] = [f"Token {t} {describe_row(row)}" for t, row in enumerate(tokens, 1)]
        return made

    def _title(self, operation: Operation) -> str:
        """Return the name of what a step of attention computes, if the step has no title."""
        base = operation.symbol.rstrip("0123456789")
        return _TITLES.get(operation.symbol, _TITLES.get(base, "")) if self.exercise.all_heads else ""

    def explain(self, operation: Operation, i: int, j: int) -> dict[str, Any]:
        """Return {operands: addresses, how: the computation with numbers substituted}."""
        places = _places(self.values, operation, i, j)
        if self.limit and operation.op == "softargmax":
            S = operation.inputs[0]
            seen = [place for place in places if place[0] == S]
            return {"operands": [_address(place) for place in seen], "how": self._share(operation, seen, i, j)}
        how = _how(self, operation, i, j, places)
        return {"operands": [_address(place) for place in places], "how": how}

    def _share(self, operation: Operation, seen: Sequence[Place], i: int, j: int) -> str:
        """Explain why a score gets all of the weight, a share of it or none when β is infinite."""
        own, row = self.values[operation.inputs[0]][i, j], [self.values[s][r, c] for s, r, c in seen]
        scores = ", ".join(_put(x) for x in row if x is not MASKED)
        if own is MASKED:
            return "masked"
        top = max(x for x in row if x is not MASKED)
        if own != top:
            return f"[{_put(own)} is below {_put(top)}, the largest of {scores}]"
        ties = sum(1 for x in row if x is not MASKED and x == top)
        return f"{'1' if ties == 1 else f'1/{ties}'} [{_put(own)} is the largest of {scores}]"

    # -- attention -----------------------------------------------------------------------------------------------------

    def attention(self) -> dict[str, Any] | None:
        """Return the symbols of Q, K, V, S, A and H in each head, and the labels of queries and keys."""
        exercise = self.exercise
        if not exercise.all_heads:
            return None
        several = len(exercise.all_heads) > 1
        heads = [self._head(str(i) if several else "") for i in range(1, len(exercise.all_heads) + 1)]
        shape = self.values[heads[0]["A"]].shape
        queries, keys = shape if exercise.rows else shape[::-1]
        labels = self._labels(queries, keys)
        dk = exercise.tokens(self.values[heads[0]["Q"]])[1]
        d = exercise.tokens(exercise.X)[1] if exercise.X else dk
        beta = math.inf if self.limit else float(exercise.beta(dk, d))
        return {
            "heads": heads,
            "rows": exercise.rows,
            "keys": labels[1],
            "queries": labels[0],
            "width": dk,
            "beta": {"text": "inf" if self.limit else str(exercise.scale), "value": _number(beta)},
            "mask": "own" if isinstance(exercise.mask, Matrix) else exercise.mask,
            "direct": all(head.Q and head.K and head.V for head in exercise.all_heads),
        }

    def _head(self, i: str) -> dict[str, Any]:
        product = ("QKt" if self.exercise.rows else "KtQ") + i
        scaled = f"Su{i}" if f"Su{i}" in self.plan else f"S{i}"
        symbols = {symbol: symbol + i for symbol in "QKVSAH"}
        return symbols | {"product": product if product in self.plan else f"S{i}", "scaled": scaled}

    def _labels(self, queries: int, keys: int) -> tuple[list[str], list[str]]:
        """Return the labels of queries and of keys. If there are fewer queries than keys, they are the last tokens, as
        in a decoder with a cache, unless they have their own labels after those of the keys."""
        labels = list(self.exercise.labels)
        if len(labels) == keys + queries:
            return labels[keys:], labels[:keys]
        if len(labels) == keys and queries <= keys:
            return labels[keys - queries :], labels
        return [str(i) for i in range(1, queries + 1)], [str(i) for i in range(1, keys + 1)]


_TITLES = {
    "X": "Tokens", "Q": "Queries", "K": "Keys", "V": "Values", "QKt": "Scores", "KtQ": "Scores", "S": "Scores",
    "H": "Outputs: means of the values, by weight", "O": "Output of the layer", "R": "Residual connection",
    "F1": "Feed-forward network", "F": "Feed-forward network", "RF": "Residual connection",
}  # fmt: skip


_GIVEN = {"X": "Tokens", "X0": "Tokens", "Y": "Memory: the tokens that keys and values come from", "PE": "Positions"}


def _path(exercise: Exercise, symbol: str) -> list[str | int] | None:
    """Return the path to a given matrix or vector in the exercise's data, or None for the size of an image."""
    base, index = parts.groups() if (parts := re.fullmatch(r"([A-Za-z]+)(\d*)", symbol)) else (symbol, "")
    if exercise.transport:
        return ["transport", symbol]
    if exercise.cost:
        return ["cost", symbol]
    fixed: dict[str, list[str | int]] = {
        "X0": ["X"], "Y": ["memory"], "PE": ["positions"], "I": ["patches", "image"], "WE": ["patches", "W"],
        "gamma": ["layernorm", "gamma"], "beta": ["layernorm", "beta"], "W1": ["ffn", "W1"], "b1": ["ffn", "b1"],
        "W2": ["ffn", "W2"], "b2": ["ffn", "b2"], "X": ["X"], "WO": ["WO"], "bO": ["bO"],
        "height": ["patches", "height"], "width": ["patches", "width"], "size": ["patches", "size"],
    }  # fmt: skip
    if symbol in ("height", "width") and exercise.patches and exercise.patches.image:
        return None
    if symbol in fixed:
        return fixed[symbol]
    if base in ("Q", "K", "V") and not exercise.heads:
        return [base]
    return ["heads", int(index or 1) - 1, base]


# -- operands ----------------------------------------------------------------------------------------------------------


def _operand(values: Values, symbol: str) -> Matrix[Any]:
    return values[symbol.removesuffix("^T")].T if symbol.endswith("^T") else values[symbol]


def _at(symbol: str, i: int, j: int) -> Place:
    return (symbol[:-2], j, i) if symbol.endswith("^T") else (symbol, i, j)


def _spread(values: Values, symbol: str, i: int, j: int) -> Place:
    """Return the cell of an operand whose single row or column is broadcast to the whole matrix."""
    height, width = _operand(values, symbol).shape
    return _at(symbol, i if height > 1 else 0, j if width > 1 else 0)


def _line(values: Values, symbol: str, i: int, j: int, axis: str) -> list[Place]:
    height, width = _operand(values, symbol).shape
    return [(symbol, i, k) for k in range(width)] if axis == "rows" else [(symbol, k, j) for k in range(height)]


def _pairs(values: Values, left: str, right: str, i: int, j: int) -> list[tuple[Place, Place]]:
    inner = _operand(values, left).shape[1]
    return [(_at(left, i, k), _at(right, k, j)) for k in range(inner)]


def _places(values: Values, operation: Operation, i: int, j: int) -> list[Place]:
    """Return the cells from which cell (i, j) of an operation is computed."""
    names, params = operation.operands, operation.params
    match operation.op:
        case "matmul":
            return [place for pair in _pairs(values, names[0], names[1], i, j) for place in pair]
        case "linear":
            pairs = _pairs(values, names[0], names[1], i, j)
            return [*(place for pair in pairs for place in pair), _spread(values, names[2], i, j)]
        case "scale" | "mask" | "keep" | "exp" | "copy" | "relu":
            return [_at(names[0], i, j)]
        case "add" | "gap" | "divide" | "affine" | "standardise":
            return [_spread(values, symbol, i, j) for symbol in names]
        case "total" | "mean" | "shares":
            return _line(values, names[0], i, j, params["axis"])
        case "variance":
            return [*_line(values, names[0], i, j, params["axis"]), _spread(values, names[1], i, j)]
        case "softargmax":
            return [*_line(values, names[0], i, j, params["axis"]), (names[1], i, j), _spread(values, names[2], i, j)]
        case "concat":
            return [_joined(values, names, params["axis"], i, j)]
        case "cut":
            return [_pixel(values, names[0], params, i, j)]
        case "cumulate":
            return [(names[0], 0, k) for k in range(j + 1)]
        case "monotone":
            both = [(names[0], 0, i), (names[1], 0, j)]
            return both + [(each, 0, k - 1) for each, k in ((names[0], i), (names[1], j)) if k]
        case "move":
            return [(names[0], params["source"], params["target"])]
        case "weigh":
            return [(names[0], 0, k) for k, weight in enumerate(params["weights"]) if weight]
        case "count" | "gather":
            return [(symbol, 0, 0) for symbol in names]
        case _:
            return []


def _joined(values: Values, names: Sequence[str], axis: str, i: int, j: int) -> Place:
    for symbol in names:
        height, width = values[symbol].shape
        if j < width if axis == "rows" else i < height:
            return symbol, i, j
        i, j = (i, j - width) if axis == "rows" else (i - height, j)
    raise AssertionError("a cell of a concatenation is in one of its parts")


def _pixel(values: Values, image: str, params: Mapping[str, Any], i: int, j: int) -> Place:
    side = params["size"]
    across = values[image].shape[1] // side
    token, place = (i, j) if params["axis"] == "rows" else (j, i)
    return image, token // across * side + place // side, token % across * side + place % side


# -- sums written out --------------------------------------------------------------------------------------------------

_UP = str.maketrans("0123456789-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")


def _how(work: _Work, operation: Operation, i: int, j: int, places: Sequence[Place]) -> str:
    """Return the right-hand side of cell (i, j), which is computed from `places`, with numbers substituted."""
    names, params, values = operation.operands, operation.params, work.values
    each = [work.put(place) for place in places]

    def dot() -> str:
        factors = [_factor(text) for text in each]
        return _sum(f"{a}·{b}" for a, b in zip(factors[::2], factors[1::2], strict=False))

    match operation.op:
        case "matmul":
            return dot()
        case "linear":
            return _sum([dot(), each[-1]])
        case "scale":
            return f"{_factor(_put(params['factor']))}·{_factor(each[0])}"
        case "mask" | "keep":
            return each[0] if params["allowed"][i][j] else "masked"
        case "exp":
            return _power(each[0])
        case "softargmax":
            row = [_power(text) for (symbol, *_), text in zip(places, each, strict=True) if symbol == names[0]]
            line, position = (j, row) if params["axis"] == "rows" else (i, row)
            return f"{position[line]}/({_sum(text for text in row if text != '0')})"
        case "add" | "total" | "cumulate" | "gather":
            return _sum(each) if each else "0"
        case "mean":
            return f"({_sum(each)})/{len(each)}"
        case "variance":
            mu = _factor(each[-1])
            return f"({_sum(f'({x} − {mu})²' for x in each[:-1])})/{len(each) - 1}"
        case "divide":
            return f"{_factor(each[0])}/{_factor(each[1])}"
        case "standardise":
            eps = f" + {_put(params['eps'])}" if params["eps"] else ""
            return f"({each[0]} − {_factor(each[1])})/√({each[2]}{eps})"
        case "affine":
            return f"{_factor(each[1])}·{_factor(each[0])} + {each[2]}"
        case "relu":
            return f"max(0, {each[0]})"
        case "gap":
            return f"|{each[0]} − {_factor(each[1])}|"
        case "weigh":
            weights = [weight for weight in params["weights"] if weight]
            return _sum(f"{_factor(x)}·{_factor(_put(w))}" for x, w in zip(each, weights, strict=True)) or "0"
        case "move":
            return f"{_factor(each[0])}·{_factor(_put(params['distance']))}"
        case "count":
            numbers = {symbol: values[symbol][0, 0] for symbol in names}
            if not all(isinstance(x, Exact) for x in numbers.values()):
                return printed.text(params["expression"])
            return printed.text(substitute(params["expression"], {k: x.expression for k, x in numbers.items()}))
        case "monotone":
            F, G = (values[symbol].rows[0] for symbol in names[:2])
            before = [_put(line[k - 1]) if k else "0" for line, k in ((F, i), (G, j))]
            return f"max(0, min({each[0]}, {each[1]}) − max({before[0]}, {before[1]}))"
        case "sinusoidal":
            token, feature = (i, j) if params["axis"] == "rows" else (j, i)
            return f"{'cos' if feature % 2 else 'sin'}({token}/10000^({2 * (feature // 2)}/{params['width']}))"
        case "concat" | "copy" | "cut":
            return f"{_address(places[0])}"
        case _:
            return operation.formula


def _sum(terms: Any) -> str:
    out = ""
    for term in terms:
        out += term if not out else f" − {term[1:]}" if term.startswith("−") else f" + {term}"
    return out


def _factor(text: str) -> str:
    return f"({text})" if text.startswith("−") or " + " in text or " − " in text else text


def _power(exponent: str) -> str:
    if exponent == "−∞":
        return "0"
    return f"e{exponent.translate(_UP)}" if re.fullmatch(r"−?\d+", exponent) else f"e^{_factor(exponent)}"


def _put(x: Any) -> str:
    """Format a number within a sum: exact if that is short, otherwise as a decimal."""
    if isinstance(x, Exact):
        return _forms(x).put
    text = _decimal(x)
    whole = isinstance(x, float) and "." in text and abs(x) < LARGE and abs(x - round(x, DIGITS)) < 1e-12
    return text.rstrip("0") if whole else text  # 1.7, and 1.7000 if it is rounded


# -- single numbers ----------------------------------------------------------------------------------------------------


def _address(place: Place) -> str:
    return f"{place[0]}.{place[1] + 1}.{place[2] + 1}"


def _number(x: float) -> float | str:
    return x if math.isfinite(x) else "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"


def _float(x: Any) -> float | str:
    if isinstance(x, Exact):
        return _forms(x).value
    return "-inf" if isinstance(x, Masked) else _number(float(x))


def _decimal(x: Any) -> str:
    """Format a number with four decimals; integers are written without decimals."""
    if isinstance(x, Exact):
        return _forms(x).decimal
    if isinstance(x, Masked):
        return "−∞"
    if not math.isfinite(x):
        return "∞" if x > 0 else "−∞"
    whole = round(x)
    if abs(x - whole) < 1e-12 and abs(whole) < WHOLE:
        return _grouped(whole)
    return _scientific(x) if abs(x) >= LARGE else f"{x:.{DIGITS}f}".replace("-", "−")


def _grouped(whole: int) -> str:
    """Write an integer with its thousands separated, from five digits on."""
    return (f"{whole:,}" if abs(whole) >= 10_000 else str(whole)).replace("-", "−")


def _scientific(x: float) -> str:
    """3.6118·10¹⁹ instead of 3.6118e+19."""
    mantissa, exponent = f"{x:.{DIGITS}e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}".replace("-", "−")


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _text(x: Any) -> str:
    """Format a number as it would be typed into a cell."""
    if isinstance(x, Exact):
        return _forms(x).text
    return "-inf" if isinstance(x, Masked) else f"{x:.12g}"


def _math(x: Exact | Masked) -> str | None:
    """Return MathML of the exact form, or None if it is too long to read."""
    return _forms(x).math if isinstance(x, Exact) else f"<math>{drawn(mathml(x.expression))}</math>"


class _Forms:
    """An exact number in the forms in which the page shows it, each formatted when it is first needed."""

    def __init__(self, number: Exact) -> None:
        self.number = number
        self.size = number.size

    @cached_property
    def expression(self) -> Expression:
        return self.number.expression

    @cached_property
    def value(self) -> float | str:
        return _number(float(self.number))

    @cached_property
    def decimal(self) -> str:
        value = float(self.number)
        if not math.isfinite(value):
            return self.number.significant(DIGITS)
        q = self.number.rational()
        if q is not None and q.q == 1 and abs(value) < WHOLE:
            return _grouped(int(q.p))
        return _scientific(value) if abs(value) >= LARGE else self.number.decimal(DIGITS).replace("-", "−")

    @cached_property
    def put(self) -> str:
        q = self.number.rational()
        if q is not None and int(q.q) > 4 and 10**12 % int(q.q) == 0 and abs(int(q.p)) < WHOLE:  # 1.7, not 17/10
            return f"{Decimal(int(q.p)) / Decimal(int(q.q)):f}".replace("-", "−")
        return printed.text(self.expression) if self.size <= SHORT else self.decimal

    @cached_property
    def text(self) -> str:
        return printed.ascii_code(self.expression) if self.size <= READABLE else self.number.significant(17)

    @cached_property
    def math(self) -> str | None:
        return f"<math>{drawn(mathml(self.expression))}</math>" if self.size <= READABLE else None


_BY_OBJECT: dict[int, tuple[Exact, _Forms]] = {}
REMEMBERED = 4096  # numbers


def _forms(number: Exact) -> _Forms:
    """Format each number once: most stay the same when one of them is edited, and each is shown many times.

    The second look-up, by value, is the slow one: hashing rationals takes as long as formatting short numbers."""
    found = _BY_OBJECT.get(id(number))
    if found is not None and found[0] is number:
        return found[1]
    forms = _by_value(frozenset(number.terms.items()))
    if len(_BY_OBJECT) >= REMEMBERED:
        _BY_OBJECT.clear()
    _BY_OBJECT[id(number)] = number, forms
    return forms


@lru_cache(maxsize=REMEMBERED)
def _by_value(terms: frozenset[Any]) -> _Forms:
    return _Forms(Exact.of(dict(terms)))


def drawn(markup: str) -> str:
    """Draw roots with an explicit radical sign and line, since browsers without a math font omit those of msqrt."""
    markup = markup.replace("<msqrt>", '<mrow><mo stretchy="false">√</mo><mrow class="radicand">')
    return markup.replace("</msqrt>", "</mrow></mrow>")


# -- names and formulas ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _markup(symbol: str) -> str:
    return _indexed(mathml(name(symbol)))


def _indexed(markup: str) -> str:
    """Set the letter of an index in italics and its number upright, as in W_Q1; browsers set longer names upright."""
    return re.sub(r"<mi>([A-Z])(\d+)</mi>", r"<mrow><mi>\1</mi><mn>\2</mn></mrow>", markup)


def _marked(symbol: str) -> str:
    return f'<mrow class="sym" data-symbol="{escape(symbol.removesuffix("^T"))}">{_markup(symbol)}</mrow>'


@lru_cache(maxsize=1024)
def _spoken(symbol: str) -> str:
    return printed.text(name(symbol))


@lru_cache(maxsize=1024)
def _words(text: str, inputs: tuple[str, ...]) -> str:
    """Return the formula in words, with symbols as they are read: QKᵀ instead of QKt."""
    for symbol in sorted(set(inputs), key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(symbol)}\b", _spoken(symbol), text)
    return text


@lru_cache(maxsize=1024)
def _formula(symbol: str, right: Expression | None, operands: tuple[str, ...]) -> str:
    """Return MathML of the formula, with symbols tagged by name so that the page can find them."""
    if right is None:
        return ""
    alone = right == name(symbol)  # the name QKᵀ of a step is its formula
    text = _indexed(drawn(mathml(right)))
    names = sorted(dict.fromkeys(operands), key=lambda each: -len(_markup(each)))
    for at, each in enumerate(names):
        text = text.replace(_markup(each), f"\0{at}\0")
    for at, each in enumerate(names):
        text = text.replace(f"\0{at}\0", _marked(each))
    return f"<math>{'' if alone else _marked(symbol) + '<mo>=</mo>'}{text}</math>"


# -- export, grading, practice -----------------------------------------------------------------------------------------

EXPORTS: dict[str, tuple[str, str]] = {
    "markdown": ("md", "text/markdown"),
    "latex": ("tex", "application/x-tex"),
    "html": ("html", "text/html"),
    "yaml": ("yaml", "application/yaml"),
}


def export(data: dict[str, Any], form: str) -> str:
    """Export the solution as Markdown, LaTeX or HTML, or the exercise itself as YAML."""
    if form not in EXPORTS:
        raise InputError(f"there is no format {form!r}", f"choose one of {', '.join(EXPORTS)}")
    if str(data.get("scale")) == "inf":
        raise InputError("an exercise with β = ∞ cannot be exported", "choose a finite β before you export")
    return dump(data) if form == "yaml" else render(solve(from_data(data)), form)


def sheet(data: dict[str, Any]) -> dict[str, Any]:
    """Return the empty steps for a learner to fill in: symbol, size, formula."""
    from glassformer.exercises.practice.sheet import asked

    exercise = from_data(data)
    solution = solve(exercise)
    work = _Work(data, EXACT)
    wanted = [symbol for symbol, _ in asked(solution)]
    steps = [work.step(operation, False) for operation in work.shown if operation.symbol in wanted]
    shown = ("symbol", "name", "spoken", "rows", "columns", "title", "formula", "words")
    return {
        "title": exercise.title,
        "text": question(exercise),
        "given": [work.matrix(symbol) for symbol in work.plan.given],
        "steps": [{key: step[key] for key in shown} for step in steps],
    }


def hint(data: dict[str, Any], symbol: str, level: int, row: int = 1, column: int = 1) -> dict[str, Any]:
    """Return help with one step by level: 1 its formula, 2 the operands of one cell, 3 the cell itself."""
    work = _Work(data, EXACT)
    if symbol not in work.plan:
        raise InputError(f"there is no step {symbol!r}", f"choose one of {', '.join(work.plan.symbols)}")
    operation = work.plan[symbol]
    step = work.step(operation, False)
    height, width = work.values[symbol].shape
    i, j = min(max(row, 1), height) - 1, min(max(column, 1), width) - 1
    made = {
        "symbol": symbol,
        "level": level,
        "formula": step["formula"],
        "words": step["words"],
        "title": step["title"],
    }
    if level >= 2:
        explained = work.explain(operation, i, j)
        if explained["how"] in (step["text"][i][j], step["decimal"][i][j]):  # a copy: its operand is the answer
            other, r, c = _places(work.values, operation, i, j)[0]
            explained["how"] = f"the number in row {r + 1}, column {c + 1} of {_spoken(other)}"
        made |= explained | {"address": _address((symbol, i, j))}
    if level >= 3:
        made |= {"text": step["text"][i][j], "decimal": step["decimal"][i][j], "math": step["math"][i][j]}
    return made


def grade(
    data: dict[str, Any],
    answers: dict[str, list[list[str]]] | None = None,
    text: str | None = None,
    file: str | None = None,
    name: str = "",
) -> dict[str, Any]:
    """Grade a learner's work: cells typed into the grids, a text, or the content of a file in base64 with its name.

    Verdicts and mistakes do not contain the right numbers: `hint` reveals them, step by step.
    """
    from glassformer.exercises.grade import grade as graded
    from glassformer.exercises.grade.view import view as shown
    from glassformer.exercises.reader import read

    unread: list[dict[str, Any]] = []
    if file is not None:
        reading = read(_decoded(file), name)
    else:
        if text is None:
            text, unread = _written(answers or {}, evaluate_plan(plan(from_data(data)), FLOATS))
        if not text.strip() and not unread:
            raise InputError("there are no answers", "fill in a number, or paste your working")
        if not text.strip():
            return {"score": None, "summary": [], "cells": unread, "mistakes": [_unreadable(unread)], "details": {}}
        reading = read(text, "your working")
    result = graded(from_data(data), reading)
    steps = plan(from_data(data))
    copied = {each.symbol: each.inputs[0] for each in steps.operations if each.op == "copy"}  # H in place of O
    named = [replace(c, symbol=copied.get(c.symbol, c.symbol)) if c.verdict == "missing" else c for c in result.cells]
    if answers is not None:  # grids have no lines
        named = [replace(cell, line=None) for cell in named]
    result = replace(result, cells=tuple(named))
    texts = shown(result, values=False)
    cells = [
        {"address": f"{cell.symbol}.{cell.row}.{cell.column}", "given": cell.given, "verdict": cell.verdict}
        for cell in result.cells
    ]
    places_unread = {cell["address"] for cell in unread}
    cells = [cell for cell in cells if cell["address"] not in places_unread] + unread
    misshaped = {cell.symbol for cell in result.cells if cell.verdict == "wrong" and cell.given is None}
    places: list[list[str]] = [[]] * len(misshaped)
    places += [[_address(place) for place in sorted(each.cells)] for each in result.mistakes]
    places += [[]] * (len(texts.mistakes) - len(places))
    mistakes = [
        {"text": text, "cells": where or _unexplained(text, cells)}
        for text, where in zip(texts.mistakes, places, strict=True)
    ]
    return {
        "score": result.score,
        "summary": list(texts.summary),
        "cells": cells,
        "mistakes": [*([_unreadable(unread)] if unread else []), *mistakes],
        "details": {title: list(items) for title, items in texts.details if answers is None},
    }


def _unexplained(text: str, cells: list[dict[str, Any]]) -> list[str]:
    """Return the wrong cells of "H: 2 wrong numbers; no common mistake explains them"."""
    found = re.match(r"(\w+): \d+ wrong numbers", text)
    wrong = [cell["address"] for cell in cells if cell["verdict"] == "wrong" and cell["given"] is not None]
    return [address for address in wrong if found and address.startswith(f"{found[1]}.")]


def _decoded(file: str) -> bytes:
    try:
        return base64.b64decode(file, validate=True)
    except ValueError:
        raise InputError("the file is not in base64", "send its bytes in base64") from None


def _written(answers: Mapping[str, Sequence[Sequence[str]]], values: Values) -> tuple[str, list[dict[str, Any]]]:
    """Convert grids to a document with ? in empty cells, and list the omitted cells, which are not numbers."""
    lines = []
    unread = []
    for symbol, rows in answers.items():
        if not re.fullmatch(r"[A-Za-z]+\d*", symbol):
            raise InputError(f"{symbol!r} is not a symbol of this exercise", "use one that it has")
        filled = [[cell.strip() for cell in row] for row in rows]
        for i, row in enumerate(filled):
            for j, cell in enumerate(row):
                if cell and not _is_number(cell):
                    unread.append({"address": _address((symbol, i, j)), "given": cell, "verdict": "unread"})
                    row[j] = ""
        if any(cell for row in filled for cell in row):
            height, width = values[symbol].shape if symbol in values else (0, 0)
            filled += [[]] * (height - len(filled))
            filled = [row + [""] * (width - len(row)) for row in filled]
            body = ", ".join("[" + ", ".join(cell or "?" for cell in row) + "]" for row in filled)
            lines.append(f"{_spoken(symbol) if 'Kt' in symbol else symbol} = [{body}]")
    return "\n".join(lines), unread


@lru_cache(maxsize=4096)
def _is_number(cell: str) -> bool:
    """Return whether the text of a cell is a single number."""
    from glassformer.exercises.grade.cells import answer_of
    from glassformer.exercises.reader import read

    try:
        reading = read(f"X[1,1] = {cell}")
    except InputError:
        return False
    return not reading.unread and len(reading.statements) == 1 and answer_of(reading.statements[0], 1) is not None


def _unreadable(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    quoted = ", ".join(dict.fromkeys(f"“{shorten(cell['given'], 20)}”" for cell in cells[:3]))
    more = f" and {len(cells) - 3} more" if len(cells) > 3 else ""
    text = f"Cannot be read: {quoted}{more}. Write a number such as 0.61, 1/2, sqrt(3), e^2 or -inf."
    return {"text": text, "cells": [cell["address"] for cell in cells]}


def practice(topic: str, level: str, tokens: int, width: int, heads: int, seed: int) -> dict[str, Any]:
    """Generate an exercise of this kind; the same seed gives the same exercise."""
    from glassformer.exercises.practice import ExerciseSpec, make

    spec = ExerciseSpec(topic=topic, level=level, tokens=tokens, width=width, heads=heads)  # type: ignore[arg-type]
    return to_data(make(spec, seed))


def practice_options() -> dict[str, Any]:
    """Return the available options for practice sheets."""
    from glassformer.exercises.practice import LEVELS, TOPICS

    return {"topics": list(TOPICS), "levels": list(LEVELS)}


TASKS: dict[str, Callable[..., Any]] = {
    task.__name__: task
    for task in (exercises, embedded, parse, dump, view, cell, export, sheet, hint, grade, practice, practice_options)
}
"""The tasks of a worker process, by name: JSON in, JSON out."""

__all__ = ["EXPORTS", "TASKS", "Solution", *TASKS]
