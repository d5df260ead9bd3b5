"""Expected cells, the score, and rubrics: points per step, tolerance and credit, read from YAML.

Expected are the cells a learner wrote, plus the `missing` cells of the essential steps (Q, K, V, S, A, H, O; then R,
the normalised tokens, the feed-forward output; W, total or n for other kinds of exercise): those not written, while
no later step that depends on them is written for the same token either. So a skipped step is not missing if the work
continues from it, and intermediate steps (QKᵀ, E, Z, C, means …) never are. An output that is the same matrix under
two names (O = H without W_O) is expected once.

score = (right + follows + ½ rounded) / expected

With a rubric, score = points / maximum. The points of a step are shared equally by its expected cells; a step that is
skipped, while the work continues from it, earns the same share of its points as the next step that is written, where a
mistake that was made in another step costs it nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flint import arb, ctx, fmpq
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from glassformer.errors import InputError
from glassformer.exercises.arithmetic import FLOATS
from glassformer.exercises.exercise import one_line
from glassformer.exercises.expression import shorten
from glassformer.exercises.fields import Strict
from glassformer.exercises.grade.cells import BITS
from glassformer.exercises.grade.mistakes import CATALOGUE
from glassformer.exercises.grade.verdict import Compared, Verdict, Verdicts
from glassformer.exercises.numbers import MASKED
from glassformer.exercises.plan import Plan, evaluate_plan
from glassformer.exercises.safe_yaml import load_yaml, read_text

if TYPE_CHECKING:
    from glassformer.exercises.grade.diagnose import Mistake
    from glassformer.exercises.grade.grade import Cell

POINTS: dict[Verdict, float] = {"right": 1.0, "follows": 1.0, "rounded": 0.5, "wrong": 0.0, "missing": 0.0}
ESSENTIAL = ("X", "Q", "K", "V", "S", "A", "H", "O", "R", "N", "L", "F", "RF", "NF", "LF")
# steps whose lines belong to the keys: any later step uses all of them
BY_KEY = ("K", "V", "PE")
MAXIMUM = 100.0  # points of a rubric that states none
TOTAL = "total"
# mistakes that are not edits of the plan, as named by `diagnose`
OTHER_MISTAKES = (
    "two rows swapped", "two columns swapped", "a sign dropped", "one arithmetic mistake in one cell",
    "one wrong number", "a number copied wrongly", "weights that do not sum to 1",
)  # fmt: skip


def essential(plan: Plan) -> tuple[str, ...]:
    """Return the steps that complete work shows."""
    if "T" in plan or "total" in plan:
        return (plan.output,)
    if "nh" in plan and plan.output in ("n", "P", "X"):
        return (plan.output,)
    return tuple(s for s in plan.symbols if base(s) in ESSENTIAL)


def base(symbol: str) -> str:
    return symbol.rstrip("0123456789") if not symbol.startswith("F1") else symbol


def missing(plan: Plan, verdicts: Verdicts, required: Iterable[str] = ()) -> tuple[Compared, ...]:
    """Return the expected cells that were not found; `required` steps are expected even if the work continues."""
    written: dict[str, set[tuple[int, int]]] = {}
    for cell in verdicts.cells:
        written.setdefault(cell.symbol, set()).add((cell.row, cell.column))
    found: list[Compared] = []
    wanted = {*essential(plan), *required}
    for symbol in (s for s in plan.symbols if s in wanted):
        if _copied(plan, symbol) in written or (symbol in _copies(plan) and symbol not in written):
            continue  # reported for the other name
        later = [] if symbol in required else [name for name in plan.after(symbol) if name in written]
        exact = verdicts.exact[symbol]
        for i, j, value in exact.cells():
            if (i, j) not in written.get(symbol, ()) and not _reached(plan, symbol, (i, j), later, written):
                found.append(Compared(symbol, i, j, None, value, value, "missing"))
    return tuple(found)


def _copied(plan: Plan, symbol: str) -> str:
    """Return the symbol that O is a copy of, if any."""
    operation = plan[symbol]
    return operation.inputs[0] if operation.op == "copy" else ""


def _copies(plan: Plan) -> set[str]:
    """Return the symbols that have a copy among the essential steps."""
    return {op.inputs[0] for op in plan.operations if op.op == "copy" and base(op.symbol) in ESSENTIAL}


def _reached(
    plan: Plan, symbol: str, at: tuple[int, int], later: Sequence[str], written: dict[str, set[tuple[int, int]]]
) -> bool:
    """Return whether a later step is written for the same token."""
    axis = 0 if plan.axis == "rows" else 1
    if base(symbol) in BY_KEY:
        return bool(later)
    return any(place[axis] == at[axis] for name in later for place in written[name])


def score(cells: Iterable[Compared]) -> float:
    """(right + follows + ½ rounded) / expected; 0 if nothing is expected."""
    points = [POINTS[cell.verdict] for cell in cells]
    return sum(points) / len(points) if points else 0.0


# -- rubrics -----------------------------------------------------------------------------------------------------------

Share = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class StepRubric(Strict):
    """The points of one step. `required`: unwritten cells are missing even if later steps are written."""

    points: NonNegative
    tolerance: NonNegative | None = Field(default=None, description="overrides the tolerance of the rubric")
    required: bool = Field(default=False, description="unwritten numbers are missing even if later steps are written")


class Credit(Strict):
    """The share of a cell's points that each verdict earns; a right cell earns all of them."""

    follows: Share = POINTS["follows"]
    rounded: Share = POINTS["rounded"]
    wrong: Share = POINTS["wrong"]
    missing: Share = POINTS["missing"]


