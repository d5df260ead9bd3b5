"""Alignment: each statement of a document → a symbol of the plan and its cells, by name, index and context.

Names take precedence (`Q_1`, `q_1`, `\\Omega_2`, `QK^T`, `out_1`, `softmax(S)V`), with the head and row that the prose
mentions; sizes must fit, and where a name is ambiguous between two heads their values decide. Unnamed statements are
aligned by context, size and values, and only if exactly one symbol fits: `[weights][V] = [result]` by its factors, a
bare matrix by the words before it, its size, and how many of its cells agree with a step (at least half, unless the
words leave only one symbol of that size). Assumptions are noted, and unaligned statements are listed with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import Any, Literal

from flint import arb

from glassformer.exercises.arithmetic import Unevaluated
from glassformer.exercises.evaluation import enclose
from glassformer.exercises.expression import (
    Array,
    Call,
    Constant,
    Expression,
    Index,
    Name,
    Number,
    Power,
    Product,
    Quotient,
    Struck,
    Sum,
    Transpose,
    is_numeric,
    names_in,
    walk,
)
from glassformer.exercises.grade.cells import (
    At,
    Entries,
    Entry,
    Table,
    agrees,
    answer_of,
    carried,
    closeness,
    fit,
    format_value,
    is_literal,
    readings,
    table,
    troubles,
)
from glassformer.exercises.grade.context import Context, counted_from_zero, rows_in
from glassformer.exercises.grade.verdict import FollowThrough, Place, Verdicts, exact_values
from glassformer.exercises.grade.vocabulary import NORMS, PARAMETERS, RAW, SCORES, Subject, label_of, subject, topics
from glassformer.exercises.matrix import Matrix as Values
from glassformer.exercises.numbers import MASKED
from glassformer.exercises.plan import Operation, Plan
from glassformer.exercises.printers.text import label
from glassformer.exercises.reader import Link, Note, Reading, Statement, Target, Unread, listed
from glassformer.exercises.reader.sentences import PRONOUNS, declared_tokens

HALF = 0.5
MOSTLY = 0.7
_NUMBERS = ("", "first", "second", "third", "fourth", "fifth", "sixth")


@dataclass(frozen=True, slots=True)
class Found:
    """A product that matches an operation of the plan: its two factors and the result that agrees best."""

    score: float
    operation: Operation
    factors: tuple[int, int]
    result: int | None


@dataclass(frozen=True, slots=True)
class Placement:
    """Entries of a symbol from one statement. A `factor` occurs inside a product: it was used, not answered.

    `certain`: the statement names the symbol and the cells itself; otherwise they follow from words, size or values.
    """

    symbol: str
    cells: Entries
    line: int
    source: str
    role: Literal["answer", "factor", "echo"] = "answer"
    certain: bool = False


@dataclass(slots=True)
class Alignment:
    """A learner's work by symbol.

    `misshaped`: answers of an unexpected size. `used`: operands written out in a statement. `set_out`: the expressions
    before a result, each with its decimals taken as exact, and as an interval that accounts for their rounding.
    `checked`: statements about quantities that are not steps, such as 1/√d_k = 0.7071, that hold. `supposed`: examples.
    """

    placed: list[Placement] = field(default_factory=list)
    misshaped: dict[str, Table] = field(default_factory=dict)
    used: dict[str, dict[str, Values[Any]]] = field(default_factory=dict)
    set_out: dict[tuple[str, int, int], list[tuple[Any, Any]]] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    checked: list[Statement] = field(default_factory=list)
    supposed: list[Statement] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    struck: list[Unread] = field(default_factory=list)

    def put(self, placed: Placement) -> None:
        self.placed.append(placed)

    def note(self, line: int, source: str, assumption: str) -> None:
        if not any(note.assumption == assumption for note in self.notes):  # no duplicates
            self.notes.append(Note(line, source, assumption))

    def leave(self, line: int, source: str, reason: str) -> None:
        self.unread.append(Unread(line, " ".join(source.split())[:400], reason))

    def cross_out(self, line: int, source: str) -> None:
        self.struck.append(Unread(line, " ".join(source.split())[:400], "crossed out, so not graded"))

    def entries(self) -> dict[str, Entries]:
        """Return every symbol's cells. The last answer counts, unless it only repeats an earlier one to fewer digits;
        factors and echoes count only where nothing else is written."""
        found: dict[str, Entries] = {}
        for roles in (("echo",), ("factor",), ("answer",)):
            for placed in self.placed:
                if placed.role in roles:
                    here = found.setdefault(placed.symbol, {})
                    finer = {at for at, entry in placed.cells.items() if at in here and _finer(here[at], entry)}
                    here |= {at: entry for at, entry in placed.cells.items() if at not in finer}
        return found

    def follow_through(
        self, plan: Plan, exact: Mapping[str, Values[Any]], behind: Mapping[Place, Any] | None = None
    ) -> FollowThrough:
        return FollowThrough(plan, exact, self.entries(), self.used, self.set_out, behind)

    def answered(self, symbol: str) -> bool:
        return any(placed.symbol == symbol and placed.role == "answer" for placed in self.placed)

    def twice(self) -> list[Note]:
        """Return notes on entries that are written more than once with incompatible numbers."""
        before: dict[tuple[str, int, int], Entry] = {}
        clashes: dict[tuple[str, int], tuple[Placement, list[str]]] = {}
        for placed in (p for p in self.placed if p.role == "answer"):
            for (i, j), entry in placed.cells.items():
                first = before.get((placed.symbol, i, j))
                if first is not None and not agree(first, entry):
                    _, differences = clashes.setdefault((placed.symbol, placed.line), (placed, []))
                    differences.append(f"[{i + 1},{j + 1}] {first.text} in line {first.line}, {entry.text} here")
                before[placed.symbol, i, j] = entry
        return [
            Note(placed.line, placed.source, f"{symbol} is written again, and the last one counts: {_few(differences)}")
            for (symbol, _), (placed, differences) in clashes.items()
        ]


def _few(items: list[str]) -> str:
    return "; ".join(items[:2]) + (f"; and {len(items) - 2} more" if len(items) > 2 else "")


def agree(a: Entry, b: Entry) -> bool:
    if MASKED in (a.value, b.value):
        return a.value is b.value
    return agrees(a.value, b) or agrees(b.value, a)


def _finer(a: Entry, b: Entry) -> bool:
    """Return whether b repeats a to fewer digits."""
    if MASKED in (a.value, b.value) or a.places is None or not agree(a, b):
        return False
    return b.places < a.places if b.places is not None else b.approximate


def used_values(table: Table) -> Values[Any] | None:
    """Return a factor's values; None if any cell could not be read."""
    if any(cell is None for row in table.rows for cell in row):
        return None
    return Values.of([cell.value for cell in row if cell is not None] for row in table.rows)




_SAID_TRANSPOSED = re.compile(
    r"\b(?:my|all|these|the) (?:my |the )?(?:tables|matrices|results) are (?:the |all )?transpose[sd]?\b", re.I
)
_TOKENS_AS_COLUMNS = re.compile(
    r"\b(?:each|every|one|a) column (?:is|stands for) (?:one |a )?token\b|\bcolumns are (?:the )?tokens\b"
    r"|\btokens? (?:are|stand|as|in) (?:in |as )?(?:the )?columns\b"
    r"|\bvectors? (?:are |is )?(?:written )?as (?:a )?columns?\b",
    re.I,
)
_LAYOUT_STEPS = ("X", "Q", "K", "V", "QKt", "KtQ", "S", "A", "H", "C", "O")
PER_TOKEN = ("Z", "mu", "var", "muF", "varF")  # one number for each token
COUNTERS = ("i", "j", "t", "n", "k", "l", "m", "s")
_SUPPOSED = re.compile(
    r"(?:\b(?:if|suppose|supposing|assume|assuming|imagine|say|for example|for instance|e\.g\.|such as|z\.\s?B\.|"
    r"whenever|provided|for comparison)\b|\be\.g\.)[\s,:]*"
    r"(?:that|with|we have|we had|the weights were|\w+ were|\w+ was)?[\s,:]*$", re.I
)
_EXAMPLE = re.compile(
    r"\b(?:for example|for instance|such as|suppose|imagine|zum beispiel|per esempio|par exemple|por ejemplo"
    r"|bijvoorbeeld)\b[^.!?]*$"
    r"|\be\.g\.[^.!?]*$",
    re.I,
)
_SUMS = re.compile(
    r"\b(?:row|column|weight)s?[- ]?sums?\b|\bsums?\s+(?:of|over|up to|to)\b|\bzeilensummen?\b|\.sum\b"
    r"|\bsum\([A-Z]\w*[,)]", re.I
)
_TOTALS = re.compile(r"\bsum|\badds? up\b|\btogether\b|\bdenominator|\bnormali[sz]er|\bnenner|\bsomm[ea]\b", re.I)
_WIDTHS = ("d_k", "dk")
_SIGN = re.compile(r".|\\[A-Za-z]+")  # a lone sign such as \cdot in LayerNorm(\cdot)
# Q @ K.T, S.softmax(), exp(S)
_CODE = re.compile(r"[@.]|\w\(\)|\w+\([A-Za-z]+\)|\w=(?:True|False|None)\b| for \w+ in ")
_ARGUMENTS = re.compile(r"\b(?:digits|dims?|axis|indent|decimals|byrow)\s*=\s*-?\w+|'[a-z]\d'")
_TITLE = re.compile(r"(?:^|(?P<before>\w+)?[\s(*,]+)(?P<symbol>[A-Z]\w{0,3})\s*:\W*$")
_LETTERED = (
    "part", "task", "step", "case", "group", "table", "question", "exercise", "sentence", "problem", "teil", "aufgabe"
)  # fmt: skip
_SIZE = re.compile(r"\b(?:size|dim|shape)\b(?:\(\w*\))?\W*$")  # of the output of size(Q)
_ROW = re.compile(r"row (\d+)")  # the index of "row 2" in a sentence
NEAR = 2  # lines between a row and the one that it is computed from
MOST_TOKENS = 12
MOST_EVALUATED = 40_000  # cells, to find out what follows from the numbers placed so far
OTHER = 100  # the rank of a name's second meaning


@dataclass(frozen=True, slots=True)
class Option:
    """One way to place a statement; a lower rank is closer to what is written."""

    rank: int
    symbol: str
    cells: Entries


