"""The text layer of a PDF as lines of text, with matrices that are typeset over several lines put on one.

A PDF stores characters with positions. Characters on one baseline form a line; numbers stacked in columns, with at most
one line of text beside them, form a matrix, written as [[1, 2], [3, 4]] on that line; what stands above and below a
gap of a line is a fraction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

_NUMBER = re.compile(r"[-−+]?(?:\d{1,3}(?:,\d{3})*\.\d+|\d+(?:\.\d+)?|\.\d+)(?:/\d+)?|[-−](?:∞|inf(?:inity)?)")
_PIECES = re.compile(r"[\uf8eb-\uf8fe⎛⎜⎝⎞⎟⎠⎡⎢⎣⎤⎥⎦]")  # of tall brackets
_EQUATION = re.compile(r"\(\d{1,3}\)")
_ROOT = "√"
_UNMAPPED = re.compile(r"\(cid:\d+\)")  # a glyph without a character: in practice a piece of a tall bracket
_ROW = re.compile(rf"\s*(?:{_NUMBER.pattern})(?:\s+(?:{_NUMBER.pattern}))+\s*")
_MARGIN = re.compile(
    r"\s*(?:\d{1,2}[/.]\d{1,2}[/.]\d{2,4},? \d{1,2}:\d\d(?: [AP]M)?.{0,80}"
    r"|(?:ﬁle|file|https?):/{2,3}\S+(?:\s+\d+/\d+)?"
    r"|(?:[Pp]age |[Ss]eite |[Pp]agina )?\d{1,3}(?:\s?/\s?\d{1,3}| of \d{1,3})?)\s*"
)


@dataclass(slots=True)
class _Word:
    text: str
    left: float
    right: float
    base: float
    size: float


@dataclass(frozen=True, slots=True)
class _Bracket:
    """A tall bracket, or a piece of one, and the range of baselines that it spans.

    An equals sign beside the middle of a matrix splits its other rows if their numbers are at least `gap` apart and the
    second one stands below or above the number after the sign, which begins at `column`.
    """

    left: float
    low: float
    high: float
    gap: float = 0
    column: float | None = None


@dataclass(slots=True)
class _Line:
    words: list[_Word] = field(default_factory=list)

    @property
    def base(self) -> float:
        return self.words[0].base


@dataclass(slots=True)
class _Run:
    """Numbers side by side in one line: a row of a matrix, perhaps."""

    line: int
    words: list[_Word]
    beside: bool  # whether text stands to its left in the same line, with no tall bracket between

    @property
    def left(self) -> float:
        return self.words[0].left

    @property
    def right(self) -> float:
        return self.words[-1].right

    @property
    def base(self) -> float:
        return self.words[0].base


def join_pages(pages: Iterable[str]) -> str:
    """Join the texts of pages; a table goes on across a page break, and headers and footers come last.

    The lines that a browser prints around a page (the date, the address, the page number) are kept, each on a line
    that begins with "Page header or footer:".
    """
    text, margins = "", []
    for page in pages:
        lines = page.split("\n")
        while lines and _MARGIN.fullmatch(lines[0]):
            margins.append(lines.pop(0))
        while lines and _MARGIN.fullmatch(lines[-1]):
            margins.append(lines.pop())
        before = text.rpartition("\n")[2]
        goes_on = bool(lines) and _ROW.fullmatch(before) is not None and _ROW.fullmatch(lines[0]) is not None
        text += ("" if not text else "\n" if goes_on else "\n\n") + "\n".join(lines)
    return "\n".join([text, *(["", *(f"Page header or footer: {line}" for line in margins)] if margins else [])])


def page_text(chars: Iterable[Any]) -> str:
    """Return the text of a page from its characters, objects of pdfminer with a box and a matrix."""
    brackets: list[_Bracket] = []
    plain: list[_Word] = []
    for char in chars:
        left, _, right, _ = char.bbox
        word = _Word(char.get_text(), left, right, char.matrix[5], char.size)
        extends = "CMEX" in char.fontname  # TeX's pieces extend down from their base
        tall = extends or _PIECES.search(word.text) or _UNMAPPED.fullmatch(word.text)
        if tall and word.text != _ROOT and "radical" not in word.text:
            below, above = (2.6, 0.3) if extends else (0.9, 0.9)
            brackets.append(_Bracket(left, word.base - below * word.size, word.base + above * word.size))
        elif word.text.strip():
            plain.append(word)
    if not plain:
        return ""
    size = median(word.size for word in plain)
    lines = [_Line(_words(line, size)) for line in _baselines(plain, size)]
    return "\n".join(_render(lines, brackets, size)).replace("^{⊤}", "^T")


def _baselines(chars: list[_Word], size: float) -> Iterator[list[_Word]]:
    """Group characters into lines; small ones, indices and exponents, join the line that is nearest.

    Small characters that touch no line form lines of their own: a listing in a smaller font.
    """
    full = sorted((c for c in chars if c.size > 0.85 * size), key=lambda c: -c.base)
    lines: list[list[_Word]] = []
    for char in full:
        if lines and abs(lines[-1][0].base - char.base) < 0.2 * size:
            lines[-1].append(char)
        else:
            lines.append([char])
    for char in (c for c in chars if c.size <= 0.85 * size):
        near = [line for line in lines if abs(line[0].base - char.base) < 0.6 * size and _touches(line, char, size)]
        if near:
            min(near, key=lambda line: abs(line[0].base - char.base)).append(char)
            continue
        level = [line for line in lines if line[0].size <= 0.85 * size and abs(line[0].base - char.base) < 0.05 * size]
        if level:
            level[0].append(char)
        else:
            lines.append([char])
    for line in sorted(lines, key=lambda line: -line[0].base):
        yield sorted(line, key=lambda c: c.left)


def _touches(line: list[_Word], char: _Word, size: float) -> bool:
    return any(-0.2 * size < char.left - other.right < 0.5 * size for other in line)


def _words(chars: list[_Word], size: float) -> list[_Word]:
    words: list[_Word] = []
    base = next((c.base for c in chars if c.size > 0.85 * size), chars[0].base)
    script = ""
    for char in chars:
        small = char.size <= 0.85 * size and abs(char.base - base) > 0.05 * size
        mark = ("_" if char.base < base else "^") if small else ""
        gap = char.left - words[-1].right if words else size
        number = bool(words) and _decimal(words[-1].text, char.text)
        if words and (gap < 0.17 * size or (number and gap < 0.3 * size) or (mark and gap < 0.3 * size)):
            last = words[-1]
            closing = "}" if script and mark != script else ""
            opening = f"{mark}{{" if mark and mark != script else ""
            last.text += f"{closing}{opening}{char.text}"
            last.right = char.right
        else:
            if words and script:
                words[-1].text += "}"
            text = f"{mark}{{{char.text}" if mark else char.text
            words.append(_Word(text, char.left, char.right, base if small else char.base, char.size))
        script = mark
    if words and script:
        words[-1].text += "}"
    return words


def _decimal(before: str, char: str) -> bool:
    """Return whether a character goes on with a decimal: TeX puts a little space after the point of 0.5."""
    return bool(re.search(r"\d$", before) and char == ".") or bool(re.search(r"\d\.$", before) and char.isdigit())


def _render(lines: list[_Line], brackets: list[_Bracket], size: float) -> Iterator[str]:
    signs = [  # between rows of two matrices
        (word, after if after is not None and _NUMBER.fullmatch(after.text) else None)
        for line in lines
        for word, after in zip(line.words, [*line.words[1:], None], strict=True)
        if word.text.endswith("=")
    ]
    dividers = brackets + [_Bracket(w.left, w.base - 0.9 * size, w.base + 0.9 * size) for w, _ in signs]
    far = [(w, after) for w, after in signs if after is not None]
    dividers += [_Bracket(w.left, w.base - 2.6 * size, w.base + 2.6 * size, 2 * size, n.left) for w, n in far]
    runs = [run for at, line in enumerate(lines) for run in _runs(at, line, dividers)]
    inserted: dict[int, list[_Word]] = {}
    used: set[int] = set()
    for stack in _stacks(runs, size):
        lists = ([word.text.replace("−", "-").replace(",", "") for word in run.words] for run in stack)
        rows = ", ".join(f"[{', '.join(numbers)}]" for numbers in lists)
        named = _named_line(lines, stack)
        used |= {id(word) for run in stack for word in run.words}
        matrix = _Word(f"[{rows}]", stack[0].left, max(run.right for run in stack), lines[named].base, size)
        inserted.setdefault(named, []).append(matrix)
    rest = [_Line([w for w in line.words if id(w) not in used] + inserted.get(at, [])) for at, line in enumerate(lines)]
    for at, line in enumerate(rest):
        if line.words:
            line.words.sort(key=lambda word: word.left)
        for matrix in inserted.get(at, []):
            _without_brackets(line, matrix)
        if at in inserted:
            _fractions(rest, at, size)
    for line in (line for line in rest if line.words):
        if all(word.text in "()[]" for word in line.words):
            continue  # pieces of a bracket
        *words, last = line.words
        if words and _EQUATION.fullmatch(last.text) and last.left - words[-1].right > 1.5 * size:
            yield _spaced(words, size)
            yield last.text  # the number of the equation
        else:
            yield _spaced(line.words, size)


def _spaced(words: list[_Word], size: float) -> str:
    """Join the words of a line; two spaces divide a matrix from an equation that stands apart."""
    gaps = ["  " if a.text.startswith("[[") and b.left - a.right > 1.5 * size else " " for a, b in pairwise(words)]
    return "".join(word.text + gap for word, gap in zip(words, [*gaps, ""], strict=True))


def _without_brackets(line: _Line, matrix: _Word) -> None:
    """Remove the brackets that stand around a matrix as characters of the line."""
    at = next(k for k, word in enumerate(line.words) if word is matrix)
    around = [word.text for word in line.words[max(at - 1, 0) : at + 2 : 2]]
    if around in (["[", "]"], ["(", ")"]):
        line.words[at - 1 : at + 2] = [matrix]


def _named_line(lines: list[_Line], stack: list[_Run]) -> int:
    """Return the line of the equation that a stack belongs to: the one with text to its left nearest to its middle."""
    top, bottom = stack[0].base, stack[-1].base
    left = {
        k: [w.text for w in line.words if w.right <= stack[0].left + 1]
        for k, line in enumerate(lines)
        if bottom - 1 <= line.base <= top + 1
    }
    left = {k: texts for k, texts in left.items() if any(not _NUMBER.fullmatch(text) for text in texts)}
    equations = {k: texts for k, texts in left.items() if texts[-1].endswith(("=", "≈"))}
    middle = (top + bottom) / 2
    return min(equations or left, key=lambda k: abs(lines[k].base - middle), default=stack[0].line)


def _runs(at: int, line: _Line, brackets: list[_Bracket]) -> Iterator[_Run]:
    """Yield the numbers of a line that stand together; a tall bracket between two of them divides them."""
    current: list[_Word] = []
    beside = False
    last: _Word | None = None
    for word in [*line.words, None]:
        numeric = word is not None and _NUMBER.fullmatch(word.text) is not None
        divided = last is not None and word is not None and any(
            last.right - 1 <= b.left <= word.left + 1 and b.low < line.base < b.high and word.left - last.right >= b.gap
            and (b.column is None or abs(word.left - b.column) < word.size) for b in brackets
        )  # fmt: skip
        last = word
        beside = beside and not divided
        if current and (not numeric or divided):
            yield _Run(at, current, beside)
            current, beside = [], False
        if word is not None and numeric:
            current.append(word)
        elif word is not None:
            beside = True


def _stacks(runs: list[_Run], size: float) -> Iterator[list[_Run]]:
    """Yield runs below one another with as many numbers each, of which at most one has text beside it."""
    left = list(runs)
    while left:
        stack = [left.pop(0)]
        pitch = 0.0  # rows of a matrix are evenly spaced
        for run in list(left):
            last = stack[-1]
            step = last.base - run.base
            overlap = min(last.right, run.right) - max(last.left, run.left)
            even = not pitch or abs(step - pitch) < 0.15 * pitch
            if 0.6 * size < step < 1.9 * size and even and len(run.words) == len(last.words) and (
                overlap > 0.5 * min(last.right - last.left, run.right - run.left)
            ):  # fmt: skip
                pitch = pitch or step
                stack.append(run)
                left.remove(run)
        if len(stack) > 1 and sum(run.beside for run in stack) < 2:
            yield stack


def _fractions(lines: list[_Line], at: int, size: float) -> None:
    """Put what stands above and below a gap of the line into it, as (above)/(below)."""
    line = lines[at]
    base = next(w.base for w in line.words)
    above = [lines[k] for k in range(at) if lines[k].words and 0.4 * size < lines[k].base - base < 1.1 * size]
    after = [line for line in lines[at + 1 :] if line.words]
    below = [line for line in after if 0.4 * size < base - line.base < 1.3 * size]
    for upper in above:
        for group in _groups(upper.words, size):
            middle = (group[0].left + group[-1].right) / 2
            under = [w for other in below for w in other.words if abs((w.left + w.right) / 2 - middle) < 2 * size]
            roots = [w for w in line.words if w.text == _ROOT and abs((w.left + w.right) / 2 - middle) < 1.5 * size]
            free = not any(w.left < middle < w.right for w in line.words if w not in roots)
            if not under or not free:
                continue
            texts = ["".join(w.text for w in part) for part in (group, sorted(under, key=lambda w: w.left))]
            bottom = f"{_ROOT}({texts[1]})" if roots else texts[1]
            line.words.append(_Word(f"({texts[0]})/({bottom})", group[0].left, group[-1].right, base, size))
            gone = {id(w) for w in (*group, *under, *roots)}
            for other in (upper, line, *below):
                other.words = [w for w in other.words if id(w) not in gone]
    line.words.sort(key=lambda word: word.left)


def _groups(words: list[_Word], size: float) -> list[list[_Word]]:
    groups: list[list[_Word]] = []
    for word in words:
        if groups and word.left - groups[-1][-1].right < size:
            groups[-1].append(word)
        else:
            groups.append([word])
    return groups
