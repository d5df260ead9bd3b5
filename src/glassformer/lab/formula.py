"""A_{ij} = frac{e^{S_{ij}}}{Σ_l e^{S_{lj}}}: formulas in linear notation, converted to MathML for a page.

Adjacent letters form one name, `_` and `^` take one symbol or a group in braces, ^T is a transpose; frac{…}{…} is a
fraction and sqrt{…} a square root.
"""

from __future__ import annotations

import re
from html import escape

from glassformer.errors import InputError

_TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[^\W\d_]+)|(?P<sign>\S))")


def mathml(text: str) -> str:
    """Convert the formula to one <math> element."""
    reader = _Reader(text)
    row = reader.row("")
    return f'<math display="block"><mrow>{row}</mrow></math>'


def plain(text: str) -> str:
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

    def row(self, end: str) -> str:
        """Parse everything up to the closing symbol."""
        parts = []
        while self.at < len(self.tokens) and self.tokens[self.at][1] != end:
            parts.append(self.scripted())
        if end:
            self.expect(end)
        return "".join(parts)

    def expect(self, sign: str) -> None:
        if self.at >= len(self.tokens) or self.tokens[self.at][1] != sign:
            raise InputError(f"the formula {self.text!r} has no {sign!r} where one is needed", "close every brace")
        self.at += 1

    def group(self) -> str:
        self.expect("{")
        return f"<mrow>{self.row('}')}</mrow>"

    def scripted(self) -> str:
        """Parse a symbol with its subscript and superscript."""
        base, below, above = self.atom(), "", ""
        while self.at < len(self.tokens) and self.tokens[self.at][1] in "_^":
            lower = self.tokens[self.at][1] == "_"
            self.at += 1
            script = self.atom()
            if lower:
                below = script
            else:
                above = "<mo>⊤</mo>" if script == "<mi>T</mi>" else script
        if below and above:
            return f"<msubsup>{base}{below}{above}</msubsup>"
        if below or above:
            tag = "msub" if below else "msup"
            return f"<{tag}>{base}{below or above}</{tag}>"
        return base

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
        if kind == "name":
            return f"<mi>{escape(value)}</mi>"
        return f"<mo>{escape(value)}</mo>"
