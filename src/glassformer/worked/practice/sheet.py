"""A sheet to hand out, its key, and the exercise file that `glassformer check` marks it by."""

from __future__ import annotations

from html import escape
from typing import Any

import yaml

from glassformer.errors import InputError
from glassformer.worked.matrix import Matrix
from glassformer.worked.numbers import Exact
from glassformer.worked.problem import Exercise
from glassformer.worked.render import latex, mathml, page, plain, render
from glassformer.worked.render.formula import Link, exact_grid, name
from glassformer.worked.render.page import LATEX, title_of
from glassformer.worked.solve import Solution, solve

ENDINGS = {"markdown": "md", "latex": "tex", "html": "html", "text": "txt"}


def key(exercise: Exercise, form: str) -> str:
    """The worked solution."""
    return render(solve(exercise), form)


def sheet(exercise: Exercise, form: str) -> str:
    """The question: what is given, and what to find, with room for it."""
    if form not in ENDINGS:
        raise InputError(f"sheets cannot be made as {form!r}", f"choose one of {', '.join(ENDINGS)}")
    solution = solve(exercise)
    given = [[Link("", name(symbol)), Link("=", exact_grid(value))] for symbol, value in solution.plan.given.items()]
    wanted = asked(solution)
    text = f"{(exercise.text or '').strip()} {_conventions(exercise)}".strip()
    match form:
        case "markdown":
            formulas = [f"$${latex.chain(links)}$$" for links in given]
            finds = [f"- ${latex.latex(name(symbol))} =$ {words}".rstrip() for symbol, words in wanted]
            return "\n\n".join([f"# {exercise.title}", text, *formulas, "Find:", "\n".join(finds)]) + "\n"
        case "latex":
            formulas = [rf"\[{latex.chain(links)}\]" for links in given]
            room = r"\vspace{2cm}"
            finds = [rf"\item ${latex.latex(name(symbol))} =$ {latex.escape(words)}{room}" for symbol, words in wanted]
            body = [latex.escape(text), *formulas, r"\begin{enumerate}", *finds, r"\end{enumerate}"]
            return LATEX.replace("TITLE", latex.escape(exercise.title)).replace("BODY", "\n".join(body))
        case "html":
            formulas = [f"<div class=step>{mathml.chain(links)}</div>" for links in given]
            room = 'style="margin-bottom:4rem"'
            finds = [
                f"<li {room}><math>{mathml.mathml(name(symbol))}<mo>=</mo></math> {escape(words)}</li>"
                for symbol, words in wanted
            ]
            return page(exercise.title, "\n".join([f"<p>{escape(text)}</p>", *formulas, "<ol>", *finds, "</ol>"]))
        case _:
            blocks = [plain.chain(links) for links in given]
            lines = [f"  {plain.block(name(symbol)).lines[0]} = {words}".rstrip() for symbol, words in wanted]
            return "\n\n".join([exercise.title, text, *blocks, "Find:\n" + "\n".join(lines)]) + "\n"


def asked(solution: Solution) -> list[tuple[str, str]]:
    """The symbols to find, with a word on each; exponentials and sums are the learner's own affair."""
    skipped = {"E", "Z"}
    found = [
        (step.symbol, title_of(step).lower())
        for step in solution.steps
        if step.symbol.rstrip("0123456789") not in skipped and not _repeats(step.operation.op)
    ]
    return found or [(step.symbol, "") for step in solution.steps]


def _repeats(op: str) -> bool:
    return op == "copy"


def _conventions(exercise: Exercise) -> str:
    if not exercise.all_heads:
        return ""
    where = "rows" if exercise.rows else "columns"
    scale = "Do not scale the scores." if exercise.scale == "none" else f"Scale the scores by β = {exercise.scale}."
    return f"Tokens are {where}. {scale} Round to four digits."


def dump(exercise: Exercise) -> str:
    """The exercise as the YAML file that `glassformer solve` and `check` read."""
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