class Rubric(Strict):
    """Points per step, tolerance, and partial credit."""

    points: Positive | None = Field(default=None, description="points of the exercise; with steps, their sum")
    steps: dict[str, Annotated[StepRubric, BeforeValidator(lambda value: _step(value))]] = Field(
        default_factory=dict, description="points by step: Q, S, A, …; S means S of every head, S2 that of head 2"
    )
    tolerance: NonNegative = Field(
        default=0.0, description="largest absolute difference at which a number still counts as right or as following"
    )
    credit: Credit = Field(default_factory=Credit, description="share of its points that a number with a verdict earns")
    mistakes: dict[str, Share] = Field(
        default_factory=dict, description="share that wrong numbers earn if this mistake explains them"
    )
    round_to: Positive | None = Field(default=None, description="the total is rounded to a multiple of this")

    @model_validator(mode="after")
    def _consistent(self) -> Rubric:
        total = math.fsum(step.points for step in self.steps.values())
        if self.steps and not total:
            raise InputError("steps: no step has points", "give at least one step points")
        if self.steps and self.points is not None and not math.isclose(self.points, total):
            raise InputError(f"points is {self.points:g}, and the steps add up to {total:g}", "make them equal")
        known = list(dict.fromkeys([*(kind.name for kind in CATALOGUE), *OTHER_MISTAKES]))
        for mistake in self.mistakes:
            if mistake not in known:
                raise InputError(f"mistakes: {shorten(mistake)!r} is not a known mistake", _suggest(mistake, known))
        return self

    @property
    def maximum(self) -> float:
        if self.steps:
            return math.fsum(step.points for step in self.steps.values())
        return MAXIMUM if self.points is None else self.points

    def rounded(self, total: float) -> float:
        """Round to a multiple of `round_to`, halves up."""
        if self.round_to is None:
            return total
        return min(math.floor(total / self.round_to + 0.5 + 1e-9) * self.round_to, self.maximum)

    def tolerance_of(self, symbol: str) -> float:
        step = self.steps.get(symbol) or self.steps.get(base(symbol))
        return self.tolerance if step is None or step.tolerance is None else step.tolerance

    def symbols(self, plan: Plan) -> dict[str, tuple[str, ...]]:
        """Return the symbols of the plan that each step of the rubric refers to; an unknown step is an InputError."""
        found: dict[str, tuple[str, ...]] = {}
        for key in self.steps:
            found[key] = (key,) if key in plan else tuple(s for s in plan.symbols if base(s) == key)
            if not found[key]:
                names = list(dict.fromkeys([*plan.symbols, *map(base, plan.symbols)]))
                raise InputError(f"steps: the exercise has no step {shorten(key)!r}", _suggest(key, names))
        every = [symbol for symbols in found.values() for symbol in symbols]
        twice = next((symbol for symbol in every if every.count(symbol) > 1), None)
        if twice is not None:
            raise InputError(f"steps: {twice} has points twice", f"give them to {base(twice)} or to {twice}")
        return found

    def required(self, plan: Plan) -> frozenset[str]:
        return frozenset(s for key, symbols in self.symbols(plan).items() if self.steps[key].required for s in symbols)


