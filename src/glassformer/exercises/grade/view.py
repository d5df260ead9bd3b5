"""Reports of a grade: one view of sentences and graded matrices, rendered as text, Markdown, HTML or JSON."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from glassformer import templates
from glassformer.errors import InputError
from glassformer.exercises.grade.rubric import format_points
from glassformer.exercises.printers.latex import latex
from glassformer.exercises.printers.mathml import mathml
from glassformer.exercises.printers.text import block, label
from glassformer.exercises.reader import ArithmeticFinding
from glassformer.exercises.steps import name

if TYPE_CHECKING:
    from glassformer.exercises.grade.grade import Cell, Grade

FORMATS = ("text", "markdown", "html", "json")
SUFFIX = {"text": ".txt", "markdown": ".md", "html": ".html", "json": ".json"}
SIGNS = {"right": "", "follows": "→", "rounded": "~", "wrong": "✗", "missing": "?"}
LEGEND = {
    "right": "no mark: right", "follows": "→ right, given your earlier numbers", "rounded": "~ rounded wrongly",
    "wrong": "✗ wrong", "missing": "? not found",
}  # fmt: skip
MOST_SENTENCES = 3  # maximum number of sentences about one step
FIRST = 2  # mistakes on the first screen
SHORTEST = 1500  # a report may have this many characters even if the homework is shorter
LONGEST_SENTENCE = 260  # on the first screen
MOST_NAMES = 12  # steps listed in one sentence


@dataclass(frozen=True, slots=True)
class StepView:
    """One step's matrix as written, each cell with its verdict; None where nothing is written."""

    symbol: str
    rows: tuple[tuple[Cell | None, ...], ...]
    summary: str
    sentences: tuple[str, ...]

    @property
    def name(self) -> str:
        return shown_name(self.symbol)

    @property
    def formula(self) -> Markup:
        """The step as MathML: its name, and the graded matrix in brackets."""
        rows = "".join(f"<mtr>{''.join(_math_cell(cell) for cell in row)}</mtr>" for row in self.rows)
        matrix = f'<mrow><mo stretchy="true">[</mo><mtable>{rows}</mtable><mo stretchy="true">]</mo></mrow>'
        return Markup(f"<math>{mathml(name(self.symbol))}<mo>=</mo>{matrix}</math>")


@dataclass(frozen=True, slots=True)
class GradeView:
    """The contents of a report: first the summary and what went wrong, then the steps, then the details."""

    title: str
    summary: tuple[str, ...]
    mistakes: tuple[str, ...]
    steps: tuple[StepView, ...]
    details: tuple[tuple[str, tuple[str, ...]], ...]
    limit: int | None = None  # maximum number of characters of a text or Markdown report


def view(grade: Grade, *, values: bool = True) -> GradeView:
    """Return the contents of a report; without `values`, its sentences do not tell the right numbers."""
    graded = bool(grade.title or grade.cells)
    details = (
        ("Arithmetic in your text", _sums(grade, values)),
        ("Could not be read", (f"line {u.line}: {_short(u.source)}: {named(u.reason)}." for u in grade.unread)),
        ("Crossed out, so not graded", (f"line {u.line}: {_short(u.source)}" for u in grade.struck)),
        ("Notes", _notes(grade)),
    )
    listed = ((title, tuple(items)) for title, items in details)
    return GradeView(
        f"{grade.title}: {grade.name}" if grade.title else grade.name,
        tuple(summary(grade)) if graded else (),
        tuple(_mistakes(grade, values)) if graded else (),
        tuple(_steps(grade)) if graded and values else (),
        tuple((title, items) for title, items in listed if items),
        max(SHORTEST, grade.length) if grade.length else None,
    )


