"""grade(exercise, reading) → Grade: align statements, decide each cell, diagnose the mistakes, compute the score."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.exercise import Exercise, load_exercise
from glassformer.exercises.expression import Array, Expression, Number, Several, walk
from glassformer.exercises.grade.accounting import Accounting, Ledger
from glassformer.exercises.grade.align import (
    COUNTERS,
    Aligner,
    Alignment,
    is_hypothetical,
    is_parameter,
    is_sum_of_weights,
)
from glassformer.exercises.grade.cells import answer_of, closeness, format_value
from glassformer.exercises.grade.diagnose import Mistake, diagnose, weight_sums
from glassformer.exercises.grade.evidence import Evidence
from glassformer.exercises.grade.misreadings import Misreadings
from glassformer.exercises.grade.rubric import (
    Points,
    Rubric,
    award,
    essential,
    load_rubric,
    missing,
    score,
    tolerate,
)
from glassformer.exercises.grade.verdict import Compared, FollowThrough, Place, Verdict, Verdicts
from glassformer.exercises.grade.vocabulary import subject
from glassformer.exercises.grade.workers import grade_document
from glassformer.exercises.plan import Plan, plan
from glassformer.exercises.printers.text import label
from glassformer.exercises.reader import (
    ArithmeticFinding,
    Note,
    Reading,
    Unread,
    arithmetic,
)

MOST_CELLS = 4096  # maximum cells of one matrix
MOST_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a step with its verdict; rows and columns are counted from 1.

    `given` is what was written (None if nothing was), `expected` the exact value to as many digits, `follows` the value
    derived from the learner's own earlier numbers where it differs.
    """

    symbol: str
    row: int
    column: int
    given: str | None
    expected: str
    verdict: Verdict
    line: int | None = None
    follows: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "symbol": self.symbol, "row": self.row, "column": self.column, "given": self.given,
            "expected": self.expected, "verdict": self.verdict, "line": self.line,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Grade:
    """A graded document, with representations for terminals and notebooks.

    Without an exercise `score` is None, and only the document's own arithmetic is checked.
    """

    name: str
    title: str
    score: float | None
    cells: tuple[Cell, ...]
    mistakes: tuple[Mistake, ...]
    unread: tuple[Unread, ...]
    notes: tuple[Note, ...]
    struck: tuple[Unread, ...]
    arithmetic: tuple[ArithmeticFinding, ...]
    skipped: tuple[str, ...] = ()
    accounting: Accounting = field(default_factory=Accounting)
    points: Points | None = None  # with a rubric
    exercise: Exercise | None = field(default=None, compare=False, repr=False)
    document: str = field(default="", compare=False, repr=False)  # the text that was graded, if it was one
    length: int = 0  # characters of the document, which its report does not exceed

    def count(self) -> Counter[str]:
        """Return the number of cells with each verdict."""
        return Counter(cell.verdict for cell in self.cells)

    def symbols(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.symbol for cell in self.cells))

    def render(self, form: str = "text", width: int = 100) -> str:
        """Render the grade as text, markdown, html or json."""
        from glassformer.exercises.grade.view import render

        return render(self, form, width)

    def save(self, path: Path | str) -> None:
        """Save the grade in the format of the file extension: .txt, .md, .html or .json."""
        from glassformer.exercises.grade.view import SUFFIX

        path = Path(path)
        form = next((form for form, suffix in SUFFIX.items() if suffix == path.suffix.lower()), None)
        if form is None:
            raise InputError(
                f"{path.name} has an unknown file extension", f"choose one of {', '.join(SUFFIX.values())}"
            )
        path.write_text(self.render(form), encoding="utf-8")

    def __str__(self) -> str:
        return self.render()

    def _repr_html_(self) -> str:
        return self.render("html")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def to_json(self) -> dict[str, Any]:
        """Return the grade as JSON data, for example for an autograder."""
        return {
            "name": self.name,
            "exercise": self.title,
            "score": None if self.score is None else round(self.score, 6),
            **({} if self.points is None else {"points": self.points.to_json()}),
            "accounting": asdict(self.accounting),
            "cells": [cell.to_json() for cell in self.cells],
            "mistakes": [mistake.to_json() for mistake in self.mistakes],
            "unread": [_located(item.line, item.source, item.reason) for item in self.unread],
            "notes": [_located(item.line, item.source, item.assumption) for item in self.notes],
            "struck": [_located(item.line, item.source, item.reason) for item in self.struck],
            "arithmetic": [_finding(item) for item in self.arithmetic],
        }


