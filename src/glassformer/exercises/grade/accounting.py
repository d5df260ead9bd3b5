"""Accounting: every number of a document is graded, checked as arithmetic, recognised, or listed as unread.

Numbers are counted in the text itself, independently of the reader; each is claimed by exactly one class, in the
order above. Unclaimed numbers are unread, and listed with their line and a reason.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from glassformer.exercises.expression import Expression, Name, Number, walk
from glassformer.exercises.grade.vocabulary import topics
from glassformer.exercises.reader import Unread

Cell = tuple[str, int, int]  # symbol, row and column, counted from 0
NUMBER = re.compile(r"\d+(?:\.\d+)?|\.\d+")
NEAR = 30  # lines within which a number that is not a label is preferred
MOST_LISTED = 40  # maximum number of lines with numbers listed individually
_MONTHS = (
    "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez|janv|févr|fév|avr|juin|juil|août|déc|gen|mag|giu|lug|ago|"
    "set|ott|dic|ene|abr"
)
# words before a number that make it a label or an index
_LABEL = re.compile(
    r"(?:\b(?:tokens?|heads?|need|rows?|columns?|quer(?:y|ies)|keys?|values?|requêtes?|clés?|lignes?|zeilen?|spalten?|schlüssel|reports?|pos(?:itions?)?|patch(?:es)?|bins?|steps?|tasks?|exercises?|ex\.|exercice|esercizio|ejercicio|aufgabe|devoir|compito|tarea|hoja|blatt|blad|bladzijde|opgave|problema|words?|lecture|slides?|p\.~?|n°|grupo|gruppe|groupe|pages?|parts?|"
    r"questions?|homeworks?|assignments?|hw|lab|lines?|figures?|fig\.|tables?|sections?|problems?|sheet|week|layers?|chapter|group|student|id|no\.?|number|nr\.?|"
    r"eq\.?|equation|version|index|indices|d_?k|dim(?:ension)?s?|width|size|digits|decimals|places)"
    r"\s*[#:=(]*\s*(?:\d+\s*(?:,\s|and|und|et|&|to|of|/|-|–)\s*)*|\b(?:token|row|position)s\s+(?:\d+,)*|[A-Za-z]_?\{?|\b[ijklmnst]\s*=\s*|[_^]\{?[^{}]{0,20}|#+\s*"
    rf"|\b(?:{_MONTHS})[a-zäéû]*\.?\s+)$",
    re.I,
)
# the scale in words: "divided by the square root of 2"
_ROOT = re.compile(
    r"(?:√|\\sqrt|\b(?:sqrt|root|wurzel|racine|radice|raíz)(?:\s+(?:of|aus|de|di|carrée|quadrata|cuadrada))*)"
    r"\s*[({]?\s*$",
    re.I,
)
# properties of every softargmax: the rows sum to 1, each weight is between 0 and 1; and a component that is 0 or 1
_UNITY = re.compile(
    r"\b(?:sums?|add(?:s|ing)?(?: up)?|summ(?:e|iert sich|ieren sich)|somma|suma|somme|total)\s+"
    r"(?:up\s+)?(?:to|auf|zu|a|is|=)?\s*(?:exactly|nearly|approximately|about|always)?\s*$|\bbetween\s+(?:0\s+and\s+)?$"
    r"|\b(?:component|coordinate|column|entry)\b[^.]*\b(?:is|are|be|becomes?)\s*$"
    r"|\b(?:row sums?|zeilensummen?)\b[^.\d]{0,40}\b(?:is|are|ist|sind)\s+\$?$"
    r"|\bmasked\s+[^.\d]{0,30}\b(?:gives?|are|is|become)\s+$",
    re.I,
)
_OVER_ROOT = re.compile(r"^\s*/\s*(?:√|\\?sqrt)")  # 1/√d_k
_TITLED = re.compile(r"(?:^|[\s({\[,;:–—*_/])([A-ZÀ-Þ][\w'’-]+)\s+$")  # Aufgabe 3, NeurIPS 30
# keyword arguments and subscripts of code: softmax(S, dim=-1), heads[-1], A[0, :]
_CODE = re.compile(
    r"\b(?:axis|dim|keepdims?|ddof|decimals|precision|digits)\s*=\s*[-−]?$|[A-Za-z]\w*\[(?:[-\d]*[:,]\s*)?[-−]?$"
    r"|\b(?:sum|mean|max|min|softmax|cat|round)\([^=\n]*,\s*[-−]?$|\w\.(?:sum|mean|max|min|softmax|round|evalf)\([-−]?$"
    r"|\bsize\(\w{1,20},\s?$|(?:torch\.Size\(\[|\bshape\b\W{0,4}|\brepmat\()[\w, ]{0,12}$|\brange\([\d, ]{0,12}$"
    r"|\{\w{1,10} ?[+-] ?$|\{\w{1,10}:\.$"
)
_ADDRESS = re.compile(r"(?:\b(?:https?|file)://|www\.|\w@)\S*$|^Page header or footer:.*$")
_UNIT = re.compile(
    rf"^(?:\s*(?:minutes?|min|hours?|h|features|jetons?|cm|mm|pt|em|px|ex|bits?|tokens?|heads?|rows?|columns?|decimals?|digits|places|points?|dimensions?|"
    rf"parameters|layers?|patches|operations|th|st|nd|rd|a\.?m\.?|p\.?m\.?)\b|\s*(?:[x×]|\\times)\s*\d|[./:-]\d+[./:-]\d|"
    rf"\s+as (?:the )?(?:first|second|third|last) (?:component|coordinate|entry)|"
    rf":\d\d\b|\.?\s+(?:de\s+)?(?:{_MONTHS})[a-zäéû]*\b)",
    re.I,
)
_DATES = re.compile(
    r"(?<![\d.,])(?:\d{1,2}([./])\d{1,2}\1(?:\d{4}|\d\d)|\d{1,2}\.(\s|\\,)\d{1,2}\.\2(?:19|20)\d\d"
    r"|(?:19|20)\d\d-\d\d?-\d\d?|\d{1,2}\.\d{1,3}\.\d{1,3})(?![\d.,]*\d)"  # also versions, 2.13.0
)
# the number of a section or an exercise: 2.1 Queries, Exercise 7.1; a version
_NUMBERED = re.compile(
    r"\b(?:exercises?|problems?|sections?|tasks?|questions?|aufgabe|exercice|esercizio|thm\.|theorem|version)[\s~]+v?(?:\d+)?$",
    re.I,
)
_SIZE = re.compile(r"\d\s*(?:[x×]|\\times)\s*$")
_DATE = re.compile(r"(?:\d{1,4}[./:-]){1,2}$|:\d\d\s*[+-]$")
_LIST_ITEM = re.compile(r"[.)](?:\*\*|__)?\s")
_WORD_LABEL = re.compile(
    r"(?:\b(?:(?:token|row|position)s\s+(?:\d+,)*|(?:tokens?|heads?|rows?|columns?|query|key|value|pos(?:itions?)?|step|dim)\s+(?:\d+\s*(?:,\s|and|&)\s*)*|[ij]\s*=\s*"
    r"|[A-Za-z])|_\{?|_(?:\w|\{\w{1,3}\})\^\{?)$", re.I
)
_IN_CELL = re.compile(r"(^|[,;\t]|\|\s?)([^\W\d_]{2,15})\s$")  # patch 1, in a cell of a table
_CELL_END = re.compile(r"[,;\t](?!\s)|\s*\|")
_ITEM = re.compile(r"^\s*(?:[>*#-]+\s*)?\(?$")
_ITEM_OF_TABLE = re.compile(r"^\s*\|?\s*$")  # the number of a row
_NEXT_CELL = re.compile(r"^\s*[&|]")
_ITEM_END = re.compile(r"^(?:[.)]|\s*$)(?!\d)")
_COUNTER_NAMES = ("token", "row", "column", "col", "position", "index", "head", "i", "j")
# the head of a table with a line for each query, or each query and key; its first columns are indices
_PAIR_TABLE = re.compile(
    r"^(?:\|\s*(?:quer(?:y|ies)|i|row|token|from)\s*\|\s*(?P<columns>keys?|j|column|to|attends to)\s*\|"
    r"|(?:quer(?:y|ies)|i|row|token)[,;\t]\s*(?:(?P<pair>keys?|j|column)\b|[A-Za-z ]+?[ _]?1[,;\t]))",
    re.I,
)
_YEAR = re.compile(r"(?:19|20)\d\d$")
_MATRICULATION = re.compile(r"\d{6,10}$")
_STUDENT = re.compile(  # Matrikelnummer 3 471 902
    r"(?:\b(?:matrikel|matriculation|student|immatrikulation)\w*|\bn\.?\s?º)[\s.:#]*(?:nummer|number|no|nr|id)?"
    r"[\s.:#]*(?:\d{1,3}\s){0,3}$", re.I
)  # fmt: skip
# the number of a heading: ## 7.3 LayerNorm, \subsection*{3.1 Scores}, 2 Scaled scores
_HEADING = re.compile(r"^\s*(?:#{1,6}\s+|\\(?:sub)*(?:section|paragraph)\*?\{\s*)$")
_HEADING_WORD = re.compile(r"^\s+[A-ZÀ-Þ][^\W\d_]{2,}(?![^\n]*[=≈])")
_REFERENCE = re.compile(r"\b(?:from|in|see|of|by|aus|siehe)\s+\(?$", re.I)
_TABLE_RULE = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-+:?\s*)+\|?\s*$")
_EXPONENT = re.compile(r"\d[eE][+-]?$")  # 3.6e+19
_FORMULA = re.compile(r'^\s*"formula": "')  # of a step in a solution's own JSON
_UNCERTAINTY = re.compile(r"(?:±|\\pm|\b(?:up to|to within))\s*$")
_MARKUP = re.compile(
    r"\\(?:begin|end|vspace|hspace|multicolumn|cline|usepackage|documentclass|setlength)\b[^\n&]*$|<[^>\n]*$"
)
# sentences about the result, as written by `solve`
_COMMENTARY = re.compile(r"\bentropy\b|\battends? most\b|\bround(?:ed)? to \w+ (?:digits|decimals)", re.I)
_SUPPOSED = re.compile(
    r"\b(?:if|suppose|assume|for example|for instance|such as|say|bijvoorbeeld)\b[^.;]*$|\be\.g\.[^.;]*$", re.I
)
_ASIDES = (_ADDRESS, _EXPONENT, _FORMULA, _UNCERTAINTY, _MARKUP, _SUPPOSED)


@dataclass(frozen=True, slots=True)
class Accounting:
    """The number of a document's numbers in each class; the classes add up to the total."""

    graded: int = 0
    arithmetic: int = 0
    recognised: int = 0
    unread: int = 0

    @property
    def total(self) -> int:
        return self.graded + self.arithmetic + self.recognised + self.unread


