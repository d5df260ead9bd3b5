"""Placing what has no name: by context, size and values, and only where exactly one symbol fits.

`[weights][V] = [result]` is recognised by its factors; a bare matrix by the words before it, its size, and how many of
its cells agree with a step. At least half of the cells must agree, unless the words leave only one symbol of that size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glassformer.worked.check.fit import Cells, fit
from glassformer.worked.check.own import Table, table
from glassformer.worked.check.sheet import Placed, used_values
from glassformer.worked.check.vocabulary import topics
from glassformer.worked.plan import Operation
from glassformer.worked.read import Link, Statement
from glassformer.worked.read.term import Call, Matrix, Product, Struck, Transpose, Written, walk

if TYPE_CHECKING:
    from glassformer.worked.check.place import Placer

HALF = 0.5
MOSTLY = 0.7
_NUMBERS = ("", "first", "second", "third", "fourth", "fifth", "sixth")


@dataclass(frozen=True, slots=True)
class Found:
    """A product that is an operation of the plan: its two factors and the result that agrees best."""

    score: float
    operation: Operation
    factors: tuple[int, int]
    result: int | None


class Unnamed:
    def __init__(self, placer: Placer) -> None:
        self.placer, self.sheet = placer, placer.sheet

    def place(self, statement: Statement) -> None:
        product = next((link for link in statement.terms if len(_factors(link)) > 1), None)
        if product is not None and self.product(statement, product):
            return
        written = self.placer.written(statement)
        if written is None:
            self.salvage(statement)
        elif statement.place == "prose":
            self.sum(statement, written)
        elif not written.scalar:
            self.matrix(statement, written)
        elif statement.target is not None and statement.target.is_name:
            label = statement.target.label
            self.sheet.leave(statement.line, statement.source, f"no step of this exercise is called {label}")

    # -- products ----------------------------------------------------------------------------------------------------

    def factors(self, statement: Statement, symbol: str) -> None:
        """What a named statement sets out as its operands: used for follow-through, and compared with the exercise."""
        if symbol not in self.placer.plan:
            return
        operation = self.placer.plan[symbol]
        for link in statement.terms:
            tables = _factors(link)
            if len(tables) != len(operation.operands) or operation.op != "matmul":
                continue
            for name, factor in zip(operation.operands, tables, strict=True):
                self.used(statement, symbol, name, factor)

    def used(self, statement: Statement, symbol: str, name: str, factor: Table) -> None:
        operand = name.removesuffix("^T")
        here = factor.T if name.endswith("^T") != self.placer.turned else factor
        wanted = self.placer.exact[operand].shape
        values = used_values(here)
        cells = {(i, j): own for i, j, own in here.cells()}
        if here.shape == wanted and values is not None:
            turned = {(j, i): own for (i, j), own in cells.items()} if wanted[0] == wanted[1] else {}
            share = self.placer.agreement(operand, cells)
            if share < MOSTLY or self.placer.agreement(operand, turned) > share:
                return  # not a copy of the operand with a slip of the pen, but another matrix, or Kᵀ for K
            self.sheet.used.setdefault(symbol, {})[operand] = values
            if operand in self.placer.plan.given:
                self.sheet.put(Placed(operand, cells, statement.line, statement.source, "factor"))
        elif operand in self.placer.plan.given and here.shape != wanted:
            sizes = "{}×{} is written, {}×{} is given".format(*here.shape, *wanted)
            self.sheet.note(statement.line, statement.source, f"{operand} is copied with another size: {sizes}")

    def product(self, statement: Statement, link: Link) -> bool:
        """[A][V] = [H] without a name."""
        tables = _factors(link)
        results = [found for other in statement.terms if other is not link and other.numeric and not other.struck
                   for found in (table(other),) if found is not None]  # fmt: skip
        found = sorted(self.matches(tables, results), key=lambda match: -match.score)
        if not found or (
            len(found) > 1 and found[0].score == found[1].score and found[0].operation != found[1].operation
        ):
            return False
        best = found[0]
        said = f"an unnamed product, taken as {best.operation.symbol} = {best.operation.formula} by its factors"
        if len(tables) > 2:
            kept = " and ".join(_NUMBERS[k + 1] if k < 6 else str(k + 1) for k in best.factors)
            said += f"; of {len(tables)} matrices the {kept} belong to it (was another crossed out?)"
        if best.result is not None:
            cells = self.fitted(best.operation.symbol, results[best.result])
            if cells:
                self.placer.put(statement, best.operation.symbol, cells)
            if len(results) > 1 and best.result < len(results) - 1:
                said += "; a second result stands there, which does not belong to these factors"
        for name, k in zip(best.operation.operands, best.factors, strict=True):
            self.used(statement, best.operation.symbol, name, tables[k])
            operand = name.removesuffix("^T")
            cells = self.fitted(operand, tables[k].T if name.endswith("^T") else tables[k])
            if cells and operand in self.placer.plan:
                self.sheet.put(Placed(operand, cells, statement.line, statement.source, "factor"))
        self.sheet.note(statement.line, statement.source, said)
        return True

    def matches(self, tables: list[Table], results: list[Table]) -> Iterator[Found]:
        for operation in self.placer.plan.operations:
            if operation.op != "matmul":
                continue
            results_at = [(k, self.share(operation.symbol, result)) for k, result in enumerate(results)]
            fitting = [(k, share) for k, share in results_at if share is not None]
            if results and not fitting:
                continue
            for a in range(len(tables)):
                for b in range(a + 1, len(tables)):
                    shares = [self.share(name, tables[k]) for name, k in zip(operation.operands, (a, b), strict=True)]
                    if None in shares or max(share or 0 for share in shares) < HALF:
                        continue
                    near = max(fitting, key=lambda item: (item[1] or 0, item[0])) if fitting else (None, 0.0)
                    known = operation.symbol[-1:] == str(self.placer.context.head)
                    score = sum(share or 0 for share in shares) + (near[1] or 0) + 0.01 * known
                    yield Found(score, operation, (a, b), near[0])

    def fitted(self, symbol: str, written: Table) -> Cells | None:
        shape = self.placer.exact[symbol].shape
        return fit(written, shape, (), by_rows=self.placer.by_rows, turned=self.placer.turned)

    def share(self, name: str, written: Table) -> float | None:
        """How far the table agrees with an operand such as K^T; None if the sizes differ."""
        symbol = name.removesuffix("^T")
        cells = self.fitted(symbol, written.T if name.endswith("^T") else written)
        return self.placer.agreement(symbol, cells) if cells else None

    # -- matrices and lists ------------------------------------------------------------------------------------------

    def matrix(self, statement: Statement, written: Table) -> None:
        """One matrix or list, with nothing but the words around it."""
        options = list(self.options(statement, written))
        size = f"a list of {written.shape[1]}" if written.flat else "{}×{}".format(*written.shape)
        if not options:
            self.sheet.leave(
                statement.line, statement.source, f"it has no name, and no step of this exercise is {size}"
            )
            return
        spoken = (*_called(statement), *topics(statement.words))
        told = [option for option in options if _base(option[0]) in spoken and option[0] in self.placer.plan]
        told = told if statement.target is None else []
        agreeing = [option for option in options if option[2] >= HALF]
        best = [option for option in agreeing if option[2] == max(o[2] for o in agreeing)]
        if len(best) > 1:
            best = [option for option in best if option in told] or best
            best = [option for option in best if _base(option[0]) == spoken[0]] if len(best) > 1 and spoken else best
        if len(best) == 1:
            self.accept(statement, best[0], "by its size and values")
        elif not best and len(told) == 1 and not self.sheet.answered(told[0][0]):
            self.accept(statement, told[0], "by the words before it and its size")
        else:
            names = ", ".join(dict.fromkeys(symbol for symbol, _, _ in best or options))
            what = f"no step is called {statement.target.label}" if statement.target is not None else "it has no name"
            why = (
                "more than one step has its size and values" if best else "no step of its size has half of its numbers"
            )
            self.sheet.leave(statement.line, statement.source, f"{what}, and {why} ({names})")

    def options(self, statement: Statement, written: Table) -> Iterator[tuple[str, Cells, float]]:
        """(symbol, cells, agreement) for everything the table fits."""
        rows = [row - 1 for row in self.placer.context.rows]
        counters = [
            int(term.value) - (f"{name} =" not in self.placer.zero)
            for name, term in statement.given
            if isinstance(term, Written)
        ]
        spoken = (*_called(statement), *topics(statement.words), *self.placer.context.topics)
        for symbol in self.placer.exact:
            shape = self.placer.exact[symbol].shape
            cells = self.fitted(symbol, written)
            if written.vector is not None and _base(symbol) in spoken and 1 not in shape:
                cells = self.row(symbol, written, (counters or rows)[:1])
            elif written.vector is not None and (counters or rows):
                cells = None
            if cells:
                yield symbol, cells, self.placer.agreement(symbol, cells)

    def row(self, symbol: str, written: Table, rows: list[int]) -> Cells | None:
        """The row that the words name, or the only one whose numbers these are."""
        shape, by_rows = self.placer.exact[symbol].shape, self.placer.by_rows
        lines = rows or list(range(shape[0] if by_rows else shape[1]))
        found = [cells for k in lines for cells in (fit(written, shape, (k,), by_rows=by_rows),) if cells]
        if not rows:
            found = [cells for cells in found if self.placer.agreement(symbol, cells) == 1]
        return found[0] if len(found) == 1 else None

    def accept(self, statement: Statement, option: tuple[str, Cells, float], why: str) -> None:
        symbol, cells, _ = option
        self.placer.put(statement, symbol, cells)
        what = f"{statement.target.label} is" if statement.target is not None and not statement.given else "unnamed,"
        self.sheet.note(statement.line, statement.source, f"{what} taken as {symbol}{_where(cells, self)} {why}")

    def sum(self, statement: Statement, written: Table) -> None:
        """A number in prose, "if we sum them we get 13.8256": the sum of the exponentials of the rows at hand."""
        head = self.placer.context.head or ""
        symbol = next((s for s in (f"Z{head}", "Z") if s in self.placer.exact), None)
        if symbol is None or "sum" not in statement.words.lower() or not self.placer.context.rows:
            return
        cells = fit(
            written, self.placer.exact[symbol].shape, (self.placer.context.rows[0] - 1,), by_rows=self.placer.by_rows
        )
        if cells:
            self.placer.put(statement, symbol, cells)

    def salvage(self, statement: Statement) -> None:
        """A formula with an unreadable part: a whole matrix in it may still be told by its values."""
        for link in statement.terms if not statement.struck else ():
            for part in walk(link.term):
                if not isinstance(part, Matrix) or part.ragged or min(part.shape) < 2 or link.numeric:
                    continue
                written = table(Link(link.line, "", part))
                if written is None or any(cell is None for row in written.rows for cell in row):
                    continue
                options = [option for option in self.options(statement, written) if option[2] >= HALF]
                best = [option for option in options if option[2] == max(o[2] for o in options)]
                if len(best) == 1 and best[0][0] in self.placer.plan:
                    self.accept(
                        statement, best[0], "by its size and values, in a formula that cannot be read as a whole"
                    )


def _called(statement: Statement) -> tuple[str, ...]:
    """softmax([1, 2, 0, 1]) = […] says what it is."""
    calls = {part.function for link in statement.terms for part in walk(link.term) if isinstance(part, Call)}
    return tuple(base for function, base in (("softmax", "A"), ("exp", "E")) if function in calls)


def _where(cells: Cells, unnamed: Unnamed) -> str:
    lines = {at[0 if unnamed.placer.by_rows else 1] for at in cells}
    return f", token {min(lines) + 1}," if len(lines) == 1 else ""


def _base(symbol: str) -> str:
    return symbol.rstrip("0123456789")


def _factors(link: Link) -> list[Table]:
    """The matrices of a product, with the crossed-out ones left out."""
    if not isinstance(link.term, Product):
        return []
    factors = [f for f in link.term.factors if not isinstance(f, Struck)]
    if not all(isinstance(f, Matrix | Transpose) for f in factors):
        return []
    tables = [table(Link(link.line, "", f)) for f in factors]
    return [t for t in tables if t is not None] if all(t is not None for t in tables) else []
