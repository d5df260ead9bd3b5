"""A report in words: sections of sentences and marked matrices, which text, Markdown and HTML show alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from glassformer.worked.check.report import Mark, Report
from glassformer.worked.read import ArithmeticFinding, label
from glassformer.worked.render.formula import name
from glassformer.worked.render.plain import block

SIGNS = {"right": "", "follows": "→", "rounded": "~", "wrong": "✗", "missing": "?"}
LEGEND = "no mark: right   → right, given your earlier numbers   ~ rounded wrongly   ✗ wrong   ? not found"
MOST = 6  # sentences about one step


@dataclass(frozen=True, slots=True)
class Marked:
    """One step's matrix as it was written, each cell with its mark; None where nothing is written."""

    symbol: str
    rows: tuple[tuple[Mark | None, ...], ...]
    said: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    items: tuple[str | Marked, ...]


def shown_name(symbol: str) -> str:
    """As it is displayed in a line of text: Q1K1ᵀ."""
    return block(name(symbol)).lines[0]


def _named(text: str) -> str:
    """Symbols that are no letters on paper, QKt1 or Su, as they are displayed."""
    return re.sub(r"\b(?:QKt|KtQ|Su)\d*\b", lambda found: shown_name(found.group()), text)


def sections(report: Report) -> Iterator[Section]:
    """What is right, what is not, the slips, the steps, what could not be read."""
    if report.score is not None:
        yield Section("", tuple(summary(report)))
        yield Section("What went wrong", tuple(_slips(report)))
        yield Section("Step by step", tuple(_steps(report)))
    yield Section("Sums in your text" if report.score is not None else "", tuple(_sums(report)))
    yield Section("Could not be read", tuple(_lines((u.line, u.source, u.reason) for u in report.unread)))
    yield Section("Crossed out, so not judged", tuple(f"line {u.line}: {_short(u.source)}" for u in report.struck))
    yield Section("How it was read", tuple(_notes(report)))


# -- the whole ---------------------------------------------------------------------------------------------------------


def summary(report: Report) -> Iterator[str]:
    counts = report.count()
    every = len(report.cells)
    written = every - counts["missing"]
    yield f"Score {100 * (report.score or 0):.0f} % of {_number(every, 'number')}."
    if not written:
        yield "None of the steps of this exercise was found in your text."
        return
    good = counts["right"] + counts["follows"]
    said = [f"{good} of the {written} you wrote are right"]
    if counts["follows"]:
        said[0] += f" ({counts['follows']} of them follow from your own earlier numbers)"
    said += [f"{counts['rounded']} off in the last digit"] if counts["rounded"] else []
    said += [f"{counts['wrong']} wrong"] if counts["wrong"] else []
    text = ", ".join(said) + "."
    yield ("Well done: every number is right." if counts["right"] == every else text[0].upper() + text[1:])
    if counts["missing"]:
        yield f"{_number(counts['missing'], 'number')} not found: {', '.join(_absent(report))}."
    whole = [
        s for s in report.symbols() if all(c.verdict in ("right", "follows") for c in report.cells if c.symbol == s)
    ]
    if whole and counts["right"] != every:
        yield f"Nothing to mend in {_and([shown_name(s) for s in whole])}."


def _absent(report: Report) -> Iterator[str]:
    for symbol in report.symbols():
        cells = [c for c in report.cells if c.symbol == symbol]
        gone = [c for c in cells if c.verdict == "missing"]
        if len(gone) == len(cells):
            yield f"all of {shown_name(symbol)}"
        elif gone:
            yield f"{len(gone)} in {shown_name(symbol)}"


def _slips(report: Report) -> Iterator[str]:
    for symbol in dict.fromkeys(c.symbol for c in report.cells if c.verdict == "wrong" and c.given is None):
        yield f"{shown_name(symbol)} has not the size that it should have; see below."
    for slip in report.slips:
        yield _named(f"{slip.name[0].upper() + slip.name[1:]}, {slip.where}. {slip.why}.")
    named = {place for slip in report.slips for place in slip.cells}
    wrong = [c for c in report.cells if c.verdict == "wrong" and c.given is not None]
    alone = [c for c in wrong if (c.symbol, c.row - 1, c.column - 1) not in named]
    for symbol, cells in groupby(alone, key=lambda c: c.symbol):
        count = len(list(cells))
        yield f"{shown_name(symbol)}: {_number(count, 'number')} wrong, and no single slip that we know explains them."


