"""Splits a document into prose, formulas, code and tables, and finds the mathematics in plain prose and in tables.

A single pass from left to right. A closing mark that was not found is not searched for again, so the time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from glassformer.exercises.expression import Array, Blank, Expression, Name, Product, is_numeric, names_in
from glassformer.exercises.reader import symbols
from glassformer.exercises.reader.printouts import TOTAL
from glassformer.exercises.reader.sentences import Assigned, ParagraphState, noun_of, sentences_of
from glassformer.exercises.reader.statements import listed, parse_formula

PieceKind: TypeAlias = Literal["prose", "inline", "display", "code", "table", "tabular", "picture", "open"]

MATRICES = frozenset(("matrix", "bmatrix", "pmatrix", "Bmatrix", "vmatrix", "Vmatrix", "array", "smallmatrix"))
DISPLAYS = MATRICES | frozenset(
    ("equation", "align", "gather", "multline", "eqnarray", "displaymath", "math", "flalign", "alignat", "aligned",
     "split", "gathered", "dmath")
)  # fmt: skip
CODE = frozenset(("verbatim", "lstlisting", "minted", "Verbatim", "alltt"))
TABULARS = frozenset(("tabular", "tabularx", "tabulary", "longtable"))
_DROPPED = frozenset(("comment", "tikzpicture", "thebibliography"))


@dataclass(frozen=True, slots=True)
class Piece:
    kind: PieceKind
    text: str
    line: int
    crossed: bool = False


_MARK = re.compile(
    r"""
    (?P<escaped>\\\\|\\\$)
  | (?P<fence>^[ \t]*(?:```|~~~)[^\n]*\n)
  | (?P<grid>^[ \t]*\|[^\n]*\|[^\n]*\|[ \t]*\n[ \t]*\|[^\n]*\|[^\n]*\|[ \t]*$)
  | (?P<table>^(?:[ \t]*\|[^\n]*|[^\n|]*\|[^\n]*)\n[ \t]*\|?[ \t]*:?-{1,}:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$)
  | (?P<tabs>^[^\n\t]+\t|^\t[^\n\t]+\t[^\n\t])
  | (?P<comment><!--)
  | (?P<display>\$\$|\\\[)
  | (?P<inline>\\\(|\$)
  | (?P<begin>\\begin\{(?P<env>[A-Za-z]+)\*?\})
  | (?P<strike>~~|</?(?:del|s|strike)>)
  | (?P<tick>`+)
  | (?P<picture>!\[[^\]\n!]{0,200}\]\([^)\n]{0,300}\)|<img\b[^<>\n]{0,300}>
      | \\includegraphics(?:\[[^\]\n]{0,200}\])?\{[^}\n]{0,300}\})
    """,
    re.X | re.M,
)


class _Cutter:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.line, self.counted = text, 0, 1, 0
        self.crossed = False
        self.missing: set[str] = set()
        self.ends = -1
        self.before = False
        self.shown = 0  # where the last piece ended

    def line_at(self, position: int) -> int:
        """Return the line of a position; positions must not decrease between calls."""
        self.line += self.text.count("\n", self.counted, position)
        self.counted = position
        return self.line

    def find(self, close: str, start: int) -> int:
        if close in self.missing:
            return -1
        found = self.text.find(close, start)
        if found < 0:
            self.missing.add(close)
        return found

    def run(self) -> Iterator[Piece]:
        start = 0
        while (mark := _MARK.search(self.text, self.at)) is not None:
            self.at = mark.end()
            pieces = self.take(mark)
            if pieces is None:
                continue
            stop = min([mark.start(), *(position for _, _, position in pieces[:1])])
            if start < stop:
                yield Piece("prose", self.text[start:stop], self.line_at(start), self.before)
            for kind, text, position in pieces:
                yield Piece(kind, text, self.line_at(position), self.crossed)
            start = self.shown = self.at
        if start < len(self.text):
            yield Piece("prose", self.text[start:], self.line_at(start), self.crossed)

    def take(self, mark: re.Match[str]) -> list[tuple[PieceKind, str, int]] | None:
        """Return the pieces that begin at a mark and advance past them; None if the mark is plain text."""
        self.before = self.crossed
        start, end = mark.span()
        match mark.lastgroup:
            case "fence":
                return self.until("\n" + mark.group().strip()[:3], "code", end, after_line=True)
            case "comment":
                close = self.find("-->", end)
                self.at = close + 3 if close >= 0 else end
                return []
            case "display":
                return self.until("$$" if mark.group() == "$$" else r"\]", "display", end)
            case "inline":
                return self.until(r"\)", "inline", end) if mark.group() != "$" else self.dollars(end)
            case "begin" | "env":
                return self.environment(mark)
            case "strike":
                opens = not self.crossed if mark.group() == "~~" else not mark.group().startswith("</")
                # ~~ that never closes, or closes in another paragraph, is not a strike
                if opens and mark.group() == "~~" and not 0 <= self.find("~~", end) < self.paragraph(end):
                    return None
                self.crossed = opens
                return []
            case "tick":
                return self.until(mark.group(), "code", end, same_paragraph=True)
            case "picture":
                return [("picture", mark.group(), start)]
            case "table" | "grid":
                return self.lines(start, lambda line: "|" in line, "table")
            case "tabs" if mark.group().strip():
                return self.lines(start, lambda line: "\t" in line.strip(" ") and bool(line.strip()), "table")
        return None

    def paragraph(self, start: int) -> int:
        """Return the end of the paragraph."""
        if self.ends < start:
            found = re.compile(r"\n[ \t]*\n").search(self.text, start)
            self.ends = found.start() if found else len(self.text)
        return self.ends

    def until(
        self, close: str, kind: PieceKind, start: int, *, after_line: bool = False, same_paragraph: bool = False
    ) -> list[tuple[PieceKind, str, int]] | None:
        end = self.find(close, start)
        if end < 0 and kind == "code":
            return None
        if same_paragraph and end > self.paragraph(start):
            return None
        if kind == "display" and end > self.paragraph(start) and _PROSE.search(self.text, start, end):
            end = -1  # two formulas, the first of which was never closed
        if end < 0:
            end = self.paragraph(start)
            self.at = end
            return [("open", self.text[start:end], start)]
        self.at = end + len(close)
        if after_line:
            newline = self.text.find("\n", self.at)
            self.at = newline if newline >= 0 else len(self.text)
        return [(kind, self.text[start:end], start)]

    def dollars(self, start: int) -> list[tuple[PieceKind, str, int]] | None:
        """Parse $…$ within a paragraph; "$5 and $10" is money."""
        found = _DOLLAR.search(self.text, start)
        if found is None or found.group() != "$":
            return None
        inside = self.text[start : found.start()]
        if inside[:1].isdecimal() and inside[-1:].isspace() and _WORD.search(inside) and "\\" not in inside:
            return None
        self.at = found.end()
        return [("inline", inside, start)]

    def environment(self, mark: re.Match[str]) -> list[tuple[PieceKind, str, int]] | None:
        name = mark["env"]
        if name not in DISPLAYS | CODE | TABULARS | _DROPPED:
            return None
        star = "*" if mark.group("begin").endswith("*}") else ""
        close = f"\\end{{{name}{star}}}"
        end = self.find(close, mark.end())
        if end < 0:
            end = self.paragraph(mark.end())
            self.at = end
            return [("open", self.text[mark.start() : end], mark.start())]
        self.at = end + len(close)
        if name in _DROPPED:
            return []
        if name in CODE:
            return [("code", self.text[mark.end() : end], mark.end())]
        if name in TABULARS:
            return [("tabular", self.text[mark.end() : end], mark.end())]
        start = mark.start() - self.led_by(mark.start())
        while name in MATRICES and (more := _GOES_ON.match(self.text, self.at)) is not None:
            self.at = more.end()  # [..] [..] = [..] without dollar signs
            if more["env"] is not None:
                end = self.find(f"\\end{{{more['env']}}}", self.at)
                self.at = end + len(more["env"]) + 6 if end >= 0 else self.paragraph(self.at)
            elif more.end() == more.start() or self.text[self.at : self.at + 1] in ("\n", ""):
                break
        return [("display", self.text[start : self.at], start)]

    def led_by(self, start: int) -> int:
        """Return the length of `Q = ` before a matrix without dollar signs."""
        found = _LED.search(self.text[max(self.shown, start - 80) : start])
        return len(found.group()) if found else 0

    def lines(self, start: int, belongs: Callable[[str], bool], kind: PieceKind) -> list[tuple[PieceKind, str, int]]:
        """Return the consecutive lines from `start` that belong together."""
        end = start
        while end < len(self.text):
            newline = self.text.find("\n", end)
            newline = len(self.text) if newline < 0 else newline
            if not belongs(self.text[end:newline]):
                break
            end = newline + 1
        self.at = min(end, len(self.text))
        return [(kind, self.text[start : self.at], start)]


_DOLLAR = re.compile(r"(?<!\\)\$|\n[ \t]*\n")
# what may precede a bare matrix, and what may follow it on the same line or as the next matrix
_LED = re.compile(r"(?:\S{1,40}[ \t]*(?:=|≈|\\approx)|\\left[(\[])[ \t]*\n?[ \t]*$")
_GOES_ON = re.compile(
    r"[ \t]*\n?[ \t]*(?:\\(?:cdot|times|right[)\]]|left[(\[]|approx|,|;)|[=≈·×*+^_−-]|\{[^{}\n]{0,40}\}|\\top|T\b"
    r"|\([0-9\\ a-z]{1,20}\))*[ \t]*\n?[ \t]*"
    r"(?:\\begin\{(?P<env>[bpBvV]?matrix|smallmatrix|array)\}|[-+]?[0-9][0-9.]*(?=\s|$)|(?=\n|$))"
)
_PROSE = re.compile(r"(?:(?<![\\A-Za-z{])[A-Za-z]{3,}[,.:]?\s+){4}")
_WORD = re.compile(r"[A-Za-z]{3,}")


def pieces(text: str) -> Iterator[Piece]:
    """Yield the pieces of the document in order; the contents of crossed-out passages are marked."""
    return _Cutter(text).run()


MOST_LINES = 60  # maximum number of lines spanned by one bracket
LONGEST_LINE = 20_000
LONGEST_SENTENCE = 2_000


@dataclass(frozen=True, slots=True)
class Event:
    kind: Literal["words", "formula", "number", "assigned", "long"]
    text: str
    line: int
    target: Name | None = None  # what the words say that an assigned value is the value of


_ANY = re.compile(r"[\d=≈→⇒√∑\\\[^_>]")  # a line with none of these is prose
_COMMANDS = re.compile(
    r"\\(?:(?:sub)*section|chapter|paragraph|textbf|textit|emph|item|title|author|date|caption|noindent|maketitle|"
    r"centering|begin|end|label|ref|underline|par|newpage|clearpage|bigskip|medskip|smallskip|vspace|hspace|input|href|"
    r"url|q?quad)\b\*?(?:\{[a-z]{1,20}\})?(?:\[[^\]\n]{0,80}\])?"
)
_MARKER = re.compile(r"^\s*(?:>\s*)*(?:#{1,6}\s+|[-*+•]\s+|\(?(?:\d{1,2}|[a-z])[.)](?=\s|$)|\(\d{1,2}\))?\s*")
_NUMBER = r"(?:[-+−]?\d[\d.]*(?:/\d+|%)?|[-−]∞)"
_NUMBERS = re.compile(rf"^\s*[\[(|]?\s*{_NUMBER}(?:(?:\s*[,;]\s*|\s+){_NUMBER})+\s*[,;]?\s*[\])|]?\s*$")
_RELATION = re.compile(r"=|≈|→|⇒|->|~=|\\approx|\\rightarrow|\\Rightarrow|\\to\b|≃|⟹")
_STRONG = re.compile(
    r"\d|[=+^_×·⋅≈→⇒√∑∞−ᵀ²³¹⁰⁴-⁹⁻₀-₉∗]|\\(?:frac|cdot|times|sqrt|approx|[A-Z]?[a-z]*arrow|left|right|exp|sum|begin|end|,)"
)
_SIGNS = re.compile(r"[-+*/=<>()\[\]{},;|~:.]+$")
_WORDS = re.compile(r"[A-Za-zÀ-ÿ]{3,}")
_DECIMALS = re.compile(
    r"(?<![\w.])[-−]?\d+\.\d+(?![\w]|\.\d)(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+)[-−]?\d+(?:\.\d+)?(?![\w]|\.\d))*"
)
_WHOLE = re.compile(r"(?<![\w.,])\d+(?![\w]|[.,]\d|\s*[+·*×/^])")
_CUES = re.compile(
    r"(?:gets?|gives?|equals|obtain|circa|about|approximately|roughly|around|ca\.|total of|is)\s*[:~]?\s*$", re.I
)
_REFERENCE = re.compile(
    r"(?:section|table|figure|fig\.|chapter|version|page|eq\.|equation|task|exercise|part|v)\s*$", re.I
)
_EMPHASIS = re.compile(r"(?<![\w*)])\*(\w{1,20})\*(?![\w*(])")
_DOT = re.compile(r"\b([qkQK](?:_?\{?\d{1,2}\}?)?)\s*\.\s*(?=[kqKQ]_?\{?\d)")  # q1 . k1
_AND = re.compile(r"(\d\.\d+),?\s+(?:and|und|et)\s+(?=[-−]?\d+\.\d)")  # 0.25, 0.06 and 0.69
_TRANSPOSED = re.compile(r"\b([A-Z]\d?)\.T\b(?!\.)")  # Q @ K.T
_CALL = re.compile(r"[A-Za-z]{1,12}\((?:[A-Za-z]?_?\{?\d|q$)")  # score(q1, k1)
_NAMED = re.compile(r"[A-Za-z]\w*(?:[(\[][\w,]{1,12}[)\]])?")
_SHORT_NAME = re.compile(r"[WwQqKkVvd][qkvoQKVO]$|[A-Z]{2}$")
_PYTHON = re.compile(r"\b(?:np|numpy|torch|math)\.(?:(?:array|tensor|matrix)\b)?")
# keyword arguments of a call: softmax(S, dim=-1)
_KEYWORD = re.compile(
    r"(?:,\s*|(?<=\())(?:axis|dim|keepdims?|ddof|dtype|decimals|precision)\s*=\s*[-\w.]{1,20}(?=\s*[,)])"
)
_ASSIGNED = re.compile(r"^\s*[A-Za-z][\w\[\]{}^,]{0,30}\s*=[^=]")
# the left side of an equation: s12, q1 · k2, score(q1, k2)
_SIDE = (
    r"[^\W\d_][^\s=≈;,()\[\]]{0,30}(?:\([^\s=≈;()]{1,12}(?:,\s?[^\s=≈;()]{1,12})?\)"
    r"|[ \t]*[·*×][ \t]*[^\W\d_][^\s=≈;,()\[\]]{0,12})?"
)
_LEFT = re.compile(rf"^\s*({_SIDE})\s*[=≈]")
_NEXT_LEFT = re.compile(rf"(?<=[\d\])])([ \t]+)({_SIDE})(?=\s*[=≈])")
_PRINTED = re.compile(r"[A-Za-z]{4,12}(?: [a-z]{2,12}){0,3} \d{1,2}: ?[\[(]")  # weights of token 1: [0.4, 0.6]
_REMARK = re.compile(r"(?<=[\d)\]])\s+(?:<-+|←)\s*[^\W\d_][^\d=≈\n]{0,200}$")  # s = 1, 0, 1  <- with the scale
_LIST = re.compile(r"\[[^\[\]]*[\d\]][^\[\]]*[,;\s][^\[\]]*")


def scan(
    text: str, line: int, *, code: bool = False, names: frozenset[str] = frozenset()
) -> Iterator[Event]:
    """Yield the events of a passage of prose, in order; `names` are the tokens that the document declares."""
    rows = text.split("\n") if code else [_REMARK.sub("", row) for row in text.split("\n")]
    index = 0
    sentences = ParagraphState(names=names)
    while index < len(rows):
        row = rows[index]
        here = line + index
        read = len(row) <= LONGEST_SENTENCE and (not code or _PRINTED.match(row))
        assigned = sentences.line(row) if read else []
        if assigned:
            yield from _sentence(row, here, assigned)
            index += 1
            continue
        if read and (several := list(_sentences(row, here, sentences))):
            yield from several
            index += 1
            continue
        if not _ANY.search(row) and not (len(row) < 40 and row.rstrip().endswith(":")) and not _block(rows, index):
            index += 1
            if row and not row.isspace():
                yield Event("words", _MARKER.sub("", _COMMANDS.sub(" ", row), count=1), here)
            continue
        if len(row) > LONGEST_LINE:
            yield Event("long", row[:200], here)
            index += 1
            continue
        apart = None if code else _name_apart(rows, index)
        if apart is not None:
            block = _block([apart[0], apart[1], *rows[index + 1 : index + 200]], 0)
            joined = "; ".join(map(_bare_row, [apart[1], *rows[index + 1 : index + block - 1]]))
            yield Event("formula", f"{_lead(apart[0])[0]}[{joined}]", here)
            index += block - 1
            continue
        block = _block(rows, index)
        if block:
            lead, first = _lead(row)
            joined = "; ".join(map(_bare_row, rows[index + first : index + block]))
            joined = re.sub(r"%\s+", "%, ", joined)
            yield Event("formula", f"{lead}[{joined}]", here)
            index += block
            continue
        taken = _joined(rows, index)
        joined = "\n".join(rows[index : index + taken])
        index += taken
        yield from _line(joined, here, code)


def _sentences(row: str, line: int, state: ParagraphState) -> Iterator[Event]:
    """Yield the events of a line of several sentences, each read on its own; none if no value is assigned."""
    parts = sentences_of(row)
    found = [state.line(part) for part in parts] if len(parts) > 1 else []
    for part, assigned in zip(parts, found, strict=False) if any(found) else ():
        if assigned:
            yield from _sentence(part, line, assigned)
        elif _ANY.search(part):
            yield from _line(part, line, code=False)
        else:
            yield Event("words", part, line)


def _sentence(row: str, line: int, assigned: list[Assigned]) -> Iterator[Event]:
    at = 0
    for found in sorted(assigned, key=lambda item: item.start):
        yield Event("words", row[at : found.start], line)
        yield Event("assigned", found.value, line, found.target)
        at = found.end
    yield Event("words", row[at:], line)


# "divided by √2 = 0.707": the result of the division, not of the root
_DIVIDED = re.compile(
    r"(\bdivided by\b)(\s*(?:√\s?\d+|sqrt\(?\d+\)?|\$?\\sqrt\{?\d+\}?\$?)\s*)(?:=|≈)(?=\s*([\d.]*))", re.I
)
_SEMICOLONS = re.compile(
    rf"(?<![\w)])((?<=:)|(?<==))(\s*{_NUMBER}(?:\s*,\s+{_NUMBER}){{1,40}}(?:\s*;\s*{_NUMBER}(?:\s*,\s+{_NUMBER}){{1,40}}){{1,40}})\s*$"
)
_LEAD = re.compile(r"^\s*[-*]?\s*\**\s*([A-Za-z]\S{0,20})\s*(?:=|:)\s*\**\s*$")
_LEAD_WITH_REMARK = re.compile(r"^\s*([A-Z]\w?)\s+\([^()\d=]{1,60}\)\s*:?\s*$")  # O (all heads side by side)
_FIRST_ROW = re.compile(rf"^(\s*[A-Za-z]\S{{0,20}}\s*[=:])(\s*{_NUMBER}(?:\s+{_NUMBER})+\s*)$")
# Q = [1 2] or H = A V = [1 2]; a vector, q = [1 2], is not the first row of a matrix
_FIRST_BRACKETED_ROW = re.compile(
    rf"^(\s*[A-Z]\S{{0,20}}\s*[=:])(?:[^=:.\[\]]{{1,40}}=)?"
    rf"(\s*\[\s*{_NUMBER}(?:(?:\s*,\s*|\s+){_NUMBER})+\s*\]\s*)$"
)


def _division(found: re.Match[str]) -> str:
    """Name the result of a division; the value of the root, "divided by √3 ≈ 1.732", is none."""
    root, value = int(re.findall(r"\d+", found[2])[0]), found[3].rstrip(".")
    is_root = value.count(".") == 1 and abs(root**0.5 - float(value)) < 10.0 ** -len(value.partition(".")[2])
    return f"{found[1]}{' ' * len(found[2])}root, " if is_root else f"{found[1]}{' ' * len(found[2])}scaled ="


def _lead(row: str) -> tuple[str, int]:
    """Parse `Q =`, `Q:` or `Q (a remark)` alone on a line, which names the rows of numbers below it."""
    found = _LEAD.match(row) or _LEAD_WITH_REMARK.match(row)
    return (f"{found[1]} = ", 1) if found else ("", 0)


def _bare_row(row: str) -> str:
    return row.strip().strip("|[]()").rstrip(",;")


def _name_apart(rows: list[str], index: int) -> tuple[str, str] | None:
    """Split a matrix whose first row is on the line of its name into the name and that row.

    `Q = 3 1` over `    1 2`, and `H = A V = [3 1]` over `[1 2]`, with brackets around each row.
    """
    row, below = (each[:2000] for each in (*rows[index : index + 2], "")[:2])
    found = _FIRST_ROW.match(row)
    if found is None and below.lstrip().startswith("["):
        found = _FIRST_BRACKETED_ROW.match(row)
    elif not below[:1].isspace():
        return None
    if found is None or not _NUMBERS.match(below):
        return None
    first, second = (re.split(r"[\s,;]+", _bare_row(each).strip()) for each in (found[2], below))
    return (found[1], found[2]) if len(first) == len(second) else None


def _block(rows: list[str], index: int) -> int:
    """Return how many lines from here on are rows of numbers, including the name above them; 0 if there are none."""
    lead = _lead(rows[index])[1]
    count = lead
    while index + count < len(rows) and count < 200 and _NUMBERS.match(rows[index + count][:2000]):
        count += 1
    enough = count - lead >= (1 if lead else 2)
    single = rows[index : index + count]
    if not enough or any(row.count("[") > 1 or row.rstrip().endswith("],") for row in single):
        return 0
    return count


def _joined(rows: list[str], index: int) -> int:
    """Return how many lines belong together because a bracket is open."""
    if "[" not in rows[index] or not any(c.isdecimal() for c in rows[index]):
        return 1
    depth = 0
    for count, row in enumerate(rows[index : index + MOST_LINES], 1):
        if not row.strip():
            break
        depth += row.count("[") - row.count("]")
        if depth <= 0:
            return count
    return 1


def _line(text: str, line: int, code: bool) -> Iterator[Event]:
    body = _KEYWORD.sub("", _COMMANDS.sub(" ", text))
    if code:
        body = _PYTHON.sub("", re.sub(r"\.T\b", "^T", re.sub(r"#[^\n]*", "", body)))
        if body.lstrip().startswith(("import ", "from ", "def ", "print(")):
            yield Event("words", body, line)
            return
        if _ASSIGNED.match(body):
            yield Event("formula", body.strip().rstrip(";"), line)
            return
    else:
        bold = "**" if re.search(r"[\d)]\s?\*\*\s?[\d(]", body) else ""
        body = _AND.sub(r"\1, ", body)
        body = _divided(_DOT.sub(r"\1 · ", _TRANSPOSED.sub(r"\1^T", _PYTHON.sub("", body))))
        body = _EMPHASIS.sub(r"\1", body.replace("**", bold)).replace("<sub>", "_").replace("</sub>", "")
        body = _DIVIDED.sub(_division, body)
        body = _SEMICOLONS.sub(_rows_as_matrix, body)
    marker = _MARKER.match(body)
    body = body[marker.end() :] if marker else body
    chunks = [(found.group(), found.start()) for found in re.finditer(r"\S+", body)]
    kinds = [_kind(chunk) for chunk, _ in chunks]
    at = 0
    for start, stop in _runs(chunks, kinds):
        low, high = chunks[start][1], chunks[stop - 1][1] + len(chunks[stop - 1][0])
        run = body[low:high]
        row = line + body.count("\n", 0, low)
        if _is_formula(run):
            yield Event("words", body[at:low], row)
            yield Event("formula", run.strip().rstrip(".,;:!?"), row)
            at = high
        else:
            yield from _numbers(body, at, low, high, row)
            at = high
    if at < len(body):
        yield Event("words", body[at:], line)


def _rows_as_matrix(found: re.Match[str]) -> str:
    """`scores: 1, 2 ; 3, 4`: rows of one length that semicolons divide are one matrix."""
    rows = [row.strip() for row in found[2].split(";")]
    widths = {row.count(",") for row in rows}
    return found[0] if len(widths) > 1 else f"{found[1]} [{', '.join(f'[{row}]' for row in rows)}]"


def _divided(text: str) -> str:
    """Put semicolons between equations that only spaces divide: `q1·k1 = 0  q1·k2 = 1`, `s11 = 2 s12 = 3`.

    One space divides them if the next equation has a left side like the first one's, with other indices.
    """
    first = _LEFT.match(text)
    like = re.sub(r"\d+", "0", "".join(first[1].split())) if first else ""
    return _NEXT_LEFT.sub(
        lambda found: f"; {found[2]}"
        if len(found[1]) > 1 or re.sub(r"\d+", "0", "".join(found[2].split())) == like else found[0],
        text,
    )  # fmt: skip


def _numbers(body: str, at: int, low: int, high: int, line: int) -> Iterator[Event]:
    """Yield decimals in prose, and integers that the preceding words announce."""
    for found in _DECIMALS.finditer(body, low, high):
        text = re.sub(r"(?:\s*,)?\s+and\s+", ", ", found.group()).rstrip(" ,")
        if not _REFERENCE.search(body[max(0, found.start() - 20) : found.start()]):
            yield Event("words", body[at : found.start()], line)
            yield Event("number", f"[{text}]" if "," in text else text, line)
            at = found.end()
    if at <= low:
        whole = _WHOLE.search(body, low, high)
        if whole and _CUES.search(body[max(at, whole.start() - 30) : whole.start()]):
            yield Event("words", body[at : whole.start()], line)
            yield Event("number", whole.group(), line)
            at = whole.end()
    if at < high:
        yield Event("words", body[at:high], line)


def _kind(chunk: str) -> str:
    """Classify a chunk. S: mathematics; W: same as its neighbours; N: a word."""
    core = chunk.strip(".,;:!?\"'“”")
    if not core:
        return "W"
    if re.match(r"https?:|www\.|[\w.]+@", core) or re.fullmatch(r"\d+(?:st|nd|rd|th)|\d{4}-\d\d-\d\d|\d+:\d+", core):
        return "N"
    function = re.match(r"([A-Za-z]+)\(", core)
    if function and (function[1].lower() in symbols.FUNCTIONS or _CALL.match(core)):
        return "S"
    if "_" in core and re.match(r"[\w{}\\^,]+$", core) and _WORDS.match(core) is None:
        return "S"
    if _STRONG.search(core):
        words = _WORDS.findall(core)
        known = all(w.lower() in symbols.FUNCTIONS or w in ("out", "frac", "cdot", "sqrt") for w in words)
        return "S" if known or re.search(r"[=_^\\]", core) else "N"
    if _SIGNS.match(core):
        return "S" if re.search(r"[=/*+\[\]()<>-]", core) else "W"
    if core.startswith("["):
        return "S"
    letters = core.strip("()[],")
    if len(letters) == 1 or (len(letters) <= 4 and all(c in symbols.QUANTITIES for c in letters)):
        return "W"
    if _SHORT_NAME.match(letters):
        return "W"
    return "N"


def _runs(chunks: list[tuple[str, int]], kinds: list[str]) -> Iterator[tuple[int, int]]:
    """Yield ranges of chunks that are mathematics; a word right before a relation names its left side."""
    index = last = 0
    while index < len(chunks):
        if kinds[index] == "N":
            index += 1
            continue
        start = index
        opened = 0
        while index < len(chunks) and kinds[index] != "N":
            chunk = chunks[index][0]
            opened += sum(chunk.count(c) for c in "[(") - sum(chunk.count(c) for c in "])")
            index += 1
            listed = chunk[0].isalpha() and index < len(chunks) and chunks[index][0].startswith("[")
            if opened <= 0 and (chunk[-1] in ".;!?" or (chunk[-1] == ":" and not listed)) and chunk[-2:] != "..":
                break  # the end of a sentence
        stop = index
        if start > last and _RELATION.match(chunks[start][0]) and _NAMED.fullmatch(chunks[start - 1][0]):
            start -= 1
        while start < stop and kinds[start] == "W" and not _joins(chunks, start, stop):
            start += 1
        if start < stop and "S" in kinds[start:stop]:
            yield start, stop
            last = stop


def _joins(chunks: list[tuple[str, int]], index: int, stop: int) -> bool:
    """Return whether the letter here belongs to what follows: "a = 1" but not "a [1, 2]"."""
    if chunks[index][0].endswith(":"):
        return index + 1 < stop and chunks[index + 1][0].startswith("[")  # Q: [[1, 2]]
    if chunks[index][0].endswith((",", ".", ";")):
        return False
    return index + 1 < stop and bool(re.match(r"[-+*/=^_×·≈→⇒([−]|->|\\|[A-Z]", chunks[index + 1][0]))


def _is_formula(run: str) -> bool:
    operands = re.compile(r"[\w\])}∞]")
    relation = _RELATION.search(run)
    if relation is not None:
        left, right = run[: relation.start()], run[relation.end() :]
        return bool(operands.search(right)) or (bool(operands.search(left)) and "=" in relation.group())
    return bool(_LIST.search(run))


_RULE = re.compile(r"^[\s|:+-]*-[\s|:+-]*$")
_MATH = re.compile(r"\$+([^$]+)\$+|\\\(((?:[^\\]|\\(?!\)))*)\\\)")
_TABULAR = re.compile(
    r"\\(?:hline|toprule|midrule|bottomrule|centering)\b|\\cline\{[^}]{0,20}\}|\\multicolumn\{\d+\}\{[^}]{0,20}\}"
)

_VECTOR_LABEL = re.compile(r"([qkvzoh])_?\{?\d{1,2}\}?", re.I)  # of a row
_TOKEN = re.compile(r"(?:(?:[Tt]oken|[Rr]ow|[Pp]osition|#)\s*)?\$?(?:[xytip]_?\{?)?(\d{1,3})\}?\$?")

_DEFINED = re.compile(r"\$?([A-Z])\s*=\s*[A-Z]")  # a header
_NAMED_TOKEN = re.compile(r"[^\W\d_]{3,}")  # tok1
_CALCULATED = re.compile(r"[\d\s.+·*×⋅/()√^−-]+(?:=|≈)\s*([-−]?\d[\d.]*)")
_TITLED = re.compile(r"\b(?:token|word|position)\s*(\d{1,2})\W*$", re.I)  # the title of a table of one token
_SCALED = re.compile(r"\bscaled|\bdivided|√|sqrt", re.I)
_PER_TOKEN = ("mean", "variance", "sum", "Z")  # one number for each token
_COLUMN_NAMES = {
    **dict.fromkeys(("mean", "mu", "μ", r"$\mu$"), Name("mean")),
    **dict.fromkeys(("variance", "sigma^2", "σ²", "σ^2", r"$\sigma^2$", "var"), Name("variance")),
}
_WITH_SYMBOL = re.compile(r"\s+\(?\$?\\?(?:[μσ]|mu|sigma)(?:²|\^\{?2\}?)?\$?\)?$")
_COMPONENTS = ("query", "key", "value")
_QUERY = re.compile(r"query|queries|from|i|token|row", re.I)  # headers of a table with a row for each query and key
_KEY = re.compile(r"keys?|to|attends to|j|column", re.I)
_BY_KEY = ("dotproduct", "score", "exponential", "weight")
_INDEXED = re.compile(r"tokens?|rows?|pos(?:itions?)?|quer(?:y|ies)|patch(?:es)?|words?|#|t|i|n", re.I)  # a header
_NO_TOKEN = "it is unclear which vectors these are: number the rows, and name the columns q, k, v"


@dataclass(slots=True)
class TableContents:
    """The contents of a table: chains as (line, source, target, term), formulas in cells as (line, text), problems."""

    chains: list[tuple[int, str, Expression | None, Expression]] = field(default_factory=list)
    formulas: list[tuple[int, str]] = field(default_factory=list)
    problems: list[tuple[int, str, str]] = field(default_factory=list)
    words: str = ""


@dataclass(slots=True)
class _Cell:
    text: str
    term: Expression | None  # None: words or empty
    line: int

    @property
    def number(self) -> bool:
        return self.term is not None and is_numeric(self.term) and not isinstance(self.term, Blank)

    @property
    def named(self) -> bool:
        return self.term is not None and bool(names_in(self.term)) and len(self.text) < 40


def markdown_table(text: str, line: int, before: str = "") -> TableContents:
    """Parse a table; `before` are the words before it, which may name its only token."""
    rows = []
    for offset, row in enumerate(text.split("\n")):
        if not row.strip() or _RULE.match(row):
            continue
        cells = row.split("\t") if "\t" in row and "|" not in row else row.strip().strip("|").split("|")
        rows.append([_cell(cell, line + offset) for cell in cells])
    rows = [row for row in rows if any(cell.text for cell in row)]  # an empty header
    titled = _TITLED.search(before)
    if titled is not None and (vectors := _of_token(rows, int(titled[1]))):
        return TableContents(vectors)
    return _table(rows, line, text)


def _of_token(rows: list[list[_Cell]], token: int) -> list[tuple[int, str, Expression | None, Expression]]:
    """`Query | 1, 2` below "Token 1": query_1 = (1, 2). Empty unless every row has this form and another name."""
    found: dict[str, tuple[int, str, Expression | None, Expression]] = {}
    scaled = any(_SCALED.search(row[0].text) for row in rows)
    for row in rows:
        noun = noun_of(row[0].text)
        value = row[1].term if len(row) == 2 else None
        if noun is None or not isinstance(value, Array) or not value.flat or not row[1].number:
            return []
        raw = noun.name == "score" and scaled and not _SCALED.search(row[0].text)
        name = "dotproduct" if raw else noun.name
        if name in found:
            return []
        found[name] = (row[0].line, f"{row[0].text}: {row[1].text}", Name(name, (token,)), value)
    return list(found.values())


def latex_table(text: str, line: int) -> TableContents:
    """Parse the body of a tabular, which begins with its column specification: {c|cc}."""
    text = re.sub(r"^\s*(?:\[[tbc]\])?\{[^\n]{0,80}?\}(?=\s|\\|$)", "", text, count=1)
    rows = []
    for row in re.split(r"\\\\", text):
        start = line + text.count("\n", 0, text.find(row))
        plain = _TABULAR.sub(" ", row)
        if plain.strip():
            rows.append([_cell(cell, start) for cell in re.split(r"(?<!\\)&", plain)])
    return _table(rows, line, text)


def _cell(text: str, line: int) -> _Cell:
    stripped = text.strip().strip("*").strip()
    inside = _MATH.fullmatch(stripped)
    source = (inside[1] or inside[2] or "") if inside else stripped
    result = _CALCULATED.fullmatch(source) if not inside else None
    source = result[1] if result is not None else source  # 1·2 + 0·0 = 2
    if not source or len(source) > 400 or (not inside and re.search(r"[A-Za-z]{3,}\s|[A-Za-z]{4,}", source)):
        return _Cell(stripped, None, line)
    read = parse_formula(source, line)
    if read.problems or len(read.drafts) != 1 or len(read.drafts[0].terms) != 1:
        return _Cell(stripped, None, line)
    return _Cell(stripped, listed(read.drafts[0].terms[0].term), line)


def _table(rows: list[list[_Cell]], line: int, source: str) -> TableContents:
    table = TableContents(words=" ".join(cell.text for cell in rows[0]) if rows else "")
    numbers = sum(cell.number for row in rows for cell in row)
    filled = sum(bool(cell.text) for row in rows for cell in row)
    if not numbers or 3 * numbers < filled:
        _formulas(rows, table)
        if any(re.fullmatch(r"[\d\s.,/+-]*\d[\d\s.,/+-]*", cell.text) for row in rows for cell in row):
            table.problems.append((line, source.strip(), "it is unclear which cells of this table are numbers"))
        return table
    if len({len(row) for row in rows}) > 1:
        widths = sorted({len(row) for row in rows})
        table.problems.append((line, source.strip(), f"the rows of the table have {widths[0]} to {widths[-1]} cells"))
        return table
    if vectors := _rows_of_vectors(rows):
        table.chains += vectors
        return table
    head = _head(rows)
    totals: list[_Cell] = []
    if head is not None and len(head) > 2 and TOTAL.fullmatch(head[-1].text):  # a last column of sums
        totals = [row[-1] for row in rows[1:]]
        head, rows = head[:-1], [row[:-1] for row in rows]
    body = rows[1:] if head else rows
    if not totals and len(body) > 2 and TOTAL.fullmatch(body[-1][0].text.strip("*")) and not _columns(head or [], body):
        totals, body = body[-1][1:], body[:-1]  # a last row of sums
    if not body:
        table.problems.append((line, source.strip(), "a table of one row, in which not all cells are numbers"))
        return table
    if head is not None and (matrices := _by_pairs(head, body)):
        table.chains += matrices
        return table
    if head is not None and (vectors := _vectors(head, body)):
        table.chains += vectors
        return table
    if len(body[0]) == 2 and all(row[0].named and row[1].number for row in body):
        for name, value in body:
            table.chains.append((name.line, f"{name.text} | {value.text}", name.term, value.term or Blank()))
        return table
    if head is not None and (columns := _columns(head, body)):
        table.chains += columns
        table.formulas += [(row[0].line, row[0].text) for row in body if "=" in row[0].text]  # k_1 = (1, 0)
        return table
    if any(isinstance(cell.term, Array) for row in body for cell in row):
        table.problems.append((line, source.strip(), _NO_TOKEN))
        return table
    counts = head is not None and _INDEXED.fullmatch(head[0].text) is not None
    side = _side(body, head is not None, counts)
    cells = [row[1:] if side else row for row in body]
    for cell in (cell for row in cells for cell in row):
        if cell.text and not cell.number:
            table.problems.append((cell.line, cell.text, "this cell of the table cannot be read as a number"))
    matrix = Array(tuple(tuple(cell.term if cell.number and cell.term else Blank() for cell in row) for row in cells))
    table.formulas += [(cell.line, cell.text) for row in body for cell in row if _CALCULATED.fullmatch(cell.text)]
    corner = head[0].term if head and side and head[0].named and not counts else None
    if not matrix.rows or not matrix.rows[0]:
        return table
    table.chains.append((line, source.strip(), corner, matrix))
    if totals and all(cell.number for cell in totals):
        sums = Array((tuple(cell.term or Blank() for cell in totals),), flat=True)
        table.chains.append((line, " ".join(cell.text for cell in totals), Name("sum"), sums))
    return table


def _vectors(head: list[_Cell], body: list[list[_Cell]]) -> list[tuple[int, str, Expression | None, Expression]]:
    """`token | q | mean` over `1 | (1, 2) | 3`: q_1 = (1, 2), mean_1 = 3. Empty unless every cell has this form."""
    found: list[tuple[int, str, Expression | None, Expression]] = []
    tokens = _tokens(body)
    for row, token in zip(body, tokens, strict=True):
        for above, cell in zip(head[1:], row[1:], strict=True):
            name = _column_name(above.text) or above.term or noun_of(above.text)
            if (defined := _DEFINED.match(above.text)) is not None:  # Q = X W_Q
                name = Name(defined[1])
            if _is_dot_product(above.term):
                name = Name("dotproduct")
            if isinstance(name, Name) and name.indices in (("i",), ("t",), ("n",)):  # q_i as the column header
                name = Name(name.name, (), name.upper)
            vector = isinstance(cell.term, Array) and cell.term.flat and cell.number
            if not token or not isinstance(name, Name) or name.indices:
                return []
            single = cell.number and name.name in _PER_TOKEN
            if cell.text and not vector and not single:
                return []
            if cell.text and cell.term is not None:
                target = Name(name.name, (token,), name.upper)
                found.append((cell.line, f"{above.text}, {row[0].text}: {cell.text}", target, cell.term))
    return found


def _tokens(body: list[list[_Cell]]) -> list[int]:
    """Return the tokens of the rows: their numbers, or their order if most are numbered (tok1, tok2, PAD); else 0."""
    labels = [row[0].text for row in body]
    if all(_NAMED_TOKEN.match(label) for label in labels) and len(set(labels)) == len(labels):
        ends = [re.search(r"\d{1,3}$", label) for label in labels]
        counted = 2 * sum(end is not None for end in ends) > len(ends)
        if counted and all(end is None or int(end.group()) == i for i, end in enumerate(ends, 1)):
            return list(range(1, len(body) + 1))
    found = [_TOKEN.fullmatch(label) for label in labels]
    return [int(token[1]) if token else 0 for token in found]


def _by_pairs(head: list[_Cell], body: list[list[_Cell]]) -> list[tuple[int, str, Expression | None, Expression]]:
    """`query | key | score | weight` with one row for each query and key: the matrices of scores and weights."""
    if len(head) < 3 or not (_QUERY.fullmatch(head[0].text) and _KEY.fullmatch(head[1].text)):
        return []
    names = [_quantity(cell) for cell in head[2:]]
    pairs = list(zip(_tokens(body), _tokens([row[1:] for row in body]), strict=True))
    cells = [cell for row in body for cell in row[2:]]
    known = len(set(names)) == len(names) and all(name in _BY_KEY for name in names)
    if not known or len(set(pairs)) < len(pairs) or not all(map(all, pairs)) or not all(c.number for c in cells):
        return []
    height, width = (max(numbers) for numbers in zip(*pairs, strict=True))
    if len(pairs) < 2 or height * width > 4 * len(pairs):
        return []
    at = dict(zip(pairs, body, strict=True))
    found: list[tuple[int, str, Expression | None, Expression]] = []
    for k, name in enumerate(names, 2):
        rows = [[at.get((i, j)) for j in range(1, width + 1)] for i in range(1, height + 1)]
        terms = tuple(tuple(row[k].term or Blank() if row is not None else Blank() for row in line) for line in rows)
        found.append((body[0][0].line, f"{head[k].text}: {len(body)} rows", Name(name or ""), Array(terms)))
    return found


def _columns(head: list[_Cell], body: list[list[_Cell]]) -> list[tuple[int, str, Expression | None, Expression]]:
    """Read a table whose columns are quantities: `key | score | exp | weight`, or components: `token | q1 | q2 | k1`.

    A row of sums gives the sum of the exponentials. Empty unless at least two quantities are named, each by its column.
    """
    rows = [row for row in body if not TOTAL.fullmatch(row[0].text.strip("*"))]
    names = [_quantity(cell) for cell in head[1:]]
    cells = [cell for row in rows for cell in row[1:]]
    if len(set(names)) < 2 or None in names or len(rows) < 2 or not all(cell.number for cell in cells):
        return []
    found: list[tuple[int, str, Expression | None, Expression]] = []
    for name in dict.fromkeys(names):
        at = [k for k, other in enumerate(names, 1) if other == name]
        if name in _COMPONENTS or (name not in _BY_KEY and len(at) > 1):
            value = Array(tuple(tuple(row[k].term or Blank() for k in at) for row in rows))
        else:  # of two columns with the weights, the second has their decimals
            value = Array((tuple(row[at[-1]].term or Blank() for row in rows),), flat=True)
        found.append((rows[0][0].line, f"{head[at[0]].text}: {len(rows)} rows", Name(name or ""), value))
        total = [row[at[0]] for row in body if row not in rows and name == "exponential" and row[at[0]].number]
        found += [(cell.line, cell.text, Name("sum"), cell.term or Blank()) for cell in total]
    return found


def _quantity(cell: _Cell) -> str | None:
    """Return the quantity that a column header names: `Logit 2·(q·k)`, exp, q1, query2; None if it names none."""
    text = cell.text.strip("$ ").lower()
    component = re.fullmatch(r"(q|k|v|query|key|value)_?\{?\d\}?", text)
    if component:
        return {"q": "query", "k": "key", "v": "value"}[component[1][0]]
    if _is_dot_product(cell.term) or re.fullmatch(r"q\s*[·.*⋅]\s*k(?:_?[ij])?", text):
        return "dotproduct"
    if re.match(r"q\s*[·.*⋅]\s*k(?:_?[ij])?\s*/\s*(?:√|sqrt\b|d)", text):
        return "score"
    if re.match(r"exp\b|e\^", text):
        return "exponential"
    noun = _column_name(text) or noun_of(cell.text)
    return noun.name if noun is not None else None


def _column_name(text: str) -> Name | None:
    """Return the mean or the variance that a column header names, also with its symbol: mean μ, variance (σ²)."""
    low = text[:40].lower()
    return _COLUMN_NAMES.get(low) or _COLUMN_NAMES.get(_WITH_SYMBOL.sub("", low))


def _is_dot_product(term: Expression | None) -> bool:
    """Return whether a column header is q·k_j."""
    return isinstance(term, Product) and [f.name for f in term.factors if isinstance(f, Name)] == ["q", "k"]


def _formulas(rows: list[list[_Cell]], table: TableContents) -> None:
    for row in rows:
        for cell in row:
            table.formulas += [(cell.line, found[1] or found[2] or "") for found in _MATH.finditer(cell.text)]


def _head(rows: list[list[_Cell]]) -> list[_Cell] | None:
    """Return the first row if it names the columns: words, names, or 1, 2, 3, … beside an empty corner."""
    first = rows[0]
    if all(cell.number for cell in first) or _labelled(rows):
        return None
    return first


def _labelled(rows: list[list[_Cell]]) -> bool:
    """Return whether the rows are numbers after x1, x2, …, so that none of them is a header."""
    labels = [_TOKEN.fullmatch(row[0].text) for row in rows]
    counted = [int(label[1]) for label in labels if label] == list(range(1, len(rows) + 1))
    return counted and not any(row[0].number for row in rows) and all(c.number for row in rows for c in row[1:])


def _rows_of_vectors(rows: list[list[_Cell]]) -> list[tuple[int, str, Expression | None, Expression]]:
    """`q1 | 1 | 2` over `q2 | 2 | 0`, without a header: each row is the vector it names; empty for other tables."""
    labels = [_VECTOR_LABEL.fullmatch(row[0].text) for row in rows]
    named = len({label[1] for label in labels if label}) == 1 and all(labels) and len(rows[0]) > 2
    if not named or not all(cell.number for row in rows for cell in row[1:]):
        return []
    return [
        (row[0].line, " | ".join(cell.text for cell in row), row[0].term,
         Array((tuple(cell.term or Blank() for cell in row[1:]),), flat=True))
        for row in rows
    ]  # fmt: skip


def _side(body: list[list[_Cell]], headed: bool, indexed: bool) -> bool:
    """Return whether the first column names the rows; `indexed` if its header says so."""
    first = [row[0] for row in body]
    if not headed or len(body[0]) == 1:
        return len(body[0]) > 1 and _labelled(body)
    counted = any([cell.text for cell in first] == [str(i + k) for i in range(len(first))] for k in (0, 1))
    words = all(not cell.number or _NAMED_TOKEN.match(cell.text) for cell in first)
    return words or (counted and (indexed or len(body[0]) == len(body) + 1))