def render(grade: Grade, form: str = "text", width: int = 100) -> str:
    """Render the grade in one of FORMATS."""
    match form:
        case "json":
            return json.dumps(grade.to_json(), ensure_ascii=False, indent=1) + "\n"
        case "text":
            return _text(view(grade), width)
        case "markdown":
            return _markdown(view(grade))
        case "html":
            return templates.render("grade.html", grade=view(grade), legend=LEGEND, first=FIRST)
    raise InputError(f"there is no format {form!r}", f"choose one of {', '.join(FORMATS)}")


def shown_name(symbol: str) -> str:
    """Return a symbol as displayed in a line of text: Q1K1ᵀ."""
    return block(name(symbol)).lines[0]


def named(text: str) -> str:
    """Replace internal symbols such as QKt1, Su or mu by their displayed names."""
    return re.sub(r"\b(?:(?:QKt|KtQ|Su)\d*|(?:mu|var)F?|gamma|beta)\b", lambda found: shown_name(found.group()), text)


# -- the first screen --------------------------------------------------------------------------------------------------


def summary(grade: Grade) -> Iterator[str]:
    counts = grade.count()
    every = len(grade.cells)
    misshaped = sum(cell.verdict == "wrong" and cell.given is None for cell in grade.cells)
    written, wrong = every - counts["missing"] - misshaped, counts["wrong"] - misshaped
    if grade.score is None:
        yield "Nothing to grade: none of the steps of this exercise was found in your text."
        yield from grade.points.comments if grade.points is not None else ()
        yield from _accounted(grade)
        return
    if grade.points is None:
        yield f"Score {100 * grade.score:.0f} % of {_number(every, 'number')}."
    else:
        steps = ", ".join(_points(grade))
        total = f"{format_points(grade.points.total)} of {format_points(grade.points.maximum)} points"
        yield f"{total}: {steps}." if steps else f"{total}."
        yield from grade.points.comments
    good = counts["right"] + counts["follows"]
    parts = [f"{good} of the {written} you wrote {'is' if good == 1 else 'are'} right"]
    if counts["follows"]:
        parts[0] += f" ({_follow(counts['follows'])} from your own earlier numbers)"
    parts += [f"{counts['rounded']} off in the last digit"] if counts["rounded"] else []
    parts += [f"{wrong} wrong"] if wrong else []
    text = ", ".join(parts) + "."
    perfect = counts["right"] == every and not grade.accounting.unread and not grade.unread
    if written:
        yield "Well done: every number is right." if perfect else text
    if counts["missing"]:
        yield f"{_number(counts['missing'], 'number')} not found: {_few(list(_absent(grade)), ', ')}."
    whole = [
        s for s in grade.symbols() if all(c.verdict in ("right", "follows") for c in grade.cells if c.symbol == s)
    ]
    if whole and counts["right"] != every:
        yield f"Nothing to correct in {_few([shown_name(s) for s in whole])}."
    yield from _accounted(grade)


def _accounted(grade: Grade) -> Iterator[str]:
    """Yield the four classes of numbers, which add up to all numbers of the text."""
    counts = grade.accounting
    if counts.total:
        yield (
            f"Of the {_number(counts.total, 'number')} in your text {counts.graded} are graded{_difference(grade)}, "
            f"{counts.arithmetic} checked as arithmetic, {counts.recognised} recognised as given data, labels or "
            f"indices, {counts.unread} unread."
        )


def _difference(grade: Grade) -> str:
    """Say why the numbers graded in the text are not as many as the cells that were written."""
    given = [cell.given for cell in grade.cells if cell.given is not None]
    if not given or len(given) == grade.accounting.graded:
        return ""
    several = [len(re.findall(r"\d+(?:\.\d+)?|\.\d+", text)) for text in given]
    reasons = ["one such as 1/2 is two numbers"] if max(several) > 1 else []
    reasons += ["-∞ is none"] if min(several) == 0 else []
    reasons += ["some are written more than once"] if grade.accounting.graded > sum(several) else []
    reasons += ["some stand for several"] if grade.accounting.graded < sum(several) else []
    return f" (for {len(given)} answers: {_and(reasons)})" if reasons else ""


