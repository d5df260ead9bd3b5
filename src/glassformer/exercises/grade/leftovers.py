"""Leftovers: lists of numbers that were not read as a formula, a sentence or a table, placed by words and values.

A list is a run of numbers on one line with nothing but separators between them; lists of one length on consecutive
lines are a block. The words before a list and those of the headings above it name the step and the token. A list is
placed if the step that the words name has at least half of its numbers there; without such words, if exactly one step
has all of them. A step that the words name is accepted with any numbers, which are then wrong, only if the document
writes at least two other steps in the same form and these agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from glassformer.exercises.expression import Array
from glassformer.exercises.grade.accounting import Ledger
from glassformer.exercises.grade.align import HALF, MOSTLY, PER_TOKEN, Aligner, Placement, agree, base_of
from glassformer.exercises.grade.cells import Entries, Table, fit, table
from glassformer.exercises.grade.context import heads_in
from glassformer.exercises.grade.vocabulary import NAMES, RAW, topics
from glassformer.exercises.reader import Link, Unread, formula
from glassformer.exercises.reader.parser import COMMA

MOST_LISTS = 160
MOST_LINES = 2000
MOST_NUMBERS = 4000
MOST_CELLS = 400  # of an exercise, for trying what follows from a matrix
MOST_TRIED = 8  # blocks that are tried as a step from which others follow
LONGEST = 64  # maximum numbers of a list
LONGEST_LINE = 2000
_VALUE = re.compile(
    r"(?<![\w.])[-+−]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?(?:/\d+(?![.\d]))?(?:\s?\\?%)?(?![\w])|[-−]∞"
)
_SEPARATOR = re.compile(
    r"(?:[\s,;|/&()\[\]{}⟨⟩$│]|\\[;,:! \\]|\\(?:quad|qquad|left|right|langle|rangle)\b)*(?:\band\b[\s(\[$]*)?"
)
_TOKEN = re.compile(
    r"\b(?:tokens?|words?|positions?|pos|rows?|query|queries|keys?|values?|output|[qkvsaoxtzh])[\s_#(\[⟨{^,]{0,3}(\d{1,2})"
    r"(?:\s?,\s?(\d{1,2}))?(?![\d.])", re.I
)  # fmt: skip
_AFTER_SYMBOL = re.compile(r"\s*[_⟨\[({:=≈]|\d")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_CARDINALS = ("one", "two", "three", "four", "five", "six")
_ORDINAL = re.compile(
    rf"\b(?P<ordinal>{'|'.join(_ORDINALS)})\b(?:\s+(?:token|word|position|query|row|patch)\b|(?!\s+[^\W\d_]))"
    rf"|\b(?:token|word|position|query|row|patch)\s+(?P<cardinal>{'|'.join(_CARDINALS)})\b"
)
_COMPONENT = re.compile(
    rf"\b({'|'.join(_ORDINALS)}|erste|zweite|dritte|première|deuxième|troisième|prima|seconda|terza|primera|segunda|tercera)"
    r"\s+(?:component|coordinate|entry|komponente|koordinate|composante|componente|coordenada)\b", re.I
)
_CODE = re.compile(r"\b[A-Za-z]\w*\.[A-Za-z]\w*\(|^\s*(?:import|from|def|for|print|return|while|if)\b.*[(:=]")
_ARROW = re.compile(r"\s*(?:->|→|⇒|=>)")
_ROOT = re.compile(r"(?:√|\\?sqrt|root of)\s*[({]?\s*$", re.I)
_RESULT = re.compile(r"(?:[=≈→~]|->)\s*[-−]?$")  # before the result of a calculation
_GOES_ON = re.compile(r"\s*[·*/+=≈^×⋅→~%-]|\s*\\(?:cdot|times|approx)|\d")
_QUERY_KEY = re.compile(r"\bq\W{0,4}k\b", re.I)
_KEY_QUERY = re.compile(r"\bk[\s_{]{0,2}(\d{1,2})\}?\s?[·.*⋅]\s?q[\s_{]{0,2}(\d{1,2})", re.I)
_BY_TOKEN = ("X", "Q", "K", "V", "H", "O", "R", "N", "L", "F", "RF", "NF", "LF")  # of these a transpose is a layout


@dataclass(slots=True)
class Words:
    """What the words of a line name: steps, the closest first, and tokens, counted from 0."""

    bases: tuple[str, ...] = ()
    tokens: tuple[int, ...] = ()


@dataclass(slots=True)
class NumberList:
    """One list of numbers, with the words before it on its line and the headings above it."""

    line: int
    source: str
    written: Table
    own: Words
    above: tuple[Words, ...]
    head: int | None
    section: int  # how many lines without lists are above it
    component: int | None = None  # of the vector, as "second component" names it, counted from 0

    @property
    def length(self) -> int:
        return self.written.shape[1]

    @property
    def levels(self) -> Iterator[tuple[str, ...]]:
        """Yield the steps named by the line, then by each heading, the closest first."""
        above = [words.bases for words in self.above if words.bases]
        if above and self.own.tokens and set(self.own.bases) <= {"Q", "K", "V"}:  # "query 1" below "Weights"
            yield (*above[0], *self.own.bases)
        else:
            yield from filter(None, [self.own.bases, *above])

    def token(self) -> int | None:
        named = self.own.tokens or next((words.tokens for words in self.above if words.tokens), ())
        return named[-1] if named else None

    def pair(self) -> tuple[int, int] | None:
        above = next((words.tokens for words in self.above if words.tokens), ())
        named = self.own.tokens if len(self.own.tokens) > 1 else (*above[-1:], *self.own.tokens)
        return (named[0], named[1]) if len(named) == 2 else None


@dataclass(slots=True)
class Leftovers:
    aligner: Aligner
    ledger: Ledger
    placed: list[Placement] = field(default_factory=list)
    agreed: set[str] = field(default_factory=set)
    waiting: list[tuple[list[NumberList], str, Entries]] = field(default_factory=list)

    def run(self) -> None:
        """Place what can be placed, and remove it from the list of what could not be read."""
        alignment = self.aligner.alignment
        runs = list(self.runs())
        blocks = list(_blocks(runs))
        scalars = [block for block in blocks if block[0].length == 1]
        for block in blocks:
            if block[0].length > 1 and not self.whole(block):
                labelled = len(block) == 1 or all(run.own.tokens for run in block)
                for item in block:
                    if not self.whole([item]) and labelled:
                        self.row(item)
        self.supported([block for block in blocks if block[0].length > 1])
        self.cells([item for block in scalars for item in block])
        for block, symbol, cells in self.waiting:
            if len(self.agreed - {symbol}) > 1 and not alignment.answered(symbol):
                self.put(block, symbol, cells, "by the words before it and the form of the other steps")
        done = {placed.line for placed in self.placed} | {e.line for p in self.placed for e in p.cells.values()}
        alignment.unread[:] = [item for item in alignment.unread if not self.lines_of(item) & done]

    def lines_of(self, item: Unread) -> set[int]:
        """Return the lines of what could not be read: all those of a table."""
        lines, end = self.ledger.lines, item.line
        while item.source.startswith("|") and end < len(lines) and "|" in lines[end]:
            end += 1
        return set(range(item.line, end + 1))

    # -- lists -------------------------------------------------------------------------------------------------------

    def runs(self) -> Iterator[NumberList]:
        free: dict[int, dict[int, bool]] = {}  # by line: where numbers begin, and whether they are checked
        graded: dict[int, set[str]] = {}  # the steps that were read on a line
        for each in self.aligner.alignment.placed:
            for entry in each.cells.values():
                graded.setdefault(entry.line, set()).add(base_of(each.symbol))
        unclear = {item.line for item in self.aligner.reading.unread if item.reason == COMMA}  # 1,0: one number or two
        for k, owner in enumerate(self.ledger.owner[:MOST_NUMBERS]):
            line = self.ledger.line_of(k)
            checked = owner == "arithmetic" and line not in graded
            if line not in unclear and (checked or (owner is None and not self.ledger.is_label(k))):
                free.setdefault(line, {})[self.ledger.places[k][0]] = owner is not None
        if not free:
            return
        above: tuple[Words, ...] = ()
        header: list[tuple[str, ...]] = []
        head: int | None = None
        count = section = 0
        tokens: tuple[int, ...] = ()
        for number, text in enumerate(self.ledger.lines[: min(max(free), MOST_LINES)], 1):
            start = self.ledger.starts[number - 1]
            head = heads_in(text[:LONGEST_LINE], self.aligner.heads) or head
            values = list(self.values(text[:LONGEST_LINE], start, free.get(number, {})))
            if not values:
                if not text.strip() or not any(map(str.isalnum, text)):
                    continue
                section += 1
                words = self.words(text)
                if header := self.header(text):
                    words = Words()
                if number in graded:
                    read = graded[number]  # a heading may go on to name the step that was read below it
                    above = tuple(Words(tuple(b for b in each.bases if b in read), each.tokens) for each in above)
                elif words.bases or words.tokens:
                    above = (words, *above)[:3]
                continue
            at, own = 0, Words()
            tokens = tokens if _ARROW.match(text) else ()  # the line before goes on
            columns = _columns(text, header)
            for group in (part for whole in values for part in _by_column(whole, columns)):
                own = self.words(text[at : group[0].start()])
                if tokens and sorted(own.tokens) == list(range(len(self.aligner.tokens))):  # scores with we, like, tea:
                    own.tokens = ()
                tokens = own.tokens = own.tokens or tokens  # a token stands for its whole line
                if columns:
                    own.bases = columns[_column(columns, group[0].start())][1]
                at = group[-1].end()
                written = _table([found.group() for found in group], number) if len(group) <= LONGEST else None
                count += 1
                if count > MOST_LISTS:
                    return
                if written is None:
                    continue
                component = _component(text[: group[0].start()])
                yield NumberList(number, " ".join(text.split())[:200], written, own, above, head, section, component)
            if text.rstrip(" *_").endswith(":"):  # Output (the values are v1 = (3, 0), …):
                titled = self.words(text.partition("(")[0])
                above = (titled, *above)[:3] if titled.bases else above
            if tokens and own.bases and set(own.bases) <= {"X", "X0"}:  # token 1 = (1, 2, 3), above the lines about it
                above = (Words((), tokens), *above)[:3]

    def header(self, text: str) -> list[tuple[str, ...]]:
        """Return the steps that the cells of a table's header name: token, q1, q2, score; [] if it is not one."""
        found = [self.words(text[low:high]).bases for low, high in _cells(text[:LONGEST_LINE])]
        named = [bases for bases in found if bases and "X" not in bases]
        return found if len(found) > 2 and len(set(named)) > 1 and len(named) >= len(found) - 2 else []

    def values(self, text: str, start: int, free: dict[int, bool]) -> Iterator[list[re.Match[str]]]:
        """Yield the runs of numbers of a line that are not read, and results as in "mean: (1 + 2 + 3)/3 = 2"."""
        run: list[re.Match[str]] = []
        for found in _VALUE.finditer(text) if free and not _CODE.search(text) else ():
            digit = re.search(r"\.?\d", found.group())
            if _ROOT.search(text[max(0, found.start() - 12) : found.start()]):
                continue
            checked = free.get(start + found.start() + digit.start()) if digit is not None else False
            unread = checked is False or (checked is True and _is_result(text, found))
            if run and (not unread or not _SEPARATOR.fullmatch(text, run[-1].end(), found.start())):
                yield run
                run = []
            if unread:
                run.append(found)
        if any(re.search(r"\d", found.group()) for found in run):
            yield run

    def words(self, text: str) -> Words:
        """Return the steps and tokens that the words of a line name."""
        text = text[-200:].replace("_", " ")
        names = [(found.start(), NAMES.get(found.group().lower(), ())) for found in re.finditer(r"[^\W\d_]+", text)
                 if (len(found.group()) > 1 or _is_symbol(text, found)) and not topics(found.group())]  # fmt: skip
        bases = [base for _, several in sorted(names, reverse=True) for base in several]
        if _QUERY_KEY.search(text) or _KEY_QUERY.search(text):
            bases = list(RAW)
        known = {base_of(symbol) for symbol in self.aligner.exact}
        spoken = dict.fromkeys(base for base in (*bases, *topics(text)) if base in known)
        return Words(tuple(spoken), tuple(self.tokens(text)))

    def tokens(self, text: str) -> Iterator[int]:
        zero = bool(self.aligner.zero)
        found: list[tuple[int, int]] = []
        pair = _KEY_QUERY.search(text)
        if pair is not None:  # k1·q2, of query 2
            yield from (int(pair[k]) - (not zero) for k in (2, 1))
            return
        for match in _TOKEN.finditer(text):
            found += [(match.start(k), int(match[k]) - (not zero)) for k in (1, 2) if match[k]]
        low = text.lower()
        for match in _ORDINAL.finditer(low):
            number = match["ordinal"] or match["cardinal"]
            found.append((match.start(), (_ORDINALS if match["ordinal"] else _CARDINALS).index(number)))
        for word, k in self.aligner.tokens.items():
            pattern = rf"(?<![\w]){re.escape(word)}(?![\w'’])(?! [^\W\d_])"
            found += [(match.start(), k) for match in re.finditer(pattern, low)]
        yield from (k for _, k in sorted(found))

    # -- placing -----------------------------------------------------------------------------------------------------

    def symbols(self, bases: tuple[str, ...], head: int | None) -> list[str]:
        """Return the symbols of some bases, or all; if there are several heads, those of the current one."""
        exact = self.aligner.exact
        named = [s for base in bases for s in exact if base_of(s) == base] if bases else list(exact)
        return [s for s in named if head is None or s == base_of(s) or s.endswith(str(head))]

    def free(self, symbol: str, cells: Entries, repeated: bool = False) -> bool:
        """Return whether none of the cells has its answer, or all have the same one; the only head's H is O."""
        placed = self.aligner.alignment.placed
        same = {symbol, *self.aligner.copies(symbol)}
        answers = [p for p in placed if p.symbol in same and p.role == "answer" and p.cells.keys() & cells.keys()]
        if repeated:
            return bool(answers) and all(
                agree(entry, cells[at]) for p in answers for at, entry in p.cells.items() if at in cells
            )
        return not answers

    def whole(self, block: list[NumberList]) -> bool:
        """Place a block of lists that is a whole matrix, as written or transposed, or a list of all its numbers."""
        rows = [run.written.rows[0] for run in block]
        order = [run.own.tokens[-1] if run.own.tokens else -1 for run in block]
        if len(block) > 1 and sorted(order) == list(range(len(block))):
            rows = [rows[order.index(k)] for k in range(len(block))]
        written = Table(tuple(rows))
        named = False  # whether the words name a step of this size, which then is no other one by its values
        for level, bases in enumerate([*block[0].levels, ()]):
            if not bases and (named or block[0].own.bases):
                return False
            again: list[tuple[float, str, Entries]] = []  # the same answer, written again
            options: list[tuple[float, str, Entries]] = []
            for symbol in self.symbols(bases, block[0].head):
                for cells in self.fits(symbol, written):
                    if self.free(symbol, cells):
                        options.append((self.aligner.agreement(symbol, cells), symbol, cells))
                    elif self.free(symbol, cells, repeated=True):
                        again.append((1.0, symbol, cells))
            if self.choose(block, options, named=bool(bases)) or self.choose(block, again, named=bool(bases)):
                return True
            named |= bool(options)
            if (
                level == 0 and bases and len({symbol for _, symbol, _ in options}) == 1 and len(block) > 1
                and options[0][1] in self.aligner.plan
            ):  # fmt: skip
                self.waiting.append((block, options[0][1], options[0][2]))
        return False

    def supported(self, blocks: list[list[NumberList]]) -> None:
        """Place a matrix with numbers that no step has, if only as one step a later matrix follows from it."""
        alignment = self.aligner.alignment
        if sum(m.shape[0] * m.shape[1] for m in self.aligner.exact.values()) > MOST_CELLS:
            return
        done = {entry.line for each in self.placed for entry in each.cells.values()}
        left = [block for block in blocks if block[0].line not in done][:MOST_TRIED]
        for k, block in enumerate(left):
            found: list[tuple[str, Entries]] = []
            for symbol, cells in self.candidates(block):
                alignment.put(Placement(symbol, cells, block[0].line, block[0].source))
                self.aligner.cached = None
                later = any(self.following(symbol, after) for after in left[k + 1 :])
                alignment.placed.pop()
                self.aligner.cached = None
                if later:
                    found.append((symbol, cells))
            if len(found) == 1 and not alignment.answered(found[0][0]):
                self.put(block, *found[0], "because your later numbers follow from it")
                for after in left[k + 1 :]:
                    for s, cells in self.following(found[0][0], after)[:1]:
                        self.put(after, s, cells, "because it follows from your earlier numbers")

    def following(self, symbol: str, block: list[NumberList]) -> list[tuple[str, Entries]]:
        """Return the later steps whose values, computed with the numbers placed so far, a block has."""
        after = self.aligner.plan.after(symbol)
        return [(s, c) for s, c in self.candidates(block) if s in after and self.aligner.agreement(s, c) > MOSTLY]

    def candidates(self, block: list[NumberList]) -> Iterator[tuple[str, Entries]]:
        """Yield the steps without an answer that have the size of a block."""
        written = Table(tuple(run.written.rows[0] for run in block))
        for symbol in self.symbols((), block[0].head):
            if symbol in self.aligner.plan and not self.aligner.alignment.answered(symbol):
                cells = next(self.fits(symbol, written), None)
                if cells and _is_telling(cells) and self.free(symbol, cells):
                    yield symbol, cells

    def fits(self, symbol: str, written: Table) -> Iterator[Entries]:
        """Yield the cells of a whole matrix: as written, transposed, and row by row on one line."""
        shape, by_rows = self.aligner.exact[symbol].shape, self.aligner.by_rows
        flat = written.rows[0] if len(written.rows) == 1 else ()
        if len(flat) == shape[0] * shape[1] and 1 not in shape:
            written = Table(tuple(flat[i * shape[1] : (i + 1) * shape[1]] for i in range(shape[0])))
        said = [False, True] if base_of(symbol) in _BY_TOKEN or shape[0] != shape[1] else [False]
        said = [True] if self.aligner.transposed else said
        seen = []
        for transposed in said:
            cells = fit(written, shape, (), by_rows=by_rows, transposed=transposed)
            if cells and len(cells) > 1 and cells not in seen:
                seen.append(cells)
                yield cells

    def row(self, run: NumberList) -> None:
        """Place one list as the row (in columns: the column) of a token."""
        token = run.token()
        if token is None and len({entry.text for entry in run.written.rows[0] if entry is not None}) < 2:
            return  # row sums, and other numbers that are all the same
        named = bool(run.own.bases)
        for bases in [*run.levels, ()]:
            if not bases and (named or token is None):
                return
            options, again = [], []
            for symbol in self.symbols(bases, run.head):
                shape, by_rows = self.aligner.exact[symbol].shape, self.aligner.by_rows
                if 1 not in shape:
                    for k in [token] if token is not None else range(shape[0 if by_rows else 1]):
                        cells = fit(run.written, shape, (k,), by_rows=by_rows)
                        if cells and self.free(symbol, cells):
                            share = self.aligner.agreement(symbol, cells)
                            options.append((share if token is not None or share == 1 else 0.0, symbol, cells))
                        elif cells and self.free(symbol, cells, repeated=True):
                            again.append((1.0, symbol, cells))
            if not bases:  # by its token and values
                options, again = [o for o in options if o[0] == 1], []
                options = options if len(options) == 1 and _is_telling(options[0][2]) else []
            if self.choose([run], options, named=True) or self.choose([run], again, named=True):
                return
            named |= bool(options)

    def choose(self, block: list[NumberList], options: list[tuple[float, str, Entries]], *, named: bool) -> bool:
        """Place the option with the highest agreement if it is unique and high enough."""
        options = [option for option in options if option[0] == 1 or option[1] in self.aligner.plan]  # given: as it is
        best = [option for option in options if option[0] == max(o[0] for o in options)]
        if not best or best[0][0] < (HALF if named else 1):
            return False
        copies = [s for _, s, _ in best if s in self.aligner.plan and self.aligner.plan[s].op == "copy"]
        best = [option for option in best if option[1] not in copies] or best  # the only head's H is O
        if named and len(best) > 1:  # the word's first meaning, as written
            best = best[:1] if len({symbol for _, symbol, _ in best}) > 1 or best[0][0] == 1 else []
        if len(best) != 1 or not (named or _is_telling(best[0][2])):
            return False
        share, symbol, cells = best[0]
        if share == 1:
            self.agreed.add(symbol)
        why = "by the words before it and its values" if named else "by its size and values"
        self.put(block, symbol, cells, why)
        return True

    def cells(self, runs: list[NumberList]) -> None:
        """Place single numbers: those of each step together, by two tokens or, for a sum or a mean, by one."""
        found: dict[tuple[tuple[str, ...], int | None], list[NumberList]] = {}
        for run in runs:
            if bases := next(filter(None, run.levels), ()):
                found.setdefault((bases, run.head), []).append(run)
        for (bases, head), group in found.items():
            options = []
            for symbol in self.symbols(bases, head):
                cells: Entries = {}
                for run in group:
                    token, pair = run.token(), run.pair()
                    if run.component is not None:
                        pair = (token or 0, run.component) if self.aligner.one_query or token is not None else None
                    elif pair is None and token is not None and self.aligner.one_query:
                        pair = (0, token)
                    at = (token,) if base_of(symbol) in PER_TOKEN else pair
                    at = (0, 0) if self.aligner.exact[symbol].shape == (1, 1) else at
                    at = at[::-1] if at is not None and not self.aligner.by_rows else at
                    number = Table(run.written.rows, scalar=True)
                    here = fit(number, self.aligner.exact[symbol].shape, at, by_rows=self.aligner.by_rows) if at else {}
                    cells |= here or {}
                if cells and symbol in self.aligner.plan and self.free(symbol, cells):
                    options.append((self.aligner.agreement(symbol, cells), symbol, cells))
            best = max(options, key=lambda option: option[0], default=None)
            if best is not None and best[0] >= (MOSTLY if len(best[2]) > 1 else 1):
                self.put(group, best[1], best[2], "by the words before it and its values")
                self.set_out(best[1], best[2])

    def set_out(self, symbol: str, cells: Entries) -> None:
        """Record the arithmetic before each of these results: first component: 3·0.4683 + 0.4683 = 1.8732."""
        for at, entry in cells.items():
            for statement in self.aligner.reading.statements:
                written = self.aligner.written(statement) if statement.line == entry.line else None
                if written is not None and [e.text for _, _, e in written.cells()] == [entry.text]:
                    self.aligner.expressions_set_out(statement, symbol, {at: entry})

    def put(self, block: list[NumberList], symbol: str, cells: Entries, why: str) -> None:
        placed = Placement(symbol, cells, min(e.line for e in cells.values()), block[0].source)
        self.placed.append(placed)
        self.aligner.alignment.put(placed)
        self.aligner.alignment.note(block[0].line, block[0].source, f"taken as {symbol} {why}")


