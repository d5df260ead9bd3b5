"""Evidence: numbers that no statement accounts for, assigned to cells by value, by order and by the words around them.

The numbers of a document, in their order, are a path through the cells of the solution: along a row or a column, on to
the next one, to the same token or cell of another step, or anywhere else; in between are numbers that are no answers.
A hidden Markov model weighs all such paths at once. A cell can emit a number only if the number agrees with the value
of the cell (the exact one, or the one that follows from what has been placed), and it then explains as much as the
number's digits are improbable by chance; words nearby make cells more or less likely. Numbers that are graded already
are fixed points of the path. A number is assigned to a cell if the posterior probability of that cell is at least
`CERTAIN`; so by this alone a number can be right or follow, but not be wrong.

A number that agrees nowhere is wrong only where its cell is certain from its place: in a row of a list or a table
whose other numbers, or whose other rows, were assigned to consecutive cells.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any

from glassformer.errors import GlassError
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.expression import Array
from glassformer.exercises.grade.accounting import Ledger
from glassformer.exercises.grade.align import HALF, Aligner, Placement, agree, base_of
from glassformer.exercises.grade.cells import Entries, Entry, agrees, chance, closeness, table
from glassformer.exercises.grade.context import heads_in
from glassformer.exercises.grade.mistakes import hypotheses
from glassformer.exercises.grade.verdict import ARITHMETIC, Place, exact_values
from glassformer.exercises.grade.vocabulary import NAMES, RAW, topics
from glassformer.exercises.matrix import Matrix
from glassformer.exercises.numbers import MASKED
from glassformer.exercises.plan import evaluate_plan, plan
from glassformer.exercises.reader import Link, Unread, parse_formula
from glassformer.exercises.reader.parser import COMMA

CERTAIN = 0.9
NOISE, NOISE_BEGINS, NOISE_GOES_ON = 0.3, 0.01, 0.9  # no answers: at the start of a run, inside it, after another one
TOGETHER, SINGLE, APART = range(3)  # in the same run, after a run of a single number, after a longer one
WRONG = 0.03  # the share of answers that are wrong
MOST_CELLS = 4000  # of an exercise
MOST_ITEMS = 1500  # numbers of a document
MOST_LINES = 3000
LONGEST_LINE = 2000
RARE = 0.002  # chance agreement below which a number is informative: at least three digits
MOST_TELLING = 3  # such numbers have to agree with a mistake
MOST_TRIED = 400  # cells of an exercise, for trying mistakes
MOST_HYPOTHESES = 60
LONGEST_RUN = 64
MOST_STATES = 40
MOST_PLACES = 48
MOST_CACHED = 2000  # numbers whose cells are kept
ROUNDS = 3
JUMP = (0.02, 0.04, 0.08)  # to any cell, to the first cell of any token, to the first cell of any step
JUMP_INSIDE = (0.0001, 0.01, 0.01)
_VALUE = re.compile(
    r"(?<![\w.])[-+−]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?(?:/\d+(?![.\d]))?(?:\s?\\?%)?(?![\w])|[-−]∞"
)
_SEPARATOR = re.compile(
    r"(?:[\s,;|/&()\[\]{}⟨⟩$│]|\\[;,:! \\]|\\(?:quad|qquad|left|right|langle|rangle)\b)*(?:\band\b[\s(\[$]*)?"
)
_TITLE = re.compile(r"[\s#*_]*[^\W\d](?:[^\n.;|&]{0,40}):?[\s*_]*")  # a line that is only a name: Scaled scores:
_ROW_ENDS = re.compile(r"[;/)\]}⟩]|\\\\")  # between the rows of a matrix on one line
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
_EVERY = re.compile(
    r"\b(?:every|all|equally|everything|jede[mnrs]?|alle[nmrs]?|gleichmäßig|tout(?:e?s)?|tous|chaque|tutt[ei]|ogni|cada|tod[oa]s)\b",
    re.I
)  # fmt: skip
_EACH = re.compile(r"\b(?:each|both|apiece|jeweils|je|beiden?|chacune?|ciascun[oa]?|ambos|ambas)\b", re.I)
_CODE = re.compile(r"\b[A-Za-z]\w*\.[A-Za-z]\w*\(|^\s*(?:import|from|def|for|print|return|while|if)\b.*[(:=]")
_ROOT = re.compile(r"(?:√|\\?sqrt|root of)\s*[({]?\s*$", re.I)
_RESULT = re.compile(r"(?:[=≈→~]|->)\s*[-−]?$")  # before the result of a calculation
_GOES_ON = re.compile(r"\s*[·*/+=≈^×⋅→~%-]|\s*\\(?:cdot|times|approx)|\d")
_QUERY_KEY = re.compile(r"\bq\W{0,4}k\b", re.I)
_KEY_QUERY = re.compile(r"\bk[\s_{]{0,2}(\d{1,2})\}?\s?[·.*⋅]\s?q[\s_{]{0,2}(\d{1,2})", re.I)


SQUARE = ("S", "Su", "QKt", "KtQ", "E", "A")
State = tuple[Place | None, bool]


@dataclass(frozen=True, slots=True)
class Words:
    """What words name: steps, the closest first, and tokens, counted from 0."""

    bases: tuple[str, ...] = ()
    tokens: tuple[int, ...] = ()


@dataclass(slots=True)
class TextNumber:
    """One number of the text. `fixed`: the cell in which it is graded; `places`: how much better each cell explains it
    than chance; numbers with nothing but separators between them are one `run`."""

    line: int
    column: int
    run: int
    entry: Entry
    fixed: Place | None
    own: Words
    above: Words
    head: int | None
    position: int  # in its run
    length: int  # of its run
    joined: bool  # whether only separators are between its run and another one before it on the line
    result: bool  # of a calculation on its line, whose numbers may be rounded
    matrix: bool = False  # whether its run is a row of a matrix: there are others like it next to it
    places: dict[Place, float] = field(default_factory=dict)
    agreeing: frozenset[Place] = frozenset()
    found: Place | None = None  # the cell that it agrees with
    wrong: Place | None = None  # the cell that it would be wrong in
    banned: frozenset[str] = frozenset()  # steps that it cannot be in

    @property
    def place(self) -> Place | None:
        return self.fixed or self.found


class Cells:
    """The cells of the solution, and how likely one is written after another."""

    def __init__(self, shapes: tuple[tuple[str, tuple[int, int]], ...], by_rows: bool) -> None:
        self.by_rows = by_rows
        self.shapes = {symbol: (shape if by_rows else shape[::-1]) for symbol, shape in shapes}
        self.order = {s: k for k, s in enumerate(self.shapes)}
        self.count = sum(a * b for a, b in self.shapes.values())
        self.lines = sum(a for a, _ in self.shapes.values())
        self.near: dict[tuple[Place, int], dict[Place, float]] = {}

    def place(self, symbol: str, token: int, component: int) -> Place:
        return (symbol, token, component) if self.by_rows else (symbol, component, token)

    def split(self, place: Place) -> tuple[str, int, int]:
        """Return the symbol, the token (the row; in columns the column), and the component."""
        return place if self.by_rows else (place[0], place[2], place[1])

    def inside(self, symbol: str, token: int, component: int) -> bool:
        tokens, width = self.shapes[symbol]
        return 0 <= token < tokens and 0 <= component < width

    def jump(self, place: Place, between: int) -> float:
        """Return the weight of going on with any cell, which is less likely inside a run."""
        _, token, component = self.split(place)
        anywhere, line, step = JUMP_INSIDE if between == TOGETHER else JUMP
        weight = anywhere / self.count
        weight += line / self.lines if component == 0 else 0
        return weight + (step / len(self.shapes) if token == component == 0 else 0)

    def after(self, place: Place, between: int) -> dict[Place, float]:
        """Return the weights of the cells after one: in the same run, after a single number, or after a longer run."""
        if (place, between) not in self.near:
            self.near[place, between] = self._after(place, between)
        return self.near[place, between]

    def _after(self, place: Place, between: int) -> dict[Place, float]:
        symbol, t, d = self.split(place)
        tokens, width = self.shapes[symbol]
        last, lowest = d == width - 1, t == tokens - 1
        found: dict[Place, float] = {}
        whole = 0.05 if between == APART and not last and not lowest else 1.0  # a run ends where a line does

        def add(s: str, token: int, component: int, weight: float) -> None:
            if self.inside(s, token, component):
                at = self.place(s, token, component)
                found[at] = found.get(at, 0.0) + weight * whole

        def choose(inside: float, outside: float) -> float:
            return inside if between == TOGETHER else outside

        add(symbol, t, d + 1, choose(0.5, 0.15))
        add(symbol, t + 1, d, choose(0.15, 0.12))
        add(symbol, t + 1, 0, choose(0.15, 0.35) if last else 0.02)
        add(symbol, 0, d + 1, choose(0.08, 0.2) if lowest else 0.02)
        add(symbol, t, d + 2, 0.02)
        add(symbol, t + 2, d, 0.01)
        add(symbol, t, d, choose(0.01, 0.03))
        for component in range(width if between == SINGLE else 0):  # the largest weight first
            add(symbol, t, component, 0.02)
        here = self.order[symbol]
        total = sum(self._nearby(k - here) for k in range(len(self.order)))
        moves = (
            (t, 0, 0.12), (t, d, 0.1),  # one line for each token, or for each cell
            (t, d + 1, choose(0.02, 0.1)), (t + 1, d, choose(0.02, 0.05)), (t + 1, 0, choose(0.02, 0.1)),
        )  # fmt: skip
        for other, k in self.order.items():
            share = self._nearby(k - here) / total
            tokens, width = self.shapes[other]
            for token, component, weight in moves if other != symbol else ():
                if token < tokens and component < width:
                    at = self.place(other, token, component)
                    found[at] = found.get(at, 0.0) + weight * share * whole
            add(other, 0, 0, choose(0.05, 0.25) * share)
        return found

    def next(self, place: Place, between: int) -> Iterator[Place]:
        """Yield the cells that continue a row or a column."""
        symbol, t, d = self.split(place)
        tokens, width = self.shapes[symbol]
        steps = [(t, d + 1), (t + 1, d)] if between == TOGETHER else []
        steps += [(t + 1, 0)] if d == width - 1 else []
        steps += [(0, d + 1)] if t == tokens - 1 else []
        yield from (self.place(symbol, *at) for at in dict.fromkeys(steps) if self.inside(symbol, *at))

    @staticmethod
    def _nearby(distance: int) -> float:
        return 1 / (1 + distance) if distance > 0 else 0.3 / (1 - distance)


@lru_cache(maxsize=16)
def cells_of(shapes: tuple[tuple[str, tuple[int, int]], ...], by_rows: bool) -> Cells:
    """Return the cells of steps of these shapes; cached, because all submissions to an exercise have the same ones."""
    return Cells(shapes, by_rows)


class Values:
    """The values that the cells may have, sorted, to find the cells that agree with a number."""

    def __init__(self) -> None:
        self.values: list[tuple[float, Place, Any]] = []
        self.masked: list[Place] = []
        self.cached: dict[tuple[str, bool, int | None, bool], dict[Place, float]] = {}

    def add(self, symbol: str, matrix: Matrix[Any], unless: Matrix[Any] | None = None) -> None:
        for i, j, value in matrix.cells():
            if value is MASKED:
                self.masked.append((symbol, i, j))
            elif value is not None and value.is_finite() and (unless is None or not _same(value, unless[i, j])):
                self.values.append((float(value), (symbol, i, j), value))

    def sort(self) -> None:
        self.values.sort(key=lambda item: item[0])
        self.keys = [value for value, _, _ in self.values]

    def of(self, entry: Entry, result: bool = False) -> dict[Place, float]:
        """Return the cells that agree with a number, by how well: 1, or less if it is only truncated.

        The result of a calculation may also be off by one unit of its last digit.
        """
        key = (entry.text, entry.approximate, entry.places, result)
        if key not in self.cached:
            if len(self.cached) >= MOST_CACHED:
                self.cached.clear()
            self.cached[key] = self._of(entry, ("right", "truncated", "rounded") if result else ("right", "truncated"))
        return self.cached[key]

    def _of(self, entry: Entry, accepted: tuple[str, ...]) -> dict[Place, float]:
        if entry.value is MASKED:
            return dict.fromkeys(self.masked, 1.0)
        if not entry.value.is_finite():
            return {}
        places = entry.places
        reach = 0.5 if entry.approximate else 0.005
        if places is not None:
            reach = 1.51 * 10.0 ** -max(places, -300)  # 0.25e320 has −318 places
        middle = float(entry.value)
        reach += 1e-9 * abs(middle)
        found: dict[Place, float] = {}
        for k in range(bisect_left(self.keys, middle - reach), bisect_right(self.keys, middle + reach)):
            _, place, value = self.values[k]
            close = closeness(value, entry)
            if close in accepted:
                found[place] = max(found.get(place, 0.0), 1.0 if close == "right" else 0.2)
        return found


@lru_cache(maxsize=16)
def mistaken_values(exercise: Exercise) -> Sequence[tuple[Mapping[str, Matrix[Any]], Values]]:
    """Return the values of all steps under each known mistake, and those of them that differ from the exact ones."""
    made = plan(exercise)
    exact = exact_values(made)
    found: list[tuple[Mapping[str, Matrix[Any]], Values]] = []
    for hypothesis in islice(hypotheses(made, exercise), MOST_HYPOTHESES):
        try:
            steps = evaluate_plan(hypothesis.plan, ARITHMETIC)
        except (GlassError, ZeroDivisionError):
            continue
        values = Values()
        for operation in made.operations:
            symbol = operation.symbol
            if operation.op != "copy" and symbol in steps and steps[symbol].shape == exact[symbol].shape:
                values.add(symbol, steps[symbol], unless=exact[symbol])
        values.sort()
        found.append((steps, values))
    return found


@dataclass(slots=True)
class Evidence:
    exercise: Exercise
    aligner: Aligner
    ledger: Ledger
    placed: list[Placement] = field(default_factory=list)
    known: frozenset[str] = field(init=False)  # steps and given matrices without the numbers of heads

    def __post_init__(self) -> None:
        self.known = frozenset(map(base_of, self.aligner.exact))

    def run(self) -> None:
        """Assign what can be assigned, and remove it from the list of what could not be read."""
        aligner, alignment = self.aligner, self.aligner.alignment
        copies = frozenset(op.symbol for op in aligner.plan.operations if op.op == "copy")  # the only head's H is O
        shapes = tuple((symbol, matrix.shape) for symbol, matrix in aligner.exact.items() if symbol not in copies)
        few = sum(rows * columns for _, (rows, columns) in shapes) <= MOST_TRIED
        cells = (cells_of if few else Cells)(shapes, aligner.by_rows)
        items = list(self.items()) if cells.count <= MOST_CELLS else []
        for block in blocks(items):
            for item in block:
                item.matrix = block[0].run != block[-1].run and block[-1].own == Words()
        if not any(item.fixed is None for item in items):
            return
        self.reassign(items, cells)
        self.rounds(items, cells)
        if mistaken := self.mistaken(items, cells):
            self.rounds(items, cells, mistaken)
        if self.titled(items, cells):
            self.rounds(items, cells)
        self.spread(items, cells)
        done = {item.line for item in items if item.found is not None}
        alignment.unread[:] = [item for item in alignment.unread if not self.lines_of(item) & done]

    def rounds(self, items: list[TextNumber], cells: Cells, mistaken: Mapping[str, Matrix[Any]] | None = None) -> None:
        """Assign numbers until no more are found: what follows from a number is known once that one is assigned."""
        for _ in range(ROUNDS):
            before = sum(item.found is not None for item in items)
            self.weigh(items, cells, mistaken or {})
            taken = self.answered() | {item.place for item in items if item.place is not None}
            for item, posterior in zip(items, decode(items, cells), strict=True):
                if item.place is None and posterior:
                    item.found, item.wrong = settle(item, posterior, taken)
                    taken |= {item.found} if item.found is not None else set()
            for item in (*repeated(items), *isolated(items)):
                item.found = None
            self.judge(items)
            self.complete(items)
            if sum(item.found is not None for item in items) == before:
                break
            self.put(items)

    def spread(self, items: list[TextNumber], cells: Cells) -> None:
        """Assign a number that stands for several cells of its row, "every word with 0.25", to all that have its value.

        With "each" or "both" these are the cells of the tokens that are named between this number and the one before.
        """
        answered, computed = self.answered(), self.aligner.verdicts().computed
        for last, item in pairwise([None, *items]):
            if item is None or item.place is None or item.length > 1 or item.place[0] not in computed:
                continue
            text = self.ledger.lines[item.line - 1]
            start = last.column + 1 if last is not None and last.line == item.line else 0
            clause = re.split(r"[.;)](?:\s|$)", text[start:item.column])[-1] + text[item.column : item.column + 24]
            all_of, several = _EVERY.search(clause), _EACH.search(clause)
            if not all_of and not several:
                continue
            symbol, token, _ = cells.split(item.place)
            named = set(self.tokens(clause)) if several and not all_of else set()
            same: Entries = {}
            for component in range(cells.shapes[symbol][1]):
                place = cells.place(symbol, token, component)
                values = (self.aligner.exact[symbol][place[1:]], computed[symbol][place[1:]])
                if place not in answered and (all_of or component in named) and any(
                    agrees(value, item.entry) for value in values
                ):
                    same[place[1:]] = item.entry
            if same:
                self.aligner.alignment.put(Placement(symbol, same, item.line, " ".join(text.split())[:200], "echo"))

    def reassign(self, items: list[TextNumber], cells: Cells) -> None:
        """Take back named matrices most of whose numbers disagree, if their numbers agree with other cells.

        These are cells of another step that it is not computed from; `S` with the numbers of Q·Kᵀ stays S.
        """
        alignment, plan = self.aligner.alignment, self.aligner.plan
        doubtful = [
            each for each in alignment.placed
            if each.role == "answer" and len(each.cells) > 3
            and each.symbol in plan and base_of(each.symbol) not in SQUARE
            and self.aligner.agreement(each.symbol, each.cells) < HALF
        ]  # fmt: skip
        if not doubtful:
            return
        before, moved = list(alignment.placed), []
        for placed in doubtful:
            here = {self.original((placed.symbol, *at)) for at in placed.cells}
            lines = range(placed.line, max(entry.line for entry in placed.cells.values()) + 4)
            own = [(item, item.fixed) for item in items if item.fixed in here and item.line in lines]
            for item, _ in own:
                item.fixed, item.banned = None, plan.before(placed.symbol) | {placed.symbol}
            moved.append(own)
        alignment.placed[:] = [each for each in before if each not in doubtful]
        self.aligner.cached = None
        self.rounds(items, cells)
        stays = [sum(item.found is None for item, _ in own) > 0.2 * len(own) or not own for own in moved]
        back = [placed for placed, stay in zip(doubtful, stays, strict=True) if stay]
        alignment.placed[:] = [each for each in before if each not in doubtful or each in back]
        for own, stay in zip(moved, stays, strict=True):
            for item, place in own if stay else ():
                item.fixed, item.banned = place, frozenset()
        if back:
            for item in items:
                item.found = item.wrong = None
        self.put(items)

    def mistaken(self, items: list[TextNumber], cells: Cells) -> Mapping[str, Matrix[Any]]:
        """Return the values under the known mistake that explains the most of what is left, if there is one."""
        left = [item.entry for item in items if item.place is None and chance(item.entry) < RARE]
        best: tuple[int, Mapping[str, Matrix[Any]]] = (MOST_TELLING - 1, {})
        if len(left) < MOST_TELLING or cells.count > MOST_TRIED:
            return {}
        for made, values in mistaken_values(self.exercise):
            count = len({entry.text for entry in left if values.of(entry)})
            if count > best[0]:
                best = (count, made)
        return best[1]

    def lines_of(self, item: Unread) -> set[int]:
        """Return the lines of what could not be read: all those of a table."""
        lines, end = self.ledger.lines, item.line
        while item.source.startswith("|") and end < len(lines) and "|" in lines[end]:
            end += 1
        return set(range(item.line, end + 1))

    # -- the numbers of the text -------------------------------------------------------------------------------------

    def items(self) -> Iterator[TextNumber]:
        """Yield the numbers that are graded or not read, in their order."""
        ledger, aligner = self.ledger, self.aligner
        unclear = {item.line for item in aligner.reading.unread if item.reason == COMMA}  # 1,0: one number or two
        graded = {ledger.line_of(k) for k in ledger.cells}
        at: dict[int, int] = {start: k for k, (start, _, _) in enumerate(ledger.places)}
        above, head, run, count = Words(), None, 0, 0
        header: list[Words] = []
        for number, text in enumerate(ledger.lines[:MOST_LINES], 1):
            text, start = text[:LONGEST_LINE], ledger.starts[number - 1]
            head = heads_in(text, aligner.heads) or head
            usable = number not in unclear and not _CODE.search(text)
            line = [found for found in _VALUE.finditer(text) if usable]
            runs = list(self.runs(text, start, line, at, number in graded))
            if not runs and any(map(str.isalnum, text)) and number not in graded:
                words = self.words(text)
                titles = [self.words(text[low:high]) for low, high in divided(text)]
                header = titles if len(titles) > 1 and any(title.bases for title in titles) else []
                names = [self.words(found) for found in re.findall(r"(?<!\S)[^\W\d_]_?\d{1,2}(?!\S)", text)]
                header = names if len(names) > 1 and all(name.bases and name.tokens for name in names) else header
                above = words if (words.bases or words.tokens) and len(set(words.bases)) < 4 else above
            end = 0
            tokens: tuple[int, ...] = ()
            for group in runs:
                own = self.words(text[end : group[0].start()])
                joined = end > 0 and _SEPARATOR.fullmatch(text, end, group[0].start()) is not None
                tokens = own.tokens or tokens
                end = group[-1].end()
                entries = _entries([found.group() for found in group], number)
                run += 1
                columns = divided(text) if header else []
                for position, (found, entry) in enumerate(zip(group, entries, strict=True)):
                    title = Words()
                    if header and len(columns) % len(header) == 0:  # Q, K, V over six columns: two for each
                        titles = [word for word in header for _ in range(len(columns) // len(header))]
                        title = next((w for (low, high), w in zip(columns, titles, strict=True)
                                      if low <= found.start() <= high), title)  # fmt: skip
                    k = at.get(start + _digit(found))
                    fixed = self.original(self.ledger.cells.get(k)) if k is not None else None
                    count += 1
                    if entry is not None and count <= MOST_ITEMS:
                        yield TextNumber(
                            number, found.start(), run, entry, fixed,
                            Words((*title.bases, *own.bases), tokens or title.tokens), above,
                            head, position, len(group), joined, _is_result(text, found),
                        )  # fmt: skip

    def original(self, place: Place | None) -> Place | None:
        """Return the cell of which another is a copy: the only head's O is H."""
        if place is None or place[0] not in self.aligner.plan or self.aligner.plan[place[0]].op != "copy":
            return place
        return self.original((self.aligner.plan[place[0]].inputs[0], *place[1:]))

    def runs(
        self, text: str, start: int, line: list[re.Match[str]], at: Mapping[int, int], graded: bool
    ) -> Iterator[list[re.Match[str]]]:
        """Yield the runs of numbers of a line that are graded, not read, or the result of a calculation."""
        run: list[re.Match[str]] = []
        for found in line:
            k = at.get(start + _digit(found))
            owner = self.ledger.owner[k] if k is not None else None
            usable = (
                owner is None or k in self.ledger.cells
                or (owner == "arithmetic" and not graded and _is_result(text, found))
            ) and not (owner is None and k is not None and self.ledger.is_label(k))  # fmt: skip
            usable = usable and not _ROOT.search(text[max(0, found.start() - 12) : found.start()])
            ends = bool(run) and (
                not _SEPARATOR.fullmatch(text, run[-1].end(), found.start())
                or _ROW_ENDS.search(text, run[-1].end(), found.start()) is not None
            )
            if run and (not usable or ends):
                yield run
                run = []
            if usable:
                run.append(found)
                if len(run) == LONGEST_RUN:
                    yield run
                    run = []
        if run:
            yield run

    def words(self, text: str) -> Words:
        """Return the steps and tokens that the words of a line name."""
        text = text[-200:].replace("_", " ")
        names = [(found.start(), NAMES.get(found.group().lower(), ())) for found in re.finditer(r"[^\W\d_]+", text)
                 if (len(found.group()) > 1 or _is_symbol(text, found)) and not topics(found.group())]  # fmt: skip
        bases = [base for _, several in sorted(names, reverse=True) for base in several]
        if _QUERY_KEY.search(text) or _KEY_QUERY.search(text):
            bases = list(RAW)
        spoken = dict.fromkeys(base for base in (*bases, *topics(text)) if base in self.known)
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
            pattern = rf"(?<![\w]){re.escape(word)}(?![\w'’])(?! (?!(?:and|with|und|mit|et|avec)\b)[^\W\d_])"
            found += [(match.start(), k) for match in re.finditer(pattern, low)]
        yield from (k for _, k in sorted(found))

    # -- weighing ----------------------------------------------------------------------------------------------------

    def weigh(self, items: list[TextNumber], cells: Cells, mistaken: Mapping[str, Matrix[Any]]) -> None:
        """Set how much better each cell explains each number than chance."""
        exact, computed = self.aligner.exact, self.aligner.verdicts().computed
        values = Values()
        for symbol in cells.shapes:
            values.add(symbol, exact[symbol])
            if symbol in computed:
                values.add(symbol, computed[symbol], unless=exact[symbol])
            if symbol in mistaken and mistaken[symbol].shape == exact[symbol].shape:
                values.add(symbol, mistaken[symbol], unless=exact[symbol])
        values.sort()
        answered = self.answered()
        for k, item in enumerate(items):
            if item.place is not None:
                item.places = {item.place: 1.0}
                continue
            rare = 1 / chance(item.entry)
            found = {
                place: rare * close * self.hint(item, place, cells) * (0.05 if place in answered else 1)
                for place, close in values.of(item.entry, item.result).items()
            }
            found = {at: weight for at, weight in found.items() if weight > 0 and at[0] not in item.banned}
            kept = sorted(found, key=lambda place: -found[place])[:MOST_PLACES]
            item.places = {place: found[place] for place in kept}
            item.agreeing = frozenset(kept)
            last = items[k - 1] if k else None
            before = sorted(last.places, key=lambda p: -last.places[p])[:MOST_STATES // 4] if last is not None else []
            for place in before:
                for after in cells.next(place, _between(items, k)):
                    item.places.setdefault(after, WRONG)

    def complete(self, items: list[TextNumber]) -> None:
        """Assign the other numbers of a block of which some rows are assigned: its columns are lines of steps.

        In a block of runs of one length, each column is one component of a step, for one token after the other. A
        number that does not agree with its cell is wrong if most of the numbers of that step in the block agree.
        """
        for block in blocks(items):
            rows = rows_of(block)
            if len(rows) < 2 or len({len(row) for row in rows}) > 1:
                continue
            answered = self.answered() | {item.place for item in items if item.place is not None}
            for axis in (1, 2):  # the index that counts the rows of the block
                columns: list[set[tuple[str, int, int]]] = [set() for _ in rows[0]]
                for r, row in enumerate(rows):
                    for c, item in enumerate(row):
                        if item.place is not None:
                            symbol, *at = item.place[0], item.place[1], item.place[2]
                            columns[c].add((symbol, at[2 - axis], at[axis - 1] - r))
                known = [next(iter(column))[:2] for column in columns if len(column) == 1]
                if len(known) < sum(map(bool, columns)) or not known or len(set(known)) < len(known):
                    continue
                for c, column in enumerate(columns):
                    if not column and c and len(columns[c - 1]) == 1:
                        symbol, other, offset = next(iter(columns[c - 1]))
                        if (symbol, other + 1) not in known:
                            column.add((symbol, other + 1, offset))
                self.fill(rows, columns, axis, answered)

    def fill(
        self, rows: list[list[TextNumber]], columns: list[set[tuple[str, int, int]]], axis: int, answered: set[Place]
    ) -> None:
        exact, computed = self.aligner.exact, self.aligner.verdicts().computed
        open_cells: dict[str, list[tuple[TextNumber, Place, bool]]] = {}
        good: dict[str, int] = {}
        for r, row in enumerate(rows):
            for item, column in zip(row, columns, strict=True):
                if item.place is not None:
                    good[item.place[0]] = good.get(item.place[0], 0) + 1
                for symbol, other, offset in column if item.place is None else ():
                    at = (r + offset, other) if axis == 1 else (other, r + offset)
                    shape = exact[symbol].shape
                    if all(0 <= k < n for k, n in zip(at, shape, strict=True)) and (symbol, *at) not in answered:
                        values = [exact[symbol][at], *([computed[symbol][at]] if symbol in computed else [])]
                        same = any(agrees(value, item.entry) for value in values)
                        open_cells.setdefault(symbol, []).append((item, (symbol, *at), same))
        for symbol, found in open_cells.items():
            agreeing = good.get(symbol, 0) + sum(same for _, _, same in found)
            wrong = sum(not same for _, _, same in found)
            if agreeing > max(1, wrong) and (
                not wrong or (symbol in self.aligner.plan and not contradicts(rows[0][0].own, symbol))
            ):
                for item, place, _ in found:
                    item.found = place

    def titled(self, items: list[TextNumber], cells: Cells) -> bool:
        """Assign a block of numbers of the size of the step that the line right above it names, whatever they are."""
        found = False
        for block in blocks(items):
            rows, first = rows_of(block), block[0]
            line = self.ledger.lines[first.line - 2] if first.line > 1 else ""
            if len(rows) < 2 or all(item.place is not None for item in block) or not _TITLE.fullmatch(line):
                continue
            named = self.words(line).bases
            fitting = [s for s in cells.shapes if base_of(s) in named[:1] and s in self.aligner.plan
                       and self.aligner.exact[s].shape == (len(rows), len(rows[0]))]  # fmt: skip
            if len({len(row) for row in rows}) > 1 or len(fitting) != 1:
                continue
            wanted = {(fitting[0], i, j): item for i, row in enumerate(rows) for j, item in enumerate(row)}
            others = self.answered() - {item.found for item in block if item.found is not None}
            if others & wanted.keys() or any(item.place not in (None, at) for at, item in wanted.items()):
                continue
            for at, item in wanted.items():
                item.found = at
            found = True
        if found:
            self.put(items)
        return found

    def judge(self, items: list[TextNumber]) -> None:
        """Accept a wrong number where its cell is certain: in a block of runs in which most numbers agree."""
        for block in blocks(items):
            good: dict[str, int] = {}
            bad: dict[str, list[TextNumber]] = {}
            for item in block:
                if item.place is not None:
                    good[item.place[0]] = good.get(item.place[0], 0) + 1
                elif item.wrong is not None:
                    bad.setdefault(item.wrong[0], []).append(item)
            for symbol, wrong in bad.items():
                if contradicts(block[0].own, symbol):
                    continue
                taken = {item.place for item in block if item.place is not None}
                if 2 <= good.get(symbol, 0) > len(wrong) and symbol in self.aligner.plan:
                    for item in wrong:
                        if item.wrong not in taken and item.wrong not in self.answered():
                            item.found = item.wrong

    def answered(self) -> set[Place]:
        placed = self.aligner.alignment.placed
        return {(p.symbol, *at) for p in placed if p.role == "answer" for at in p.cells}

    def hint(self, item: TextNumber, place: Place, cells: Cells) -> float:
        """Return how much the words around a number favour a cell."""
        symbol, token, component = cells.split(place)
        base, weight = base_of(symbol), 1.0
        for words, strong in ((item.own, 6.0), (item.above, 2.0)):
            if words.bases:
                weight *= strong if base in words.bases else 1 / strong
        if item.own.tokens:
            weight *= 4.0 if item.own.tokens[-1] in (token, component) else 0.25
        elif item.above.tokens:
            weight *= 2.0 if token == item.above.tokens[-1] else 0.5
        tokens, width = cells.shapes[symbol]
        if item.length > 1 and item.length in (tokens, width):  # a run as long as a line begins where the line does
            fits = (item.length, item.position) in ((width, component), (tokens, token))
            weight *= 2.0 if fits else 0.1
        if item.matrix and item.length == tokens == width and base in SQUARE:
            # the transpose of weights by query and key is another matrix, that of others only a way to write them
            weight *= item.position == place[1 if self.aligner.transposed else 2]
        if item.head is not None and symbol != base and not symbol.endswith(str(item.head)):
            weight *= 0.1
        return weight

    def put(self, items: list[TextNumber]) -> None:
        """Place the numbers that were assigned, those of one step that follow one another together.

        A number that a statement gives for a cell is not replaced by another one. If different numbers were assigned to
        one cell, for example the exact value and the one that follows, neither place is certain.
        """
        alignment = self.aligner.alignment
        alignment.placed[:] = [each for each in alignment.placed if each not in self.placed]
        self.placed.clear()
        answers = [each for each in alignment.placed if each.role == "answer"]
        stated = {(each.symbol, *at): entry for each in answers for at, entry in each.cells.items()}
        for number in items:
            if number.found in stated and not agree(stated[number.found], number.entry):
                number.found = None
        for number in contradicting(items):
            number.found = None
        group: list[TextNumber] = []
        for item in [*items, None]:
            last = group[-1] if group else None
            joins = item is not None and last is not None and item.found is not None and last.found is not None and (
                item.found[0] == last.found[0] and item.line <= last.line + 2
            )  # fmt: skip
            if group and not joins:
                self.placed.append(self.placement(group))
                group = []
            if item is not None and item.found is not None:
                group.append(item)
        alignment.placed += self.placed
        self.aligner.cached = None

    def placement(self, group: list[TextNumber]) -> Placement:
        symbol = group[0].found[0] if group[0].found is not None else ""
        entries = {(item.found[1], item.found[2]): item.entry for item in group if item.found is not None}
        source = " ".join(self.ledger.lines[group[0].line - 1].split())[:200]
        return Placement(symbol, entries, group[0].line, source)


def decode(items: list[TextNumber], cells: Cells) -> list[dict[Place, float]]:
    """Return the posterior probability of every cell for each number, by the forward-backward algorithm.

    A state is the last cell of the path, and whether numbers that are no answers follow it: in a run, mostly all
    numbers are answers or none is.
    """
    states: list[dict[State, float]] = [{(None, False): 1.0}]
    moves: list[dict[Place, float]] = []
    scales: list[float] = []
    between = [_between(items, k) for k in range(len(items))]
    for k, item in enumerate(items):
        before = states[-1]
        together = between[k] == TOGETHER
        ready = {state: share * _leaves(state, together) for state, share in before.items()}
        total = sum(ready.values())
        here = {place: total * cells.jump(place, between[k]) * weight for place, weight in item.places.items()}
        for (last, _), share in ready.items():
            after = cells.after(last, between[k]) if last is not None else {}
            for place in item.places.keys() & after.keys():
                here[place] += share * after[place] * item.places[place]
        now: dict[State, float] = {}
        for state, share in before.items():
            stays = (state[0], True)
            now[stays] = now.get(stays, 0.0) + share * _noise(state, together, item)
        for place, share in here.items():
            now[place, False] = now.get((place, False), 0.0) + share
        kept = sorted(now, key=lambda state: -now[state])[:MOST_STATES]
        scale = sum(now[state] for state in kept)
        states.append({state: now[state] / scale for state in kept if now[state] > 1e-12 * scale})
        moves.append(here)
        scales.append(scale)
    posteriors: list[dict[Place, float]] = []
    later: dict[State, float] = dict.fromkeys(states[-1], 1.0)
    for k in range(len(items) - 1, -1, -1):
        item, together = items[k], between[k] == TOGETHER
        onward = {place: weight * later.get((place, False), 0.0) for place, weight in item.places.items()}
        shares = moves[k].items()
        posteriors.append({place: share / scales[k] * later.get((place, False), 0.0) for place, share in shares})
        jumps = sum(weight * cells.jump(place, between[k]) for place, weight in onward.items())
        earlier: dict[State, float] = {}
        for state in states[k]:
            after = cells.after(state[0], between[k]) if state[0] is not None else {}
            moved = jumps + sum(onward[place] * after[place] for place in onward.keys() & after.keys())
            stayed = _noise(state, together, item) * later.get((state[0], True), 0.0)
            earlier[state] = (stayed + moved * _leaves(state, together)) / scales[k]
        later = earlier
    return posteriors[::-1]


def _noise(state: State, together: bool, item: TextNumber) -> float:
    """Return how likely the next number is no answer."""
    if item.place is not None:
        return 1e-12
    return (NOISE_GOES_ON if state[1] else NOISE_BEGINS) if together else NOISE


def _leaves(state: State, together: bool) -> float:
    """Return how likely the next number is an answer."""
    return 1 - NOISE_GOES_ON if together and state[1] else 1.0


def _between(items: list[TextNumber], k: int) -> int:
    if k == 0:
        return SINGLE
    if items[k - 1].run == items[k].run:
        return TOGETHER
    return APART if k > 1 and items[k - 2].run == items[k - 1].run else SINGLE


def blocks(items: list[TextNumber]) -> Iterator[list[TextNumber]]:
    """Yield the numbers of runs of one length on consecutive lines."""
    runs: dict[int, list[TextNumber]] = {}
    for item in items:
        runs.setdefault(item.run, []).append(item)
    block: list[list[TextNumber]] = []
    for run in runs.values():
        beside = bool(block) and run[0].line == block[-1][-1].line and not run[0].joined
        if block and (len(run) != len(block[-1]) or run[0].line > block[-1][-1].line + 2 or beside
                      or run[0].own.bases not in ((), block[0][0].own.bases)):  # fmt: skip
            yield [item for each in block for item in each]
            block = []
        block.append(run)
    yield [item for each in block for item in each]


def divided(text: str) -> list[tuple[int, int]]:
    """Return the cells of a line of a table, divided by tabs, bars, commas, semicolons or at least two spaces."""
    divider = next((mark for mark in ("\t", "|", "&", ";", ",") if mark in text), "")
    ends = [found.span() for found in re.finditer(re.escape(divider) if divider else r"\s{2,}", text)]
    spans = list(zip([0, *(end for _, end in ends)], [*(start for start, _ in ends), len(text)], strict=True))
    while spans and not text[slice(*spans[0])].strip():
        del spans[0]
    while spans and not text[slice(*spans[-1])].strip():
        del spans[-1]
    return spans


def settle(
    item: TextNumber, posterior: Mapping[Place, float], taken: Container[Place]
) -> tuple[Place | None, Place | None]:
    """Return the cell in which a number is right, if that is certain, and the one in which it would be wrong.

    If it is certain only that it is one of several cells of a step with that value, the likeliest free one is meant.
    """
    best = max(posterior, key=lambda place: posterior[place])
    if posterior[best] >= CERTAIN:
        return (best, None) if best in item.agreeing else (None, best)
    base = base_of(best[0])
    right = {p: share for p, share in posterior.items() if p in item.agreeing and base_of(p[0]) == base}
    free = [place for place in right if place not in taken]
    if sum(right.values()) < CERTAIN or not free:
        return None, None
    return max(free, key=lambda place: right[place]), None


def rows_of(block: list[TextNumber]) -> list[list[TextNumber]]:
    rows: list[list[TextNumber]] = []
    for item in block:
        if not rows or rows[-1][0].run != item.run:
            rows.append([])
        rows[-1].append(item)
    return rows


def contradicts(words: Words, symbol: str) -> bool:
    """Return whether the words before a block name other steps: its numbers are then not wrong ones of this step."""
    return bool(words.bases) and base_of(symbol) not in words.bases


def repeated(items: list[TextNumber]) -> list[TextNumber]:
    """Return the numbers of a block that were assigned to a cell which another number before it in the block has."""
    found = []
    for block in blocks(items):
        seen: set[Place] = set()
        for item in block:
            if item.found is not None and item.found in seen:
                found.append(item)
            seen |= {item.place} if item.place is not None else set()
    return found


def contradicting(items: list[TextNumber]) -> list[TextNumber]:
    """Return the numbers that were assigned to a cell to which a different number was assigned as well."""
    cells: dict[Place, list[TextNumber]] = {}
    for item in items:
        if item.found is not None:
            cells.setdefault(item.found, []).append(item)
    return [item for several in cells.values() for item in several
            if not all(agree(item.entry, other.entry) for other in several)]  # fmt: skip


def isolated(items: list[TextNumber]) -> list[TextNumber]:
    """Return the numbers in runs that were assigned to a cell, but none next to it to a cell next to that one."""
    found = []
    for block in blocks(items):
        rows = rows_of(block)
        for r, row in enumerate(rows):
            for c, item in enumerate(row if len(row) > 1 else ()):
                near = [row[k] for k in (c - 1, c + 1) if 0 <= k < len(row)]
                near += [rows[k][c] for k in (r - 1, r + 1) if 0 <= k < len(rows) and c < len(rows[k])]
                if item.found is not None and not any(adjacent(item.found, other.place) for other in near):
                    found.append(item)
    return found


def adjacent(place: Place, other: Place | None) -> bool:
    """Return whether two cells are neighbours in a row or a column of one step."""
    return other is not None and place[0] == other[0] and (
        abs(place[1] - other[1]) + abs(place[2] - other[2]) == 1
    )  # fmt: skip


def _same(a: Any, b: Any) -> bool:
    return a is b or (b is not MASKED and b is not None and bool(a.overlaps(b)))


def _digit(found: re.Match[str]) -> int:
    """Return where the digits of a number begin."""
    digit = re.search(r"\.?\d", found.group())
    return found.start() + (digit.start() if digit is not None else 0)


def _is_result(text: str, found: re.Match[str]) -> bool:
    return _RESULT.search(text[: found.start()]) is not None and _GOES_ON.match(text, found.end()) is None


def _is_symbol(text: str, found: re.Match[str]) -> bool:
    """Return whether a letter stands for a quantity: before an index or a relation, or at the start of the line."""
    return not text[: found.start()].strip(" \t-*•#(") or _AFTER_SYMBOL.match(text, found.end()) is not None


def _entries(texts: list[str], line: int) -> list[Entry | None]:
    """Return the numbers of a run as entries; None where one cannot be read."""
    terms = []
    for text in texts:
        read = parse_formula(text.replace("\\%", "%"), line)
        if read.problems or len(read.drafts) != 1 or len(read.drafts[0].terms) != 1:
            return [None] * len(texts)
        terms.append(read.drafts[0].terms[0].term)
    found = table(Link(line, "", Array((tuple(terms),), flat=True)))
    return [None] * len(texts) if found is None else list(found.rows[0])