# -- the steps ---------------------------------------------------------------------------------------------------------


def _steps(report: Report) -> Iterator[Marked]:
    for symbol in report.symbols():
        cells = [c for c in report.cells if c.symbol == symbol]
        if all(c.given is None for c in cells):
            continue
        height, width = max(c.row for c in cells), max(c.column for c in cells)
        at = {(c.row, c.column): c for c in cells}
        rows = tuple(tuple(at.get((i, j)) for j in range(1, width + 1)) for i in range(1, height + 1))
        yield Marked(symbol, rows, _said(cells), tuple(_sentences(cells)))


def _said(cells: Sequence[Mark]) -> str:
    """right; 2 follow, the rest is right; 1 wrong …"""
    words = {"follows": "that follow from your earlier numbers", "rounded": "off in the last digit", "wrong": "wrong",
             "missing": "not found"}  # fmt: skip
    counts = {verdict: sum(c.verdict == verdict for c in cells) for verdict in words}
    parts = [f"{count} {words[verdict]}" for verdict, count in counts.items() if count]
    if not parts:
        return "right"
    if counts["follows"] == len(cells):
        return "right, given your earlier numbers"
    rest = len(cells) - sum(counts.values())
    return ", ".join([*([f"{rest} right"] if rest else []), *parts])


def _sentences(cells: Sequence[Mark]) -> Iterator[str]:
    off = [c for c in cells if c.verdict in ("rounded", "wrong")]
    for c in off[:MOST]:
        place = f"row {c.row}, column {c.column}" + (f" (line {c.line})" if c.line else "")
        given = f"{_short(c.given or '', 40)} is written"
        if c.verdict == "rounded":
            yield f"{place}: {given}, {c.follows or c.expected} is the rounded value."
        else:
            follows = f"; from your own numbers before it, {c.follows}" if c.follows else ""
            yield f"{place}: {given}, {c.expected} is right{follows}."
    if len(off) > MOST:
        yield f"and {len(off) - MOST} more."
    follow = next((c for c in cells if c.verdict == "follows"), None)
    if follow is not None:
        exact = f"without the earlier slip or rounding it would be {follow.expected}"
        yield f"row {follow.row}, column {follow.column}: {_short(follow.given or '', 40)} follows; {exact}."


# -- sums, lines, notes ------------------------------------------------------------------------------------------------


def _sums(report: Report) -> Iterator[str]:
    """Equations of the text that do not hold; those whose result is marked above are not said twice."""
    marked = {c.line for c in report.cells if c.verdict in ("wrong", "rounded")}
    fine = [f for f in report.arithmetic if f.verdict == "right"]
    if fine and (report.score is None or len(fine) < len(report.arithmetic)):
        yield f"{_number(len(fine), 'equation')} of your text hold" + ("s." if len(fine) == 1 else ".")
    for finding in report.arithmetic:
        if finding.verdict != "right" and not (finding.line in marked and finding.verdict in ("wrong", "rounded")):
            yield sentence(finding)


def sentence(finding: ArithmeticFinding) -> str:
    """line 95: 8·14 − 11 → 71 does not hold: 96."""
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
    return f"line {finding.line}: {equation} {what}: it is {cells}{more}{reason}."


def _lines(items: Iterator[tuple[int, str, str]]) -> Iterator[str]:
    return (f"line {line}: {_short(source)}: {_named(reason)}." for line, source, reason in items)


def _notes(report: Report) -> Iterator[str]:
    """The same assumption on several lines is said once."""
    found: dict[str, list[int]] = {}
    for note in report.notes:
        found.setdefault(note.assumption, []).append(note.line)
    for said, lines in found.items():
        places = list(dict.fromkeys(map(str, lines)))
        yield f"line{'s' if len(places) > 1 else ''} {_and(places)}: {_named(said)}."


def _short(text: str, most: int = 90) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _and(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
