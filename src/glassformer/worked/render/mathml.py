"""Nodes as MathML, which browsers draw by themselves."""

from __future__ import annotations

from html import escape

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

_FENCES = {"(", ")", "[", "]", "|"}


def mathml(node: Node) -> str:
    match node:
        case Letter(base, below, above):
            return _letter(base, below, above)
        case Number(value):
            return number(value)
        case Decimal(text):
            return f"<mn>{text}</mn>" if not text.startswith("-") else f"<mrow><mo>−</mo><mn>{text[1:]}</mn></mrow>"
        case Ten(digits, exponent):
            return f"<mrow><mn>{digits}</mn><mo>·</mo><msup><mn>10</mn><mn>{exponent}</mn></msup></mrow>"
        case Sign(text) if text.isalpha():
            return f"<mi>{text}</mi>"
        case Sign(text):
            return f'<mo stretchy="false">{text}</mo>' if text in _FENCES else f"<mo>{text}</mo>"
        case Row(items):
            return f"<mrow>{''.join(mathml(item) for item in items)}</mrow>"
        case Over(top, bottom):
            return f"<mfrac>{mathml(top)}{mathml(bottom)}</mfrac>"
        case Radical(argument):
            return f"<msqrt>{mathml(argument)}</msqrt>"
        case Grid(rows):
            body = "".join(
                "<mtr>" + "".join(f"<mtd>{mathml(cell)}</mtd>" for cell in row) + "</mtr>" for row in rows
            )
            return f"<mrow><mo>[</mo><mtable>{body}</mtable><mo>]</mo></mrow>"


def _letter(base: str, below: str, above: str) -> str:
    letter = f"<mi>{escape(base)}</mi>"
    if above == "^":
        letter, above = f'<mover accent="true">{letter}<mo>^</mo></mover>', ""
    index = f"<mi>{escape(below)}</mi>"
    power = "<mo>⊤</mo>" if above == "T" else f"<mn>{above}</mn>"
    if below and above:
        return f"<msubsup>{letter}{index}{power}</msubsup>"
    if below:
        return f"<msub>{letter}{index}</msub>"
    return f"<msup>{letter}{power}</msup>" if above else letter


def chain(links: list[Link]) -> str:
    """A whole equation; a line break is allowed before each relation."""
    parts = [(f"<mo>{link.relation}</mo>" if link.relation else "") + mathml(link.node) for link in links]
    return "".join(f'<math display="inline">{part}</math> ' for part in parts).strip()


def number(tree: Tree) -> str:
    match tree:
        case Num(value):
            return f"<mn>{value}</mn>"
        case Symbol():
            return "<mrow><mo>−</mo><mi>∞</mi></mrow>"
        case Neg(argument):
            return f"<mrow><mo>−</mo>{_factor(argument)}</mrow>"
        case Sum(items):
            first, *rest = items
            more = "".join(
                f"<mo>−</mo>{_factor(item.argument)}" if isinstance(item, Neg) else f"<mo>+</mo>{number(item)}"
                for item in rest
            )
            return f"<mrow>{number(first)}{more}</mrow>"
        case Prod(items):
            first, *rest = items
            more = "".join(("<mo>·</mo>" if isinstance(item, Num | Frac) else "") + _factor(item) for item in rest)
            return f"<mrow>{_factor(first)}{more}</mrow>"
        case Frac(top, bottom):
            return f"<mfrac>{number(top)}{number(bottom)}</mfrac>"
        case Root(argument, 2):
            return f"<msqrt>{number(argument)}</msqrt>"
        case Root(argument, index):
            return f"<mroot>{number(argument)}<mn>{index}</mn></mroot>"
        case Exp(Num(1)):
            return "<mi>e</mi>"
        case Exp(exponent):
            return f"<msup><mi>e</mi>{number(exponent)}</msup>"
        case Power(base, exponent):
            inner = number(base) if isinstance(base, Num) else f"<mrow><mo>(</mo>{number(base)}<mo>)</mo></mrow>"
            return f"<msup>{inner}<mn>{exponent}</mn></msup>"
        case Func(name, argument):
            return f"<mrow><mi>{name}</mi><mo>(</mo>{number(argument)}<mo>)</mo></mrow>"


def _factor(tree: Tree) -> str:
    return f"<mrow><mo>(</mo>{number(tree)}<mo>)</mo></mrow>" if isinstance(tree, Sum | Neg) else number(tree)
