"""Mathematics in plain prose: `Q = [[1, 2], [3, 4]]`, `14 x 14 = 196`, "we get circa 13.8256", rows of numbers.

A line is cut into chunks at its spaces. Chunks with digits, signs or indices are mathematics, words are not, single
letters are what their neighbours are. A run of mathematics with a relation or a list in it is a formula.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from glassformer.worked.read import names

MOST_LINES = 60  # that one bracket may span
LONGEST_LINE = 20_000


@dataclass(frozen=True, slots=True)
class Event:
    kind: Literal["words", "formula", "number", "long"]
    text: str
    line: int


_ANY = re.compile(r"[\d=≈→⇒√∑\\\[^_>]")  # without any of these a line is words
_COMMANDS = re.compile(
    r"\\(?:(?:sub)*section|chapter|paragraph|textbf|textit|emph|item|title|author|date|caption|noindent|maketitle|"
    r"centering|begin|end|label|ref|underline|par|newpage|clearpage|bigskip|medskip|smallskip|vspace|hspace|input|href|"
    r"url|q?quad)\b\*?(?:\{[a-z]{1,20}\})?(?:\[[^\]\n]{0,80}\])?"
)
_MARKER = re.compile(r"^\s*(?:>\s*)*(?:#{1,6}\s+|[-*+•]\s+|\(?(?:\d{1,2}|[a-z])[.)](?=\s|$)|\(\d{1,2}\))?\s*")
_NUMBER = r"[-+−]?\d[\d.]*(?:/\d+)?"
_NUMBERS = re.compile(rf"^\s*[\[(|]?\s*{_NUMBER}(?:(?:\s*[,;]\s*|\s+){_NUMBER})+\s*[,;]?\s*[\])|]?\s*$")
_RELATION = re.compile(r"=|≈|→|⇒|->|~=|\\approx|\\rightarrow|\\Rightarrow|\\to\b|≃|⟹")
_STRONG = re.compile(
    r"\d|[=+^_×·⋅≈→⇒√∑∞−ᵀ²³₀-₉∗]|\\(?:frac|cdot|times|sqrt|approx|[A-Z]?[a-z]*arrow|left|right|exp|sum|begin|end|,)"
)
_SIGNS = re.compile(r"[-+*/=<>()\[\]{},;|~:.]+$")
_WORDS = re.compile(r"[A-Za-zÀ-ÿ]{3,}")
_DECIMALS = re.compile(r"(?<![\w.])[-−]?\d+\.\d+(?![\w]|\.\d)(?:\s*,\s*[-−]?\d+(?:\.\d+)?(?![\w]|\.\d))*")
_WHOLE = re.compile(r"(?<![\w.,])\d+(?![\w]|[.,]\d)")
_CUES = re.compile(
    r"(?:gets?|gives?|equals|obtain|circa|about|approximately|roughly|around|ca\.|total of|is)\s*[:~]?\s*$", re.I
)
_REFERENCE = re.compile(
    r"(?:section|table|figure|fig\.|chapter|version|page|eq\.|equation|task|exercise|part|v)\s*$", re.I
)
_EMPHASIS = re.compile(r"(?<![\w*)])\*(\w{1,20})\*(?![\w*(])")
_NAMED = re.compile(r"[A-Za-z]\w*(?:[(\[][\w,]{1,12}[)\]])?")
_SHORT_NAME = re.compile(r"[WwQqKkVvd][qkvoQKVO]$|[A-Z]{2}$")
_PYTHON = re.compile(r"\b(?:np|numpy|torch|math)\.(?:(?:array|tensor|matrix)\b)?")
_ASSIGNED = re.compile(r"^\s*[A-Za-z][\w\[\]{}^,]{0,30}\s*=[^=]")
_LIST = re.compile(r"\[[^\[\]]*[\d\]][^\[\]]*[,;\s][^\[\]]*")


def scan(text: str, line: int, *, code: bool = False) -> Iterator[Event]:
    """The events of a stretch of prose, in order."""
    rows = text.split("\n")
    index = 0
    while index < len(rows):
        row = rows[index]
        here = line + index
        if not _ANY.search(row) and not (len(row) < 40 and row.rstrip().endswith(":")):
            index += 1
            if row and not row.isspace():
                yield Event("words", _MARKER.sub("", _COMMANDS.sub(" ", row), count=1), here)
            continue
        if len(row) > LONGEST_LINE:
            yield Event("long", row[:200], here)
            index += 1
            continue
        block = _block(rows, index)
        if block:
            lead, first = _lead(row)
            joined = "; ".join(rows[i].strip().strip("|[]()").rstrip(",;") for i in range(index + first, index + block))
            yield Event("formula", f"{lead}[{joined}]", here)
            index += block
            continue
        taken = _joined(rows, index)
        joined = "\n".join(rows[index : index + taken])
        index += taken
        yield from _line(joined, here, code)


def _lead(row: str) -> tuple[str, int]:
    """`Q =` or `Q:` alone on a line names the rows of numbers under it."""
    found = re.match(r"^\s*[-*]?\s*\**\s*([A-Za-z]\S{0,20})\s*(?:=|:)\s*\**\s*$", row)
    return (f"{found[1]} = ", 1) if found else ("", 0)


def _block(rows: list[str], index: int) -> int:
    """How many lines from here on are rows of numbers, with the name over them; 0 if these are none."""
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
    """How many lines belong together because a bracket is open."""
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
    body = _COMMANDS.sub(" ", text)
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
        body = _EMPHASIS.sub(r"\1", body.replace("**", bold)).replace("<sub>", "_").replace("</sub>", "")
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


def _numbers(body: str, at: int, low: int, high: int, line: int) -> Iterator[Event]:
    """Decimals in prose, and whole numbers that the words before them announce."""
    for found in _DECIMALS.finditer(body, low, high):
        text = found.group().rstrip(" ,")
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
    """S: mathematics. W: as its neighbours are. N: a word."""
    core = chunk.strip(".,;:!?\"'“”")
    if not core:
        return "W"
    if re.match(r"https?:|www\.|[\w.]+@", core) or re.fullmatch(r"\d+(?:st|nd|rd|th)|\d{4}-\d\d-\d\d|\d+:\d+", core):
        return "N"
    function = re.match(r"([A-Za-z]+)\(", core)
    if function and (function[1].lower() in names.FUNCTIONS):
        return "S"
    if "_" in core and re.match(r"[\w{}\\^,]+$", core) and _WORDS.match(core) is None:
        return "S"
    if _STRONG.search(core):
        known = all(w.lower() in names.FUNCTIONS or w in ("out", "frac", "cdot", "sqrt") for w in _WORDS.findall(core))
        return "S" if known or re.search(r"[=_^\\]", core) else "N"
    if _SIGNS.match(core):
        return "S" if re.search(r"[=/*+\[\]()<>-]", core) else "W"
    if core.startswith("["):
        return "S"
    letters = core.strip("()[],")
    if len(letters) == 1 or (len(letters) <= 4 and all(c in names.QUANTITIES for c in letters)):
        return "W"
    if _SHORT_NAME.match(letters):
        return "W"
    return "N"


def _runs(chunks: list[tuple[str, int]], kinds: list[str]) -> Iterator[tuple[int, int]]:
    """Ranges of chunks that are mathematics; a word right before a relation names its left side."""
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
    """Whether the letter here belongs to what follows: "a = 1" but not "a [1, 2]"."""
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
