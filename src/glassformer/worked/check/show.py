"""A report as text for the terminal, Markdown, a standalone HTML page, or JSON."""

from __future__ import annotations

import json
import textwrap
from html import escape

from glassformer.errors import InputError
from glassformer.worked.check.feedback import LEGEND, SIGNS, Marked, Section, sections, shown_name
from glassformer.worked.check.report import Mark, Report
from glassformer.worked.render.formula import name
from glassformer.worked.render.latex import latex
from glassformer.worked.render.mathml import mathml
from glassformer.worked.render.page import STYLE, page

FORMATS = ("text", "markdown", "html", "json")
SUFFIX = {"text": ".txt", "markdown": ".md", "html": ".html", "json": ".json"}


def show(report: Report, form: str = "text", width: int = 100) -> str:
    if form == "json":
        return json.dumps(report.to_json(), ensure_ascii=False, indent=1) + "\n"
    if form == "text":
        return _text(report, width)
    if form == "markdown":
        return _markdown(report)
    if form == "html":
        return _html(report)
    raise InputError(f"there is no format {form!r}", f"choose one of {', '.join(FORMATS)}")


def title(report: Report) -> str:
    return f"{report.title}: {report.name}" if report.title else report.name


def _filled(report: Report) -> list[Section]:
    return [section for section in sections(report) if section.items]


# -- text --------------------------------------------------------------------------------------------------------------


def _text(report: Report, width: int) -> str:
    head = title(report)
    lines = [head, "=" * len(head), ""]
    for section in _filled(report):
        lines += [section.title, "-" * len(section.title)] if section.title else []
        if any(isinstance(item, Marked) for item in section.items):
            lines += [f"  {LEGEND}", ""]
        for item in section.items:
            if isinstance(item, Marked):
                lines += [*_block(item, width), ""]
            else:
                lines += _wrapped(item, width, "- " if section.title else "")
        lines += [] if lines[-1] == "" else [""]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _wrapped(text: str, width: int, mark: str = "") -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=mark, subsequent_indent=" " * len(mark), break_on_hyphens=False
    ) or [""]


def _cell(mark: Mark | None) -> str:
    if mark is None:
        return ". "
    text = "" if mark.given is None else mark.given
    text = text if len(text) <= 24 else text[:23] + "…"
    return f"{text}{SIGNS[mark.verdict]}" if SIGNS[mark.verdict] else f"{text} "


def _block(step: Marked, width: int) -> list[str]:
    cells = [[_cell(mark) for mark in row] for row in step.rows]
    widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
    last = len(cells) - 1
    lines = []
    for i, row in enumerate(cells):
        body = " ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True))
        left, right = ("[", "]") if last == 0 else ("⎡", "⎤") if i == 0 else ("⎣", "⎦") if i == last else ("⎢", "⎥")
        before = (
            f"  {shown_name(step.symbol):>6} = "
            if i == last // 2
            else " " * (len(shown_name(step.symbol).rjust(6)) + 5)
        )
        after = f"   {step.said}" if i == last // 2 else ""
        lines.append(f"{before}{left}{body}{right}{after}")
    for sentence in step.sentences:
        lines += [f"{'':11}{line}" for line in _wrapped(sentence, width - 11)]
    return lines


# -- Markdown ----------------------------------------------------------------------------------------------------------


def _markdown(report: Report) -> str:
    lines = [f"# {_plain_markdown(title(report))}", ""]
    for section in _filled(report):
        lines += [f"## {section.title}", ""] if section.title else []
        if any(isinstance(item, Marked) for item in section.items):
            lines += [LEGEND.replace("   ", "; "), ""]
        for item in section.items:
            if isinstance(item, Marked):
                lines += [*_table(item), ""]
            else:
                lines.append(f"- {_plain_markdown(item)}" if section.title else _plain_markdown(item) + "  ")
        lines += [] if lines[-1] == "" else [""]
    return "\n".join(lines).rstrip() + "\n"


def _plain_markdown(text: str) -> str:
    """Words that hold the learner's own LaTeX: nothing in them is markup."""
    for char in "\\`*_{}[]<>$|#":
        text = text.replace(char, f"\\{char}")
    return text


def _table(step: Marked) -> list[str]:
    lines = [f"**${latex(name(step.symbol))}$**: {step.said}", ""]
    lines += ["| " + " | ".join(" " for _ in step.rows[0]) + " |", "|" + "---|" * len(step.rows[0])]
    for row in step.rows:
        lines.append("| " + " | ".join(_table_cell(mark) for mark in row) + " |")
    if step.sentences:
        lines += ["", *(f"- {_plain_markdown(sentence)}" for sentence in step.sentences)]
    return lines


def _table_cell(mark: Mark | None) -> str:
    text = _plain_markdown(_cell(mark).strip())
    return f"**{text}**" if mark is not None and mark.verdict in ("wrong", "rounded") else text


# -- HTML --------------------------------------------------------------------------------------------------------------

MARKS = """
table.step { border-collapse: collapse; border-left: 2px solid; border-right: 2px solid; margin: .3rem .6rem }
table.step td { padding: .15rem .6rem; text-align: right; font-variant-numeric: tabular-nums }
.line { display: flex; align-items: center; flex-wrap: wrap }
td.follows { background: #2a6fdb30 } td.rounded { background: #e8a50040 } td.wrong { background: #d3202040 }
td.missing { background: #8884 } td small { opacity: .75 }
section ul { margin: .2rem 0 } .legend span { padding: .1rem .4rem; margin-right: .6rem }
"""
_KEY = (
    ("right", "right"), ("follows", "→ right, given your earlier numbers"), ("rounded", "~ rounded wrongly"),
    ("wrong", "✗ wrong"), ("missing", "? not found"),
)  # fmt: skip


def _html(report: Report) -> str:
    body: list[str] = []
    for section in _filled(report):
        body += [f"<h2>{escape(section.title)}</h2>"] if section.title else []
        if any(isinstance(item, Marked) for item in section.items):
            key = "".join(f'<td class="{verdict}">{escape(says)}</td>' for verdict, says in _KEY)
            body.append(f"<table class=legend><tr>{key}</tr></table>")
        words = [item for item in section.items if isinstance(item, str)]
        if words and section.title:
            body.append("<ul>" + "".join(f"<li>{escape(item)}</li>" for item in words) + "</ul>")
        elif words:
            body.append("".join(f"<p>{escape(item)}</p>" for item in words))
        body += [_html_step(item) for item in section.items if isinstance(item, Marked)]
    return page(title(report), "\n".join(body), STYLE + MARKS)


def _html_step(step: Marked) -> str:
    rows = "".join("<tr>" + "".join(_html_cell(mark) for mark in row) + "</tr>" for row in step.rows)
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in step.sentences)
    symbol = f"<math>{mathml(name(step.symbol))}<mo>=</mo></math>"
    return (
        f'<section><div class=line>{symbol}<table class="step">{rows}</table><span>{escape(step.said)}</span></div>'
        f"{f'<ul>{said}</ul>' if said else ''}</section>"
    )


def _html_cell(mark: Mark | None) -> str:
    if mark is None:
        return "<td></td>"
    better = mark.follows or mark.expected
    hint = f" <small>({escape(better)})</small>" if mark.verdict in ("wrong", "rounded", "missing") else ""
    return f'<td class="{mark.verdict}">{escape(_cell(mark).strip())}{hint}</td>'
