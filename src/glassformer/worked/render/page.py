"""A whole solution as terminal text, Markdown, LaTeX or a standalone HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from glassformer.errors import InputError
from glassformer.worked.render import latex, mathml, plain
from glassformer.worked.render.formula import Link, chain, exact_grid, name
from glassformer.worked.solve import Solution, Step
from glassformer.worked.words import describe

FORMATS = ("text", "markdown", "latex", "html", "json")

_SAYS = {
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
    "cumulate": "Running sums",
    "monotone": "Transport plan: mass moved in order",
    "move": "A move",
    "gather": "Cost of the plan",
    "weigh": "The area between the running sums",
}


def render(
    solution: Solution, form: str = "text", *, digits: int = 4, only: str | None = None, width: int = 100
) -> str:
    """The solution in one of FORMATS but json; `only` one symbol’s step (A: every head’s)."""
    if not 1 <= digits <= 50:
        raise InputError(f"{digits} digits after the point", "choose 1 to 50")
    steps = [step for step in solution.steps if only is None or _is(step, only)]
    if not steps:
        symbols = ", ".join(step.symbol for step in solution.steps)
        raise InputError(f"this exercise has no step {only!r}", f"choose one of {symbols}")
    makers = {"text": _text, "markdown": _markdown, "latex": _latex, "html": _html}
    if form not in makers:
        raise InputError(f"there is no format {form!r}", f"choose one of {', '.join(FORMATS)}")
    if form == "text":
        return _text(solution, steps, digits, only is None, width)
    return makers[form](solution, steps, digits, only is None)


def _is(step: Step, wanted: str) -> bool:
    return step.symbol == wanted or (step.symbol.rstrip("0123456789") == wanted and step.symbol[-1:].isdigit())


def _given(solution: Solution) -> Iterator[tuple[str, list[Link]]]:
    for symbol, matrix in solution.plan.given.items():
        yield symbol, [Link("", name(symbol)), Link("=", exact_grid(matrix))]


def title_of(step: Step) -> str:
    """What the step does, for those whose formula does not say it."""
    return _SAYS.get(step.operation.op, "")


def _text(solution: Solution, steps: list[Step], digits: int, whole: bool, width: int = 100) -> str:
    lines = [solution.exercise.title, "=" * len(solution.exercise.title), ""] if whole else []
    if whole and solution.exercise.text:
        lines += [solution.exercise.text.strip(), ""]
    if whole:
        for _, links in _given(solution):
            lines += [plain.chain(links, width), ""]
    for step in steps:
        if title_of(step):
            lines.append(f"{title_of(step)}:")
        lines += [plain.chain(chain(step, digits), width), ""]
        lines += [f"  {sentence}" for sentence in describe(solution).get(step.symbol, [])]
        if step.operation.op == "softargmax":
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _markdown(solution: Solution, steps: list[Step], digits: int, whole: bool) -> str:
    lines = [f"# {solution.exercise.title}", ""] if whole else []
    if whole and solution.exercise.text:
        lines += [solution.exercise.text.strip(), ""]
    if whole:
        lines += ["## Given", ""]
        for _, links in _given(solution):
            lines += [f"$${latex.chain(links)}$$", ""]
        lines += ["## Solution", ""]
    for step in steps:
        if title_of(step):
            lines += [f"{title_of(step)}:", ""]
        lines += [f"$${latex.chain(chain(step, digits))}$$", ""]
        lines += [f"- {sentence}" for sentence in describe(solution).get(step.symbol, [])]
        if step.operation.op == "softargmax":
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _latex(solution: Solution, steps: list[Step], digits: int, whole: bool) -> str:
    body: list[str] = []
    if whole and solution.exercise.text:
        body += [latex.escape(solution.exercise.text.strip()), ""]
    if whole:
        body.append(r"\section*{Given}")
        body += [_display(links) for _, links in _given(solution)]
        body.append(r"\section*{Solution}")
    for step in steps:
        body.append(rf"\paragraph{{{latex.escape(title_of(step))}}}" if title_of(step) else "")
        body.append(_display(chain(step, digits)))
        said = describe(solution).get(step.symbol, [])
        if said:
            body += [r"\begin{itemize}", *(rf"\item {latex.escape(sentence)}" for sentence in said), r"\end{itemize}"]
    return LATEX.replace("TITLE", latex.escape(solution.exercise.title)).replace("BODY", "\n".join(body))


def _display(links: list[Link]) -> str:
    """A long chain goes over several lines, one for each relation, and a line wider than the page is made smaller."""
    first, *rest = links
    rows = [rf"{latex.latex(first.node)} {_relation(rest[0])}" if rest else latex.latex(first.node)]
    rows += [_relation(link) for link in rest[1:]]
    return "\n".join([r"\begin{align*}", " \\\\\n".join(rows), r"\end{align*}"])


def _relation(link: Link) -> str:
    sign = {"=": "=", "≈": r"\approx"}[link.relation]
    return rf"&{sign} \fit{{{latex.latex(link.node)}}}"


LATEX = r"""\documentclass[11pt]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage[margin=2cm]{geometry}
\usepackage{amsmath}
\usepackage{graphicx}
\setcounter{MaxMatrixCols}{64}
\newsavebox{\fitbox}
\newcommand{\fit}[1]{\sbox{\fitbox}{$\displaystyle #1$}%
  \ifdim\wd\fitbox>0.85\textwidth\vcenter{\hbox{\resizebox{0.85\textwidth}{!}{\usebox{\fitbox}}}}\else\usebox{\fitbox}\fi}
\begin{document}
\section*{TITLE}
BODY
\end{document}
"""


def _html(solution: Solution, steps: list[Step], digits: int, whole: bool) -> str:
    body: list[str] = []
    if whole and solution.exercise.text:
        body.append(f"<p>{escape(solution.exercise.text.strip())}</p>")
    if whole:
        body.append("<h2>Given</h2>")
        body += [f"<div class=step>{mathml.chain(links)}</div>" for _, links in _given(solution)]
        body.append("<h2>Solution</h2>")
    for step in steps:
        said = "".join(f"<li>{escape(sentence)}</li>" for sentence in describe(solution).get(step.symbol, []))
        heading = f"<h3>{escape(title_of(step))}</h3>" if title_of(step) else ""
        formula = mathml.chain(chain(step, digits))
        body.append(f"<section>{heading}<div class=step>{formula}</div>{f'<ul>{said}</ul>' if said else ''}</section>")
    return page(solution.exercise.title, "\n".join(body))


STYLE = """
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem; font-weight: 600 }
.step { overflow-x: auto; padding: .4rem 0 }
math { font-size: 1.1rem }
mtd { padding: .15em .45em }
section { border-top: 1px solid #8884 }
"""


def page(title: str, body: str, style: str = STYLE) -> str:
    """A standalone page: no script, nothing fetched."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width">\n<style>{style}</style>\n</head>\n'
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )
