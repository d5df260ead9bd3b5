"""Practice one step at a time: each answer is graded together with the earlier ones, and hints follow from mistakes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from glassformer.errors import GlassError
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.grade import Grade, grade
from glassformer.exercises.grade.view import named
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import Masked
from glassformer.exercises.practice.sheet import asked
from glassformer.exercises.printers.text import equation, text
from glassformer.exercises.reader import read
from glassformer.exercises.solution import solve
from glassformer.exercises.steps import formula, name

WORDS = ("sqrt", "exp", "inf", "infinity", "pi")  # what may stand in a number


@dataclass(frozen=True, slots=True)
class Reply:
    """Whether the step is complete, and the feedback for the learner."""

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
        self.wrong: list[tuple[int, int]] = []  # cells of the last answer, counted from 0

    @property
    def symbol(self) -> str:
        return self.waiting[0]

    def question(self) -> str:
        rows, columns = self.solution[self.symbol].shape
        size = "a number" if (rows, columns) == (1, 1) else f"{rows} × {columns}"
        return f"{text(name(self.symbol))} ({size})"

    @property
    def done(self) -> int:
        """How many steps the learner has answered; those that were shown do not count."""
        return sum(symbol not in self.shown and symbol not in self.waiting for symbol in self.answers)

    def hint(self) -> str:
        """Return the next hint: first the step's formula, then its operands, then one cell, a wrong one if any is."""
        step = self.solution.step(self.symbol)
        shown = text(name(self.symbol))
        self.hints += 1
        if self.hints == 1:
            made = formula(step)
            if made is not None and made != name(self.symbol):
                return f"{shown} = {text(made)}"
            if step.operation.op == "matmul":
                first, second = (text(name(operand)) for operand, _ in step.operands)
                return f"{shown}: row i, column j is the dot product of row i of {first} and column j of {second}."
            return f"{shown}: {named(step.formula)}"
        if self.hints == 2 and step.operands:
            return "\n".join(f"{text(name(operand))} = {_rows(matrix)}" for operand, matrix in step.operands)
        if step.value.shape == (1, 1):
            return "There is only one number to find; `show` gives it."
        i, j = self.wrong[0] if self.wrong else (0, 0)
        return f"{shown}[{i + 1},{j + 1}] = {_decimal(step.value[i, j])}"

    def show(self) -> str:
        """Return the worked step, which is marked as skipped, not done."""
        symbol = self._next()
        self.shown.append(symbol)
        return equation(self.solution.step(symbol).equation())

    def _next(self) -> str:
        self.hints, self.wrong = 0, []
        return self.waiting.pop(0)

    def answer(self, typed: str) -> Reply:
        """Grade rows such as `1 2; 3 4`, or [[1, 2], [3, 4]], for the current step."""
        symbol = self.symbol
        words = [word for word in re.findall(r"[^\W\d_]{2,}", typed) if word.lower() not in WORDS]
        if words or not any(char.isdigit() for char in typed):
            mixed = words and any(char.isdigit() for char in typed)
            problem = f"{words[0]!r} is not a number" if mixed else "That is not a matrix"
            return Reply(False, (f"{problem}: type the rows, such as 1 2; 3 4.",))
        rows, wanted = _typed_rows(typed), self.solution[symbol].shape
        if wanted[1] == 1 and len(rows) == 1 and len(rows[0]) == wanted[0]:
            rows = [[cell] for cell in rows[0]]  # a column, typed as a list
        if len(rows) != wanted[0] or any(len(row) != wanted[1] for row in rows):
            size = f"{len(rows)} × {len(rows[0])}" if len({len(row) for row in rows}) == 1 else "rows of unequal length"
            return Reply(False, (f"That is {size}, and {text(name(symbol))} is {wanted[0]} × {wanted[1]}.",))
        given = self.answers | {symbol: "[" + ", ".join(f"[{', '.join(row)}]" for row in rows) + "]"}
        written = "\n".join(f"{key}: {value}" for key, value in given.items())
        try:
            graded = grade(self.exercise, read(written, "your answer", "yaml"))
        except GlassError as error:  # the input is not mathematics; none of it is kept
            return Reply(False, (str(error),))
        cells = [cell for cell in graded.cells if cell.symbol == symbol and cell.given is not None]
        if len(cells) < wanted[0] * wanted[1]:
            reasons = [item.reason for item in graded.unread] or ["its size differs from that of the step"]
            return Reply(False, (f"That could not be read as {text(name(symbol))}: {reasons[0]}",))
        wrong = [cell for cell in cells if cell.verdict in ("wrong", "missing")]
        self.answers = given
        if wrong:
            self.wrong = [(cell.row - 1, cell.column - 1) for cell in wrong]
            return Reply(False, tuple(self._said(graded, symbol, len(cells))))
        self._next()
        rounded = [cell for cell in cells if cell.verdict == "rounded"]
        if rounded:
            return Reply(True, (f"Right, but for the last digit of {len(rounded)}: check the rounding.",))
        follows = any(cell.verdict == "follows" for cell in cells)
        return Reply(True, ("Right, given your earlier numbers." if follows else "Right.",))

    def _said(self, graded: Grade, symbol: str, written: int) -> list[str]:
        places = [f"row {row + 1} column {column + 1}" for row, column in self.wrong]
        where = ", ".join(places[:4]) + (", …" if len(places) > 4 else "")
        off = f"{len(places)} of {written} numbers {'is' if len(places) == 1 else 'are'} wrong ({where})"
        lines = [f"Not yet: {off}." if written > 1 else "Not yet: that is not the number."]
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


def _typed_rows(typed: str) -> list[list[str]]:
    """Return the cells of `1 2; 3 4`, `1, 2; 3, 4` or [[1, 2], [3, 4]]."""
    rows = re.findall(r"\[([^\[\]]*)\]", typed) if "[" in typed else typed.split(";")
    return [cells for row in rows if (cells := row.replace(",", " ").split())] or [[]]
