"""Placing: each statement of a document → a symbol of the plan and its cells, by name, index and context.

A name decides (`Q_1`, `q_1`, `\\Omega_2`, `QK^T`, `out_1`, `softmax(S)V`), with the head and the row that the prose
speaks of; sizes must fit, and where a name leaves two heads open their values decide. What has no name goes to
`unnamed`. Whatever is assumed is noted, and what cannot be placed is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from glassformer.worked.check.answer import answer, carried, troubles
from glassformer.worked.check.context import Context, counted_from_zero
from glassformer.worked.check.fit import At, Cells, fit, readings
from glassformer.worked.check.own import Table, closeness
from glassformer.worked.check.raw import as_raw, told_by_weights
from glassformer.worked.check.sheet import Placed, Sheet
from glassformer.worked.check.unnamed import Unnamed
from glassformer.worked.check.verdict import Judgement, exactly, judge
from glassformer.worked.check.vocabulary import PARAMETERS, SCORES, Subject, subject
from glassformer.worked.plan import Plan
from glassformer.worked.read import Reading, Statement, Target, read
from glassformer.worked.read.term import Index, Name, Written
from glassformer.worked.render import latex
from glassformer.worked.render.formula import name

OTHER = 100  # the rank of a name's second meaning


@dataclass(frozen=True, slots=True)
class Option:
    """One way to place a statement; a lower rank is closer to what is written."""

    rank: int
    symbol: str
    cells: Cells


def place(plan: Plan, reading: Reading) -> Sheet:
    """The learner's working by symbol."""
    return Placer(plan, reading).run()


