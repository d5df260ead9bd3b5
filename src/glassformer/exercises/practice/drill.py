"""Practice one step at a time: each answer is graded together with the earlier ones, and hints follow from mistakes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from glassformer.errors import GlassError
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import Masked
from glassformer.exercises.practice.sheet import asked
from glassformer.exercises.printers.text import equation, text
from glassformer.exercises.reader import read
from glassformer.exercises.solution import solve
from glassformer.exercises.steps import name


@dataclass(frozen=True, slots=True)
class Reply:
    """Whether the step is done, and the feedback for the learner."""

    done: bool
    lines: tuple[str, ...]


class Drill:
    """The steps of an exercise in order; the learner's answers are kept, so that later steps can follow from them."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise = exercise
        self.solution = solve(exercise)
        self.waiting = [symbol for symbol, _ in asked(self.solution)]
        self.answers: dict[str, str] = {}
        self.shown: list[str] = []
        self.hints = 0

    @property
    def symbol(self) -> str:
        return self.waiting[0]

    def question(self) -> str:
        rows, columns = self.solution[self.symbol].shape
        size = "a number" if (rows, columns) == (1, 1) else f"{rows} × {columns}"
        return f"{text(name(self.symbol))} ({size})"

    def hint(self) -> str:
        """Return the next hint: first the step's formula, then its operands, then one cell."""
        step = self.solution.step(self.symbol)
        self.hints += 1
        if self.hints == 1:
            sides = step.equation()
            return equation(sides[:2]) if len(sides) > 2 else step.formula
        if self.hints == 2 and step.operands:
            return "\n".join(f"{operand} = {_rows(matrix)}" for operand, matrix in step.operands)
        cells = list(step.value.cells())
        if len(cells) == 1:
            return "There is only one number to find; `show` gives it."
        i, j, value = cells[0]
        return f"{text(name(self.symbol))}[{i + 1},{j + 1}] = {_decimal(value)}"

    def show(self) -> str:
        """Return the worked step, which is marked as skipped, not done."""
        symbol = self._next()
        self.shown.append(symbol)
        return equation(self.solution.step(symbol).equation())

    def _next(self) -> str:
        self.hints = 0
        return self.waiting.pop(0)

    def answer(self, text: str) -> Reply:
        """Grade rows such as `1 2; 3 4`, or [[1, 2], [3, 4]], for the current step."""
        symbol = self.symbol
        if not any(char.isdigit() for char in text):
            return Reply(False, ("That is not a matrix: type its rows, such as 1 2; 3 4.",))
        size, wanted = _size(text), self.solution[symbol].shape
        if size != wanted:
            return Reply(False, (f"That is {size[0]} × {size[1]}, and {symbol} is {wanted[0]} × {wanted[1]}.",))
        given = self.answers | {symbol: _matrix(text)}
        written = "\n".join(f"{key}: {value}" for key, value in given.items())
        try:
            graded = grade(self.exercise, read(written, "your answer", "yaml"))
        except GlassError as error:  # the input is not mathematics; none of it is kept
            return Reply(False, (str(error),))
        cells = [cell for cell in graded.cells if cell.symbol == symbol and cell.given is not None]
        if len(cells) < wanted[0] * wanted[1]:
            reasons = [item.reason for item in graded.unread] or ["it has another size than the step"]
            return Reply(False, (f"That could not be read as {symbol}: {reasons[0]}",))
        wrong = [cell for cell in cells if cell.verdict in ("wrong", "missing")]
        self.answers = given
        if wrong:
            return Reply(False, tuple(self._said(graded, symbol, len(wrong), len(cells))))
        self._next()
        rounded = [cell for cell in cells if cell.verdict == "rounded"]
        if rounded:
            return Reply(True, (f"Right, but for the last digit of {len(rounded)}: look at the rounding.",))
        follows = any(cell.verdict == "follows" for cell in cells)
        return Reply(True, ("Right, given your earlier numbers." if follows else "Right.",))

    def _said(self, graded: Grade, symbol: str, wrong: int, written: int) -> list[str]:
        places = [(cell.row, cell.column) for cell in graded.cells if cell.symbol == symbol and cell.verdict == "wrong"]
        where = ", ".join(f"row {row} column {column}" for row, column in places[:4])
        lines = [f"Not yet: {wrong} of {written} numbers are off ({where}{', …' if len(places) > 4 else ''})."]
        here = [mistake for mistake in graded.mistakes if symbol in {cell[0] for cell in mistake.cells}]
        causes = [mistake.why.partition(". So ")[0] for mistake in here if ". So " in mistake.why]
        return lines + [f"{cause}." for cause in causes]  # the cause, never the right number


def _rows(matrix: Matrix[Any]) -> str:
    return "[" + "; ".join(" ".join(_decimal(x) for x in row) for row in matrix) + "]"


def _decimal(x: Any) -> str:
    if isinstance(x, Masked):
        return "-∞"
    whole = x.rational()
    return str(whole) if whole is not None and whole.q == 1 else str(x.decimal(4))


def _size(text: str) -> tuple[int, int]:
    """Return rows and columns as typed; rows of unequal length have no columns."""
    rows = re.findall(r"\[([^\[\]]*)\]", text) if "[" in text else [row for row in text.split(";") if row.strip()]
    widths = {len(row.replace(",", " ").split()) for row in rows}
    return len(rows), widths.pop() if len(widths) == 1 else 0


def _matrix(text: str) -> str:
    """Convert `1 2; 3 4` to [[1, 2], [3, 4]]; bracketed input is returned unchanged."""
    if "[" in text:
        return text.strip()
    rows = [row.replace(",", " ").split() for row in text.split(";")]
    return "[" + ", ".join("[" + ", ".join(row) + "]" for row in rows if row) + "]"