def _absent(grade: Grade) -> Iterator[str]:
    for symbol in grade.symbols():
        cells = [c for c in grade.cells if c.symbol == symbol]
        gone = [c for c in cells if c.verdict == "missing"]
        if len(gone) == len(cells):
            yield f"all {len(gone)} of {shown_name(symbol)}" if len(gone) > 1 else f"that of {shown_name(symbol)}"
        elif gone:
            yield f"{len(gone)} in {shown_name(symbol)}"


def _mistakes(grade: Grade, values: bool) -> Iterator[str]:
    for symbol in dict.fromkeys(c.symbol for c in grade.cells if c.verdict == "wrong" and c.given is None):
        mine = [c for c in grade.cells if c.symbol == symbol]
        size = f"{max(c.row for c in mine)}×{max(c.column for c in mine)}"
        yield f"{shown_name(symbol)}: its size should be {size} in this exercise, but another size is written."
    lines = {(c.symbol, c.row - 1, c.column - 1): c.line for c in grade.cells if c.line}
    for mistake in grade.mistakes:
        found = [lines[place] for place in mistake.cells if place in lines]
        line = f" (line {min(line for line in found if line)})" if any(found) else ""
        why = mistake.why if values or mistake.cause is None else _capital(mistake.cause)
        yield named(f"{mistake.where}{line}: {mistake.name}. {why}.")
    explained = {place for mistake in grade.mistakes for place in mistake.cells}
    wrong = [c for c in grade.cells if c.verdict == "wrong" and c.given is not None]
    alone = [c for c in wrong if (c.symbol, c.row - 1, c.column - 1) not in explained]
    for symbol, group in groupby(alone, key=lambda c: c.symbol):
        cells = list(group)
        first = cells[0]
        line = f" in line {first.line}" if first.line else ""
        which = "It is" if len(cells) == 1 else "The first is"
        yield (
            f"{shown_name(symbol)}: {_number(len(cells), 'wrong number')}; no common mistake explains "
            f"{'it' if len(cells) == 1 else 'them'}. "
            f"{which} {_short(first.given or '', 40)}{line}"
            f"{f' and should be {first.follows or first.expected}' if values else ''}."
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] if text[:1].isascii() else text


def _points(grade: Grade) -> Iterator[str]:
    """Yield the points of each step of the rubric."""
    for step in grade.points.steps if grade.points is not None and grade.points.declared else ():
        sentence = f"{shown_name(step.step)} {format_points(step.points)} of {format_points(step.maximum)}"
        if step.graded is not None:
            yield f"{sentence} (set by hand, {format_points(step.graded)} by the grader)"
        elif step.source:
            what = "the rest" if step.written else "not written,"
            yield f"{sentence} ({what} credited from {shown_name(step.source)})"
        else:
            yield sentence if step.written else f"{sentence} (not found)"


def outline(grade: Grade) -> Iterator[str]:
    """Yield what a learner may know before resubmitting: summary, mistakes and unread numbers, but no values."""
    yield from summary(grade)
    for mistake in grade.mistakes:
        yield named(f"{mistake.where}: {mistake.name}.")
    for item in grade.unread:
        yield f"Could not be read: line {item.line}: {_short(item.source)}: {named(item.reason)}."


def marked(grade: Grade) -> dict[str, str]:
    """Return each step's matrix with the mark of every number, as text without the right values."""
    return {step.symbol: "\n".join(_block(replace(step, sentences=()), 100)) for step in _steps(grade)}


# -- the steps ---------------------------------------------------------------------------------------------------------


def _steps(grade: Grade) -> Iterator[StepView]:
    for symbol in grade.symbols():
        cells = [c for c in grade.cells if c.symbol == symbol]
        if all(c.given is None for c in cells):
            continue
        height, width = max(c.row for c in cells), max(c.column for c in cells)
        at = {(c.row, c.column): c for c in cells}
        rows = tuple(tuple(at.get((i, j)) for j in range(1, width + 1)) for i in range(1, height + 1))
        yield StepView(symbol, rows, _said(cells), tuple(_sentences(cells)))