def check(
    exercise: Exercise | Path | str | None,
    answers: Reading | Mapping[str, Any] | Path | str,
    *,
    rubric: Rubric | Path | str | None = None,
    decimal_comma: bool = False,
) -> Grade:
    """Grade a learner's work.

    `exercise`: an Exercise, a YAML file, or the name of an embedded one; None only checks the document's arithmetic.
    `answers`: a file, a document as text (with a line break in it), or a mapping such as {"Q": [[1, 2], [3, 4]]}.
    `rubric`: a Rubric, a YAML file or YAML text; the grade then has `points`, and its score is their share.
    `decimal_comma`: read every comma between two digits as a decimal comma.

    A document is untrusted: it is read and graded in a child process, limited to two seconds of processor time and 2 GB
    of memory. A Reading is graded in this process.

    >>> grade = gf.check("four-tokens", "examples/homework.md")
    >>> [mistake.where for mistake in grade.mistakes]
    ['S[4,2]']
    """
    found = None if exercise is None else find_exercise(exercise)
    scheme = None if rubric is None else load_rubric(rubric)
    if isinstance(answers, Reading):
        return grade(found, answers, scheme)
    if isinstance(answers, Mapping):
        return grade_document(
            found, (json.dumps(answers, default=str), "answers", "json"), scheme, decimal_comma=decimal_comma
        )
    if isinstance(answers, str) and "\n" in answers:
        return grade_document(found, (answers, "the document", "auto"), scheme, decimal_comma=decimal_comma)
    return grade_document(found, Path(answers), scheme, decimal_comma=decimal_comma)


def find_exercise(exercise: Exercise | Path | str) -> Exercise:
    """Return the exercise of a name or a YAML file; an Exercise is returned as it is."""
    if isinstance(exercise, Exercise):
        return exercise
    return (
        library.get(exercise)
        if isinstance(exercise, str) and exercise in library.names()
        else load_exercise(Path(exercise))
    )


