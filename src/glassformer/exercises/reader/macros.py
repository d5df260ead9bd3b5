"""Expands a LaTeX file's own commands (\\newcommand, \\def, \\DeclareMathOperator); removes preamble and comments.

The number of lines is preserved, so that line numbers refer to the original file.
"""

from __future__ import annotations

import re

from glassformer.exercises.reader.lexer import closing_brace

MOST_EXPANSIONS = 5_000
LONGEST = 1_000_000  # maximum length of the expanded document, in characters
_DEFINED = re.compile(
    r"\\(?:(?:re)?newcommand|providecommand)\*?\s*\{?\s*\\(?P<name>[A-Za-z]+)\s*\}?\s*(?:\[(?P<count>\d)\])?\s*(?=\{)"
    r"|\\def\s*\\(?P<def>[A-Za-z]+)\s*(?P<hashes>(?:\#\d)*)\s*(?=\{)"
    r"|\\DeclareMathOperator\*?\s*\{\s*\\(?P<operator>[A-Za-z]+)\s*\}\s*(?=\{)"
)
_COMMENT = re.compile(r"(?<!\\)%[^\n]*")
_BOXES = re.compile(r"\\(?:sbox|usebox|resizebox|scalebox)\b")  # these only move or scale their argument


def is_latex(text: str) -> bool:
    return "\\documentclass" in text or "\\begin{document}" in text


def body(text: str) -> str:
    """Return the text between \\begin{document} and \\end{document}, on its original lines, with commands expanded."""
    text = _COMMENT.sub("", text) if is_latex(text) else text
    macros, text = _definitions(text)
    begin = text.find("\\begin{document}")
    if begin >= 0:
        text = "\n" * text.count("\n", 0, begin) + text[begin + len("\\begin{document}") :]
    end = text.find("\\end{document}")
    text = text[:end] if end >= 0 else text
    return _expanded(text, macros) if macros else text


def _definitions(text: str) -> tuple[dict[str, tuple[int, str]], str]:
    macros: dict[str, tuple[int, str]] = {}
    kept: list[str] = []
    at = 0
    for found in _DEFINED.finditer(text):
        if found.start() < at:
            continue
        end = _closing(text, found.end())
        if end < 0:
            continue
        inside = " ".join(text[found.end() + 1 : end].split("\n"))
        name = found["name"] or found["def"] or found["operator"]
        count = int(found["count"] or 0) or len(found["hashes"] or "") // 2
        if count == 1 and _BOXES.search(inside):
            count, inside = 0, ""  # \fit{…} is {…}
        macros[name] = (count, f"\\operatorname{{{inside}}}" if found["operator"] else inside)
        kept += [text[at : found.start()], "\n" * text.count("\n", found.start(), end + 1)]
        at = end + 1
    return macros, "".join([*kept, text[at:]])


def _expanded(text: str, macros: dict[str, tuple[int, str]]) -> str:
    """Expand each use, repeatedly for commands that use others; bounded in number and length."""
    use = re.compile(r"\\(" + "|".join(sorted(map(re.escape, macros), key=len, reverse=True)) + r")(?![A-Za-z])")
    left = MOST_EXPANSIONS
    for _ in range(5):
        out: list[str] = []
        at = length = 0
        for found in use.finditer(text):
            if found.start() < at or left <= 0 or length > LONGEST:
                continue
            left -= 1
            value, end = _use(text, found, macros)
            out += [text[at : found.start()], value]
            length += len(value)
            at = end
        if not out:
            break
        text = "".join([*out, text[at:]])
    return text


def _closing(text: str, start: int) -> int:
    """Return the end of a short argument; −1 if there is none within 4000 characters."""
    end = closing_brace(text[start : start + 4000], 0)
    return end + start if end >= 0 else -1


def _use(text: str, found: re.Match[str], macros: dict[str, tuple[int, str]]) -> tuple[str, int]:
    count, value = macros[found[1]]
    end = found.end()
    arguments: list[str] = []
    for _ in range(count):
        opened = re.compile(r"\s*\{").match(text, end)
        close = _closing(text, opened.end() - 1) if opened else -1
        if opened is None or close < 0:
            return found.group(), found.end()
        arguments.append(text[opened.end() : close])
        end = close + 1
    for number, argument in enumerate(arguments, 1):
        value = value.replace(f"#{number}", argument)
    tail = " " if value[-1:].isalpha() and not count else ""
    return value + tail + "\n" * text.count("\n", found.start(), end), end