def _said(cells: Sequence[Cell]) -> str:
    """Summarize the verdicts: right; 5 right, 2 follow from your earlier numbers, 1 wrong …"""
    counts: Counter[str] = Counter(c.verdict for c in cells)
    if counts["right"] == len(cells):
        return "right"
    if counts["follows"] == len(cells):
        return "right, given your earlier numbers"
    words = {"right": "right", "follows": "", "rounded": "off in the last digit", "wrong": "wrong",
             "missing": "not found"}  # fmt: skip
    parts = [f"{counts[verdict]} {word}" for verdict, word in words.items() if counts[verdict]]
    follow = f"{_follow(counts['follows'])} from your earlier numbers"
    return ", ".join(follow if part == f"{counts['follows']} " else part for part in parts)


def _sentences(cells: Sequence[Cell]) -> Iterator[str]:
    off = [c for c in cells if c.verdict in ("rounded", "wrong")]
    for c in off[:MOST_SENTENCES]:
        place = f"row {c.row}, column {c.column}" + (f" (line {c.line})" if c.line else "")
        given = f"{_short(c.given or '', 40)} is written"
        if c.verdict == "rounded":
            yield f"{place}: {given}, {c.follows or c.expected} is the rounded value."
        else:
            follows = f"; from your own numbers before it, {c.follows}" if c.follows else ""
            yield f"{place}: {given}, {c.expected} is right{follows}."
    if len(off) > MOST_SENTENCES:
        yield f"and {len(off) - MOST_SENTENCES} more."
    follow = next((c for c in cells if c.verdict == "follows"), None)
    if follow is not None:
        exact = f"the exact value is {follow.expected}"
        yield f"row {follow.row}, column {follow.column}: {_short(follow.given or '', 40)} follows; {exact}."


# -- sums, notes -------------------------------------------------------------------------------------------------------


def _sums(grade: Grade, values: bool) -> Iterator[str]:
    """Yield equations of the text that do not hold, except those whose result is graded above."""
    graded = {c.line for c in grade.cells if c.verdict in ("wrong", "rounded")}
    fine = [f for f in grade.arithmetic if f.verdict == "right"]
    if fine and (grade.score is None or len(fine) < len(grade.arithmetic)):
        yield f"{_number(len(fine), 'equation')} in your text hold" + ("s." if len(fine) == 1 else ".")
    for finding in grade.arithmetic:
        if finding.verdict != "right" and not (finding.line in graded and finding.verdict in ("wrong", "rounded")):
            yield sentence(finding, values=values)


def sentence(finding: ArithmeticFinding, *, values: bool = True) -> str:
    """Describe a finding: line 95: 8·14 − 11 → 71 does not hold: it is 96."""
    equation = f"{_short(label(finding.left), 70)} {finding.relation} {_short(label(finding.right), 50)}"
    off = [c for c in finding.cells if c.verdict != "right"]
    if finding.verdict in ("shape", "unread"):
        return f"line {finding.line}: {equation}: {finding.reason}."
    single = len(finding.cells) == 1
    cells = ", ".join(
        f"{'' if single else f'[{c.row},{c.column}] '}{c.expected}{'' if single else f', not {c.given}'}"
        for c in off[:4]
    )
    what = "is off in the last digit" if finding.verdict == "rounded" else "does not hold"
    more = f", and {len(off) - 4} more" if len(off) > 4 else ""
    reason = f" ({finding.reason})" if finding.reason else ""
    right = f": it is {cells}{more}" if values else ""
    return f"line {finding.line}: {equation} {what}{right}{reason}."