def grade(exercise: Exercise | None, reading: Reading, rubric: Rubric | None = None) -> Grade:
    """Grade a parsed document; without an exercise only its own arithmetic is checked."""
    if exercise is None and rubric is not None:
        raise InputError("a rubric needs an exercise", "name the exercise before the answers")
    sums = tuple(arithmetic(reading))
    ledger = Ledger(reading.text)
    if exercise is None:
        _readable(reading, reading.unread)
        _claim(ledger, None, reading, sums)
        ledger.recognise()
        unread = tuple(ledger.unread(reading.unread))
        counts = ledger.counts()
        length = len(reading.text)
        return Grade(reading.name, "", None, (), (), unread, reading.notes, (), sums, (), counts, length=length)
    made = plan(exercise)
    aligner = Aligner(made, reading, exercise.labels)
    alignment = aligner.run()
    _claim(ledger, alignment, reading, sums, asides=False)
    if reading.kind != "json":  # there every number has its symbol
        Evidence(exercise, aligner, ledger).run()
    ledger = Ledger(reading.text)
    _claim(ledger, alignment, reading, sums)
    if not alignment.placed:
        _readable(reading, tuple(alignment.unread))
    exact = aligner.exact
    follow, verdicts, cells, mistakes = _judge(exercise, made, alignment, exact, rubric)
    question = f"{exercise.title}\n{exercise.text or ''}"
    lines = {item.line for item in alignment.unread}
    ledger.recognise(question, {*_numbers(alignment), *_scales(made)}, lines)
    for _ in range(MOST_ROUNDS if reading.kind not in ("json", "yaml") else 0):  # there every number has its symbol
        left, positions = ledger.unread_numbers(), ledger.positions()
        if not Misreadings(made, exact, alignment, cells, mistakes, left, positions).take_back():
            break
        follow, verdicts, cells, mistakes = _judge(exercise, made, alignment, exact, rubric)
        ledger = Ledger(reading.text)
        _claim(ledger, alignment, reading, sums)
        lines = {item.line for item in alignment.unread}
        ledger.recognise(question, {*_numbers(alignment), *_scales(made)}, lines)
    required = rubric.required(made) if rubric is not None else ()
    absent = [cell for cell in missing(made, verdicts, required) if cell.symbol not in alignment.misshaped]
    order = {symbol: k for k, symbol in enumerate(made.symbols)}
    every = sorted((*cells, *absent), key=lambda cell: (order[cell.symbol], cell.row, cell.column))
    written = {cell.symbol for cell in every}
    copied = list(_copied(made, alignment, follow))
    mistakes = [*(mistake for _, mistake in copied if _matters(made, mistake, cells)), *mistakes]
    notes = (*alignment.notes, *(note for note, _ in copied), *_remarks(made, follow, cells))
    notes = (*notes, *_tolerated(verdicts, cells))
    graded = Grade(
        reading.name,
        exercise.title,
        score(every) if any(cell.entry is not None or cell.verdict == "wrong" for cell in every) else None,
        tuple(_cell(cell) for cell in every),
        tuple(replace(mistake, values={}) for mistake in mistakes),
        tuple(ledger.unread(alignment.unread)),
        tuple(sorted(notes, key=lambda note: note.line)),
        tuple(alignment.struck),
        sums,
        tuple(symbol for symbol in essential(made) if symbol not in written),
        ledger.counts(),
        exercise=exercise,
        document="" if reading.kind in ("csv", "json", "yaml") else reading.text,
        length=len(reading.text),
    )
    if rubric is None or graded.score is None:
        return graded
    points = award(rubric, made, graded.cells, graded.mistakes)
    return replace(graded, points=points, score=points.share)


def _judge(
    exercise: Exercise, made: Plan, alignment: Alignment, exact: Mapping[str, Any], rubric: Rubric | None
) -> tuple[FollowThrough, Verdicts, tuple[Compared, ...], list[Mistake]]:
    """Decide every cell and find the mistakes, again until the effect of each mistake on later numbers is known."""
    behind: dict[Place, Any] = {}
    for _ in range(MOST_ROUNDS):
        follow = alignment.follow_through(made, exact, behind)
        verdicts = follow.run()
        cells = (*verdicts.cells, *_misshaped(made, alignment, verdicts))
        cells = cells if rubric is None else tolerate(cells, rubric)
        mistakes = diagnose(exercise, follow, cells, alignment.misshaped)
        found = {place: value for mistake in mistakes for place, value in mistake.values.items() if value is not True}
        if set(found) <= set(behind):
            break
        behind |= found
    return follow, verdicts, cells, mistakes


def _tolerated(verdicts: Verdicts, cells: Sequence[Compared]) -> Iterator[Note]:
    """Note the numbers that are accepted only because of the rubric's tolerance."""
    pairs = zip(verdicts.cells, cells, strict=False)  # misshaped cells come after these
    within = [now for before, now in pairs if before.verdict != now.verdict]
    if within and within[0].entry is not None:
        symbols = ", ".join(dict.fromkeys(cell.symbol for cell in within))
        sentence = f"{len(within)} number{'s differ' if len(within) > 1 else ' differs'} by no more than the tolerance"
        yield Note(within[0].entry.line, "", f"{sentence} ({symbols}): accepted")


def _numbers(alignment: Alignment) -> set[Fraction]:
    """Return the numbers that are graded, which sentences may repeat."""
    entries = [entry for each in alignment.placed for entry in each.cells.values() if entry.term is not None]
    terms = [part for entry in entries if entry.term is not None for part in walk(entry.term)]
    return {part.value for part in terms if isinstance(part, Number)}


