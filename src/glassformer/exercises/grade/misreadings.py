"""Misreadings: numbers that come out wrong, but were more likely read wrongly than computed wrongly.

A number is called wrong only if its place is certain. After a document is graded, wrong numbers that no known mistake
produces are taken back if one of the following holds:
- **they are other numbers**: most numbers of a statement are wrong as the step they were read as, and all of them are
    right as another one: another row or head, another step, the same step transposed, or in percent. If there is one
    such reading, and its cells are free, they are read that way;
- **their place is a guess**: the statement does not name it, and most of the numbers placed like them are wrong too;
- **they may follow from unread numbers**: an operand of their step is not written, and numbers before them are unread.
Numbers that a known mistake produces, or that are only rounded wrongly, are taken back if
- **they follow from unread numbers**: with the unread numbers before them as the operand that is not written, the step
    has these results;
- **later numbers contradict the mistake**: most numbers of a step are wrong, and those computed from it are right,
    which they would not be if the mistake had been made.
What is taken back is listed as unread, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from flint import arb, fmpq

from glassformer.errors import GlassError
from glassformer.exercises.expression import Number
from glassformer.exercises.grade.accounting import UnreadNumber
from glassformer.exercises.grade.align import Alignment, Placement, base_of
from glassformer.exercises.grade.cells import Entries, Entry, agrees, chance
from glassformer.exercises.grade.diagnose import Mistake
from glassformer.exercises.grade.verdict import ARITHMETIC, Compared, Place
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import MASKED
from glassformer.exercises.plan import Operation, Plan, compute

UNEXPLAINED = ("one wrong number", "weights that do not sum to 1", "a number copied wrongly")
TURNED = "A transposed"
RARE = 1e-3  # chance agreement below which numbers identify their cells
MOST_UNREAD = 60  # numbers that are tried as operands
MOST_CELLS_TRIED = 3000  # results that are computed from unread numbers, in all
WIDEST = 0.05  # largest radius of a result that is still informative
FEW = 2  # numbers that have to agree
At = tuple[int, int]
Other = tuple[str, Entries, str]  # a step, the cells in it, and a description of these


@dataclass(slots=True)
class Misreadings:
    """The wrong numbers of a graded document that are to be taken back.

    `unread`: the numbers that could not be read; `positions`: where the numbers of the cells are in the text.
    """

    plan: Plan
    exact: Mapping[str, Matrix[Any]]
    alignment: Alignment
    cells: Sequence[Compared]
    mistakes: Sequence[Mistake]
    unread: Sequence[UnreadNumber]
    positions: Mapping[Place, int]
    wrong: dict[Place, Compared] = field(init=False)
    doubted: dict[Place, Compared] = field(init=False)
    good: set[Place] = field(init=False)
    explained: set[Place] = field(init=False)
    turned: set[Place] = field(init=False)  # weights that a mistake explains as transposed: they may be written so
    tried: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        known = [mistake for mistake in self.mistakes if mistake.name not in UNEXPLAINED]
        turned = (mistake.cells for mistake in known if TURNED in mistake.name.split(" and "))
        self.turned = {place for cells in turned for place in cells if base_of(place[0]) == "A"}
        self.explained = {place for mistake in known for place in mistake.cells} - self.turned
        written = {(c.symbol, c.row, c.column): c for c in self.cells if c.entry is not None}
        self.wrong = {place: cell for place, cell in written.items() if cell.verdict == "wrong"}
        self.doubted = {place: cell for place, cell in written.items() if cell.verdict in ("wrong", "rounded")}
        self.good = written.keys() - self.wrong.keys()

    def take_back(self) -> bool:
        """Take back every misreading, and return whether there are any."""
        found = self.take_back_following()
        for group in list(self.groups()):
            symbol = group[0].symbol
            wrong = {at: each.cells[at] for each in group for at in each.cells if self.is_wrong(each, at)}
            count = sum(len(each.cells) for each in group)
            if self.confirmed(symbol, wrong):
                continue
            contradicted = self.contradicted(symbol, wrong, count)
            if not contradicted:
                wrong = {at: entry for at, entry in wrong.items() if (symbol, *at) not in self.explained}
            others = list(self.other_readings(symbol, group, wrong)) if 2 * len(wrong) >= count else []
            if not others and 2 * len(wrong) >= count and {(symbol, *at) for at in wrong} <= self.turned:
                entries = group[0].cells if len(group) == 1 else wrong
                others = [(symbol, {(j, i): entry for (i, j), entry in entries.items()}, f"{symbol} transposed")]
            if contradicted and not others:
                reason = f"these are not the numbers of {symbol}, but what is computed from {symbol} is right"
                found = self.remove(group, [at for each in group for at in each.cells], reason) or found
            elif others:
                found = self.read_as(group, others) or found
            elif guessed := self.guessed(group, wrong):
                reason = f"it does not agree with {symbol}, and may be another step"
                found = self.remove([each for each in group if not each.certain], guessed, reason) or found
            else:
                reason = f"it does not agree with {symbol}, but may follow from numbers that could not be read"
                doubtful = [at for at, entry in wrong.items() if self.may_follow((symbol, *at), entry)]
                found = self.remove(group, doubtful, reason) or found
        return found

    def groups(self) -> Iterator[list[Placement]]:
        """Yield each statement with wrong numbers; those that give one cell each, s_{12} = 3, together for a step."""
        single: dict[str, list[Placement]] = {}
        for each in self.alignment.placed:
            if any(self.is_wrong(each, at) for at in each.cells):
                if len(each.cells) > 1:
                    yield [each]
                else:
                    single.setdefault(each.symbol, []).append(each)
        yield from single.values()

    def is_wrong(self, placed: Placement, at: At) -> bool:
        cell = self.wrong.get((placed.symbol, *at))
        return cell is not None and cell.entry == placed.cells[at]

    def remove(self, group: Sequence[Placement], cells: Collection[At], reason: str) -> bool:
        """Take back these cells of some statements, and list them as unread; return whether there are any."""
        placed, found = self.alignment.placed, False
        for each in group:
            kept = {at: entry for at, entry in each.cells.items() if at not in cells}
            if len(kept) < len(each.cells):
                self.alignment.leave(each.line, each.source, reason)
                k = next(k for k, other in enumerate(placed) if other is each)
                placed[k : k + 1] = [replace(each, cells=kept)] if kept else []
                found = True
        return found

    def take_back_following(self) -> bool:
        """Take back the wrong and rounded numbers of each statement most of which follow from unread numbers."""
        found = False
        for each in list(self.alignment.placed) if self.unread else ():
            doubted = {at: entry for at, entry in each.cells.items() if self.is_doubted(each, at)}
            if self.tried > MOST_CELLS_TRIED:
                break
            follow = [at for at, entry in doubted.items() if self.follows_from_unread((each.symbol, *at), entry)]
            if follow and 2 * len(follow) >= len(doubted):
                reason = f"it does not agree with {each.symbol}, but may follow from numbers that could not be read"
                found = self.remove([each], doubted, reason) or found
                for at in doubted:
                    self.wrong.pop((each.symbol, *at), None)
        return found

    def is_doubted(self, placed: Placement, at: At) -> bool:
        cell = self.doubted.get((placed.symbol, *at))
        return cell is not None and cell.entry == placed.cells[at] and placed.symbol in self.plan

    def may_follow(self, place: Place, entry: Entry) -> bool:
        inputs = [name for name in self.plan[place[0]].inputs if name in self.plan]
        return any(map(self.incomplete, inputs)) and any(number.telling for number in self.before(place, entry))

    def before(self, place: Place, entry: Entry) -> list[UnreadNumber]:
        """Return the unread numbers before the number of a cell."""
        at = self.positions.get(place)
        if at is None:
            return [number for number in self.unread if number.line < entry.line]
        return [number for number in self.unread if number.position < at]

    def follows_from_unread(self, place: Place, entry: Entry) -> bool:
        """Return whether a step has this result if unread numbers are the missing ones of an operand, in their order.

        Each unread number stands for all numbers that round to it.
        """
        operation, (_, row, column) = self.plan[place[0]], place
        while operation.op == "copy" and operation.inputs[0] in self.plan:
            operation = self.plan[operation.inputs[0]]
        by_rows = self.plan.axis == "rows"
        token = row if by_rows else column
        numbers = self.before(place, entry)[-MOST_UNREAD:]
        values = {**self.exact, **{name: self.written(name) for name in operation.inputs}}
        for name in operation.inputs:
            if name not in self.plan or base_of(name) in ("K", "V") or not self.incomplete(name):
                continue
            lines = values[name] if by_rows else values[name].T
            if token >= len(lines.rows) or len(lines.rows) != self.exact[place[0]].shape[0 if by_rows else 1]:
                continue
            every = range(len(lines.rows[token]))
            missing = [k for k in every if not self.is_written((name, token, k) if by_rows else (name, k, token))]
            for gaps in {tuple(missing), tuple(every)}:
                for start in range(len(numbers) - len(gaps) + 1 if gaps else 0):
                    if self.tried > MOST_CELLS_TRIED:
                        return False
                    chosen = numbers[start : start + len(gaps)]
                    if any(number.telling for number in chosen) and chosen[-1].line <= chosen[0].line + len(gaps):
                        rows = [list(each) for each in lines]
                        for k, number in zip(gaps, chosen, strict=True):
                            rows[token][k] = _rounding(number)
                        tried = Matrix.of(rows) if by_rows else Matrix.of(rows).T
                        if self.results_in(operation, {**values, name: tried}, name, (row, column), entry):
                            return True
        return False

    def results_in(
        self, operation: Operation, values: Mapping[str, Matrix[Any]], name: str, at: At, entry: Entry
    ) -> bool:
        rows, columns = self.exact[operation.symbol].shape
        self.tried += rows * columns
        try:
            with ARITHMETIC.precision():
                made = compute(self.plan, operation, ARITHMETIC, values, {name: values[name]})[at]
        except (GlassError, ZeroDivisionError):
            return False
        if made is MASKED or entry.value is MASKED or not made.is_finite() or made.rad() > WIDEST:
            return False
        return bool(made.overlaps(_around(entry.value, entry.places or 0)))

    def is_written(self, place: Place) -> bool:
        return place in self.good or place in self.wrong

    def written(self, symbol: str) -> Matrix[Any]:
        """Return the written numbers of a step, and the exact ones where nothing is written."""
        rows = [list(row) for row in self.exact[symbol]]
        for cell in self.cells:
            if cell.symbol == symbol and cell.entry is not None and cell.entry.value is not MASKED:
                rows[cell.row][cell.column] = cell.entry.value
        return Matrix.of(rows)

    def incomplete(self, symbol: str) -> bool:
        rows, columns = self.exact[symbol].shape
        return sum(place[0] == symbol for place in (*self.good, *self.wrong)) < rows * columns

    def guessed(self, group: Sequence[Placement], wrong: Entries) -> list[At]:
        """Return the wrong cells without a name, if most numbers that were placed so, or on their line, are wrong."""
        symbol = group[0].symbol
        alike = [each for each in self.alignment.placed if each.symbol == symbol and not each.certain]
        bad = [each.cells[at].line for each in alike for at in each.cells if self.is_wrong(each, at)]
        good = [each.cells[at].line for each in alike for at in each.cells if (symbol, *at) in self.good]
        mine = [at for each in group if not each.certain for at in each.cells if at in wrong]
        if len(good) < FEW or len(good) <= len(bad):
            return mine
        return [at for at in mine if bad.count(wrong[at].line) > max(1, good.count(wrong[at].line))]

    # -- confirmed or contradicted by later numbers -------------------------------------------------------------------

    def confirmed(self, symbol: str, wrong: Collection[At]) -> bool:
        """Return whether later numbers follow from the wrong ones of the step, which are then certainly its numbers."""
        cells = list(self.computed_from(symbol, wrong))
        following = sum(cell.verdict == "follows" and agrees(cell.follow, entry) for cell, entry in cells)
        return len(wrong) >= FEW and following >= FEW and 2 * following > len(cells)

    def contradicted(self, symbol: str, wrong: Collection[At], count: int) -> bool:
        """Return whether numbers computed from the step are right, though they would not be with a known mistake."""
        if len(wrong) < FEW or 2 * len(wrong) <= count or not {(symbol, *at) for at in wrong} <= self.explained:
            return False
        cells = list(self.computed_from(symbol, wrong))
        telling = sum(cell.verdict == "right" and not agrees(cell.follow, entry) for cell, entry in cells)
        return telling >= FEW and telling > 2 * sum(cell.verdict != "right" for cell, _ in cells)

    def computed_from(self, symbol: str, wrong: Collection[At]) -> Iterator[tuple[Compared, Entry]]:
        """Yield the cells of the first written steps after a step that depend on these cells of it."""
        axis = 0 if self.plan.axis == "rows" else 1
        lines, every = {at[axis] for at in wrong}, base_of(symbol) in ("K", "V")  # every query depends on these
        users = set(self.users(symbol))
        for cell in self.cells:
            if cell.symbol in users and cell.entry is not None and (every or (cell.row, cell.column)[axis] in lines):
                yield cell, cell.entry

    def users(self, symbol: str) -> Iterator[str]:
        """Yield the first written steps that are computed from a step."""
        written = {cell.symbol for cell in self.cells if cell.entry is not None}
        for operation in self.plan.operations:
            if symbol in operation.inputs:
                yield from [operation.symbol] if operation.symbol in written else self.users(operation.symbol)

    # -- other readings -----------------------------------------------------------------------------------------------

    def read_as(self, group: Sequence[Placement], others: Sequence[Other]) -> bool:
        """Read the numbers as the other cells that have them; if there are several, or they are taken, list them."""
        symbol, first = group[0].symbol, group[0]
        names = " or ".join(dict.fromkeys(place for _, _, place in others[:3]))
        other, cells, place = others[0]
        free = not any((other, *at) in self.good or ((other, *at) in self.wrong and other != symbol) for at in cells)
        if len(others) > 1 or not free:
            every = [at for each in group for at in each.cells]
            return self.remove(group, every, f"these are not the numbers of {symbol}, but those of {names}")
        for each in group:
            k = next(k for k, placed in enumerate(self.alignment.placed) if placed is each)
            del self.alignment.placed[k]
        self.alignment.put(Placement(other, cells, first.line, first.source))
        self.alignment.note(first.line, first.source, f"these are not the numbers of {symbol}: taken as {place}")
        return True

    def other_readings(self, symbol: str, group: Sequence[Placement], wrong: Entries) -> Iterator[Other]:
        """Yield the other cells that have all numbers of a statement, or all wrong numbers of several."""
        entries = dict(group[0].cells) if len(group) == 1 else dict(wrong)
        probability = 1.0
        for entry in {entry.text: entry for entry in entries.values()}.values():
            probability *= chance(entry)
        if len(entries) < FEW or probability > RARE:
            return
        for name, matrix in self.exact.items():
            for cells, place in self.readings(symbol, name, matrix, entries):
                if all(agrees(matrix[at], entry) for at, entry in cells.items()):
                    yield name, cells, place

    def readings(
        self, symbol: str, name: str, matrix: Matrix[Any], entries: Entries
    ) -> Iterator[tuple[Entries, str]]:
        """Yield the ways to place the numbers in a step: where they are, transposed, in each row and each column."""
        rows, columns = matrix.shape
        turned = {(j, i): entry for (i, j), entry in entries.items()}
        if name != symbol and _inside(entries, rows, columns):
            yield entries, name
        if name == symbol and base_of(name) == "A" and (percent := _percent(entries)):
            yield percent, f"{name} in percent"
        if (name != symbol or turned != entries) and _inside(turned, rows, columns):
            yield turned, f"{name} transposed"
        values = list(entries.values())
        if 1 not in (len({i for i, _ in entries}), len({j for _, j in entries})):
            return
        for k in range(rows) if len(values) == columns > 1 else ():
            yield {(k, j): entry for j, entry in enumerate(values)}, f"row {k + 1} of {name}"
        for k in range(columns) if len(values) == rows > 1 else ():
            yield {(i, k): entry for i, entry in enumerate(values)}, f"column {k + 1} of {name}"


def _around(value: Any, places: int) -> Any:
    """Return the interval of the numbers that round to a value."""
    return value + arb(0, float(Fraction(51, 100) / 10**places) if places else 0)


def _rounding(number: UnreadNumber) -> Any:
    return _around(arb(fmpq(number.value.numerator, number.value.denominator)), number.places)


def _inside(cells: Iterable[At], rows: int, columns: int) -> bool:
    return all(i < rows and j < columns for i, j in cells)


def _percent(entries: Entries) -> Entries:
    """Return the numbers as percentages; nothing if one of them is no plain number."""
    found: Entries = {}
    for at, entry in entries.items():
        term = entry.term
        if not isinstance(term, Number) or term.text.endswith("%") or entry.value is MASKED:
            return {}
        share = Number(f"{term.text}%", term.value / Fraction(100), (term.places or 0) + 2)
        found[at] = replace(entry, text=f"{entry.text}%", value=entry.value / 100, term=share)
    return found
