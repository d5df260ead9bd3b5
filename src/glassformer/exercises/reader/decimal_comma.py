"""Decimal commas: 0,47 as 0.47 where a comma cannot be a separator."""

from __future__ import annotations

import re

_PAIR = re.compile(r"(?<![\w,.])(\d+),(\d+)(?![\d]|,\d|\.\d)(\s?\\?%)?")
_INDEX = re.compile(r"[_^]\{[^{}\n]{0,40}\}|_\d+,\d+|(?<=[A-Za-z])[\[(]\d+,\s?\d+[\])]")  # w_{1,2}, A[1,2]
_VECTOR = re.compile(r"[\[({]\s*[-+−]?\d+,[-+−]?\d\s*[\])}]")  # (3,0) is a vector of two
_POINT = re.compile(r"(?<![\d.])\d*\.\d+(?![\d.])")
_HEADING = re.compile(  # 2.1 Weights, Aufgabe 9.1
    r"^[\s#*]*\d+\.\d+\.?(?=\s)|\b(?:exercises?|problems?|sections?|tasks?|questions?|chapters?|aufgaben?|übung|blatt"
    r"|abschnitt|kapitel|exercices?|esercizi[o]?|ejercicios?|opgave|version)[\s~]+\d+\.\d+(?!\d)", re.M | re.I
)  # fmt: skip
_LIST = re.compile(r"\d,\d+,\d")
_BRACES = re.compile(r"(?<=\d)\{,\}(?=\d)")
_NUMBER = r"(?:[-+−]?\d+(?:,\d+)?|[-−](?:∞|inf))"
_SEMICOLONS = re.compile(rf"[\[(⟨]\s*{_NUMBER}\s*(?:;\s*{_NUMBER}\s*)+[\])⟩]")

_COLUMN = re.compile(  # a column: 0,5   1,5   0,0 or | 0,5 | 1,5 |
    r"(?:(?<=\s\s)|(?<=\| )|^[ \t]*)[-+−]?(\d+),(\d)(?=\s\s|[ \t]*$|[ \t]*\|)", re.M
)
_SINGLE = re.compile(r"(?<=[=≈])\s?[-+−]?(\d+),(\d)(?=[ \t]*$)", re.M)  # m1 = 0,2


def has_decimal_commas(text: str) -> bool:
    """Return whether the commas between digits can only be decimal commas.

    This is the case if no number has a decimal point, no list is written without spaces (1,2,3), most fractions
    have at least two digits or a percent sign or stand alone in a column or after an equals sign, and at least one of
    them cannot be two integers: 0,47 or 3,05 or 47,1 %, or two lines such as m1 = 0,2.
    """
    text = _VECTOR.sub(" ", _INDEX.sub(" ", text))
    if "," not in text or _LIST.search(text) or _POINT.search(_HEADING.sub("", text)):
        return False
    single = _SINGLE.findall(text)
    lines = len(single) > 1 and all(whole == "0" for whole, _ in single)
    rest = _SEMICOLONS.sub(" ", text) if lines else text
    rest = (_SINGLE if lines else _COLUMN).sub(" ", _COLUMN.sub(" ", rest))
    long = [pair for pair in _PAIR.findall(rest) if len(pair[1]) > 1 or pair[2]]
    sure = any(whole == "0" or part.startswith("0") or percent for whole, part, percent in long)
    return (sure or lines) and 5 * len(long) >= 4 * len(_PAIR.findall(rest))


def to_decimal_points(text: str, *, every: bool, lists: bool = False) -> str:
    """Replace decimal commas by points: those in braces, 0{,}47, and if `every` is set those between two digits.

    With `lists` the semicolons of a list of single numbers, [0,47; 0,53], become commas.
    """
    text = _BRACES.sub(".", text)
    if not every:
        return text
    if lists:
        text = _SEMICOLONS.sub(lambda found: found.group().replace(";", ", "), text)
    kept = re.compile(f"{_INDEX.pattern}|{_VECTOR.pattern}|(?<=\\d),(?=\\d)")
    return kept.sub(lambda found: "." if found.group() == "," else found.group(), text)