def load_rubric(source: Rubric | Path | str) -> Rubric:
    """Load a rubric from a YAML file, or from YAML text (recognised by a line break)."""
    if isinstance(source, Rubric):
        return source
    is_text = isinstance(source, str) and "\n" in source
    data = load_yaml(str(source) if is_text else read_text(source))
    if not isinstance(data, dict):
        raise InputError(f"{shorten(str(data))!r} is not a rubric", "give keys such as points: and steps:")
    if isinstance(data.get("points"), dict):
        raise InputError("points must be a number, the points of the exercise", "write those of steps under steps")
    try:
        return Rubric.model_validate(data)
    except ValidationError as error:
        raise one_line(error, Rubric, {"steps": StepRubric, "credit": Credit}) from None


def rubric_schema() -> dict[str, Any]:
    """Return the JSON schema of a rubric file."""
    schema = Rubric.model_json_schema()
    step = schema["properties"]["steps"]
    step["additionalProperties"] = {"anyOf": [{"type": "number", "minimum": 0}, step["additionalProperties"]]}
    return schema


def _step(value: Any) -> Any:
    """A number alone is the points of a step."""
    return {"points": value} if isinstance(value, str | int | float) and not isinstance(value, bool) else value


def _suggest(word: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, names, 1, 0.6)
    return f"did you mean {near[0]}?" if near else f"use one of {', '.join(names)}"


# -- tolerance ---------------------------------------------------------------------------------------------------------


def tolerate(cells: Iterable[Compared], rubric: Rubric) -> tuple[Compared, ...]:
    """Accept the cells that differ from the exact or the following value by no more than the tolerance."""
    with ctx.workprec(BITS):
        return tuple(_tolerated(cell, rubric.tolerance_of(cell.symbol)) for cell in cells)


def _tolerated(cell: Compared, tolerance: float) -> Compared:
    if not tolerance or cell.entry is None or cell.verdict not in ("rounded", "wrong"):
        return cell
    exact = Fraction(repr(tolerance))
    most = arb(fmpq(exact.numerator, exact.denominator))
    values: tuple[tuple[Any, Verdict], ...] = ((cell.exact, "right"), (cell.follow, "follows"))
    for value, verdict in values:
        if value is MASKED or cell.entry.value is MASKED:
            continue
        off = abs(value - cell.entry.value)
        if off.is_finite() and not off > most:
            return replace(cell, verdict=verdict)
    return cell


# -- points ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepPoints:
    """Points of a step; `graded` are those before an override.

    `source`: the later step whose share the numbers that are not written earn; `written`: whether any is.
    """

    step: str
    points: float
    maximum: float
    source: str = ""
    written: bool = True
    graded: float | None = None


@dataclass(frozen=True, slots=True)
class Points:
    """The points of a submission. `graded`: the total before overrides; `comments`: one sentence per override.

    `declared`: the rubric gives points to steps; otherwise every number counts the same.
    """

    total: float
    maximum: float
    steps: tuple[StepPoints, ...] = ()
    declared: bool = False
    graded: float | None = None
    comments: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        return self.total / self.maximum

    def to_json(self) -> dict[str, Any]:
        steps = [
            {"step": s.step, "points": round(s.points, 6), "max_points": s.maximum, "judged_by": s.source or None}
            for s in self.steps
            if self.declared
        ]
        return {
            "total": round(self.total, 6), "max_points": self.maximum, "steps": steps,
            "graded": None if self.graded is None else round(self.graded, 6), "overrides": list(self.comments),
        }  # fmt: skip


Place = tuple[str, int, int]  # symbol, row and column from 1
Credited = Callable[[str, "Cell"], float]