def _notes(grade: Grade) -> Iterator[str]:
    """Yield the notes; the same assumption on several lines is reported once."""
    found: dict[str, list[int]] = {}
    for note in grade.notes:
        found.setdefault(note.assumption, []).append(note.line)
    for reason, lines in found.items():
        places = list(dict.fromkeys(map(str, lines)))
        yield f"line{'s' if len(places) > 1 else ''} {_and(places)}: {named(reason)}."


def _short(text: str, most: int = 90) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def _follow(count: int) -> str:
    return f"{count} follow{'s' if count == 1 else ''}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _few(items: Sequence[str], before_last: str = " and ") -> str:
    """Join names, at most MOST_NAMES of them."""
    if len(items) > MOST_NAMES:
        return f"{', '.join(items[:MOST_NAMES])} and {len(items) - MOST_NAMES} more"
    return before_last.join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]


def _and(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


# -- the length of a report --------------------------------------------------------------------------------------------

Lines = list[str]
Part = tuple[str, int, Lines]  # a heading, the place below it, and the lines of one step or one remark
STEPS = "Step by step"


def _fitted(first: Lines, parts: Sequence[Part], limit: int | None, heading: Callable[[str], Lines]) -> Lines:
    """Return the first screen and as many parts as the limit allows, the important ones first; the rest is counted."""
    room = float("inf") if limit is None else limit - _size(first) - len(_omitted(999)) - 2
    chosen: dict[str, list[tuple[int, Lines]]] = {}
    left = 0
    for title, place, lines in parts:
        size = _size(lines) + (_size(heading(title)) if title not in chosen else 0)
        if size > room:
            left += 1
            continue
        room -= size
        chosen.setdefault(title, []).append((place, lines))
    groups = [[heading(title), *(lines for _, lines in sorted(group))] for title, group in chosen.items()]
    shown = [line for group in groups for lines in group for line in lines]
    return [*first, *shown, *(["", _omitted(left)] if left else [])]


def _size(lines: Lines) -> int:
    return sum(len(line) + 1 for line in lines)


def _omitted(count: int) -> str:
    return f"{_number(count, 'detail')} left out to keep this report no longer than your text: see --format html."


def _parts(shown: GradeView, block: Callable[[StepView], Lines], item: Callable[[str], Lines]) -> Iterator[Part]:
    """Yield the parts after the first screen: steps with something to say, other mistakes, what was not read, the rest.

    The first screen names the steps in which everything is right.
    """
    steps = [(STEPS, place, block(step)) for place, step in enumerate(shown.steps)]
    yield from (part for part, step in zip(steps, shown.steps, strict=True) if step.sentences)
    yield from (("Also wrong", place, item(sentence)) for place, sentence in enumerate(shown.mistakes[FIRST:]))
    for title, items in sorted(shown.details, key=lambda detail: detail[0] != "Could not be read"):
        above = title if shown.steps or shown.summary else ""
        yield from ((above, place, item(sentence)) for place, sentence in enumerate(items))


def _legend(shown: GradeView) -> list[str]:
    """Return the legend of the verdicts that occur."""
    used = {cell.verdict for step in shown.steps for row in step.rows for cell in row if cell is not None}
    return [text for verdict, text in LEGEND.items() if verdict in used]


# -- text --------------------------------------------------------------------------------------------------------------


def _text(shown: GradeView, width: int) -> str:
    title = _short(shown.title, 100)
    lines = [title, "=" * len(title), ""]
    for sentence in shown.summary:
        lines += _wrapped(sentence, width)
    if shown.mistakes:
        lines += ["", "What went wrong", "---------------"]
        for sentence in shown.mistakes[:FIRST]:
            lines += _wrapped(_short(sentence, LONGEST_SENTENCE), width, "- ")

    def heading(title: str) -> Lines:
        legend = [f"  {'   '.join(_legend(shown))}", ""] if title == STEPS else []
        return ["", title, "-" * len(title), *legend] if title else []

    mark = "- " if shown.steps or shown.summary else ""
    parts = _parts(shown, lambda step: [*_block(step, width), ""], lambda sentence: _wrapped(sentence, width, mark))
    found = "\n".join(line.rstrip() for line in _fitted(lines, list(parts), shown.limit, heading))
    return re.sub(r"\n{3,}", "\n\n", found).rstrip() + "\n"


def _wrapped(text: str, width: int, mark: str = "") -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=mark, subsequent_indent=" " * len(mark), break_on_hyphens=False
    ) or [""]


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return ". "
    text = "" if cell.given is None else cell.given
    text = text if len(text) <= 24 else text[:23] + "…"
    return f"{text}{SIGNS[cell.verdict]}" if SIGNS[cell.verdict] else f"{text} "