def _component(text: str) -> int | None:
    """Return the component that the words name last: 1 for "second component"."""
    found = _COMPONENT.findall(text)
    if not found:
        return None
    starts = ("fir ers pre pri", "sec zwe deu seg", "thi dri tro ter", "fou")
    return next((k for k, words in enumerate(starts) if found[-1].lower()[:3] in words.split()), None)


def _is_result(text: str, found: re.Match[str]) -> bool:
    return _RESULT.search(text[: found.start()]) is not None and _GOES_ON.match(text, found.end()) is None


def _cells(text: str) -> list[tuple[int, int]]:
    """Return the cells of a line of a table, divided by tabs, bars, commas, semicolons or at least two spaces."""
    divider = next((mark for mark in ("\t", "|", ";", ",") if mark in text), "")
    pattern = re.escape(divider) if divider else r"\s{2,}"
    spans, at = [], 0
    for found in re.finditer(pattern, text):
        spans.append((at, found.start()))
        at = found.end()
    spans.append((at, len(text)))
    while spans and not text[slice(*spans[0])].strip():
        del spans[0]
    while spans and not text[slice(*spans[-1])].strip():
        del spans[-1]
    return spans


Columns = list[tuple[tuple[int, int], tuple[str, ...]]]  # the extent of each cell of a line, and what its header names