class Aligner:
    def __init__(self, plan: Plan, reading: Reading, labels: Sequence[str] = ()) -> None:
        self.plan, self.reading = plan, replace(reading, statements=tuple(_rejoined(reading.statements)))
        self.exact = exact_values(plan)
        self.alignment = Alignment(given=frozenset(plan.given))
        self.alignment.unread += [item for item in reading.unread if not _is_code(item)]
        self.alignment.notes += reading.notes
        self.heads = max((int(s[1:]) for s in plan.symbols if s[0] == "H" and s[1:].isdigit()), default=1)
        self.context = Context(self.heads)
        self.by_rows = plan.axis == "rows"
        self.labels = {name: symbol for symbol in self.exact for name in (symbol, label_of(symbol))}
        self.zero = counted_from_zero(reading.statements)
        self.token: int | None = None  # the token whose line was written last
        self.transposed = False
        self.scales: list[bool] = []  # for each β that is written, whether it is that of the exercise
        self.compares = False  # whether the text is about another scale than the exercise's
        self.announced: tuple[str, ...] = ()
        self.most = 64 + 4 * max(m.shape[0] * m.shape[1] for m in self.exact.values())
        self.answers: dict[int, tuple[Statement, Table | None]] = {}
        self.values: dict[Name, Table] = {}  # the latest value of each name
        self.cached: tuple[int, Verdicts] | None = None
        self.evaluations = MOST_EVALUATED // sum(m.shape[0] * m.shape[1] for m in self.exact.values())
        queries = [m.shape[0 if self.by_rows else 1] for s, m in self.exact.items() if base_of(s) == "Q"]
        self.one_query = bool(queries) and max(queries) == 1
        self.keys = self.key_names()
        self.energies = self.has_energies()
        self.tokens = self.token_names(labels)

    def run(self) -> Alignment:
        self.transposed = self.is_transposed()
        if self.transposed:
            note = "your matrices are transposed relative to the exercise and are read that way"
            self.alignment.note(self.reading.statements[0].line if self.reading.statements else 1, "", note)
        parts = (part for whole in self.reading.statements for part in _one_target_each(whole))
        supposed = False
        for statement in self.exponentials(self.stacked(parts)):
            self.context.update(statement)
            self.compares = self.is_comparison(statement)
            supposed = is_hypothetical(statement) or (supposed and goes_on(statement)) or self.compares
            if supposed:
                self.alignment.supposed.append(statement)
            if self.is_counter(statement) or supposed or is_sum_of_weights(statement):
                continue
            if statement.crossed or (statement.terms and all(link.struck for link in statement.terms)):
                self.alignment.cross_out(statement.line, statement.source)
            elif statement.target is None or not self.named(statement, statement.target):
                self.unnamed(statement)
            self.announced = self.announces(statement)
        self.recognise_unmasked_scores()
        self.recognise_scores_written_twice()
        self.recognise_raw_scores()
        self.reconsider()
        self.alignment.notes += self.alignment.twice()
        return self.alignment

    def reconsider(self) -> None:
        """Take back what would replace numbers that agree by others that mostly do not: it is probably another step.

        The next step of that size that has all of these numbers is the right one; otherwise they are listed.
        """
        placed = self.alignment.placed
        before: dict[str, Entries] = {}
        for k, each in enumerate(placed):
            known = before.setdefault(each.symbol, {})
            clash = {at: e for at, e in each.cells.items() if at in known and not agree(known[at], e)}
            if each.role != "answer" or each.symbol not in self.plan:
                continue
            if clash and self.agreement(each.symbol, each.cells) < HALF:
                earlier = {at: known[at] for at in each.cells if at in known}
                if self.agreement(each.symbol, earlier) >= MOSTLY:
                    placed[k] = replace(each, symbol=self.later_step(each), role="answer")
                    if placed[k].symbol == each.symbol:
                        placed[k] = replace(each, cells={})
                        reason = f"{each.symbol} has other numbers in line {next(iter(earlier.values())).line}"
                        self.alignment.leave(each.line, each.source, f"{reason}, which agree with the exercise")
                    continue
            known |= each.cells
        placed[:] = [each for each in placed if each.cells]
        self.cached = None

    def later_step(self, placed: Placement) -> str:
        """Return the step after a symbol that has all numbers of a placement; the symbol itself if there is none."""
        size = self.exact[placed.symbol].shape
        later = [s for s in self.plan.after(placed.symbol) if self.exact[s].shape == size]
        return next((s for s in later if self.agreement(s, placed.cells) == 1), placed.symbol)

    def is_comparison(self, statement: Statement) -> bool:
        """Return whether a statement compares with another scale: `for β = 1 the weights were …`."""
        target, written = statement.target, self.written(statement)
        if target is None or target.name not in ("β", "beta") or written is None or not written.scalar:
            return self.compares
        factor = arb(float(next((op.params["factor"] for op in self.plan.operations if op.op == "scale"), 1)))
        own = (agrees(factor, entry) or abs(entry.value - factor) < 1e-9 for _, _, entry in written.cells())
        self.scales.append(any(own))
        return not self.scales[-1] and (any(self.scales) or any(self.alignment.answered(s) for s in self.plan.symbols))

    def stacked(self, statements: Iterable[Statement]) -> Iterator[Statement]:
        """Join lists of one length that follow one another without words, if a step has the size of that matrix."""
        shapes = {matrix.shape for matrix in self.exact.values()}
        run: list[Statement] = []
        for statement in statements:
            rows = _plain_rows(statement)
            new = statement.target is not None or any(map(str.isalnum, statement.words))
            if run and (not rows or len(rows[0]) != len(_plain_rows(run[0])[0]) or new):
                yield from _as_matrix(run, shapes)
                run = []
            if rows and len(rows[0]) > 1 and (run or len(rows) == 1):
                run.append(statement)
            else:
                yield statement
        yield from _as_matrix(run, shapes)

    def exponentials(self, statements: Iterable[Statement]) -> Iterator[Statement]:
        """Join `exp(2) = 7.389, exp(1) = 2.718`, or the numbers after "the exponentials are", to one row of E."""
        width = next((m.shape[1 if self.by_rows else 0] for s, m in self.exact.items() if base_of(s) == "E"), 0)
        run: list[Statement] = []
        for statement in statements:
            count = len(statement.terms)
            next_one = bool(run) and statement.words.strip(" ,").lower() in ("", "and", "und", "et", "e", "y")
            announced = not run and count == 1 and statement.place == "inline" and topics(statement.words)[:1] == ("E",)
            bare = announced or (next_one and count == 1 == len(run[0].terms))
            raised = count == 2 and _is_exponential(statement.terms[0].term) and (not run or next_one)
            if statement.target is None and (bare or raised) and is_literal(statement.terms[-1].term):
                run.append(statement)
                if len(run) == width:
                    row = _row_of_exponentials(run)
                    yield from [row] if self.is_exponential(row) else run
                    run = []
                continue
            yield from run
            run = []
            yield statement
        yield from run

    def is_exponential(self, statement: Statement) -> bool:
        """Return whether half of a row agree with E; exponentials of other numbers, as of S − max S, are arithmetic."""
        self.context.update(statement)
        written = self.written(statement)
        options = self.unnamed_options(statement, written) if written is not None else ()
        return any(base_of(symbol) == "E" and share >= HALF for symbol, _, share in options)

    def announces(self, statement: Statement) -> tuple[str, ...]:
        """Return the symbol of a formula without a result, `N = (X − μ)/σ`, which a table may give after it."""
        found = subject(statement.target.term) if statement.target is not None else None
        return found.bases[:1] if found is not None and self.written(statement) is None else ()

    # -- values ------------------------------------------------------------------------------------------------------

    def verdicts(self) -> Verdicts:
        """Return the verdicts on everything placed so far; after many evaluations, those of the last one."""
        stale = self.cached is None or (self.cached[0] != len(self.alignment.placed) and self.evaluations > 0)
        if self.cached is None or stale:
            self.evaluations -= 1
            self.cached = (len(self.alignment.placed), self.alignment.follow_through(self.plan, self.exact).run())
        return self.cached[1]

    def agreement(self, symbol: str, cells: Entries) -> float:
        """Return the share of cells that are right or follow from earlier placements; a last digit off counts less."""
        share = _share([self.exact[symbol]], cells)
        computed = self.verdicts().computed if share < 1 else {}
        return _share([self.exact[symbol], computed[symbol]], cells) if symbol in computed else share

    # -- by name -----------------------------------------------------------------------------------------------------

    def named(self, statement: Statement, target: Target) -> bool:
        """Place a statement with a known name; return False if it has none."""
        if self.is_known(statement, target) or (is_parameter(statement) and target.label not in self.labels):
            return True
        found = self.subject(statement, target)
        if statement.place == "prose" and target.name == "token" and not self.is_given(statement, target):
            return False
        exact = self.labels.get(target.label) if not self.from_zero(target) else None
        if statement.place == "answer" and statement.source in self.exact:
            exact, found = statement.source, None
        if target.is_name and target.name in ("i", "j") and (statement.given or statement.words):
            return False  # `i = 0 scores to j → […]`
        if found is None and exact is None:
            return False
        written = self.written(statement) or carried(statement, self.values)
        for line, reason in troubles(statement, self.most):
            if not any(item.line == line for item in self.alignment.unread):  # the reader may have reported it
                self.alignment.leave(line, statement.source, reason)
        if written is None:
            return True  # a formula, or a product without a result
        options = [o for o in self.options(statement, target, found, exact, written) if o.rank < OTHER or self.open(o)]
        if not options:
            if not self.of_token(statement, target, written) and not self.by_values(statement, written):
                self.misfit(statement, target, found, exact, written)
            return True
        option = self.choose(statement, options)
        if option is not None and statement.place == "prose" and not self.agreement(option.symbol, option.cells):
            if self.of_token(statement, target, written):
                return True
            if option.symbol in self.plan.given:
                reason = f"it is unclear what these numbers are; {option.symbol} is given as other ones"
                self.alignment.leave(statement.line, statement.source, reason)
                return True
        if option is not None and not self.is_mention(statement, option):
            option = self.next_meaning(option, options)
            option = self.before_mask(target, option)
            option = self.itself(statement, self.another_step(statement, option), written)
            self.keep(statement, option, target)
            if isinstance(target.term, Name):
                self.values[target.term] = written
            self.others(statement, target, written)
        return True

    def is_known(self, statement: Statement, target: Target) -> bool:
        """Return whether a statement is about a quantity that is not a step, 1/√d_k or the standard deviation σ.

        If its number is right, it counts as checked; otherwise it is listed with the right value.
        """
        value = self.scale(target.term) if _is_about_width(target.term) else self.deviation(target)
        written = self.written(statement) if value is not None else None
        if value is None or written is None or not written.scalar:
            return False
        entry = next((entry for _, _, entry in written.cells()), None)
        if entry is not None and agrees(value, entry):
            self.alignment.checked.append(statement)
        elif entry is not None:
            reason = f"{target.label} is {format_value(value, entry)} in this exercise"
            self.alignment.leave(statement.line, statement.source, reason)
        return True

    def scale(self, term: Expression) -> Any:
        """Return the value of an expression in d_k, the width of the keys; None if it has none."""
        keys = next((m for symbol, m in self.exact.items() if base_of(symbol) == "K"), None)
        if keys is None:
            return None
        width = arb(keys.shape[1 if self.by_rows else 0])
        try:
            value = enclose(term, names=dict.fromkeys(_WIDTHS, width))
        except (Unevaluated, ZeroDivisionError):
            return None
        return None if isinstance(value, Values) else value

    def deviation(self, target: Target) -> Any:
        """Return the standard deviation of the token that σ_1 names; None for anything else."""
        variances = next((self.exact[s] for s in ("var", "varF") if s in self.exact), None)
        if not target.is_name or target.name not in ("σ", "std", "sd") or variances is None:
            return None
        tokens = [index - (not self.from_zero(target)) for index in target.indices if isinstance(index, int)]
        cells = [value for _, _, value in variances.cells()]
        return cells[tokens[0]].sqrt() if len(tokens) == 1 and 0 <= tokens[0] < len(cells) else None

    def subject(self, statement: Statement, target: Target) -> Subject | None:
        """Return the subject of a target, from the words before it and the meaning of e in this document."""
        found = subject(target.term)
        spoken = topics(statement.words) or self.context.topics
        if isinstance(target.term, Name) and target.name == "m" and "mu" in self.exact and spoken[:1] == ("mu",):
            return subject(replace(target.term, name="μ"))  # means: m_1 = 1.5
        if found is None:
            return None
        if found.bases == ("E", "S") and self.energies:
            return replace(found, bases=SCORES)
        if found.bases[0] == "X" and target.is_name and len(target.name) > 1:  # output tokens, query tokens
            spoken = topics(statement.words.rsplit(".", 1)[-1])
            return replace(found, bases=spoken) if spoken and spoken[0] not in found.bases else found
        if found.bases == ("V",) and re.search(r"\bweighted\s*$", statement.words):  # the sum of weighted values
            return replace(found, bases=("H", "O"))
        return found

    def token_names(self, labels: Sequence[str]) -> dict[str, int]:
        """Return the positions of tokens that sentences name: by the exercise's labels, else by their order there."""
        known = {label.lower(): k for k, label in enumerate(labels) if labels.count(label) == 1}
        declared = declared_tokens(self.reading.text)
        targets = [(s.target, s.place == "prose") for s in self.reading.statements if s.target is not None]
        named = [
            word for target, prose in targets for index in target.indices if isinstance(index, str)
            for word in (index.lower(),)
            if word in known or word in declared
            or (prose and word not in (*PRONOUNS, "q") and not _ROW.fullmatch(word))
        ]  # fmt: skip
        words = [word for word in declared if word in named] or list(dict.fromkeys(named))
        count = next((m.shape[0 if self.by_rows else 1] for m in self.exact.values()), 0)
        if known.keys() >= set(named) or len(words) != count:
            return known
        note = f"the tokens are counted in the order in which you name them: {', '.join(words)}"
        self.alignment.note(self.reading.statements[0].line, "", note)
        return {word: k for k, word in enumerate(words)}

    def key_names(self) -> dict[str, int]:
        """Return the positions of the tokens of another sentence, which k_the and v_the name in their order."""
        targets = [s.target for s in self.reading.statements if s.target is not None and s.target.name in ("k", "v")]
        names = [i.lower() for t in targets for i in t.indices if isinstance(i, str) and len(i) > 1 and i.isalpha()]
        words = list(dict.fromkeys(names))
        count = next((m.shape[0 if self.by_rows else 1] for s, m in self.exact.items() if base_of(s) == "K"), 0)
        return {word: k for k, word in enumerate(words)} if len(words) == count and "Y" in self.exact else {}

    def has_energies(self) -> bool:
        """Return whether e_ij is an energy, as in Bahdanau's notation: by the document's words or by its numbers."""
        scores = exponentials = 0
        for statement in self.reading.statements:
            target = statement.target
            if target is None or target.name not in ("e", "ε"):
                continue
            subjects = [subject(link.term) for link in statement.terms if not link.numeric]
            if any(found is not None and found.bases[0] in SCORES for found in subjects):
                return True
            values = [entry for _, _, entry in table_cells(self.written(statement))]
            scores += sum(self.occurs("S", entry) for entry in values)
            exponentials += sum(self.occurs("E", entry) for entry in values)
        return scores > exponentials

    def occurs(self, base: str, entry: Entry) -> bool:
        values = [m for symbol, m in self.exact.items() if base_of(symbol) == base]
        return any(agrees(x, entry) for matrix in values for _, _, x in matrix.cells())

    def is_counter(self, statement: Statement) -> bool:
        """Return whether `i = 1` or `j = 1, 2, 3` selects the token under discussion and is not an answer."""
        target = statement.target
        if target is None or not target.is_name or target.indices or target.name not in COUNTERS or statement.given:
            return False
        if any(link.relation != "=" for link in statement.terms):
            return False
        numbers = [part for link in statement.terms for part in walk(link.term) if isinstance(part, Number)]
        parts = [part for link in statement.terms for part in _items(link.term)]
        whole = all(is_numeric(part) or part == Name("…") for part in parts) and all(n.places is None for n in numbers)
        counted = [n.value for n in numbers] in ([*range(len(numbers))], [*range(1, len(numbers) + 1)])
        lists = any(isinstance(link.term, Array) for link in statement.terms)
        vector = lists and target.name not in "ij" and not (counted and target.name in "tn")
        if not numbers or not whole or vector or (target.name in self.exact and target.name not in "ij"):
            return False
        if len(numbers) == 1 and target.name != "j":
            self.context.rows = (int(numbers[0].value) + (numbers[0].value == 0),)
        return True

    def others(self, statement: Statement, target: Target, written: Table) -> None:
        """Place the other targets of a chain: a_{21} = a_{22} = 0.5 applies to both."""
        for link in statement.terms:
            term = link.term
            if isinstance(term, Name) and term.name == target.name and term.indices != target.indices:
                again = Target(term.name, term.indices, term.upper, term)
                options = list(self.options(statement, again, subject(term), self.labels.get(again.label), written))
                option = self.choose(statement, options) if options else None
                if option is not None:
                    self.put(statement, option.symbol, option.cells, certain=option.rank < OTHER)

    def open(self, option: Option) -> bool:
        """Return whether a placement is free: second meanings fill only empty cells (an O may not be a second H)."""
        answers = [p for p in self.alignment.placed if p.symbol == option.symbol and p.role == "answer"]
        written = {at for placed in answers for at in placed.cells}
        return not written & set(option.cells)

    def written(self, statement: Statement) -> Table | None:
        """Return the last numbers of the chain: the answer."""
        if id(statement) not in self.answers:  # cached with the statement, so that its id stays unique
            self.answers[id(statement)] = (statement, answer_of(statement, self.most))
        return self.answers[id(statement)][1]

    def options(
        self, statement: Statement, target: Target, found: Subject | None, exact: str | None, written: Table
    ) -> Iterator[Option]:
        if exact is not None:
            partly = self.reading.kind == "csv"  # CSV states rows and columns
            shape = self.exact[exact].shape
            cells = fit(written, shape, None if partly else (), by_rows=self.by_rows, transposed=self.transposed)
            raw = as_raw(self.exact, statement, exact)
            if cells is not None:
                yield Option(-1, raw or exact, cells)
        if found is None:
            return
        seen: set[tuple[str, tuple[tuple[int, int], ...]]] = set()
        turned = found.query is not None and (found.query == 0) != self.by_rows
        indices = found.indices[::-1] if turned else found.indices
        ways = [*readings(indices, found.upper, self.heads)]
        ways += [*readings(found.instead, found.upper, self.heads)] if found.instead is not None else []
        one_token = bool(found.indices) and (self.heads == 1 or target.name.islower())
        if self.one_query and written.scalar and len(found.indices) == 1 and not found.upper:
            ways += [(None, ("q", found.indices[0]) if self.by_rows else (found.indices[0], "q"))]  # a_1, of key 1
        known = {base_of(symbol) for symbol in self.exact}
        bases = [base for base in found.bases if base in known]
        for (rank, base), (place, (head, cells_at)) in product(enumerate(bases), enumerate(ways)):
            if base in PER_TOKEN and one_token and not written.scalar:
                continue  # z_1 = (1.2, 0.4) is an output: a sum is one number
            for symbol in self.symbols(base, head, target):
                guessed = self.heads > 1 or head not in found.indices  # q_1 = (1, 2) is of token 1, if of any
                for at in self.positions(statement, target, cells_at)[: None if guessed else 1]:
                    transposed = found.transposed != (self.transposed and found.query is None)
                    by_rows = self.by_rows or any(_ROW.fullmatch(str(index)) for index in target.indices)
                    cells = fit(written, self.exact[symbol].shape, at, by_rows=by_rows, transposed=transposed)
                    key = (symbol, tuple(cells or ()))
                    masked = cells and any(entry.value is MASKED for entry in cells.values())
                    if masked and base_of(symbol) != "S" and "S" in found.bases:
                        continue  # with −∞ in it, S̃ or QKᵀ are the masked scores
                    if cells and key not in seen:
                        seen.add(key)
                        yield Option(OTHER * rank + place, as_raw(self.exact, statement, symbol) or symbol, cells)

    def from_zero(self, target: Target) -> bool:
        """Return whether the indices of a target, or of the names inside it, are counted from 0."""
        return any(isinstance(part, Name) and part.name in self.zero for part in walk(target.term)) or (
            target.name in self.zero
        )

    def symbols(self, base: str, head: int | None, target: Target) -> list[str]:
        """Return the plan's symbols of that name: with a head number, with the head of the context, or any."""
        if base in self.exact:
            return [base] if head in (None, 0, 1) or self.heads == 1 else []
        numbered = {k: f"{base}{k}" for k in range(1, self.heads + 1) if f"{base}{k}" in self.exact}
        if head is not None:
            number = head + 1 if self.from_zero(target) else head
            return [numbered[number]] if number in numbered else []
        if self.context.head in numbered:
            return [numbered[self.context.head]]
        return list(numbered.values())

    def positions(self, statement: Statement, target: Target, indices: tuple[Index, ...]) -> list[At]:
        """Return indices counted from 0; letters match every index, unless the statement fixes them."""
        fixed = {letter: term for letter, term in statement.given if isinstance(term, Number)}
        at: list[int | None] = []
        for index in indices:
            if isinstance(index, int):
                at.append(index - (not self.from_zero(target)))
            elif row := _ROW.fullmatch(index):
                at.append(int(row[1]) - (not self.from_zero(target)))
            elif index.lower() in self.tokens and (statement.place == "prose" or index not in COUNTERS):
                at.append(self.tokens[index.lower()])
            elif statement.place == "prose" and index in PRONOUNS:
                at.append(self.token)
            elif index == "q":  # weight of key 1, of the only query
                if not self.one_query:
                    return []
                at.append(0)
            elif index.lower() in self.keys and target.name in ("k", "v"):
                at.append(self.keys[index.lower()])
            elif index in fixed:
                at.append(int(fixed[index].value) - (f"{index} =" not in self.zero))
            elif len(index) == 1 or index in ("…", ":"):
                at.append(None)
            else:
                return []
        if statement.place == "prose" and not self.by_rows:
            at.reverse()  # a sentence names the query first
        found: list[At] = [tuple(at)]
        if not at or at == [None]:
            rows = [row - 1 for row in self.context.rows]
            rows = rows or list(range(MOST_TOKENS))  # the values decide which one
            found += [(row,) for row in rows]
            if at == [None]:
                found.append(())
        return found

    def choose(self, statement: Statement, options: list[Option]) -> Option | None:
        """Choose the option closest to what is written; values decide between equally close heads and rows."""
        best = min(option.rank for option in options)
        close = [option for option in options if option.rank == best]
        if len(close) == 1:
            return close[0]
        scores = [self.agreement(option.symbol, option.cells) for option in close]
        top = [option for option, score in zip(close, scores, strict=True) if score == max(scores)]
        symbols = " or ".join(dict.fromkeys(option.symbol for option in close))
        rows = {next(iter(o.cells))[0 if self.by_rows else 1] for o in close}
        if len(top) > 1 and len(rows) > 1 and symbols == top[0].symbol:  # among equals, the current token
            axis = 0 if self.by_rows else 1
            top = [o for o in top if {at[axis] for at in o.cells} == {self.token}] or top
            top = top if len(top) > 1 or max(scores) >= HALF else []
            if len(top) == 1 and max(scores) >= HALF:
                return top[0]
        if len(top) == 1 and (max(scores) > HALF or (max(scores) == HALF and len(rows) == 1)):
            same = symbols == top[0].symbol
            where = _where(top[0].cells, self.by_rows).rstrip(",") if same else ""
            other = "" if same else f", not as {symbols}"
            self.alignment.note(
                statement.line, statement.source, f"taken as {top[0].symbol}{where} by its values{other}"
            )
            return top[0]
        beside = [option for option in close if self.is_beside(statement, option) or self.goes_on(statement, option)]
        if len(beside) == 1:
            return beside[0]
        free = [option for option in close if not self.alignment.answered(option.symbol)]
        if len(free) == 1:
            self.alignment.note(statement.line, statement.source, f"taken as {free[0].symbol}, which had no answer yet")
            return free[0]
        self.alignment.leave(statement.line, statement.source, f"it may be {symbols}: say which head or row it is")
        return None

    def before_mask(self, target: Target, option: Option) -> Option:
        """Return the scores before the mask for "scores" without −∞ that are right as such, but not after the mask."""
        masked = option.symbol in self.plan and self.plan[option.symbol].op == "mask"
        if not masked or len(target.name) < 2 or _has_mask(option.cells):
            return option
        before = replace(option, symbol=self.plan[option.symbol].inputs[0])
        right = _share([self.exact[before.symbol]], option.cells) == 1 and self.open(before)
        return before if right and _share([self.exact[option.symbol]], option.cells) < 1 else option

    def goes_on(self, statement: Statement, option: Option) -> bool:
        """Return whether a row is computed from the row that was written just before it."""
        last = self.alignment.placed[-1] if self.alignment.placed else None
        if last is None or self.token is None or not self.open(option) or option.symbol not in self.plan:
            return False
        lines = {at[0 if self.by_rows else 1] for at in option.cells}
        near = statement.line - max(entry.line for entry in last.cells.values()) <= NEAR
        return near and lines == {self.token} and last.symbol in self.leads_to(option.symbol)

    def leads_to(self, symbol: str) -> tuple[str, ...]:
        """Return the scores, exponentials and sums of a head's weights."""
        return tuple(f"{base}{symbol[1:]}" for base in (*SCORES, "E", "Z")) if base_of(symbol) == "A" else ()

    def is_beside(self, statement: Statement, option: Option) -> bool:
        """Return whether a placement is free, and of the token that the statement before it on its line is about."""
        last = self.alignment.placed[-1] if self.alignment.placed else None
        if last is None or self.token is None or not self.open(option):
            return False
        lines = {at[0 if self.by_rows else 1] for at in option.cells}
        return lines == {self.token} and {entry.line for entry in last.cells.values()} == {statement.line}

    def next_meaning(self, option: Option, options: list[Option]) -> Option:
        """Return another meaning of the name, N of the next LayerNorm, if the first has its answer and this agrees."""
        others = [o for o in options if o.symbol != option.symbol and self.open(o)]
        is_open = self.open(option)
        if not others or (is_open and base_of(option.symbol) not in NORMS):
            return option
        share = self.agreement(option.symbol, option.cells)
        if is_open and share > 0:
            return option
        better = next((o for o in others if self.agreement(o.symbol, o.cells) > max(MOSTLY, share)), None)
        if better is None and not is_open and share < HALF:
            better = next((o for o in others if self.goes_on_with(o.symbol)), None)
        return better or option

    def goes_on_with(self, symbol: str) -> bool:
        """Return whether a step uses the one that was written last, or an operand of that one."""
        last = next((p.symbol for p in reversed(self.alignment.placed) if p.role == "answer"), None)
        if last is None or symbol not in self.plan or last not in self.plan:
            return False
        return bool(set(self.plan[symbol].inputs) & {last, *self.plan[last].inputs} - set(self.plan.given))

    def of_token(self, statement: Statement, target: Target, written: Table) -> bool:
        """Place a vector of a token that a sentence names, if one step without an answer has just these numbers."""
        at = self.positions(statement, target, target.indices[:1])[:1]
        if statement.place != "prose" or written.scalar or not at or len(at[0]) != 1:
            return False
        fitting = {s: fit(written, self.exact[s].shape, at[0], by_rows=self.by_rows) for s in self.plan.symbols}
        found = [(s, cells) for s, cells in fitting.items()
                 if cells and self.open(Option(0, s, cells)) and self.agreement(s, cells) == 1]  # fmt: skip
        found = [(s, cells) for s, cells in found if self.plan[s].op != "copy"] or found
        if len(found) != 1:
            return False
        base = base_of(found[0][0])
        if base == "E" and base not in topics(statement.words):  # perhaps weights that were not normalised
            return False
        self.accept(statement, (*found[0], 1.0), "by its token and values")
        return True

    def is_mention(self, statement: Statement, option: Option) -> bool:
        """Return whether a sentence writes other numbers in cells that have their answer: it does not replace them.

        Its numbers are mentioned if they are those of another cell or row; otherwise they are listed.
        """
        same = {option.symbol, *self.copies(option.symbol)}
        answers = [placed for placed in self.alignment.placed if placed.role == "answer"]
        written = {at: entry for placed in answers if placed.symbol in same for at, entry in placed.cells.items()}
        if statement.place != "prose" or not all(
            at in written and not agree(written[at], entry) for at, entry in option.cells.items()
        ):
            return False
        texts = [entry.text for entry in option.cells.values()]
        lists = (line for placed in answers for line in _lines_of(placed.cells))
        if any(texts == found[k : k + len(texts)] for found in lists for k in range(len(found))):
            self.alignment.supposed.append(statement)
        else:
            line = next(iter(written.values())).line
            reason = f"{option.symbol} has other numbers in line {line}, and a sentence does not replace them"
            self.alignment.leave(statement.line, statement.source, reason)
        return True

    def copies(self, symbol: str) -> set[str]:
        """Return the other names of a matrix: the only head's H is O."""
        same = {op.symbol for op in self.plan.operations if op.op == "copy" and symbol in op.inputs}
        copied = symbol in self.plan and self.plan[symbol].op == "copy"
        return same | set(self.plan[symbol].inputs if copied else ())

    def another_step(self, statement: Statement, option: Option) -> Option:
        """Return the placement in another head or step, if this one has its answer and the other's values agree better.

        So `Q = …` may stand twice, once for each head, without a word about heads between them, and "output" may be the
        output of attention first and that of the block later.
        """
        if self.open(option) or self.repeats(option):
            return option
        base, shape = base_of(option.symbol), self.exact[option.symbol].shape
        share = max(MOSTLY, self.agreement(option.symbol, option.cells))
        whole = len(option.cells) == shape[0] * shape[1] > 3
        fitting = [replace(option, symbol=symbol) for symbol, matrix in self.exact.items()
                   if matrix.shape == shape and symbol in self.plan and (base_of(symbol) == base or whole)]  # fmt: skip
        better = [o for o in fitting if self.open(o) and self.agreement(o.symbol, o.cells) > share]
        better = [o for o in better if base_of(o.symbol) == base] or (better if len(better) == 1 else [])
        if not better:
            return option
        note = f"taken as {better[0].symbol} by its values, since {option.symbol} is written before"
        self.alignment.note(statement.line, statement.source, note)
        return better[0]

    def repeats(self, option: Option) -> bool:
        """Return whether all cells of a placement are written already, with the same numbers."""
        answers = [placed for placed in self.alignment.placed if placed.symbol == option.symbol]
        written = {at: entry for placed in answers for at, entry in placed.cells.items() if placed.role == "answer"}
        return all(at in written and written[at].text == entry.text for at, entry in option.cells.items())

    def is_given(self, statement: Statement, target: Target) -> bool:
        """Return whether a sentence repeats a token as it is given."""
        written = self.written(statement)
        at = self.positions(statement, target, target.indices)[:1]
        if "X" not in self.plan.given or written is None or not at:
            return False
        cells = fit(written, self.exact["X"].shape, at[0], by_rows=self.by_rows)
        return bool(cells) and self.agreement("X", cells or {}) == 1

    def itself(self, statement: Statement, option: Option, written: Table) -> Option:
        """Return the given token in place of a step, for "token 1 is (1, 2, 3)" in a text on LayerNorm.

        Tokens with the numbers given are those before their positions are added.
        """
        before = replace(option, symbol="X0")
        if option.symbol == "X" and "X0" in self.exact and self.agreement("X0", option.cells) == 1:
            return before if self.agreement("X", option.cells) < 1 else option
        axis = 0 if self.by_rows else 1
        lines = {at[axis] for at in option.cells}
        if statement.place != "prose" or "X" not in self.plan.given or len(lines) != 1:
            return option
        cells = fit(written, self.exact["X"].shape, tuple(lines), by_rows=self.by_rows)
        if not cells or self.agreement("X", cells) < 1 or self.agreement(option.symbol, option.cells) > 0:
            return option
        return replace(option, symbol="X", cells=cells)

    def keep(self, statement: Statement, option: Option, target: Target) -> None:
        named = statement.place != "prose" or base_of(option.symbol) in topics(statement.words)
        self.put(statement, option.symbol, option.cells, certain=option.rank < OTHER and named)
        if self.from_zero(target) and target.indices:
            self.alignment.note(statement.line, statement.source, f"the indices of {target.name} are counted from 0")
        self.operands_set_out(statement, option.symbol)

    def put(self, statement: Statement, symbol: str, cells: Entries, *, certain: bool = False) -> None:
        """Place the cells, also for other rows that the prose names: "for row 1 and 4"."""
        line = next(iter(cells.values())).line
        self.alignment.put(Placement(symbol, cells, line, statement.source, certain=certain))
        self.expressions_set_out(statement, symbol, cells)
        self.weights_set_out(statement, symbol, cells)
        self.scores_set_out(statement, symbol, cells)
        self.raw_scores_set_out(statement, symbol)
        self.quotients_set_out(statement, symbol, cells)
        number = symbol[-1:]
        if self.heads > 1 and number.isdigit():
            self.context.head = int(number)
        rows = [row - 1 for row in self.context.rows]
        lines = self.exact[symbol].shape[0 if self.by_rows else 1]
        here = {at[0 if self.by_rows else 1] for at in cells}
        self.token = next(iter(here)) if len(here) == 1 and base_of(symbol) not in ("K", "V") else None
        if len(rows) > 1 and len(here) == 1 and here <= set(rows) and symbol.rstrip("0123456789") in (*SCORES, *"EZA"):
            for row in rows:
                if row not in here and 0 <= row < lines:
                    echo = {((row, j) if self.by_rows else (i, row)): entry for (i, j), entry in cells.items()}
                    self.alignment.put(Placement(symbol, echo, statement.line, statement.source, "echo"))
                    note = f"row {row + 1} is taken to be the same, because of the words before it"
                    self.alignment.note(statement.line, statement.source, f"{symbol}: {note}")

    def misfit(
        self, statement: Statement, target: Target, found: Subject | None, exact: str | None, written: Table
    ) -> None:
        """Report a known name with numbers that do not fit."""
        symbols = [exact] if exact else []
        if found is not None:
            for base in found.bases:
                for head, at in readings(found.indices, found.upper, self.heads):
                    symbols += self.symbols(base, head, target) if not at else []
        symbols = list(dict.fromkeys(symbols))
        if not symbols:
            here = f"{target.label} is not a step of this exercise"
            if not isinstance(target.term, Name) or not written.scalar:
                self.alignment.leave(statement.line, statement.source, here)
            return
        symbol = symbols[0]
        rows, columns = self.exact[symbol].shape
        if written.scalar and statement.place != "display":
            reason = f"it is unclear which cell of {symbol} this is"
            self.alignment.leave(statement.line, statement.source, reason)
            return
        size = "a list of {1}".format(*written.shape) if written.flat else "{}×{}".format(*written.shape)
        size = "a number" if written.scalar else size
        self.alignment.leave(
            statement.line, statement.source, f"{symbol} is {rows}×{columns} in this exercise, but {size} is written"
        )
        if symbol in self.plan and not (written.flat and statement.place in ("prose", "inline")):
            self.alignment.misshaped[symbol] = written
            self.operands_set_out(statement, symbol)

    # -- without a name ----------------------------------------------------------------------------------------------

    def unnamed(self, statement: Statement) -> None:
        product = next((link for link in statement.terms if len(_factors(link)) > 1), None)
        if product is not None and self.unnamed_product(statement, product):
            return
        written = self.written(statement)
        if written is None:
            self.salvage(statement)
        elif written.scalar and (statement.place == "prose" or (self.follows_e() and is_total(statement))):
            self.sum_in_prose(statement, written)
        elif not written.scalar:
            self.unnamed_table(statement, written)
        elif statement.target is not None and statement.target.is_name:
            label = statement.target.label
            self.alignment.leave(statement.line, statement.source, f"no step of this exercise is called {label}")

    # -- products ----------------------------------------------------------------------------------------------------

    def operands_set_out(self, statement: Statement, symbol: str) -> None:
        """Record the operands written out in a named statement, for follow-through and comparison with the exercise."""
        symbol = self.copied(symbol)
        if symbol not in self.plan:
            return
        operation = self.plan[symbol]
        for link in statement.terms:
            tables = _factors(link)
            if len(tables) != len(operation.operands) or operation.op != "matmul":
                continue
            for name, factor in zip(operation.operands, tables, strict=True):
                self.operand_set_out(statement, symbol, name, factor)

    def copied(self, symbol: str) -> str:
        """Return the step of which another is a copy: the only head's O is H."""
        while symbol in self.plan and self.plan[symbol].op == "copy":
            symbol = self.plan[symbol].inputs[0]
        return symbol

    def expressions_set_out(self, statement: Statement, symbol: str, cells: Entries) -> None:
        """Record the arithmetic before a result: 0.67·(3, 2) + 0.16·(1, 1) + 0.16·(2, 5) = (2.49, 2.30)."""
        for link in statement.terms:
            if link.struck or not link.numeric or is_literal(link.term):
                continue
            try:
                exact, wide = enclose(link.term, slack=Fraction(0)), enclose(link.term, slack=Fraction(1))
            except Unevaluated:
                continue
            for (i, j), *found in zip(cells, _spread(exact, len(cells)), _spread(wide, len(cells)), strict=False):
                self.alignment.set_out.setdefault((symbol, i, j), []).append((found[0], found[1]))

    def weights_set_out(self, statement: Statement, symbol: str, cells: Entries) -> None:
        """Record the weights in 0.47 v_1 + 0.47 v_2 + 0.06 v_3, which are a row of A unless it is given otherwise."""
        symbol = self.copied(symbol)
        if symbol not in self.plan or self.plan[symbol].op != "matmul":
            return
        operation = self.plan[symbol]
        weights = next((n for n in operation.inputs if n in self.plan and self.plan[n].op == "softargmax"), None)
        lines = {at[0 if self.by_rows else 1] for at in cells}
        if weights is None or len(lines) != 1:
            return
        token, other = lines.pop(), {at[1 if self.by_rows else 0] for at in cells}
        values = self.exact[next(n for n in operation.inputs if n != weights)]
        rows = values if self.by_rows else values.T
        for link in statement.terms:
            terms = link.term.terms if isinstance(link.term, Sum) else ()
            pairs = [pair for pair in map(_weighted, terms) if pair is not None]
            if len(pairs) != len(terms) or len(terms) != len(rows.rows) or link.struck:
                continue
            found: Entries = {}
            used: Entries = {}
            for key, (weight, value) in enumerate(pairs):
                key = _key_of(value, key, target_is_zero=self.zero)
                entry = table(Link(link.line, "", weight))
                wanted = [rows[key, k] for k in sorted(other)] if 0 <= key < len(rows.rows) else []
                if entry is None or not entry.scalar or not _is_value(value, wanted):
                    break
                found[(token, key) if self.by_rows else (key, token)] = next(e for _, _, e in entry.cells())
                used |= self.value_set_out(link, value, key, sorted(other))
            else:
                name = next(n for n in operation.inputs if n != weights)
                if used and name in self.plan:
                    self.alignment.put(Placement(name, used, link.line, statement.source, "factor"))
                self.alignment.put(Placement(weights, found, link.line, statement.source, "factor", certain=True))
                return

    def value_set_out(self, link: Link, value: Expression, key: int, columns: list[int]) -> Entries:
        """Return the cells of V that a factor such as (3, 2) writes out."""
        made = table(Link(link.line, "", listed(value))) if is_literal(listed(value)) else None
        entries = [entry for _, _, entry in made.cells()] if made is not None else []
        if len(entries) != len(columns):
            return {}
        return {((key, k) if self.by_rows else (k, key)): e for k, e in zip(columns, entries, strict=True)}

    def scores_set_out(self, statement: Statement, symbol: str, cells: Entries) -> None:
        """Record the scores in softmax([4.24, 4.24, 2.12]) = (0.47, 0.47, 0.06), unless they are given otherwise."""
        scores = f"S{symbol[1:]}"
        lines = {at[0 if self.by_rows else 1] for at in cells}
        if base_of(symbol) != "A" or scores not in self.exact or len(lines) != 1:
            return
        calls = [part for link in (*statement.terms, *_target_link(statement)) for part in walk(link.term)
                 if isinstance(part, Call) and part.function == "softmax" and len(part.arguments) == 1]  # fmt: skip
        arrow = statement.target is None and len(statement.terms) == 2  # (4.24, 2.12) → (0.89, 0.11)
        before = [statement.terms[0].term] if arrow else []
        for argument in map(listed, [*(call.arguments[0] for call in calls), *before]):
            written = table(Link(statement.line, "", argument)) if is_literal(argument) else None
            if written is None:
                continue
            found = fit(written, self.exact[scores].shape, tuple(lines), by_rows=self.by_rows)
            if not found:
                continue
            raw = raw_of(self.exact, scores)
            unscaled = raw is not None and self.agreement(raw, found) == 1 and self.agreement(scores, found) < 1
            chosen = raw if unscaled and raw is not None else scores
            self.alignment.put(Placement(chosen, found, statement.line, statement.source, "factor"))

    def quotients_set_out(self, statement: Statement, symbol: str, cells: Entries) -> None:
        """Record the dot products in 2 / 1.732 = 1.155, and the exponentials in (3.17, 17.9) / 21.1 = (0.15, 0.85)."""
        for link in statement.terms[:-1]:
            if link.struck or not isinstance(link.term, Quotient) or not is_numeric(link.term):
                continue
            top, bottom = listed(link.term.top), link.term.bottom
            made = table(Link(link.line, "", top)) if is_literal(top) else None
            below = table(Link(link.line, "", bottom)) if made is not None else None
            if made is None or below is None or not below.scalar or made.shape[0] * made.shape[1] != len(cells):
                continue
            entries, divisor = [entry for _, _, entry in made.cells()], next(entry for _, _, entry in below.cells())
            operands = dict(zip(cells, entries, strict=True))
            lines = {at[0 if self.by_rows else 1] for at in cells}
            if base_of(symbol) == "S" and (raw := raw_of(self.exact, symbol)) and not self.has_any(raw, cells):
                scale = next((op.params["factor"] for op in self.plan.operations if op.op == "scale"), None)
                if scale is not None and agrees(1 / enclose(scale.expression), divisor):
                    self.alignment.put(Placement(raw, operands, link.line, statement.source, certain=True))
            elif base_of(symbol) == "A" and len(cells) > 1 and len(lines) == 1:
                exponentials, total = f"E{symbol[1:]}", f"Z{symbol[1:]}"
                if {exponentials, total} <= self.exact.keys() and self.agreement(exponentials, operands) >= HALF:
                    self.alignment.put(Placement(exponentials, operands, link.line, statement.source))
                    (token,) = lines
                    place = (token, 0) if self.by_rows else (0, token)
                    self.alignment.put(Placement(total, {place: divisor}, link.line, statement.source))

    def has_any(self, symbol: str, cells: Entries) -> bool:
        """Return whether one of these cells is answered."""
        mine = [each for each in self.alignment.placed if each.symbol == symbol and each.role == "answer"]
        return any(not cells.keys().isdisjoint(each.cells) for each in mine)

    def raw_scores_set_out(self, statement: Statement, symbol: str) -> None:
        """Place the matrix in S = 1/√3 · [78, 71; 73, 68] = …, the scores before scaling."""
        raw = raw_of(self.exact, symbol)
        for link in statement.terms if raw is not None and not self.alignment.answered(raw) else ():
            factors = link.term.factors if isinstance(link.term, Product) else ()
            arrays = [factor for factor in factors if isinstance(factor, Array)]
            written = table(Link(link.line, "", arrays[0])) if len(arrays) == 1 and link.numeric else None
            cells = self.fitted(raw, written) if raw is not None and written is not None else None
            if raw is not None and cells and self.agreement(raw, cells) >= HALF:
                self.alignment.put(Placement(raw, cells, link.line, statement.source))

    def operand_set_out(self, statement: Statement, symbol: str, name: str, factor: Table) -> None:
        operand = name.removesuffix("^T")
        here = factor.T if name.endswith("^T") != self.transposed else factor
        wanted = self.exact[operand].shape
        values = used_values(here)
        cells = {(i, j): entry for i, j, entry in here.cells()}
        if here.shape == wanted and values is not None:
            transposed = {(j, i): entry for (i, j), entry in cells.items()} if wanted[0] == wanted[1] else {}
            share = self.agreement(operand, cells)
            if share < MOSTLY or self.agreement(operand, transposed) > share:
                return  # not a miscopied operand but another matrix, or Kᵀ for K
            self.alignment.used.setdefault(symbol, {})[operand] = values
            if operand in self.plan.given:
                self.alignment.put(Placement(operand, cells, statement.line, statement.source, "factor"))
        elif operand in self.plan.given and here.shape != wanted:
            sizes = "{}×{} is written, {}×{} is given".format(*here.shape, *wanted)
            note = f"{operand} has another size than in the exercise: {sizes}"
            self.alignment.note(statement.line, statement.source, note)

    def unnamed_product(self, statement: Statement, link: Link) -> bool:
        """Place [A][V] = [H] without a name."""
        tables = _factors(link)
        results = [found for other in statement.terms if other is not link and other.numeric and not other.struck
                   for found in (table(other),) if found is not None]  # fmt: skip
        found = sorted(self.matches(tables, results), key=lambda match: -match.score)
        if not found or (
            len(found) > 1 and found[0].score == found[1].score and found[0].operation != found[1].operation
        ):
            return False
        best = found[0]
        note = f"an unnamed product, taken as {best.operation.symbol} = {best.operation.formula} by its factors"
        if len(tables) > 2:
            kept = " and ".join(_NUMBERS[k + 1] if k < 6 else str(k + 1) for k in best.factors)
            note += f"; of {len(tables)} matrices the {kept} belong to it (was another crossed out?)"
        if best.result is not None:
            cells = self.fitted(best.operation.symbol, results[best.result])
            if cells:
                self.put(statement, best.operation.symbol, cells)
            if len(results) > 1 and best.result < len(results) - 1:
                note += "; there is a second result, which does not match these factors"
        for name, k in zip(best.operation.operands, best.factors, strict=True):
            self.operand_set_out(statement, best.operation.symbol, name, tables[k])
            operand = name.removesuffix("^T")
            cells = self.fitted(operand, tables[k].T if name.endswith("^T") else tables[k])
            if cells and operand in self.plan:
                self.alignment.put(Placement(operand, cells, statement.line, statement.source, "factor"))
        self.alignment.note(statement.line, statement.source, note)
        return True

    def matches(self, tables: list[Table], results: list[Table]) -> Iterator[Found]:
        for operation in self.plan.operations:
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
                    known = operation.symbol[-1:] == str(self.context.head)
                    score = sum(share or 0 for share in shares) + (near[1] or 0) + 0.01 * known
                    yield Found(score, operation, (a, b), near[0])

    def fitted(self, symbol: str, written: Table) -> Entries | None:
        shape = self.exact[symbol].shape
        return fit(written, shape, (), by_rows=self.by_rows, transposed=self.transposed)

    def share(self, name: str, written: Table) -> float | None:
        """Return the fraction of cells that agree with an operand such as K^T; None if the sizes differ."""
        symbol = name.removesuffix("^T")
        cells = self.fitted(symbol, written.T if name.endswith("^T") else written)
        return self.agreement(symbol, cells) if cells else None

    # -- matrices and lists ------------------------------------------------------------------------------------------

    def unnamed_table(self, statement: Statement, written: Table) -> None:
        """Place one matrix or list using only the words around it."""
        options = list(self.unnamed_options(statement, written))
        size = f"a list of {written.shape[1]}" if written.flat else "{}×{}".format(*written.shape)
        if not options:
            reason = f"no step of this exercise is {size}"
            if written.flat and any(written.shape[1] in self.exact[symbol].shape for symbol in self.plan.symbols):
                reason = "neither the words before it nor half of its numbers tell which row of a step it is"
            self.alignment.leave(statement.line, statement.source, f"it has no name, and {reason}")
            return
        titled = self.titled(statement.words)
        spoken = (*_called(statement), *(topics(statement.words) or self.context.topics))
        spoken = (base_of(titled), *spoken) if titled is not None else spoken
        told = [option for option in options if base_of(option[0]) in spoken and option[0] in self.plan]
        told = [option for option in told if option[0] == titled] or told
        if len(told) != 1:
            told = [option for option in told or options if base_of(option[0]) in self.announced] or told
        told = told if statement.target is None and (statement.words or self.announced) else []
        titles = any(base_of(option[0]) in topics(statement.words) for option in told)
        agreeing = [
            option for option in options if option[2] >= (
                HALF if base_of(option[0]) in spoken or (self.is_told_by_values(option[0]) and not titles) else 1
            )
        ]  # fmt: skip  # nobody copied a given matrix wrongly that is not named
        agreeing = [option for option in agreeing if not self.spoils(option[0], option[1])]
        best = [option for option in agreeing if option[2] == max(o[2] for o in agreeing)]
        if len(best) > 1:
            best = [option for option in best if option in told] or best
            best = [option for option in best if base_of(option[0]) in spoken[:1]] or best
            best = [option for option in best if option[0].endswith(str(self.context.head))] or best
        if len(best) == 2 and best[1][0] in self.plan and self.plan[best[1][0]].op == "copy":
            best = best[:1]  # the only head's H is O
        named = {option[0] for option in told if option[0] == titled or base_of(option[0]) in self.announced}
        if len(best) == 1:
            self.accept(statement, best[0], "by its size and values", certain=best[0][0] in named)
        elif (
            not best
            and len(told := self.of_next_head(statement, self.closest(told, spoken))) == 1
            and (not self.alignment.answered(told[0][0]) or self.is_named_row(statement, told[0]))
            and base_of(told[0][0]) not in PER_TOKEN
        ):
            certain = told[0][0] in named or base_of(told[0][0]) in topics(statement.words)
            self.accept(statement, told[0], "by the words before it and its size", certain=certain)
        elif not best and len(again := self.like_another_row(statement, written)) == 1:
            self.accept(statement, again[0], "because another row has the same numbers")
        else:
            names = ", ".join(dict.fromkeys(symbol for symbol, _, _ in best or options))
            what = f"no step is called {statement.target.label}" if statement.target is not None else "it has no name"
            why = (
                "more than one step has its size and values" if best else "no step of its size has half of its numbers"
            )
            self.alignment.leave(statement.line, statement.source, f"{what}, and {why} ({names})")

    def titled(self, words: str) -> str | None:
        """Return the step whose symbol ends a title: "positions PE:", but not "part A:"."""
        found = _TITLE.search(words)
        symbol = self.labels.get(found["symbol"]) if found is not None else None
        if found is None or symbol is None or (found["before"] or "").lower() in _LETTERED:
            return None
        return self.copied(symbol)

    def is_named_row(self, statement: Statement, option: tuple[str, Entries, float]) -> bool:
        """Return whether the words before a list name its row, of which nothing is written yet."""
        lines = {at[0 if self.by_rows else 1] + 1 for at in option[1]}
        return lines == set(rows_in(statement.words)) and self.open(Option(0, *option[:2]))

    def like_another_row(self, statement: Statement, written: Table) -> list[tuple[str, Entries, float]]:
        """Return the steps of which the words name a row, not written yet, and another row is the same list."""
        rows, texts = rows_in(statement.words), [entry.text for _, _, entry in written.cells()]
        found = {}
        for placed in self.alignment.placed if written.vector is not None and len(rows) == 1 else ():
            if placed.role == "answer" and [entry.text for entry in placed.cells.values()] == texts:
                cells = self.row_of(placed.symbol, written, [rows[0] - 1])
                if cells and self.open(Option(0, placed.symbol, cells)):
                    found[placed.symbol] = cells
        return [(symbol, cells, 1.0) for symbol, cells in found.items()]

    def is_told_by_values(self, symbol: str) -> bool:
        """Return whether half of the numbers suffice: not for a given matrix, nor for one number of each token."""
        return symbol in self.plan and base_of(symbol) not in PER_TOKEN

    def spoils(self, symbol: str, cells: Entries) -> bool:
        """Return whether numbers without a name would replace a right answer by another number."""
        same = {symbol, *self.copies(symbol)}
        answers = [p.cells for p in self.alignment.placed if p.symbol in same and p.role == "answer"]
        before = {at: entry for entries in answers for at, entry in entries.items()}
        return any(
            at in before and agrees(self.exact[symbol][at], before[at]) and not agree(before[at], entry)
            for at, entry in cells.items()
        )

    def closest(
        self, told: list[tuple[str, Entries, float]], spoken: Sequence[str]
    ) -> list[tuple[str, Entries, float]]:
        """Return the step that the words name last; "scores" alone may be those before or after scaling."""
        if not spoken or tuple(spoken[: len(SCORES)]) == SCORES:
            return told
        return [option for option in told if base_of(option[0]) == spoken[0]] or told

    def of_next_head(
        self, statement: Statement, told: list[tuple[str, Entries, float]]
    ) -> list[tuple[str, Entries, float]]:
        """Return the only step of the same name in another head of which nothing is written yet, if there is one."""
        title = _TITLE.search(statement.words)  # Scaled scores S:
        told = [option for option in told if title is not None and base_of(option[0]) == title["symbol"]] or told
        free = [option for option in told if not self.alignment.answered(option[0])]
        return free if len(free) == 1 and len({base_of(symbol) for symbol, _, _ in told}) == 1 else told

    def by_values(self, statement: Statement, written: Table) -> bool:
        """Place a matrix whose name cannot be meant as it is: Y for the output of a block, after that of attention."""
        if written.scalar or (written.vector is not None and len(written.vector) < 3):
            return False
        least = HALF if written.vector is None else 1.0  # for a list, all of its numbers
        options = [o for o in self.unnamed_options(statement, written) if o[2] >= least and o[0] in self.plan]
        best = [o for o in options if o[2] == max(o[2] for o in options)]
        if len(best) != 1 or not self.open(Option(0, *best[0][:2])):
            return False
        self.accept(statement, best[0], "by its size and values")
        return True

    def unnamed_options(self, statement: Statement, written: Table) -> Iterator[tuple[str, Entries, float]]:
        """Yield (symbol, cells, agreement) for everything the table fits."""
        rows = [row - 1 for row in self.context.rows]
        counters = [
            int(term.value) - (f"{name} =" not in self.zero)
            for name, term in statement.given
            if isinstance(term, Number)
        ]
        spoken = (*_called(statement), *topics(statement.words), *self.context.topics)
        for symbol in self.exact:
            shape = self.exact[symbol].shape
            cells = self.fitted(symbol, written)
            told = base_of(symbol) in spoken
            if written.vector is not None and told and 1 not in shape:
                cells = self.row_of(symbol, written, (counters or rows)[:1])
                stale = not counters and not rows_in(statement.words)  # the row was named long before
                other = self.row_of(symbol, written, []) if stale and cells else None
                if other and cells and self.agreement(symbol, other) > self.agreement(symbol, cells):
                    cells = other
            elif written.vector is not None and (counters or rows) and not told:
                cells = None
            if cells:
                yield symbol, cells, self.agreement(symbol, cells)

    def row_of(self, symbol: str, written: Table, rows: list[int]) -> Entries | None:
        """Return the row that the words name, or the one row that agrees best with more than half of the numbers."""
        shape, by_rows = self.exact[symbol].shape, self.by_rows
        lines = rows or list(range(shape[0] if by_rows else shape[1]))
        found = [(k, cells) for k in lines for cells in (fit(written, shape, (k,), by_rows=by_rows),) if cells]
        if not rows:
            shares = {k: self.agreement(symbol, cells) for k, cells in found}
            best = max(shares.values(), default=0.0)
            found = [(k, cells) for k, cells in found if shares[k] == best > HALF]
            if len(found) > 1 and self.token is not None:  # rows are written in their order
                found = [(k, cells) for k, cells in found if k == self.token + 1]
        return found[0][1] if len(found) == 1 else None

    def accept(
        self, statement: Statement, option: tuple[str, Entries, float], why: str, *, certain: bool = False
    ) -> None:
        symbol, cells, _ = option
        self.put(statement, symbol, cells, certain=certain)
        named = statement.target if not statement.given else None
        what = "unnamed," if named is None else f"{statement.source if statement.place == 'prose' else named.label} is"
        note = f"{what} taken as {symbol}{_where(cells, self.by_rows)} {why}"
        self.alignment.note(statement.line, statement.source, note)

    def sum_in_prose(self, statement: Statement, written: Table) -> None:
        """Place a number in prose, "if we sum them we get 13.8256": the sum of exponentials of the current rows."""
        head = self.context.head or ""
        symbol = next((s for s in (f"Z{head}", "Z") if s in self.exact), None)
        totals = is_total(statement)
        after = self.token if self.follows_e() else None  # the row of exponentials just before
        token = self.context.rows[0] - 1 if self.context.rows and after is None else after
        if symbol is None or not totals or token is None:
            return
        cells = fit(written, self.exact[symbol].shape, (token,), by_rows=self.by_rows)
        if cells and not self.spoils(symbol, cells):
            self.put(statement, symbol, cells)
            self.exponentials_set_out(statement, symbol, next(iter(cells)))

    def follows_e(self) -> bool:
        return bool(self.alignment.placed) and base_of(self.alignment.placed[-1].symbol) == "E"

    def exponentials_set_out(self, statement: Statement, symbol: str, at: tuple[int, int]) -> None:
        """Record the sum of the exponentials just before it: e^2 = 7.39, e^0.5 = 1.65, the sum is 9.04."""
        position = next(k for k, each in enumerate(self.reading.statements) if each is statement)
        count = next(m.shape[1 if self.by_rows else 0] for s, m in self.exact.items() if base_of(s) == "S")
        before = self.reading.statements[max(0, position - count) : position]
        parts = [each.terms[-1].term for each in before if len(each.terms) == 2 and _is_exponential(each.terms[0].term)]
        if len(parts) != count or not all(map(is_literal, parts)):
            return
        whole = Sum(tuple(parts))
        pair = enclose(whole, slack=Fraction(0)), enclose(whole, slack=Fraction(1))
        self.alignment.set_out.setdefault((symbol, *at), []).append(pair)

    def salvage(self, statement: Statement) -> None:
        """Salvage a formula with an unreadable part: a complete matrix in it may still be identified by its values."""
        for link in statement.terms if not statement.struck else ():
            for part in walk(link.term):
                if not isinstance(part, Array) or part.ragged or min(part.shape) < 2 or link.numeric:
                    continue
                written = table(Link(link.line, "", part))
                if written is None or any(cell is None for row in written.rows for cell in row):
                    continue
                options = [option for option in self.unnamed_options(statement, written) if option[2] >= HALF]
                best = [option for option in options if option[2] == max(o[2] for o in options)]
                if len(best) == 1 and best[0][0] in self.plan:
                    self.accept(
                        statement, best[0], "by its size and values, in a formula that cannot be read as a whole"
                    )

    # -- the whole document -------------------------------------------------------------------------------------------

    def is_transposed(self) -> bool:
        """Return whether the text says so, or at least two named matrices, and most, agree only if transposed."""
        if _SAID_TRANSPOSED.search(self.reading.text):
            return True
        straight = transposed = 0
        for statement in self.reading.statements:
            target = statement.target
            found = subject(target.term) if target is not None else None
            if target is None or found is None or statement.place == "answer":
                continue
            written = self.written(statement)
            if written is None or 1 in written.shape or found.bases[0] not in _LAYOUT_STEPS:
                continue
            for symbol in self.exact:
                if symbol.rstrip("0123456789") not in found.bases:
                    continue
                exact = self.exact[symbol]
                upright, sideways = (
                    value.shape == written.shape
                    and all(agrees(value[i, j], entry) for i, j, entry in written.cells())
                    for value in ((exact.T, exact) if found.transposed else (exact, exact.T))
                )
                if upright != sideways:  # a symmetric matrix is uninformative
                    straight, transposed = straight + upright, transposed + sideways
        stated = self.by_rows and _TOKENS_AS_COLUMNS.search(self.reading.text) is not None and not straight
        return stated or (transposed >= 2 and transposed > straight)

    def recognise_unmasked_scores(self) -> None:
        """Recognise scores that are written again with −∞ in them: the first ones are those before the mask."""
        placed = self.alignment.placed
        pairs = [(s, f"Su{s[1:]}") for s in self.exact if base_of(s) == "S"]
        for symbol, before in [pair for pair in pairs if pair[1] in self.exact]:
            masked = [k for k, p in enumerate(placed) if p.symbol == symbol and _has_mask(p.cells)]
            for k, each in enumerate(placed):
                earlier = each.symbol == symbol and not _has_mask(each.cells) and masked and k < masked[-1]
                if earlier and not self.alignment.answered(before) and self.agreement(before, each.cells) == 1:
                    placed[k] = replace(each, symbol=before)

    def recognise_scores_written_twice(self) -> None:
        """Recognise scores that are written again with other numbers: the first ones are those before scaling."""
        placed = self.alignment.placed
        pairs = [(s, raw) for s in self.exact if (raw := raw_of(self.exact, s)) is not None]
        for symbol, raw in [pair for pair in pairs if not self.alignment.answered(pair[1])]:
            mine = [k for k, p in enumerate(placed) if p.symbol == symbol and p.role == "answer"]
            last = {at: k for k in mine for at in placed[k].cells}
            first = [k for k in mine if all(last[at] > k for at in placed[k].cells)]
            cells = {at: entry for k in first for at, entry in placed[k].cells.items()}
            other = any(not agree(entry, placed[last[at]].cells[at]) for at, entry in cells.items())
            if other and _share([self.exact[raw]], cells) > max(MOSTLY, _share([self.exact[symbol]], cells)):
                placed[:] = [replace(p, symbol=raw) if k in first else p for k, p in enumerate(placed)]

    def recognise_raw_scores(self) -> None:
        """Recognise an S that equals QKᵀ in every cell, with right weights: it was scaled or masked in between."""
        alignment, exact = self.alignment, self.exact
        entry = alignment.entries()
        for symbol in [s for s in exact if s in entry and self.reading.kind in ("markdown", "latex")]:
            raw, weights = raw_of(exact, symbol), f"A{symbol[1:]}"
            if raw is None or alignment.answered(raw) or weights not in entry:
                continue
            cells, seen = entry[symbol], entry[weights]
            is_raw = all(agrees(exact[raw][at], mine) for at, mine in cells.items())
            is_scaled = all(agrees(exact[symbol][at], mine) for at, mine in cells.items())
            if (
                is_raw
                and not is_scaled
                and all(closeness(exact[weights][at], mine) != "wrong" for at, mine in seen.items())
            ):
                first = next(p for p in alignment.placed if p.symbol == symbol)
                alignment.placed[:] = [replace(p, symbol=raw) if p.symbol == symbol else p for p in alignment.placed]
                note = f"{symbol} is taken as {raw}: your weights show that it was scaled or masked later"
                alignment.note(first.line, first.source, note)


