"""One exercise, one step at a time: each answer is marked with what came before it, and hints come from its slips."""

from __future__ import annotations

import re
from dataclasses import dataclass

from glassformer.errors import GlassError
from glassformer.worked.check import Report, check
from glassformer.worked.practice.sheet import asked
from glassformer.worked.problem import Exercise
from glassformer.worked.read import read
from glassformer.worked.render import plain
from glassformer.worked.render.formula import chain, name
from glassformer.worked.solve import solve


@dataclass(frozen=True, slots=True)
class Reply:
    """Whether the step is done, and what to tell the learner."""

    done: bool
    lines: tuple[str, ...]


class Drill:
    """The steps of an exercise in their order; what the learner entered is kept, so that later steps may follow it."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise = exercise
        self.solution = solve(exercise)
        self.waiting = [symbol for symbol, _ in asked(self.solution)]
        self.answers: dict[str, str] = {}

    @property
    def symbol(self) -> str:
        return self.waiting[0]

    def question(self) -> str:
        rows, columns = self.solution[self.symbol].shape
        size = "a number" if (rows, columns) == (1, 1) else f"{rows} × {columns}"
        return f"{plain.block(name(self.symbol)).lines[0]} ({size})"

    def hint(self) -> str:
        """The step's formula, without its numbers."""
        links = chain(self.solution.step(self.symbol), 4)
        return plain.chain(links[:2]) if len(links) > 2 else self.solution.step(self.symbol).formula

    def show(self) -> str:
        """The step worked out; it counts as done."""
        return plain.chain(chain(self.solution.step(self.waiting.pop(0)), 4))

    def answer(self, text: str) -> Reply:
        """Marks rows such as `1 2; 3 4`, or [[1, 2], [3, 4]], for the step that is asked."""
        symbol = self.symbol
        size, wanted = _size(text), self.solution[symbol].shape
        if size != wanted:
            return Reply(False, (f"That is {size[0]} × {size[1]}, and {symbol} is {wanted[0]} × {wanted[1]}.",))
        given = self.answers | {symbol: _matrix(text)}
        written = "\n".join(f"{key} = {value}" for key, value in given.items())
        try:
            report = check(self.exercise, read(written, "your answer"))
        except GlassError as error:  # what was typed is no mathematics; nothing of it is kept
            return Reply(False, (str(error),))
        cells = [cell for cell in report.cells if cell.symbol == symbol and cell.given is not None]
        if not cells:
            reasons = [item.reason for item in report.unread] or ["it has another size than the step"]
            return Reply(False, (f"That could not be read as {symbol}: {reasons[0]}",))
        wrong = [cell for cell in cells if cell.verdict in ("wrong", "missing")]
        self.answers = given
        if wrong:
            return Reply(False, tuple(self._said(report, symbol, len(wrong), len(cells))))
        self.waiting.pop(0)
        rounded = [cell for cell in cells if cell.verdict == "rounded"]
        if rounded:
            return Reply(True, (f"Right, but for the last digit of {len(rounded)}: look at the rounding.",))
        follows = any(cell.verdict == "follows" for cell in cells)
        return Reply(True, ("Right, given your earlier numbers." if follows else "Right.",))

    def _said(self, report: Report, symbol: str, wrong: int, written: int) -> list[str]:
        places = [(cell.row, cell.column) for cell in report.cells if cell.symbol == symbol and cell.verdict == "wrong"]
        where = ", ".join(f"row {row} column {column}" for row, column in places[:4])
        lines = [f"Not yet: {wrong} of {written} numbers are off ({where}{', …' if len(places) > 4 else ''})."]
        return lines + [f"Hint: {slip.why}" for slip in report.slips if symbol in {cell[0] for cell in slip.cells}]


def _size(text: str) -> tuple[int, int]:
    """Rows and columns as typed; rows of unequal length have no columns."""
    rows = re.findall(r"\[([^\[\]]*)\]", text) if "[" in text else [row for row in text.split(";") if row.strip()]
    widths = {len(row.replace(",", " ").split()) for row in rows}
    return len(rows), widths.pop() if len(widths) == 1 else 0


def _matrix(text: str) -> str:
    """`1 2; 3 4` as [[1, 2], [3, 4]]; what is bracketed already stays."""
    if "[" in text:
        return text.strip()
    rows = [row.replace(",", " ").split() for row in text.split(";")]
    return "[" + ", ".join("[" + ", ".join(row) + "]" for row in rows if row) + "]"
