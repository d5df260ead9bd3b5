"""Nodes as LaTeX: what pdflatex compiles, Markdown viewers show, and our own reader reads back."""

from __future__ import annotations

from glassformer.worked.display import Exp, Frac, Func, Neg, Num, Power, Prod, Root, Sum, Symbol, Tree
from glassformer.worked.render.formula import (
    Decimal,
    Grid,
    Letter,
    Link,
    Node,
    Number,
    Over,
    Radical,
    Row,
    Sign,
    Ten,
)

_GREEK = {"μ": r"\mu", "σ": r"\sigma", "γ": r"\gamma", "β": r"\beta"}
_SIGNS = {
    "·": r"\cdot ",
    "−": "-",
    "∘": r"\circ ",
    "exp": r"\exp",
    "max": r"\max",
    "softargmax": r"\operatorname{softargmax}",
    "(": r"\left(",
    ")": r"\right)",
    "[": r"\left[",
    "]": r"\right]",
}
_RELATIONS = {"": "", "=": "=", "≈": r"\approx"}


def latex(node: Node) -> str:
    match node:
        case Letter(base, below, above):
            return _letter(base, below, above)
        case Number(value):
            return number(value)
        case Decimal(text):
            return text
        case Ten(digits, exponent):
            return rf"{digits} \cdot 10^{{{exponent}}}"
        case Sign(text):
            return _SIGNS.get(text, text)
        case Row(items):
            return " ".join(latex(item) for item in items)
        case Over(top, bottom):
            return rf"\frac{{{latex(top)}}}{{{latex(bottom)}}}"
        case Radical(argument):
            return rf"\sqrt{{{latex(argument)}}}"
        case Grid(rows):
            lines = r" \\ ".join(" & ".join(latex(cell) for cell in row) for row in rows)
            return rf"\begin{{bmatrix}} {lines} \end{{bmatrix}}"


def _letter(base: str, below: str, above: str) -> str:
    letter = _GREEK.get(base, base)
    if len(base) > 1:
        letter = rf"\mathrm{{{base}}}"
    if above == "^":
        letter, above = rf"\hat{{{letter}}}", ""
    index = f"_{{{below}}}" if below else ""
    power = {"": "", "T": r"^\top"}.get(above, f"^{{{above}}}")
    return f"{letter}{index}{power}"


def chain(links: list[Link]) -> str:
    return " ".join(f"{_RELATIONS[link.relation]} {latex(link.node)}".strip() for link in links)


def number(tree: Tree) -> str:
    match tree:
        case Num(value):
            return str(value)
        case Symbol():
            return r"-\infty"
        case Neg(argument):
            return f"-{_factor(argument)}"
        case Sum(items):
            first, *rest = items
            return number(first) + "".join(
                f" - {_factor(item.argument)}" if isinstance(item, Neg) else f" + {number(item)}" for item in rest
            )
        case Prod(items):
            return _product(items)
        case Frac(top, bottom):
            return rf"\frac{{{number(top)}}}{{{number(bottom)}}}"
        case Root(argument, 2):
            return rf"\sqrt{{{number(argument)}}}"
        case Root(argument, index):
            return rf"\sqrt[{index}]{{{number(argument)}}}"
        case Exp(Num(1)):
            return "e"
        case Exp(exponent):
            return f"e^{{{number(exponent)}}}"
        case Power(base, exponent):
            inner = number(base) if isinstance(base, Num) else rf"\left({number(base)}\right)"
            return f"{inner}^{{{exponent}}}"
        case Func(name, argument):
            return rf"\{name}\left({number(argument)}\right)"


def _product(items: tuple[Tree, ...]) -> str:
    """Side by side; a dot where two numbers would run together."""
    parts = [_factor(item) for item in items]
    out = parts[0]
    for item, part in zip(items[1:], parts[1:], strict=True):
        out += (r" \cdot " if isinstance(item, Num | Frac) else " ") + part
    return out


def _factor(tree: Tree) -> str:
    return rf"\left({number(tree)}\right)" if isinstance(tree, Sum | Neg) else number(tree)


def escape(text: str) -> str:
    """Plain words safe inside LaTeX text."""
    table = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    table |= {char: f"\\{char}" for char in "&%$#_"}
    table |= {"−": "$-$", "·": r"$\cdot$", "²": "$^2$", "ᵀ": r"$^\top$", "∞": r"$\infty$", "≈": r"$\approx$"}
    table |= {"×": r"$\times$", "√": r"$\surd$", "β": r"$\beta$", "γ": r"$\gamma$", "μ": r"$\mu$", "σ": r"$\sigma$"}
    table |= {"∘": r"$\circ$", "→": r"$\to$", "½": "$1/2$", "Σ": r"$\Sigma$", "ε": r"$\varepsilon$", "…": r"\dots{}"}
    return "".join(table.get(char, char) for char in text)
