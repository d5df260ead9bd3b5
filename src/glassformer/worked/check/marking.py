"""check(exercise, reading) → Report: place what is written, judge each cell, find the slips."""

from __future__ import annotations

from collections.abc import Iterator

from glassformer.errors import InputError
from glassformer.worked.check.answer import answer
from glassformer.worked.check.find import find
from glassformer.worked.check.own import closeness, shown
from glassformer.worked.check.place import place
from glassformer.worked.check.report import Report, mark
from glassformer.worked.check.score import essential, missing, score
from glassformer.worked.check.sheet import Sheet
from glassformer.worked.check.verdict import Judge, Judged, Judgement, exactly
from glassformer.worked.plan import Plan, plan
from glassformer.worked.problem import Exercise
from glassformer.worked.read import Note, Reading, Unread, arithmetic

MOST_CELLS = 4096  # of one matrix on paper


def check(exercise: Exercise | None, reading: Reading) -> Report:
    """A learner's document marked; without an exercise only its own arithmetic."""
    sums = tuple(arithmetic(reading))
    if exercise is None:
        _readable(reading, reading.unread)
        return Report(reading.name, "", None, (), (), reading.unread, reading.notes, (), sums)
    made = plan(exercise)
    sheet = place(made, reading)
    if not sheet.placed:
        _readable(reading, tuple(sheet.unread))
    judge = Judge(made, sheet, exactly(made), sheet.own())
    judgement = judge.run()
    cells = (*judgement.cells, *_misshaped(made, sheet, judgement))
    slips = find(exercise, judge, cells)
    absent = [cell for cell in missing(made, judgement) if cell.symbol not in sheet.misshaped]
    order = {symbol: k for k, symbol in enumerate(made.symbols)}
    every = sorted((*cells, *absent), key=lambda cell: (order[cell.symbol], cell.row, cell.column))
    written = {cell.symbol for cell in every}
    return Report(
        reading.name,
        exercise.title,
        score(every),
        tuple(mark(cell) for cell in every),
        tuple(slips),
        tuple(sorted(sheet.unread, key=lambda item: item.line)),
        tuple(sorted((*sheet.notes, *_copied(made, sheet, judge)), key=lambda note: note.line)),
        tuple(sheet.struck),
        sums,
        tuple(symbol for symbol in essential(made) if symbol not in written),
    )


def _readable(reading: Reading, unread: tuple[Unread, ...]) -> None:
    """InputError if not a single number of the document can be read."""
    if all(answer(statement, MOST_CELLS) is None for statement in reading.statements):
        where = f" (line {unread[0].line}: {unread[0].reason})" if unread else ""
        raise InputError(f"no number in {reading.name} can be read{where}", "mend it there, or write Q = [[1, 2], …]")


def _misshaped(made: Plan, sheet: Sheet, judgement: Judgement) -> Iterator[Judged]:
    """An essential step of the wrong size: all of it is wrong, whatever stands where."""
    written = {cell.symbol for cell in judgement.cells}
    for symbol in sheet.misshaped:
        if symbol in essential(made) and symbol not in written:
            for i, j, value in judgement.exact[symbol].cells():
                yield Judged(symbol, i, j, None, value, value, "wrong")


def _copied(made: Plan, sheet: Sheet, judge: Judge) -> Iterator[Note]:
    """Entries of the exercise that the learner copied otherwise."""
    for placed in sheet.placed:
        if placed.symbol not in made.given:
            continue
        exact = judge.exact[placed.symbol]
        off = [(at, own) for at, own in placed.cells.items() if closeness(exact[at], own) == "wrong"]
        if not off:
            continue
        said = "; ".join(
            f"{placed.symbol}[{i + 1},{j + 1}] is {own.text} here and {shown(exact[i, j], own)} in the exercise"
            for (i, j), own in off[:3]
        )
        more = f"; and {len(off) - 3} more" if len(off) > 3 else ""
        yield Note(placed.line, placed.source, f"copied otherwise: {said}{more}")