def _block(step: StepView, width: int) -> list[str]:
    cells = [[_cell(cell) for cell in row] for row in step.rows]
    widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
    last = len(cells) - 1
    lines = []
    for i, row in enumerate(cells):
        body = " ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True))
        left, right = ("[", "]") if last == 0 else ("⎡", "⎤") if i == 0 else ("⎣", "⎦") if i == last else ("⎢", "⎥")
        before = f"  {step.name:>6} = " if i == last // 2 else " " * (len(step.name.rjust(6)) + 5)
        after = f"   {step.summary}" if i == last // 2 else ""
        lines.append(f"{before}{left}{body}{right}{after}")
    for sentence in step.sentences:
        lines += [f"{'':11}{line}" for line in _wrapped(sentence, width - 11)]
    return lines


# -- Markdown ----------------------------------------------------------------------------------------------------------


def _markdown(shown: GradeView) -> str:
    lines = [f"# {plain_markdown(_short(shown.title, 100))}", ""]
    lines += [f"{plain_markdown(sentence)}  " for sentence in shown.summary]
    if shown.mistakes:
        first = [_short(sentence, LONGEST_SENTENCE) for sentence in shown.mistakes[:FIRST]]
        lines += ["", "## What went wrong", "", *(f"- {plain_markdown(sentence)}" for sentence in first)]

    def heading(title: str) -> Lines:
        legend = ["; ".join(_legend(shown)), ""] if title == STEPS else []
        return ["", f"## {title}", "", *legend] if title else []

    parts = _parts(shown, lambda step: [*_table(step), ""], lambda sentence: [f"- {plain_markdown(sentence)}"])
    found = "\n".join(_fitted(lines, list(parts), shown.limit, heading))
    return re.sub(r"\n{3,}", "\n\n", found).rstrip() + "\n"


def plain_markdown(text: str) -> str:
    """Escape text that contains the learner's own LaTeX, so that nothing in it is interpreted as markup."""
    for char in "\\`*_{}[]<>$|#":
        text = text.replace(char, f"\\{char}")
    return text


def _table(step: StepView) -> list[str]:
    lines = [f"**${latex(name(step.symbol))}$**: {step.summary}", ""]
    lines += ["| " + " | ".join(" " for _ in step.rows[0]) + " |", "|" + "---|" * len(step.rows[0])]
    for row in step.rows:
        lines.append("| " + " | ".join(_table_cell(cell) for cell in row) + " |")
    if step.sentences:
        lines += ["", *(f"- {plain_markdown(sentence)}" for sentence in step.sentences)]
    return lines


def _table_cell(cell: Cell | None) -> str:
    text = plain_markdown(_cell(cell).strip())
    return f"**{text}**" if cell is not None and cell.verdict in ("wrong", "rounded") else text


# -- HTML --------------------------------------------------------------------------------------------------------------


def _math_cell(cell: Cell | None) -> str:
    if cell is None:
        return "<mtd></mtd>"
    text = escape(_cell(cell).strip())
    better = cell.follows or cell.expected
    hint = f"<mtext> ({escape(better)})</mtext>" if cell.verdict in ("wrong", "rounded", "missing") else ""
    return f'<mtd class="{cell.verdict}"><mn>{text}</mn>{hint}</mtd>'
