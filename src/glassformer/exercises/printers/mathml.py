"""Prints expressions as MathML, which browsers render natively."""

from __future__ import annotations

from html import escape
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
)
from glassformer.exercises.printers.latex import index_text, needs_dot

_HAT = "\u0302"


def mathml(node: Expression) -> str:
    match node:
        case Number(text) if text.startswith("-"):
            return f"<mrow><mo>−</mo><mn>{escape(text[1:])}</mn></mrow>"
        case Number(text):
            return f"<mn>{escape(text)}</mn>"
        case Constant(symbol):
            return f"<mi>{symbol}</mi>"
        case Name():
            return _name(node)
        case Negative(inner):
            return f"<mrow><mo>−</mo>{_factor(inner)}</mrow>"
        case Sum(terms):
            rest = (
                f"<mo>−</mo>{_factor(t.term)}" if isinstance(t, Negative) else f"<mo>+</mo>{mathml(t)}"
                for t in terms[1:]
            )
            return f"<mrow>{mathml(terms[0])}{''.join(rest)}</mrow>"
        case Product(factors):
            rest = (("<mo>·</mo>" if needs_dot(a, b) else "") + _factor(b) for a, b in pairwise(factors))
            return f"<mrow>{_factor(factors[0])}{''.join(rest)}</mrow>"
        case Quotient(top, bottom):
            return f"<mfrac>{mathml(top)}{mathml(bottom)}</mfrac>"
        case Power(base, exponent):
            plain = isinstance(base, Number | Constant | Name | Array)
            return f"<msup>{mathml(base) if plain else _fenced(mathml(base))}{mathml(exponent)}</msup>"
        case Root(radicand, None):
            return f"<msqrt>{mathml(radicand)}</msqrt>"
        case Root(radicand, degree) if degree is not None:
            return f"<mroot>{mathml(radicand)}{mathml(degree)}</mroot>"
        case Call(function, arguments):
            return _call(function, [mathml(argument) for argument in arguments])
        case Array(rows):
            body = "".join("<mtr>" + "".join(f"<mtd>{mathml(cell)}</mtd>" for cell in row) + "</mtr>" for row in rows)
            return f"<mrow><mo>[</mo><mtable>{body}</mtable><mo>]</mo></mrow>"
        case Transpose(inner):
            plain = isinstance(inner, Name | Array)
            return f"<msup>{mathml(inner) if plain else _fenced(mathml(inner))}<mo>⊤</mo></msup>"
        case Several(items):
            return f"<mrow>{'<mo>,</mo>'.join(map(mathml, items))}</mrow>"
        case Struck(inner):
            return f'<mrow style="text-decoration: line-through">{mathml(inner)}</mrow>'
        case Unknown(source):
            return f"<mtext>{escape(source)}</mtext>"
        case Blank():
            return "<mrow></mrow>"
    raise AssertionError(node)


def _name(name: Name) -> str:
    base = normalize("NFD", name.name)
    letter = f"<mi>{escape(base.removesuffix(_HAT))}</mi>"
    if base.endswith(_HAT):
        letter = f'<mover accent="true">{letter}<mo>^</mo></mover>'
    below = f"<mi>{escape(index_text(name))}</mi>"
    above = f"<mi>{escape(''.join(map(str, name.upper)) + '′' * name.primes)}</mi>"
    if name.indices and (name.upper or name.primes):
        return f"<msubsup>{letter}{below}{above}</msubsup>"
    if name.indices:
        return f"<msub>{letter}{below}</msub>"
    return f"<msup>{letter}{above}</msup>" if name.upper or name.primes else letter


def _call(function: str, arguments: list[str]) -> str:
    match function:
        case "abs":
            return f'<mrow><mo stretchy="false">|</mo>{arguments[0]}<mo stretchy="false">|</mo></mrow>'
        case "hadamard":
            return f"<mrow>{'<mo>∘</mo>'.join(arguments)}</mrow>"
        case "concat":
            return f"<mrow><mo>[</mo>{''.join(arguments)}<mo>]</mo></mrow>"
    name = "softargmax" if function == "softmax" else escape(function)
    return f"<mrow><mi>{name}</mi>{_fenced('<mo>,</mo>'.join(arguments))}</mrow>"


def _fenced(inner: str) -> str:
    return f"<mrow><mo>(</mo>{inner}<mo>)</mo></mrow>"


def _factor(node: Expression) -> str:
    return _fenced(mathml(node)) if isinstance(node, Sum | Negative) else mathml(node)


def equation(sides: list[tuple[str, Expression]]) -> str:
    """Format `(relation, expression)` pairs as formulas; a line break is allowed before each relation."""
    parts = ((f"<mo>{relation}</mo>" if relation else "") + mathml(expression) for relation, expression in sides)
    return "".join(f'<math display="inline">{part}</math> ' for part in parts).strip()