def award(
    rubric: Rubric,
    plan: Plan,
    cells: Sequence[Cell],
    mistakes: Sequence[Mistake],
    overrides: Mapping[Place, float] | None = None,
) -> Points:
    """Compute the points of graded cells; `overrides` is the share that single cells earn instead of their own."""
    partial: dict[Place, float] = {}
    for mistake in mistakes:
        names = [mistake.name] if mistake.name in rubric.mistakes else mistake.name.split(" and ")  # two at once
        share = min(rubric.mistakes.get(name, 0.0) for name in names)
        for symbol, i, j in mistake.cells:
            partial[symbol, i + 1, j + 1] = max(share, rubric.credit.wrong, partial.get((symbol, i + 1, j + 1), 0.0))

    def earned(cell: Cell) -> float:
        place = (cell.symbol, cell.row, cell.column)
        if overrides and place in overrides:
            return overrides[place]
        if cell.verdict == "wrong" and place in partial:
            return partial[place]
        return 1.0 if cell.verdict == "right" else float(getattr(rubric.credit, cell.verdict))

    earns = {(cell.symbol, cell.row, cell.column): earned(cell) for cell in cells}
    made_in: dict[Place, frozenset[str]] = {}
    for mistake in mistakes:
        made_in |= {(symbol, i + 1, j + 1): mistake.steps for symbol, i, j in mistake.cells}
    wrong = {cell.symbol for cell in cells if cell.verdict == "wrong"}.union(*(m.steps for m in mistakes))

    def credited(symbol: str, cell: Cell) -> float:
        """Return what a number of `symbol` that is not written earns by a cell of a later step."""
        place = (cell.symbol, cell.row, cell.column)
        steps = made_in.get(place, frozenset())
        if place in (overrides or {}):
            return earns[place]
        if cell.verdict == "wrong" and steps and symbol not in steps:
            return rubric.credit.follows if steps & plan.before(symbol) else 1.0
        return 1.0 if cell.verdict == "follows" and not wrong & plan.before(symbol) else earns[place]

    steps = tuple(_declared(rubric, plan, cells, earns, credited) if rubric.steps else _shared(rubric, earns))
    return Points(rubric.rounded(math.fsum(s.points for s in steps)), rubric.maximum, steps, bool(rubric.steps))


def _shared(rubric: Rubric, earns: Mapping[Place, float]) -> Iterator[StepPoints]:
    """Without points per step every expected number counts the same; a step has those of all of its heads."""
    steps: dict[str, list[float]] = {}
    for (symbol, *_), share in earns.items():
        steps.setdefault(base(symbol), []).append(share)
    one = rubric.maximum / max(1, len(earns))
    for step, shares in steps.items():
        yield StepPoints(step, one * math.fsum(shares), one * len(shares))


def _declared(
    rubric: Rubric, plan: Plan, cells: Sequence[Cell], earns: Mapping[Place, float], credited: Credited
) -> Iterator[StepPoints]:
    shapes = {symbol: matrix.shape for symbol, matrix in evaluate_plan(plan, FLOATS).items()}
    lost = {(cell.symbol, cell.row, cell.column) for cell in cells if cell.verdict == "missing"}
    for key, symbols in rubric.symbols(plan).items():
        places = [(s, i + 1, j + 1) for s in symbols for i in range(shapes[s][0]) for j in range(shapes[s][1])]
        later = {place: _later(plan, place, cells, credited) for place in places if place not in earns}
        found = math.fsum(earns[place] if place in earns else later[place][1] for place in places)
        maximum = rubric.steps[key].points
        source = next((name for name, _ in later.values() if name), "")
        written = any(place in earns and place not in lost for place in places)
        yield StepPoints(key, maximum * found / len(places), maximum, source, written)


def _later(plan: Plan, place: Place, cells: Sequence[Cell], credited: Credited) -> tuple[str, float]:
    """Return the next step that is written for the same token, and the mean share that it earns this number."""
    symbol, *at = place
    axis = 0 if plan.axis == "rows" else 1
    for name in (*_same(plan, symbol), *plan.after(symbol)):
        here = [
            credited(symbol, cell)
            for cell in cells
            if cell.symbol == name and (base(symbol) in BY_KEY or (cell.row, cell.column)[axis] == at[axis])
        ]
        if here:
            return name, math.fsum(here) / len(here)
    return "", 0.0


def _same(plan: Plan, symbol: str) -> tuple[str, ...]:
    """Return other names of the same matrix: O = H without W_O."""
    copies = tuple(op.symbol for op in plan.operations if op.op == "copy" and symbol in op.inputs)
    return (*copies, _copied(plan, symbol)) if _copied(plan, symbol) else copies


def format_points(points: float) -> str:
    """Format points with at most two decimals: 7.5, 3.33, 20."""
    return f"{points:.2f}".rstrip("0").rstrip(".")