def _claim(
    ledger: Ledger, alignment: Alignment | None, reading: Reading, sums: Sequence[ArithmeticFinding],
    *, asides: bool = True,
) -> None:  # fmt: skip
    """Claim the graded numbers, then those of the arithmetic, then those of statements that are not answers.

    Without `asides` the decimals of statements that only look like counters or parameters stay unclaimed, and
    quantities that are not steps are recognised, so that they are not taken for results.
    """
    for placed in alignment.placed if alignment is not None else ():
        given = alignment is not None and placed.symbol in alignment.given
        for at, entry in placed.cells.items() if placed.role != "echo" else ():
            if entry.term is not None:
                ledger.claim(entry.term, entry.line, "recognised" if given else "graded", (placed.symbol, *at))
    placed_before = {(each.line, each.source) for each in (alignment.placed if alignment is not None else ())}
    lines = {id(link.term): link.line for statement in reading.statements for link in statement.terms}
    for finding in sums:
        if finding.verdict != "unread":
            for term in (finding.left, finding.right):
                ledger.claim(term, lines.get(id(term), finding.line), "arithmetic")
    for statement in alignment.checked if alignment is not None else ():
        for link in statement.terms:
            ledger.claim(link.term, link.line, "arithmetic" if asides else "recognised")
    for statement in reading.statements:
        target = statement.target
        counter = target is not None and target.is_name and target.name in COUNTERS
        example = alignment is not None and statement in alignment.supposed
        named = subject(target.term) if target is not None else None
        weights = named is not None and alignment is not None and named.bases[0][0] in "Wb" and any(
            symbol.startswith(named.bases[0]) for symbol in alignment.given
        )  # fmt: skip
        supposed = statement.crossed or example or weights or is_hypothetical(statement) or is_sum_of_weights(statement)
        counter = counter or is_parameter(statement)
        supposed, counter = (
            found and (statement.line, statement.source) not in placed_before for found in (supposed, counter)
        )
        if target is not None and not isinstance(target.term, Array | Several):
            ledger.claim(target.term, statement.line, "recognised")
        for _, term in statement.given:
            ledger.claim(term, statement.line, "recognised")
        for link in statement.terms:
            aside = counter or not (link.numeric or any(map(_is_matrix, walk(link.term))))
            if supposed or link.struck or (aside and (asides or not _has_decimals(link.term))):
                ledger.claim(link.term, link.line, "recognised")


def _has_decimals(term: Expression) -> bool:
    return any(isinstance(part, Number) and part.places for part in walk(term))


def _is_matrix(term: Expression) -> bool:
    return isinstance(term, Array) and min(term.shape) > 1


def _scales(made: Plan) -> set[Fraction]:
    """Return the scale of the scores and its inverse, 1/√d_k and √d_k, which sentences mention."""
    factors = [Fraction(float(each.params["factor"])) for each in made.operations if each.op == "scale"]
    return {scale for factor in factors if factor for scale in (factor, 1 / factor)}


def _readable(reading: Reading, unread: tuple[Unread, ...]) -> None:
    """Raise InputError if not a single number of the document can be read."""
    if all(answer_of(statement, MOST_CELLS) is None for statement in reading.statements):
        where = f" (line {unread[0].line}: {unread[0].reason})" if unread else ""
        raise InputError(
            f"no number in {reading.name} can be read{where}", "correct it there, or write Q = [[1, 2], …]"
        )


def _cell(cell: Compared) -> Cell:
    entry = cell.entry
    follows = format_value(cell.follow, entry) if cell.verdict in ("follows", "wrong", "rounded") else ""
    expected = format_value(cell.exact, entry)
    return Cell(
        cell.symbol, cell.row + 1, cell.column + 1, entry.text if entry is not None else None, expected, cell.verdict,
        entry.line if entry is not None else None, follows if follows != expected else "",
    )  # fmt: skip


