"""A solution: every step of an exercise as data, with its exact value, rendered as text, Markdown, LaTeX, HTML or JSON.

    solution = solve("four-tokens")
    solution["A"][0, 0]                 # an Exact
    print(solution)                     # every step, for a terminal
    solution.save("solution.tex")
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from glassformer import templates
from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.arithmetic import EXACT
from glassformer.exercises.description import describe
from glassformer.exercises.exercise import Exercise, load_exercise
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.plan import Plan, evaluate_plan, plan
from glassformer.exercises.printers import latex, mathml, text
from glassformer.exercises.question import question
from glassformer.exercises.steps import Sides, Step, decimals, exact_array, name

FORMATS = ("text", "markdown", "latex", "html", "json")
_SUFFIXES = {".txt": "text", ".md": "markdown", ".tex": "latex", ".html": "html", ".json": "json"}


@dataclass(frozen=True, slots=True)
class Solution:
    """The exercise, its given matrices and every step; `values` maps every symbol, given or computed, to its matrix."""

    exercise: Exercise
    plan: Plan
    steps: tuple[Step, ...]
    values: Mapping[str, Matrix[Any]]

    def __getitem__(self, symbol: str) -> Matrix[Any]:
        return self.values[symbol] if symbol in self.values else self.values[self.plan[symbol].symbol]

    def step(self, symbol: str) -> Step:
        wanted = self.plan[symbol].symbol
        return next(step for step in self.steps if step.symbol == wanted)

    def __str__(self) -> str:
        return render(self)

    def _repr_html_(self) -> str:
        return templates.render("solution_body.html", solution=_view(self, list(self.steps), 4, True))

    def save(self, path: str | Path) -> Path:
        """Save the solution in the format of the file extension: .txt, .md, .tex, .html or .json."""
        path = Path(path)
        if path.suffix not in _SUFFIXES:
            raise InputError(
                f"{path.name} has an unknown file extension", f"end its name in one of {', '.join(_SUFFIXES)}"
            )
        path.write_text(render(self, _SUFFIXES[path.suffix]), encoding="utf-8")
        return path

    def to_json(self) -> dict[str, Any]:
        """Return floats (17 digits) in `values`, with −∞ as the string "-inf", and exact strings in `steps`."""
        return {
            "title": self.exercise.title,
            "layout": self.exercise.layout,
            "values": {symbol: decimals(matrix) for symbol, matrix in self.values.items()},
            "steps": [step.to_json() for step in self.steps],
        }


def solve(exercise: Exercise | str | Path) -> Solution:
    """Solve every step exactly. Accepts an Exercise, the name of an embedded one, a YAML file or YAML text.

    >>> solution = gf.solve("four-tokens")
    >>> solution["S"].shape
    (4, 4)
    >>> solution.save("solution.tex")
    PosixPath('solution.tex')
    """
    if not isinstance(exercise, Exercise):
        exercise = library.get(exercise) if exercise in library.names() else load_exercise(exercise)
    made = plan(exercise)
    values = evaluate_plan(made, EXACT)
    steps = tuple(
        Step(
            operation.symbol,
            operation.formula,
            tuple((operand, _operand(values, operand)) for operand in operation.operands),
            values[operation.symbol],
            operation,
        )
        for operation in made.operations
    )
    return Solution(exercise, made, steps, values)


def _operand(values: Mapping[str, Matrix[Any]], operand: str) -> Matrix[Any]:
    return values[operand.removesuffix("^T")].T if operand.endswith("^T") else values[operand]


# -- formats ---------------------------------------------------------------------------------------------------------


def render(
    solution: Solution, form: str = "text", *, digits: int = 4, only: str | None = None, width: int = 100
) -> str:
    """Render the solution in one of FORMATS; `only` restricts it to the steps of one symbol (A: of every head)."""
    if not 1 <= digits <= 50:
        raise InputError(f"digits must be between 1 and 50, got {digits}", "choose 1 to 50")
    steps = [step for step in solution.steps if only is None or _is(step, only)]
    if not steps:
        symbols = ", ".join(step.symbol for step in solution.steps)
        raise InputError(f"this exercise has no step {only!r}", f"choose one of {symbols}")
    whole = only is None
    match form:
        case "text":
            return _text(solution, steps, digits, whole, width)
        case "markdown":
            return _markdown(solution, steps, digits, whole)
        case "latex":
            return _latex(solution, steps, digits, whole)
        case "html":
            return templates.render("solution.html", solution=_view(solution, steps, digits, whole))
        case "json":
            data = solution.to_json() if whole else {"steps": [step.to_json() for step in steps]}
            return json.dumps(data, ensure_ascii=False, indent=1) + "\n"
    raise InputError(f"there is no format {form!r}", f"choose one of {', '.join(FORMATS)}")


def _is(step: Step, wanted: str) -> bool:
    return step.symbol == wanted or (step.symbol.rstrip("0123456789") == wanted and step.symbol[-1:].isdigit())


def given(solution: Solution) -> Iterator[Sides]:
    """Yield the given matrices as equations."""
    for symbol, matrix in solution.plan.given.items():
        yield [("", name(symbol)), ("=", exact_array(matrix))]


def _text(solution: Solution, steps: list[Step], digits: int, whole: bool, width: int) -> str:
    title = solution.exercise.title
    lines = [title, "=" * len(title), ""] if whole else []
    if whole:
        lines += [question(solution.exercise), ""]
        for sides in given(solution):
            lines += [text.equation(sides, width), ""]
    for step in steps:
        lines += [f"{step.title}:"] if step.title else []
        lines += [text.equation(step.equation(digits), width), ""]
        sentences = describe(step)
        lines += [*(f"  {sentence}" for sentence in sentences), ""] if sentences else []
    return "\n".join(lines).rstrip() + "\n"


def _markdown(solution: Solution, steps: list[Step], digits: int, whole: bool) -> str:
    lines: list[str] = []
    if whole:
        lines += [f"# {solution.exercise.title}", "", question(solution.exercise), "", "## Given", ""]
        for sides in given(solution):
            lines += [f"$${latex.equation(sides)}$$", ""]
        lines += ["## Solution", ""]
    for step in steps:
        lines += [f"{step.title}:", ""] if step.title else []
        lines += [f"$${latex.equation(step.equation(digits))}$$", ""]
        sentences = describe(step)
        lines += [*(f"- {sentence}" for sentence in sentences), ""] if sentences else []
    return "\n".join(lines).rstrip() + "\n"


def _latex(solution: Solution, steps: list[Step], digits: int, whole: bool) -> str:
    body: list[str] = []
    if whole:
        body += [latex.escape(question(solution.exercise)), ""]
        body += [r"\section*{Given}", *map(latex.align, given(solution)), r"\section*{Solution}"]
    for step in steps:
        body.append(rf"\paragraph{{{latex.escape(step.title)}}}" if step.title else "")
        body.append(latex.align(step.equation(digits)))
        sentences = [rf"\item {latex.escape(sentence)}" for sentence in describe(step)]
        body += [r"\begin{itemize}", *sentences, r"\end{itemize}"] if sentences else []
    return latex.document(solution.exercise.title, "\n".join(body))


def _view(solution: Solution, steps: list[Step], digits: int, whole: bool) -> dict[str, Any]:
    """Return the context of the solution template."""
    return {
        "title": solution.exercise.title,
        "whole": whole,
        "text": question(solution.exercise),
        "given": [Markup(mathml.equation(sides)) for sides in given(solution)],
        "steps": [
            {
                "title": step.title,
                "formula": Markup(mathml.equation(step.equation(digits))),
                "sentences": describe(step),
            }
            for step in steps
        ],
    }