def _columns(text: str, header: list[tuple[str, ...]]) -> Columns:
    cells = _cells(text[:LONGEST_LINE]) if header else []
    return list(zip(cells, header, strict=True)) if len(cells) == len(header) else []


def _column(columns: Columns, position: int) -> int:
    return next((k for k, ((low, high), _) in enumerate(columns) if low <= position <= high), 0)


def _by_column(run: list[re.Match[str]], columns: Columns) -> Iterator[list[re.Match[str]]]:
    """Divide a run of numbers where the header names another step."""
    part: list[re.Match[str]] = []
    for found in run:
        here = columns[_column(columns, found.start())][1] if columns else ()
        if part and columns and columns[_column(columns, part[-1].start())][1] != here:
            yield part
            part = []
        part.append(found)
    if part:
        yield part


def _is_symbol(text: str, found: re.Match[str]) -> bool:
    """Return whether a letter stands for a quantity: before an index or a relation, or at the start of the line."""
    return not text[: found.start()].strip(" \t-*•#(") or _AFTER_SYMBOL.match(text, found.end()) is not None


def _is_telling(cells: Entries) -> bool:
    """Return whether numbers are unlikely to agree with a step by chance."""
    texts = {entry.text for entry in cells.values()}
    return len(cells) > 3 and (len(texts) > 3 or any("." in text for text in texts))


def _table(texts: list[str], line: int) -> Table | None:
    terms = []
    for text in texts:
        read = formula(text.replace("\\%", "%"), line)
        if read.problems or len(read.drafts) != 1 or len(read.drafts[0].terms) != 1:
            return None
        terms.append(read.drafts[0].terms[0].term)
    return table(Link(line, "", Array((tuple(terms),), flat=True)))


def _blocks(runs: list[NumberList]) -> Iterator[list[NumberList]]:
    """Group lists of one length on consecutive lines without names of steps of their own."""
    block: list[NumberList] = []
    for run in runs:
        last = block[-1] if block else None
        joins = (
            last is not None and (run.section, run.above) == (last.section, last.above)
            and run.length == last.length > 1 and run.line != last.line
            and run.line <= last.line + 2 and (not run.own.bases or run.own.bases == block[0].own.bases)
        )  # fmt: skip
        if block and not joins:
            yield block
            block = []
        block.append(run)
    if block:
        yield block