def _misshaped(made: Plan, alignment: Alignment, verdicts: Verdicts) -> Iterator[Compared]:
    """Yield the cells of essential steps of the wrong size, all of which are wrong."""
    written = {cell.symbol for cell in verdicts.cells}
    for symbol in alignment.misshaped:
        if symbol in essential(made) and symbol not in written:
            for i, j, value in verdicts.exact[symbol].cells():
                yield Compared(symbol, i, j, None, value, value, "wrong")


def _copied(made: Plan, alignment: Alignment, follow: FollowThrough) -> Iterator[tuple[Note, Mistake]]:
    """Yield entries of the exercise that the learner miscopied, as a note and as a mistake."""
    known: set[str] = set()  # a matrix may be written twice
    for placed in alignment.placed:
        if placed.symbol not in made.given:
            continue
        exact = follow.exact[placed.symbol]
        off = [(at, entry) for at, entry in placed.cells.items() if closeness(exact[at], entry) == "wrong"]
        if not off:
            continue
        differences = "; ".join(
            f"{placed.symbol}[{i + 1},{j + 1}] is {entry.text} here "
            f"and {format_value(exact[i, j], entry)} in the exercise"
            for (i, j), entry in off[:3]
        )
        differences += f"; and {len(off) - 3} more" if len(off) > 3 else ""
        if differences in known:
            continue
        known.add(differences)
        where = ", ".join(f"{placed.symbol}[{i + 1},{j + 1}]" for (i, j), _ in off[:3])
        why = f"In line {placed.line}, {differences}. Everything after it is graded with your numbers"
        mistake = Mistake("a given number copied wrongly", where, why, frozenset(), steps=frozenset({placed.symbol}))
        yield Note(placed.line, placed.source, f"copied otherwise: {differences}"), mistake


def _matters(made: Plan, mistake: Mistake, cells: Sequence[Compared]) -> bool:
    """Return whether the step that uses a miscopied matrix (or, if it is not written, any later step) is not right."""
    (symbol,) = mistake.steps
    users = {operation.symbol for operation in made.operations if symbol in operation.inputs}
    written = {cell.symbol for cell in cells}
    after = users & written or set(made.after(symbol))
    return any(cell.symbol in after and cell.verdict != "right" for cell in cells)


def _remarks(made: Plan, follow: FollowThrough, cells: Sequence[Compared]) -> Iterator[Note]:
    """Note rows of weights that do not sum to 1, and numbers that are truncated instead of rounded."""
    for symbol, entries in follow.entries.items():
        if symbol not in made or made[symbol].op != "softargmax":
            continue
        for line, total, tolerance in weight_sums(made, entries, follow.exact[symbol].shape):
            if abs(total - 1) > tolerance:
                text = format_value(total, None, max(entry.decimals for entry in line.values()))
                at, entry = next(iter(line.items()))
                token = at[0 if made.axis == "rows" else 1] + 1
                yield Note(entry.line, "", f"the weights of token {token} in {symbol} sum to {text}, not to 1")
    cut = [cell for cell in cells if cell.truncated and cell.entry is not None]
    if cut and cut[0].entry is not None:
        symbols = ", ".join(dict.fromkeys(cell.symbol for cell in cut))
        numbers = f"{len(cut)} numbers are" if len(cut) > 1 else "1 number is"
        sentence = f"{numbers} truncated instead of rounded ({symbols}): counted as right"
        yield Note(cut[0].entry.line, "", sentence)


def _located(line: int, source: str, reason: str) -> dict[str, Any]:
    return {"line": line, "source": source, "reason": reason}


def _finding(item: ArithmeticFinding) -> dict[str, Any]:
    return {
        "line": item.line, "left": label(item.left)[:400], "relation": item.relation, "right": label(item.right)[:400],
        "verdict": item.verdict, "reason": item.reason,
        "cells": [
            {"row": c.row, "column": c.column, "given": c.given, "expected": c.expected, "verdict": c.verdict}
            for c in item.cells
        ],
    }  # fmt: skip
