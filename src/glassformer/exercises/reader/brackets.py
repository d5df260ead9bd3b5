"""Matrices drawn with bracket characters over several lines, ⎡ ⎢ ⎣ ⎤ ⎥ ⎦, as printed by `glassformer solve` and SymPy.

Each is rewritten as `[[1, 2], [3, 4]]` on the line of its equation; the number of lines is preserved.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CORNERS = {"⎡": ("⎢", "⎣", "⎤"), "⎛": ("⎜", "⎝", "⎞")}
_CLOSING = frozenset("⎤⎥⎦⎞⎟⎠")
MAX_ROWS = 100
_LINEAR = re.compile(r"[\[(]?[■█]\(([^()\n]*(?:\([^()\n]*\)[^()\n]*)*)\)[\])]?")  # Word's linear format: [■(1&0@0&2)]

_ENTRY = r"[-+−]?(?:\d+(?:\.\d*)?|∞)"  # NumPy writes 0 as 0.
_ENTRIES = re.compile(rf"{_ENTRY}(?:\s+{_ENTRY})*")
_ROUND = re.compile(rf"\((\s*{_ENTRY}(?:[ \t]+{_ENTRY})+(?:\s*;\s*{_ENTRY}(?:[ \t]+{_ENTRY})+)+\s*)\)")  # (1 0; 0 2)
_SPACED = re.compile(r"\[([^\[\],;\n]{1,400})\]")  # [e² + 1  e^(1/2)], a row of expressions
_GAP = re.compile(r"[ \t]{2,}")
_WORD = re.compile(r"(?!sqrt|exp)[A-Za-z]{2,}")


@dataclass(frozen=True, slots=True)
class _Drawn:
    top: int
    left: int
    bottom: int
    right: int  # the column after the closing brackets
    text: str


def inline(text: str) -> str:
    """Rewrite the document with every drawn matrix on one line."""
    text = _ROUND.sub(r"[\1]", _LINEAR.sub(_matrix, text))
    if not any(corner in text for corner in _CORNERS):
        return _SPACED.sub(_row, text)
    lines = text.split("\n")
    found = [drawn for row, line in enumerate(lines) for drawn in _in_line(lines, row, line)]
    for band in _bands(found):
        _rewrite(lines, band)
    return _SPACED.sub(_row, "\n".join(lines))


def _matrix(found: re.Match[str]) -> str:
    rows = (", ".join(cell.strip() for cell in row.split("&")) for row in found[1].split("@"))
    return f"[[{'], ['.join(rows)}]]"


def _row(found: re.Match[str]) -> str:
    cells = _GAP.split(found[1].strip())
    if len(cells) == 1 or _ENTRIES.fullmatch(found[1].strip()) or _WORD.search(found[1]):
        return found[0]
    return f"[{', '.join(cells)}]"


def _in_line(lines: list[str], row: int, line: str) -> list[_Drawn]:
    found = []
    for column, char in enumerate(line):
        if char in _CORNERS and (drawn := _drawn(lines, row, column, *_CORNERS[char])) is not None:
            found.append(drawn)
    return found


def _drawn(lines: list[str], row: int, column: int, middle: str, last: str, closing: str) -> _Drawn | None:
    """Return the matrix whose upper left corner is here; None if it is not closed."""
    right = end = lines[row].find(closing, column)
    if right < 0:
        return None
    rows = []
    for bottom in range(row, min(len(lines), row + MAX_ROWS)):
        line = lines[bottom]
        if len(line) <= column or (bottom > row and line[column] not in (middle, last)):
            return None
        if len(line) <= right or line[right] not in _CLOSING:  # rows of different lengths
            right = next((k for k in range(column, len(line)) if line[k] in _CLOSING), -1)
            if right < 0:
                return None
            end = max(end, right)
        if inside := line[column + 1 : right].strip():  # SymPy puts an empty line between the rows
            rows.append(re.split(r"\s+" if _ENTRIES.fullmatch(inside) else r"\s{2,}|\t", inside))
        if line[column] == last:
            text = "[" + ", ".join(f"[{', '.join(cells)}]" for cells in rows) + "]"
            return _Drawn(row, column, bottom, end + 1, text)
    return None


def _bands(found: list[_Drawn]) -> list[list[_Drawn]]:
    """Group matrices that are side by side, that is, whose lines overlap."""
    bands: list[list[_Drawn]] = []
    for drawn in sorted(found, key=lambda each: each.top):
        if bands and drawn.top <= max(each.bottom for each in bands[-1]):
            bands[-1].append(drawn)
        else:
            bands.append([drawn])
    return bands


def _rewrite(lines: list[str], band: list[_Drawn]) -> None:
    """Write all matrices of a band on the line of their equation."""
    first, last = min(each.top for each in band), max(each.bottom for each in band)
    outside = {row: _without(lines[row], [each for each in band if each.top <= row <= each.bottom])
               for row in range(first, last + 1)}  # fmt: skip
    middle = (first + last) / 2
    base = min(outside, key=lambda row: (not outside[row].strip(), abs(row - middle)))
    line = lines[base].ljust(max(each.right for each in band))
    for each in sorted(band, key=lambda each: -each.left):
        line = line[: each.left] + each.text + line[each.right :]
    for row in outside:
        lines[row] = outside[row].rstrip() if row != base else ""
    lines[base] = line.rstrip()


def _without(line: str, band: list[_Drawn]) -> str:
    for each in band:
        line = line[: each.left] + " " * (each.right - each.left) + line[each.right :]
    return line