def _rejoined(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Give the target of `A =` to the matrix after the words on its line: A = softmax of each row = [[…]]."""
    before: Statement | None = None
    for statement in statements:
        target = statement.target
        word = target is None or (target.is_name and target.label.isalpha() and len(target.label) > 2)
        matrix = bool(statement.terms) and isinstance(statement.terms[-1].term, Array)
        if (
            before is not None and before.target is not None and not before.terms and subject(before.target.term)
            and statement.line == before.line and word and matrix and statement.place == before.place == "plain"
        ):  # fmt: skip
            statement = replace(statement, target=before.target)
        yield statement
        before = statement


def _one_target_each(statement: Statement) -> list[Statement]:
    """Split statements on one line: `q1 = [3, 0]  q2 = [1, 1]` is two statements."""
    found: list[Statement] = []
    terms: list[Link] = []
    target = statement.target
    for k, link in enumerate(statement.terms):
        after = statement.terms[k + 1] if k + 1 < len(statement.terms) else None
        factors = link.term.factors if isinstance(link.term, Product) else ()
        last = factors[-1] if factors else None
        if (
            target is not None
            and after is not None
            and after.relation in ("=", "≈")
            and isinstance(last, Name)
            and last.indices
            and all(is_literal(factor.term if isinstance(factor, Transpose) else factor) for factor in factors[:-1])
        ):
            left = factors[0] if len(factors) == 2 else Product(factors[:-1])
            found.append(replace(statement, target=target, terms=(*terms, replace(link, term=left))))
            target, terms = Target(last.name, last.indices, last.upper, last), []
            continue
        terms.append(link)
    return [*found, replace(statement, target=target, terms=tuple(terms))] if found else [statement]


def _plain_rows(statement: Statement) -> tuple[tuple[Expression, ...], ...]:
    """Return the rows of a list or matrix of numbers without a name, or with one that has no index; else nothing."""
    indexed = statement.target is not None and (statement.target.indices or statement.target.upper)
    term = statement.terms[0].term if len(statement.terms) == 1 and not indexed else None
    plain = isinstance(term, Array) and not term.ragged and is_literal(term)
    return term.rows if plain and isinstance(term, Array) and not (statement.given or statement.crossed) else ()


def _as_matrix(run: list[Statement], shapes: Collection[tuple[int, int]]) -> list[Statement]:
    rows = tuple(row for statement in run for row in _plain_rows(statement))
    if len(run) < 2 or (len(rows), len(rows[0])) not in shapes:
        return run
    link = replace(run[0].terms[0], term=Array(rows))
    return [replace(run[0], terms=(link,), source="; ".join(s.source for s in run))]


def _is_exponential(term: Expression) -> bool:
    return term == Constant("e") or (isinstance(term, Power) and term.base == Constant("e")) or (
        isinstance(term, Call) and term.function == "exp" and len(term.arguments) == 1 and is_numeric(term)
    )


def _row_of_exponentials(run: list[Statement]) -> Statement:
    row = Array((tuple(statement.terms[-1].term for statement in run),), flat=True)
    words = f"{run[0].words} exponentials".strip()
    return replace(run[0], terms=(Link(run[0].line, "", row),), words=words, source="; ".join(s.source for s in run))


def _has_mask(cells: Entries) -> bool:
    return any(entry.value is MASKED for entry in cells.values())


def _is_code(item: Unread) -> bool:
    """Return whether an unread part is a lone sign, or a line of a program without a number."""
    source = _ARGUMENTS.sub("", item.source)
    numbers = any(char.isdecimal() for char in source)
    fragment = numbers is False and item.source[-1:] in ")/" and len(item.source) < 60
    return fragment or _SIGN.fullmatch(item.source) is not None or (_CODE.search(source) is not None and not numbers)


def is_parameter(statement: Statement) -> bool:
    """Return whether a statement such as d_k = 2 is a parameter, not an answer; k = (0, 1) is a vector."""
    vector = any(isinstance(link.term, Array) for link in statement.terms)
    return statement.target is not None and not vector and statement.target.label in PARAMETERS


def is_sum_of_weights(statement: Statement) -> bool:
    """Return whether a statement says that the weights sum to 1: `row sums: [1. 1. 1.]`; or shows a size."""
    words = f"{statement.words} {statement.target.label if statement.target is not None else ''}"
    numbers = [part for link in statement.terms for part in walk(link.term) if isinstance(part, Number)]
    if _SIZE.search(statement.words):
        return True
    mentioned = _SUMS.search(words) is not None or (statement.target is not None and statement.target.name == "sum")
    return mentioned and bool(numbers) and all(n.value == 1 for n in numbers)


def is_total(statement: Statement) -> bool:
    """Return whether a statement is about a sum: `somme = 12.1`, "if we sum them we get 12.1"."""
    label = statement.target.label if statement.target is not None else ""
    return _TOTALS.search(f"{statement.words.rsplit('. ', 1)[-1]} {label}") is not None


def _is_about_width(term: Expression) -> bool:
    """Return whether a term is an expression in d_k alone, such as 1/√d_k."""
    names = names_in(term)
    return not isinstance(term, Name) and bool(names) and all(label(name) in _WIDTHS for name in names)


def is_hypothetical(statement: Statement) -> bool:
    """Return whether a statement is hypothetical: `If a_21 = 1, then …` and `for example 0.25, 0.5, 0.25`."""
    if statement.place not in ("inline", "prose", "plain"):
        return False
    unnamed = statement.target is None and _EXAMPLE.search(statement.words) is not None
    return unnamed or _SUPPOSED.search(statement.words) is not None


def goes_on(statement: Statement) -> bool:
    """Return whether a value belongs to the supposition before it: (0.2, 0.8) would become (0.2, 0); … and a_12 = 1."""
    if statement.place == "inline" and re.fullmatch(r"\s*(?:,|,?\s*(?:and|und|et|e|y|en))\s*", statement.words):
        return re.search(r"[.!?]", statement.words) is None
    same = bool(statement.words) and re.search(r"[.!?:]", statement.words) is None
    return same and statement.target is None and statement.place in ("inline", "prose")


def _items(term: Expression) -> tuple[Expression, ...]:
    """Return the members of a list such as 1, 2, …, n; any other term by itself."""
    return term.rows[0] if isinstance(term, Array) and term.flat else (term,)


def _lines_of(cells: Entries) -> Iterator[list[str]]:
    """Yield the rows and the columns of a placement, as written."""
    for axis in (0, 1):
        lines: dict[int, list[str]] = {}
        for at, entry in cells.items():
            lines.setdefault(at[axis], []).append(entry.text)
        yield from lines.values()


def _target_link(statement: Statement) -> tuple[Link, ...]:
    return (Link(statement.line, "", statement.target.term),) if statement.target is not None else ()


def table_cells(written: Table | None) -> list[tuple[int, int, Entry]]:
    return [] if written is None else list(written.cells())


def _spread(value: Any, count: int) -> list[Any]:
    """Return one number per cell, or the cells of a grid if there are as many."""
    if not isinstance(value, Values):
        return [value] * count
    flat = [x for row in value.rows for x in row]
    return flat if len(flat) == count else []


def _weighted(term: Expression) -> tuple[Expression, Expression] | None:
    """Split a weighted term: 0.47 v_1 → (0.47, v_1); 0.62·−3/2 → (0.62, −3/2)."""
    match term:
        case Product((weight, *rest)) if rest and is_literal(weight) and not isinstance(weight, Array):
            return weight, rest[0] if len(rest) == 1 else Product(tuple(rest))
        case Quotient(Product((weight, *rest)), bottom) if rest and is_literal(weight):
            return weight, Quotient(rest[0] if len(rest) == 1 else Product(tuple(rest)), bottom)
    return None


def _key_of(value: Expression, position: int, target_is_zero: frozenset[str]) -> int:
    """Return the key that v_2 names, else the position in the sum."""
    if isinstance(value, Name) and len(value.indices) == 1 and isinstance(value.indices[0], int):
        return value.indices[0] - (value.name not in target_is_zero)
    return position


def _is_value(value: Expression, wanted: Sequence[Any]) -> bool:
    """Return whether a factor is the expected value vector (or its single component)."""
    if isinstance(value, Name):
        found = subject(value)
        return found is not None and found.bases == ("V",)
    made = table(Link(0, "", value)) if is_numeric(value) else None
    entries = [entry for _, _, entry in made.cells()] if made is not None else []
    return len(entries) == len(wanted) and all(agrees(x, entry) for x, entry in zip(wanted, entries, strict=True))


def _share(values: list[Any], cells: Entries) -> float:
    points = {"right": 1.0, "truncated": 1.0, "rounded": 0.6, "wrong": 0.0}
    good = sum(max(points[closeness(value[at], entry)] for value in values) for at, entry in cells.items())
    return good / len(cells) if cells else 0.0


def _called(statement: Statement) -> tuple[str, ...]:
    """Return the symbols that a call implies, as in softmax([1, 2, 0, 1]) = […]; "row sums" are those of E."""
    calls = {part.function for link in statement.terms for part in walk(link.term) if isinstance(part, Call)}
    called = tuple(base for function, base in (("softmax", "A"), ("exp", "E")) if function in calls)
    return called or (("Z",) if re.search(r"\brow[- ]sums?\W*$", statement.words, re.I) else ())


def _where(cells: Entries, by_rows: bool) -> str:
    lines = {at[0 if by_rows else 1] for at in cells}
    return f", token {min(lines) + 1}," if len(lines) == 1 else ""


def base_of(symbol: str) -> str:
    return symbol.rstrip("0123456789")


def _factors(link: Link) -> list[Table]:
    """Return the matrices of a product, without crossed-out ones."""
    if not isinstance(link.term, Product):
        return []
    factors = [f for f in link.term.factors if not isinstance(f, Struck)]
    if not all(isinstance(f, Array | Transpose) for f in factors):
        return []
    tables = [table(Link(link.line, "", f)) for f in factors]
    return [t for t in tables if t is not None] if all(t is not None for t in tables) else []


def raw_of(symbols: Mapping[str, Any], symbol: str) -> str | None:
    """Return the raw scores' symbol, QKt1 for S1, if the exercise has it."""
    if symbol.rstrip("0123456789") != "S":
        return None
    return next((f"{base}{symbol[1:]}" for base in RAW[:2] if f"{base}{symbol[1:]}" in symbols), None)


def as_raw(symbols: Mapping[str, Any], statement: Statement, symbol: str) -> str | None:
    """Recognise `S = QKᵀ = …` where the exercise scales or masks afterwards: these are the raw scores."""
    raw = raw_of(symbols, symbol)
    subjects = [subject(link.term) for link in statement.terms if not link.numeric]
    if raw is None or statement.place == "answer" or not any(s is not None and s.bases == RAW for s in subjects):
        return None
    return raw
