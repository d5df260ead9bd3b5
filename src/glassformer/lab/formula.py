"""A_{ij} = frac{e^{S_{ij}}}{Σ_l e^{S_{lj}}}: formulas in linear notation, converted to MathML for a page.

Two adjacent letters are two symbols, three or more are one name; `_` and `^` take one symbol or a group in braces, ^T
is a transpose, frac{…}{…} a fraction and sqrt{…} a square root.
"""

from __future__ import annotations

import re
from html import escape

from glassformer.errors import InputError

_PAIRS = {"(": ")", "[": "]", "⌈": "⌉"}
_RELATIONS = {"=", "≈", "≥", ">", "→", "⇒", "for", "if"}
_WORDS = {"for", "if", "rises", "every"}
_FUNCTIONS = {"lim", "min", "argmax", "log"}
_LIMITS = {"lim", "min", "Σ"}  # their limits are written below and above, not beside them
_TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[^\W\d_]+)|(?P<sign>\S))")


def formula_mathml(text: str) -> str:
    """Convert the formula to <math> elements: one for each part, so that a line can break between them."""
    parts = _Reader(text).parts()
    return " ".join(f'<math displaystyle="true"><mrow>{part}</mrow></math>' for part in parts)


def formula_text(text: str) -> str:
    """Format the formula for a terminal, without unnecessary braces."""
    text = text.replace("^T", "ᵀ")
    text = re.sub(r"sqrt\{(\w+)\}", r"√\1", text)
    text = re.sub(r"frac\{([^{}]*)\}\{([^{}]*)\}", lambda part: f"{_group(part[1])}/{_group(part[2])}", text)
    return re.sub(r"([_^])\{(\w+)\}", r"\1\2", text)


def _group(part: str) -> str:
    return f"({part})" if re.search(r"[ (]", part) else part


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [(each.lastgroup or "", each[each.lastgroup or 0]) for each in _TOKEN.finditer(text)]
        self.at = 0

    def parts(self) -> list[str]:
        """Parse the whole formula; a part begins before a relation and after a comma outside brackets."""
        parts = [""]
        while self.at < len(self.tokens):
            sign = self.tokens[self.at][1]
            if sign in _RELATIONS and parts[-1]:
                parts.append("")
            parts[-1] += self.scripted()
            if sign == ",":
                parts.append("")
        return [part for part in parts if part]

    def row(self, end: str) -> str:
        """Parse everything up to the closing symbol."""
        parts = []
        while self.at < len(self.tokens) and self.tokens[self.at][1] != end:
            parts.append(self.scripted())
        self.expect(end)
        return "".join(parts)

    def expect(self, sign: str) -> None:
        if self.at >= len(self.tokens) or self.tokens[self.at][1] != sign:
            raise InputError(f"the formula {self.text!r} has no {sign!r} where one is needed", "close every bracket")
        self.at += 1

    def group(self) -> str:
        self.expect("{")
        return f"<mrow>{self.row('}')}</mrow>"

    def scripted(self) -> str:
        """Parse a symbol with its subscript and superscript."""
        name = self.tokens[self.at][1]
        base, below, above = self.atom(), "", ""
        while self.at < len(self.tokens) and self.tokens[self.at][1] in "_^":
            lower = self.tokens[self.at][1] == "_"
            self.at += 1
            script = self.atom()
            if lower:
                below = script
            else:
                above = "<mo>⊤</mo>" if script == "<mi>T</mi>" else script
        under, over = ("under", "over") if name in _LIMITS else ("sub", "sup")
        if below or above:
            tag = f"m{under if below else ''}{over if above else ''}"
            base = f"<{tag}>{base}{below}{above}</{tag}>"
        return base + ('<mspace width="0.17em"/>' if name in _FUNCTIONS else "")

    def atom(self) -> str:
        if self.at >= len(self.tokens):
            raise InputError(f"the formula {self.text!r} ends too early", "finish it")
        kind, value = self.tokens[self.at]
        if value == "{":
            return self.group()
        self.at += 1
        if kind == "number":
            return f"<mn>{value}</mn>"
        if value == "frac":
            return f"<mfrac>{self.group()}{self.group()}</mfrac>"
        if value == "sqrt":
            return f"<msqrt>{self.group()}</msqrt>"
        if value in _PAIRS:
            inner = self.row(_PAIRS[value])
            mo = "<mo>" if "<mfrac>" in inner else '<mo stretchy="false">'
            return f"<mrow>{mo}{value}</mo>{inner}{mo}{_PAIRS[value]}</mo></mrow>"
        if value in _WORDS:
            words = [value]
            while self.at < len(self.tokens) and self.tokens[self.at][1] in _WORDS:
                words.append(self.tokens[self.at][1])
                self.at += 1
            return f"<mtext>\N{NO-BREAK SPACE}{' '.join(words)}\N{NO-BREAK SPACE}</mtext>"
        if value == "Σ":
            return '<mo movablelimits="false">∑</mo>'
        if kind == "name" and len(value) == 2:  # two indices, as in A_{ij}, or a difference, as ΔA
            return "<mrow>" + "".join(f"<mi>{each}</mi>" for each in value) + "</mrow>"
        if kind == "name":
            return f"<mi>{escape(value)}</mi>"
        return f"<mo>{escape(value)}</mo>"