@dataclass(frozen=True, slots=True)
class UnreadNumber:
    """A number that could not be read: its position in the text, its line, its value and its digits after the point."""

    position: int
    line: int
    value: Fraction
    places: int

    @property
    def telling(self) -> bool:
        """Return whether it has at least three digits, so that it may be the result of a step."""
        return len(str(abs(self.value.numerator * 10**self.places // self.value.denominator)).strip("0")) > 2


class Ledger:
    """The numbers of a text, each claimed at most once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line) + 1)
        self.starts = starts
        self.places = [(found.start(), found.end(), found.group()) for found in NUMBER.finditer(text)]
        self.line = [bisect_left(starts, start + 1) for start, _, _ in self.places]
        self.labels: dict[int, bool] = {}
        self.words: dict[int, int] = {}
        self.owner: list[str | None] = [None] * len(self.places)
        self.claimed: dict[tuple[int, int], tuple[Number, int]] = {}  # a term by its identity and line, and its number
        self.named: dict[tuple[int, int], Name] = {}  # a name by its identity and line, whose indices are recognised
        self.cells: dict[int, Cell] = {}  # where the graded numbers are graded
        self.pairs = frozenset(self.indices_of_pairs())
        self.numbered_columns = frozenset(self.table_heads(ruled=True))
        self.by_value: dict[Fraction, list[int]] = {}
        for k, (_, _, number) in enumerate(self.places):
            self.by_value.setdefault(Fraction(number), []).append(k)

    def line_of(self, k: int) -> int:
        return self.line[k]

    def claim(self, term: Expression, line: int, owner: str, cell: Cell | None = None) -> None:
        """Claim all numbers of a term located at `line` or soon after it, for the cell that it fills."""
        for part in walk(term):
            if isinstance(part, Number):
                if (id(part), line) in self.claimed:  # a result is graded, and then checked as arithmetic
                    continue
                k = self.claim_number(part, line, owner)
                if k is not None:
                    self.claimed[id(part), line] = part, k
                if cell is not None and k is not None:
                    self.cells[k] = cell
            elif isinstance(part, Name) and (id(part), line) not in self.named:
                self.named[id(part), line] = part
                for index in (*part.indices, *part.upper):
                    if isinstance(index, int):
                        self._nearest(Fraction(index), line, "recognised", 3, label=True)

    def claim_number(self, number: Number, line: int, owner: str) -> int | None:
        """Claim a number and return its position among all numbers; None if it is not there."""
        digits = NUMBER.search(number.text)
        wanted = Fraction(digits.group()) if digits else abs(number.value)
        text = digits.group() if digits else ""
        for value, written in ((wanted, text), (abs(number.value), "")):
            k = self._nearest(value, line, owner, 400, written)
            if k is not None:
                return k
        whole, point, after = number.text.lstrip("+-−").partition(".")
        if point and after.isdigit():  # a decimal comma: two numbers of the text form one
            for k in self.by_value.get(Fraction(whole or "0"), []):
                here = self.owner[k] is None and k + 1 < len(self.places) and self.owner[k + 1] is None
                between = self.text[self.places[k][1] : self.places[k + 1][0]] if here else ""
                if between in (",", "{,}") and self.places[k + 1][2] == after and self.line_of(k) >= line:
                    self.owner[k] = self.owner[k + 1] = owner
                    return k
        return None

    def _nearest(
        self, value: Fraction, line: int, owner: str, reach: int, text: str = "", label: bool = False
    ) -> int | None:
        """Claim the first unclaimed number of that value from `line` on, within `reach` lines.

        Among those of the next lines, one that is not a label (or is one) and is written as `text` comes first.
        """
        positions = self.by_value.get(value, [])
        best, badness, last = -1, (True, True, True), line + reach
        for at in range(bisect_left(positions, line, key=self.line_of), len(positions)):
            k = positions[at]
            if self.line_of(k) > last:
                break
            if self.owner[k] is not None:
                continue
            if best < 0:
                last = min(last, self.line_of(k) + NEAR)
            this = (False, self.is_label(k) != label, self.places[k][2] != text)
            if this < badness:
                best, badness, index = k, this, at
            if not any(badness):
                break
        if best < 0:
            return None
        del positions[index]
        self.owner[best] = owner
        return best

    def is_label(self, k: int) -> bool:
        """Return whether a whole number directly follows a word such as "query" or "row"."""
        if k not in self.labels:
            self.labels[k] = self._is_label(k)
        return self.labels[k]

    def _is_label(self, k: int) -> bool:
        start, end, number = self.places[k]
        if "." in number:
            return False
        if k in self.pairs or self.line_of(k) in self.numbered_columns:
            return True
        before = self.text[max(self.starts[self.line_of(k) - 1], start - 40) : start]
        if self.ends_label(before, self.text[end : end + 20].split("\n")[0]):
            return True
        item = len(before) < 10 and _ITEM.match(before) and _LIST_ITEM.match(self.text, end)
        return bool(item) or _WORD_LABEL.search(before[-20:]) is not None

    @staticmethod
    def ends_label(before: str, after: str) -> bool:
        """Return whether a number ends a cell of a table that begins with a word for a token: patch 1."""
        found = _IN_CELL.search(before[-40:])
        if found is None or not set(topics(found[2])) <= {"P", "n", "X"}:
            return False
        return _CELL_END.match(after) is not None or (bool(found[1]) and not after.strip())

    def recognise(
        self, question: str = "", known: Collection[Fraction] = (), unread: Collection[int] = ()
    ) -> None:
        """Recognise labels, indices, sizes, dates, markup and the exercise's own text among the unclaimed numbers.

        `known` are numbers of the solution that prose may repeat: "it attends to the first token most (0.79)"; in lines
        that are reported as `unread` they are not taken as such.
        """
        for k in self.counters_of_table():
            self.owner[k] = "recognised"
        preamble = self.text.find(r"\begin{document}")
        asked = [part for part in map(_plain, re.split(r"[.?!]\s+|\n", question)) if any(map(str.isdigit, part))]
        asides = {
            number for number, line in enumerate(self.lines, 1)
            if _COMMENTARY.search(line) or any(part in _plain(line) for part in asked)
        }  # fmt: skip
        heads = set(self.table_heads()) | self.numbered_columns
        headings = {self.places[k][2] for k in range(len(self.places)) if self.is_heading(k)}
        dates = [found.span() for found in _DATES.finditer(self.text)]
        for k, (start, end, number) in enumerate(self.places):
            if self.owner[k] is not None:
                continue
            line = self.line_of(k)
            if start < preamble or line in asides or any(low <= start < high for low, high in dates):
                self.owner[k] = "recognised"
                continue
            before = self.text[max(self.starts[line - 1], start - 80) : start]
            after = self.text[end : end + 40].split("\n")[0]
            numbered = "." in number and _NUMBERED.search(before) is not None
            numbered = numbered or self.is_heading(k) or _STUDENT.search(before) is not None
            numbered = numbered or ("." in number and number in headings and _REFERENCE.search(before) is not None)
            labelled = "." not in number and (
                _LABEL.search(before) or _UNIT.match(after) or _SIZE.search(before) or _DATE.search(before)
                or (_ITEM.match(before) and _ITEM_END.match(after)) or _YEAR.match(number)
                or (_MATRICULATION.match(number) and not before.endswith("["))
                or (_ITEM_OF_TABLE.match(before) and _NEXT_CELL.match(after)) or line in heads
                or k in self.pairs or _ROOT.search(before) or _OVER_ROOT.match(after) or _CODE.search(before)
                or _is_titled(before) or self.ends_label(before, after)
            )  # fmt: skip
            unity = Fraction(number) in (0, 1) and _UNITY.search(before)
            other = any(aside.search(before) for aside in _ASIDES)
            if labelled or numbered or unity or other or (line not in unread and self.repeats(k, after, known)):
                self.owner[k] = "recognised"

    def is_heading(self, k: int) -> bool:
        """Return whether a number is that of a heading, at the start of its line and before a capitalised word."""
        start, end, number = self.places[k]
        line = self.line_of(k)
        before, after = self.text[self.starts[line - 1] : start], self.text[end : end + 80].split("\n")[0]
        if len(before) > 40 or not _HEADING_WORD.match(after):
            return False
        rest = re.sub(r"\([^()]*\)", "", after)
        plain = "." not in number and len(number) < 3 and not before.strip() and not re.search(r"\d\.\d", rest)
        return plain or _HEADING.match(before) is not None

    def repeats(self, k: int, after: str, known: Collection[Fraction]) -> bool:
        """Return whether a number in a sentence is a known one, rounded: at least two decimals, or percent."""
        number = self.places[k][2]
        percent = after.lstrip().startswith(("%", "\\%"))
        places = len(number.partition(".")[2]) + 2 * percent
        if places < 2 or len(number) < 2 or self.words_in(self.line_of(k)) < 3:
            return False
        value = Fraction(number) / (100 if percent else 1)
        return any(abs(abs(each) - value) <= Fraction(1, 2 * 10**places) for each in known)

    def words_in(self, line: int) -> int:
        """Return the number of words of a line."""
        if line not in self.words:
            self.words[line] = len(re.findall(r"[^\W\d_]{2,}", self.lines[line - 1]))
        return self.words[line]

    def table_heads(self, ruled: bool = False) -> Iterator[int]:
        """Yield the lines of tables whose numbers are 1, 2, 3, … and not claimed: the numbers of the columns.

        With `ruled` only those over the rule of a Markdown table, |---|---|, which is certainly below a header.
        """
        lines: dict[int, list[int]] = {}
        for k in range(len(self.places)):
            lines.setdefault(self.line_of(k), []).append(k)
        for line, found in lines.items():
            shown = self.lines[line - 1]
            numbers = [self.places[k][2] for k in found]
            counted = numbers == [str(n) for n in range(1, len(numbers) + 1)] and len(numbers) > 1
            divided = len(re.findall(r"[&|\t]", shown)) >= len(numbers) - 1
            if ruled and not (line < len(self.lines) and _TABLE_RULE.match(self.lines[line])):
                continue
            if counted and divided and all(self.owner[k] is None for k in found):
                yield line

    def counters_of_table(self) -> list[int]:
        """Return as many unclaimed whole numbers as there are in columns that count tokens or cells.

        Such columns are those of `symbol,row,column,value` or `step;token;…`. A cell with the same value may have
        claimed the counter itself.
        """
        first = next((n for n, line in enumerate(self.lines, 1) if line.strip()), 0)
        names = re.split(r"[,;\t]", self.lines[first - 1].lower()) if first else []
        columns = {column for column, name in enumerate(names) if name.strip(' "') in _COUNTER_NAMES}
        if len(names) < 3:
            return []
        rows = [re.split(r"[,;\t]", line) for line in self.lines[first:]]
        count = sum(row[column].strip(' "').isdigit() for row in rows for column in columns if column < len(row))
        whole = [k for k, (_, _, number) in enumerate(self.places) if self.owner[k] is None and "." not in number]
        return [k for k in whole if self.line_of(k) > first][:count]

    def indices_of_pairs(self) -> Iterator[int]:
        """Yield the numbers that are the indices of a table by query and key, or by query."""
        columns, wanted = 0, {}
        for number, line in enumerate(self.lines, 1):
            head = _PAIR_TABLE.match(line)
            columns = (2 if head["pair"] or head["columns"] else 1) if head else columns if line.strip(" ,;\t") else 0
            wanted[number] = len(line) if head else columns if line.lstrip("| ")[:1].isdigit() else 0
        for k in range(len(self.places)):
            line_number = self.line_of(k)
            if wanted.get(line_number):
                wanted[line_number] -= 1
                yield k

    def leftovers(self) -> Iterator[tuple[int, list[str]]]:
        """Yield (line, numbers) of all unclaimed numbers."""
        found: dict[int, list[str]] = {}
        for k, owner in enumerate(self.owner):
            if owner is None:
                found.setdefault(self.line_of(k), []).append(self.places[k][2])
        yield from found.items()

    def unread_numbers(self) -> list[UnreadNumber]:
        """Return the unread numbers, in their order."""
        found = []
        for k, (start, _, number) in enumerate(self.places):
            if self.owner[k] is None:
                sign = -1 if re.search(r"(?:^|[^\w)\]}.])[-−]$", self.text[max(0, start - 2) : start]) else 1
                places = len(number.partition(".")[2])
                found.append(UnreadNumber(start, self.line_of(k), sign * Fraction(number), places))
        return found

    def positions(self) -> dict[Cell, int]:
        """Return where the number of each graded cell is in the text; the last one, if there are several."""
        return {cell: self.places[k][0] for k, cell in sorted(self.cells.items())}

    def counts(self) -> Accounting:
        of = {name: sum(owner == name for owner in self.owner) for name in ("graded", "arithmetic", "recognised")}
        return Accounting(**of, unread=sum(owner is None for owner in self.owner))

    def unread(self, known: Iterable[Unread]) -> list[Unread]:
        """Return the unread numbers by line: with the known reasons, and a generic one for every other line."""
        known = list(known)
        covered = {item.line + k for item in known for k in range(item.source.count("\n") + 1)}
        listed = list(known)
        rest = [(line, numbers) for line, numbers in self.leftovers() if line not in covered]
        for line, numbers in rest[:MOST_LISTED]:
            count = f"the numbers {', '.join(numbers[:6])}" if len(numbers) > 1 else f"the number {numbers[0]}"
            more = f" and {len(numbers) - 6} more" if len(numbers) > 6 else ""
            reason = f"{count}{more} could not be assigned to a step"
            listed.append(Unread(line, " ".join(self.lines[line - 1].split())[:200], reason))
        if len(rest) > MOST_LISTED:
            others = sum(len(numbers) for _, numbers in rest[MOST_LISTED:])
            lines = f"lines {rest[MOST_LISTED][0]} to {rest[-1][0]}"
            listed.append(Unread(rest[MOST_LISTED][0], lines, f"{others} more numbers could not be assigned to a step"))
        return sorted(listed, key=lambda item: item.line)


def _is_titled(before: str) -> bool:
    """Return whether a number follows a capitalised word that is not a quantity: Aufgabe 3, NeurIPS 30, Python 3."""
    found = _TITLED.search(before)
    return found is not None and not topics(found[1])


def _plain(text: str) -> str:
    """Reduce text to letters and digits, without the names of LaTeX commands and Greek letters."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\\[A-Za-z]+", "", text.lower()))
