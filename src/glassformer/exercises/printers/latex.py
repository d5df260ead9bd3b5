"""Prints expressions as LaTeX that pdflatex compiles, Markdown viewers render, and `reader` parses back."""

from __future__ import annotations

from itertools import pairwise
from unicodedata import normalize

from glassformer.exercises.expression import (
    Array,
    Blank,
    Call,
    Constant,
    Expression,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Quotient,
    Root,
    Several,
    Struck,
    Sum,
    Transpose,
    Unknown,
    is_symbolic,
)

_LETTERS = {"μ": r"\mu", "σ": r"\sigma", "γ": r"\gamma", "β": r"\beta", "α": r"\alpha", "ε": r"\varepsilon"}
_CONSTANTS = {"∞": r"\infty", "π": r"\pi"}
_FUNCTIONS = frozenset(("exp", "log", "sin", "cos", "tan", "tanh", "max", "min"))
_RELATIONS = {"": "", "=": "=", "≈": r"\approx"}
_HAT = "\u0302"


def latex(node: Expression) -> str:
    match node:
        case Number(text):
            return text.replace("%", r"\%")
        case Constant(symbol):
            return _CONSTANTS.get(symbol, symbol)
        case Name():
            return _name(node)
        case Negative(inner):
            return f"-{_factor(inner)}"
        case Sum(terms):
            rest = (f" - {_factor(t.term)}" if isinstance(t, Negative) else f" + {latex(t)}" for t in terms[1:])
            return latex(terms[0]) + "".join(rest)
        case Product(factors):
            return _product(factors)
        case Quotient(top, bottom):
            return rf"\frac{{{latex(top)}}}{{{latex(bottom)}}}"
        case Power(base, exponent):
            plain = isinstance(base, Number | Constant | Name | Array)
            return f"{latex(base) if plain else _fenced(base)}^{{{latex(exponent)}}}"
        case Root(radicand, degree):
            index = f"[{latex(degree)}]" if degree is not None else ""
            return rf"\sqrt{index}{{{latex(radicand)}}}"
        case Call(function, arguments):
            return _call(function, arguments)
        case Array(rows):
            lines = r" \\ ".join(" & ".join(map(latex, row)) for row in rows)
            return rf"\begin{{bmatrix}} {lines} \end{{bmatrix}}"
        case Transpose(inner):
            return rf"{latex(inner) if isinstance(inner, Name | Array) else _fenced(inner)}^\top"
        case Several(items):
            return ", ".join(map(latex, items))
        case Struck(inner):
            return rf"\cancel{{{latex(inner)}}}"
        case Blank():
            return ""
        case Unknown(source):
            return rf"\text{{{escape(source)}}}"


def _name(name: Name) -> str:
    base = normalize("NFD", name.name)
    letter = base.removesuffix(_HAT)
    shown = _LETTERS.get(letter, letter) if len(letter) == 1 else rf"\mathrm{{{letter}}}"
    shown = rf"\hat{{{shown}}}" if base.endswith(_HAT) else shown
    below = f"_{{{index_text(name)}}}" if name.indices else ""
    above = f"^{{{''.join(map(str, name.upper))}}}" if name.upper else ""
    return shown + below + above + "'" * name.primes


def index_text(name: Name) -> str:
    """Format indices: 1,2 between numbers, Q2 after a letter."""
    out = ""
    for position, index in enumerate(name.indices):
        numbers = position and isinstance(index, int) and isinstance(name.indices[position - 1], int)
        out += f",{index}" if numbers else str(index)
    return out


def _product(factors: tuple[Expression, ...]) -> str:
    """Write factors side by side, with a dot where numbers would run together or a number meets a symbolic factor."""
    out = _factor(factors[0])
    for before, factor in pairwise(factors):
        out += (r" \cdot " if needs_dot(before, factor) else " ") + _factor(factor)
    return out


def needs_dot(before: Expression, factor: Expression) -> bool:
    if is_symbolic(before) != is_symbolic(factor):
        return not (isinstance(before, Number) and isinstance(factor, Name | Power))
    number = factor.base if isinstance(factor, Power) else factor
    return isinstance(number, Number | Quotient)


def _call(function: str, arguments: tuple[Expression, ...]) -> str:
    shown = [latex(argument) for argument in arguments]
    match function:
        case "abs":
            return rf"\left|{shown[0]}\right|"
        case "hadamard":
            return r" \circ ".join(shown)
        case "concat":
            return rf"\left[ {' '.join(shown)} \right]"
        case _ if function in _FUNCTIONS:
            name = f"\\{function}"
        case _:
            name = rf"\operatorname{{{'softargmax' if function == 'softmax' else function}}}"
    return rf"{name}\left({', '.join(shown)}\right)"


def _factor(node: Expression) -> str:
    return _fenced(node) if isinstance(node, Sum | Negative) else latex(node)


def _fenced(node: Expression) -> str:
    return rf"\left({latex(node)}\right)"


def equation(sides: list[tuple[str, Expression]]) -> str:
    """Format `(relation, expression)` pairs as one formula."""
    return " ".join(f"{_RELATIONS[relation]} {latex(expression)}".strip() for relation, expression in sides)


def escape(text: str) -> str:
    """Escape plain text for use in LaTeX."""
    table = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    table |= {char: f"\\{char}" for char in "&%$#_"}
    table |= {"−": "$-$", "·": r"$\cdot$", "²": "$^2$", "ᵀ": r"$^\top$", "∞": r"$\infty$", "≈": r"$\approx$"}
    table |= {"×": r"$\times$", "√": r"$\surd$", "β": r"$\beta$", "γ": r"$\gamma$", "μ": r"$\mu$", "σ": r"$\sigma$"}
    table |= {"∘": r"$\circ$", "→": r"$\to$", "½": "$1/2$", "Σ": r"$\Sigma$", "ε": r"$\varepsilon$", "…": r"\dots{}"}
    return "".join(table.get(char, char) for char in text)


def align(sides: list[tuple[str, Expression]]) -> str:
    """Format a displayed equation: one line per relation, scaled down if wider than the page."""
    (_, first), *rest = sides
    lines = [rf"&{_RELATIONS[relation]} \fit{{{latex(expression)}}}" for relation, expression in rest]
    lines = [f"{latex(first)} {lines[0]}", *lines[1:]] if lines else [latex(first)]
    return "\n".join([r"\begin{align*}", " \\\\\n".join(lines), r"\end{align*}"])


def document(title: str, body: str) -> str:
    """Return a complete LaTeX document."""
    return _DOCUMENT.replace("TITLE", escape(title)).replace("BODY", body)


_DOCUMENT = r"""\documentclass[11pt]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage[margin=2cm]{geometry}
\usepackage{amsmath}
\usepackage{graphicx}
\setcounter{MaxMatrixCols}{64}
\newsavebox{\fitbox}
\newcommand{\fit}[1]{\sbox{\fitbox}{$\displaystyle #1$}%
  \ifdim\wd\fitbox>0.85\textwidth\vcenter{\hbox{\resizebox{0.85\textwidth}{!}{\usebox{\fitbox}}}}\else\usebox{\fitbox}\fi}
\begin{document}
\section*{TITLE}
BODY
\end{document}
"""