class Placer:
    def __init__(self, plan: Plan, reading: Reading) -> None:
        self.plan, self.reading = plan, reading
        self.exact = exactly(plan)
        self.sheet = Sheet()
        self.sheet.unread += [item for item in reading.unread if len(item.source) > 1]  # a lone sign says nothing
        self.sheet.notes += reading.notes
        self.heads = max((int(s[1:]) for s in plan.symbols if s[0] == "H" and s[1:].isdigit()), default=1)
        self.context = Context(self.heads)
        self.by_rows = plan.axis == "rows"
        self.labels = {label: symbol for symbol in self.exact for label in (_label(symbol),)}
        self.zero = counted_from_zero(reading.statements)
        self.turned = False
        self.most = 64 + 4 * max(m.shape[0] * m.shape[1] for m in self.exact.values())
        self.answers: dict[int, Table | None] = {}
        self.values: dict[Name, Table] = {}  # what each name was given last
        self.cached: tuple[int, Judgement] | None = None

    def run(self) -> Sheet:
        from glassformer.worked.check.turned import is_turned

        self.turned = is_turned(self)
        if self.turned:
            said = "your matrices are the exercise's transposed: read as its columns for rows"
            self.sheet.note(self.reading.statements[0].line, "", said)
        unnamed = Unnamed(self)
        for statement in self.reading.statements:
            self.context.hear(statement)
            if statement.crossed or (statement.terms and all(link.struck for link in statement.terms)):
                self.sheet.cross_out(statement.line, statement.source)
            elif statement.target is None or not self.named(statement, statement.target):
                unnamed.place(statement)
        told_by_weights(self)
        self.sheet.notes += self.sheet.twice()
        return self.sheet

    # -- values ------------------------------------------------------------------------------------------------------

    def judgement(self) -> Judgement:
        """What follows from all that is placed so far."""
        if self.cached is None or self.cached[0] != len(self.sheet.placed):
            self.cached = (len(self.sheet.placed), judge(self.plan, self.sheet, self.exact))
        return self.cached[1]

    def agreement(self, symbol: str, cells: Cells) -> float:
        """The share of cells that are right, or follow from what is placed so far; a last digit off counts less."""
        share = _share([self.exact[symbol]], cells)
        computed = self.judgement().computed if share < 1 else {}
        return _share([self.exact[symbol], computed[symbol]], cells) if symbol in computed else share

    # -- by name -----------------------------------------------------------------------------------------------------

    def named(self, statement: Statement, target: Target) -> bool:
        """Places what has a name that is known; False if it has none."""
        if target.label in PARAMETERS and target.label not in self.labels:
            return True
        found = subject(target.term)
        exact = self.labels.get(target.label) if target.name not in self.zero else None
        if statement.place == "answer" and statement.source in self.exact:
            exact, found = statement.source, None
        if target.is_name and target.name in ("i", "j") and (statement.given or statement.words):
            return False  # `i = 0 scores to j → […]`
        if found is None and exact is None:
            return False
        written = self.written(statement) or carried(statement, self.values)
        for line, reason in troubles(statement, self.most):
            if not any(item.line == line for item in self.sheet.unread):  # the reader may have said it
                self.sheet.leave(line, statement.source, reason)
        if written is None:
            return True  # a formula, or a product that is only set out
        options = [o for o in self.options(statement, target, found, exact, written) if o.rank < OTHER or self.open(o)]
        if not options:
            self.misfit(statement, target, found, exact, written)
            return True
        option = self.choose(statement, target, options)
        if option is not None:
            self.keep(statement, option, target, written)
            if isinstance(target.term, Name):
                self.values[target.term] = written
            self.others(statement, target, written)
        return True

    def others(self, statement: Statement, target: Target, written: Table) -> None:
        """a_{21} = a_{22} = 0.5 says it of both."""
        for link in statement.terms:
            term = link.term
            if isinstance(term, Name) and term.name == target.name and term.indices != target.indices:
                again = Target(term.name, term.indices, term.upper, term)
                options = list(self.options(statement, again, subject(term), self.labels.get(again.label), written))
                option = self.choose(statement, again, options) if options else None
                if option is not None:
                    self.put(statement, option.symbol, option.cells)

    def open(self, option: Option) -> bool:
        """A name's second meaning counts only for cells that nothing is written for: O of H's size is no second H."""
        written = {at for p in self.sheet.placed if p.symbol == option.symbol and p.role == "answer" for at in p.cells}
        return not written & set(option.cells)

    def written(self, statement: Statement) -> Table | None:
        """The last numbers of the chain: the answer."""
        if id(statement) not in self.answers:
            self.answers[id(statement)] = answer(statement, self.most)
        return self.answers[id(statement)]

    def options(
        self, statement: Statement, target: Target, found: Subject | None, exact: str | None, written: Table
    ) -> Iterator[Option]:
        if exact is not None:
            partly = self.reading.kind == "csv"  # rows and columns are said there
            shape = self.exact[exact].shape
            cells = fit(written, shape, None if partly else (), by_rows=self.by_rows, turned=self.turned)
            raw = as_raw(self.exact, statement, exact)
            if cells is not None:
                yield Option(-1, raw or exact, cells)
        if found is None:
            return
        seen: set[tuple[str, tuple[tuple[int, int], ...]]] = set()
        ways = [*readings(found.indices, found.upper, self.heads)]
        ways += [*readings(found.instead, found.upper, self.heads)] if found.instead is not None else []
        for (rank, base), (place, (head, cells_at)) in product(enumerate(found.bases), enumerate(ways)):
            for symbol in self.symbols(base, head, target):
                for at in self.positions(statement, target, cells_at):
                    turned = found.turned != self.turned
                    cells = fit(written, self.exact[symbol].shape, at, by_rows=self.by_rows, turned=turned)
                    key = (symbol, tuple(cells or ()))
                    if cells and key not in seen:
                        seen.add(key)
                        yield Option(OTHER * rank + place, as_raw(self.exact, statement, symbol) or symbol, cells)

    def symbols(self, base: str, head: int | None, target: Target) -> list[str]:
        """The plan's symbols of that name: with a head's number, or the head of the context, or any."""
        if base in self.exact:
            return [base] if head in (None, 0, 1) or self.heads == 1 else []
        numbered = {k: f"{base}{k}" for k in range(1, self.heads + 1) if f"{base}{k}" in self.exact}
        if head is not None:
            number = head + 1 if target.name in self.zero else head
            return [numbered[number]] if number in numbered else []
        if self.context.head in numbered:
            return [numbered[self.context.head]]
        return list(numbered.values())

    def positions(self, statement: Statement, target: Target, indices: tuple[Index, ...]) -> list[At]:
        """Indices counted from 0; letters are every one, unless the statement fixes them."""
        fixed = {letter: term for letter, term in statement.given if isinstance(term, Written)}
        at: list[int | None] = []
        for index in indices:
            if isinstance(index, int):
                at.append(index - (target.name not in self.zero))
            elif index in fixed:
                at.append(int(fixed[index].value) - (f"{index} =" not in self.zero))
            elif len(index) == 1 or index in ("…", ":"):
                at.append(None)
            else:
                return []
        found: list[At] = [tuple(at)]
        if not at or at == [None]:
            rows = [row - 1 for row in self.context.rows]
            found += [(row,) for row in rows]
            if at == [None]:
                found.append(())
        return found

    def choose(self, statement: Statement, target: Target, options: list[Option]) -> Option | None:
        """The closest to what is written; values decide between heads and between rows that are equally close."""
        best = min(option.rank for option in options)
        close = [option for option in options if option.rank == best]
        if len(close) == 1:
            return close[0]
        scores = [self.agreement(option.symbol, option.cells) for option in close]
        top = [option for option, score in zip(close, scores, strict=True) if score == max(scores)]
        symbols = " or ".join(dict.fromkeys(option.symbol for option in close))
        if len(top) == 1 and max(scores) >= 0.5:
            self.sheet.note(
                statement.line, statement.source, f"taken as {top[0].symbol} by its values, not as {symbols}"
            )
            return top[0]
        free = [option for option in close if not self.sheet.answered(option.symbol)]
        if len(free) == 1:
            self.sheet.note(statement.line, statement.source, f"taken as {free[0].symbol}, which was still open")
            return free[0]
        self.sheet.leave(statement.line, statement.source, f"it may be {symbols}: say which head or row it is")
        return None

    def keep(self, statement: Statement, option: Option, target: Target, written: Table) -> None:
        self.put(statement, option.symbol, option.cells)
        if target.name in self.zero and target.indices:
            self.sheet.note(statement.line, statement.source, f"the indices of {target.name} are counted from 0")
        Unnamed(self).factors(statement, option.symbol)

    def put(self, statement: Statement, symbol: str, cells: Cells) -> None:
        """Also for the other rows that the prose names: "for row 1 and 4"."""
        line = next(iter(cells.values())).line
        self.sheet.put(Placed(symbol, cells, line, statement.source))
        number = symbol[-1:]
        if self.heads > 1 and number.isdigit():
            self.context.head = int(number)
        rows = [row - 1 for row in self.context.rows]
        lines = self.exact[symbol].shape[0 if self.by_rows else 1]
        here = {at[0 if self.by_rows else 1] for at in cells}
        if len(rows) > 1 and len(here) == 1 and here <= set(rows) and symbol.rstrip("0123456789") in (*SCORES, *"EZA"):
            for row in rows:
                if row not in here and 0 <= row < lines:
                    echo = {((row, j) if self.by_rows else (i, row)): own for (i, j), own in cells.items()}
                    self.sheet.put(Placed(symbol, echo, statement.line, statement.source, "echo"))
                    said = f"row {row + 1} is taken to be the same, as the words before it say"
                    self.sheet.note(statement.line, statement.source, f"{symbol}: {said}")

    def misfit(
        self, statement: Statement, target: Target, found: Subject | None, exact: str | None, written: Table
    ) -> None:
        """A known name with numbers that do not fit."""
        symbols = [exact] if exact else []
        if found is not None:
            for base in found.bases:
                for head, at in readings(found.indices, found.upper, self.heads):
                    symbols += self.symbols(base, head, target) if not at else []
        symbols = list(dict.fromkeys(symbols))
        if not symbols:
            here = f"{target.label} is no step of this exercise"
            if not isinstance(target.term, Name) or not written.scalar:
                self.sheet.leave(statement.line, statement.source, here)
            return
        symbol = symbols[0]
        rows, columns = self.exact[symbol].shape
        if written.scalar and statement.place != "display":
            self.sheet.leave(statement.line, statement.source, f"which of the cells of {symbol} this is cannot be told")
            return
        size = "a list of {1}".format(*written.shape) if written.flat else "{}×{}".format(*written.shape)
        size = "a number" if written.scalar else size
        self.sheet.leave(
            statement.line, statement.source, f"{symbol} is {rows}×{columns} in this exercise, {size} is written"
        )
        if symbol in self.plan:
            self.sheet.misshaped[symbol] = written
            Unnamed(self).factors(statement, symbol)


def _share(values: list[Any], cells: Cells) -> float:
    points = {"right": 1.0, "rounded": 0.6, "wrong": 0.0}
    good = sum(max(points[closeness(value[at], own)] for value in values) for at, own in cells.items())
    return good / len(cells) if cells else 0.0


def _label(symbol: str) -> str:
    """How the reader reads what we display for a symbol."""
    target = read(f"$${latex.latex(name(symbol))} = 1$$", kind="markdown").statements[0].target
    return target.label if target is not None else symbol
