"""A worksheet, its answer key, and the exercise file that `glassformer check` grades it with."""

from __future__ import annotations

import textwrap
from typing import Any

import yaml
from markupsafe import Markup

from glassformer import templates
from glassformer.errors import InputError
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import Exact
from glassformer.exercises.printers import latex, mathml
from glassformer.exercises.printers import text as plain
from glassformer.exercises.question import question
from glassformer.exercises.solution import Solution, given, render, solve
from glassformer.exercises.steps import name

ENDINGS = {"markdown": "md", "latex": "tex", "html": "html", "text": "txt"}


def answer_key(exercise: Exercise, form: str) -> str:
    """Return the worked solution."""
    return render(solve(exercise), form)


def sheet(exercise: Exercise, form: str, width: int = 100) -> str:
    """Return the question: what is given and what to find, with space for the answers; text has lines of `width`."""
    if form not in ENDINGS:
        raise InputError(f"there is no sheet format {form!r}", f"choose one of {', '.join(ENDINGS)}")
    solution = solve(exercise)
    equations = list(given(solution))
    wanted = asked(solution)
    text = question(exercise)
    match form:
        case "markdown":
            formulas = [f"$${latex.equation(sides)}$$" for sides in equations]
            finds = [f"- ${latex.latex(name(symbol))} =$ {words}".rstrip() for symbol, words in wanted]
            return "\n\n".join([f"# {exercise.title}", text, *formulas, "Find:", "\n".join(finds)]) + "\n"
        case "latex":
            formulas = [rf"\[{latex.equation(sides)}\]" for sides in equations]
            room = r"\vspace{2cm}"
            finds = [rf"\item ${latex.latex(name(symbol))} =$ {latex.escape(words)}{room}" for symbol, words in wanted]
            body = [latex.escape(text), *formulas, r"\begin{enumerate}", *finds, r"\end{enumerate}"]
            return latex.document(exercise.title, "\n".join(body))
        case "html":
            items = [{"symbol": Markup(mathml.mathml(name(symbol))), "words": words} for symbol, words in wanted]
            shown = [Markup(mathml.equation(sides)) for sides in equations]
            view = {"title": exercise.title, "text": text, "given": shown, "finds": items}
            return templates.render("sheet.html", sheet=view)
        case _:
            blocks = [plain.equation(sides) for sides in equations]
            lines = [f"  {plain.text(name(symbol))} = {words}".rstrip() for symbol, words in wanted]
            wrapped = textwrap.fill(text, width)
            return "\n\n".join([exercise.title, wrapped, *blocks, "Find:\n" + "\n".join(lines)]) + "\n"


def asked(solution: Solution) -> list[tuple[str, str]]:
    """Return the symbols to find, each with a short description; exponentials and sums are left to the learner."""
    skipped = {"E", "Z"}
    found = [
        (step.symbol, step.title[:1].lower() + step.title[1:])
        for step in solution.steps
        if step.symbol.rstrip("0123456789") not in skipped and not _repeats(step.operation.op)
    ]
    return found or [(step.symbol, "") for step in solution.steps]


def _repeats(op: str) -> bool:
    return op == "copy"


def exercise_yaml(exercise: Exercise) -> str:
    """Serialize the exercise to YAML that `glassformer solve` and `check` can read."""
    data = {key: _plain(value) for key, value in exercise if key in exercise.model_fields_set}
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)


def _plain(value: Any) -> Any:
    if isinstance(value, Exact):
        whole = value.rational()
        return int(whole.p) if whole is not None and whole.q == 1 else str(value)
    if isinstance(value, Matrix):
        return [[_plain(x) for x in row] for row in value]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "model_fields_set"):
        return {key: _plain(item) for key, item in value if key in value.model_fields_set}
    return value
