"""A term as one line of plain text, the same for every way of writing it: `Q K^{\\top}` and `QKᵀ` are both "QK^T"."""

from __future__ import annotations

from glassformer.worked.read.term import (
    Blank,
    Call,
    Constant,
    Index,
    Matrix,
    Name,
    Negative,
    Power,
    Product,
    Quotient,
    Root,
    Several,
    Struck,
    Sum,
    Term,
    Transpose,
    Unknown,
    Written,
)


def label(term: Term) -> str:
    """Two terms with the same label were written as the same thing."""
    match term:
        case Written(text) | Constant(text) | Unknown(text):
            return text
        case Name(name, indices, upper, primes):
            return name + _script("_", indices) + _script("^", upper) + "'" * primes
        case Negative(inner):
            return f"-{_wrap(inner, Sum)}"
        case Sum(terms):
            return label(terms[0]) + "".join(_added(part) for part in terms[1:])
        case Product(factors):
            return "".join(_factors(factors))
        case Quotient(top, bottom):
            return f"{_wrap(top, Sum, Negative)}/{_wrap(bottom, Sum, Negative, Product, Quotient)}"
        case Power(base, exponent):
            return f"{_tight(base)}^{_braced(label(exponent))}"
        case Root(radicand, degree):
            return f"√{_braced(label(degree)) if degree is not None else ''}({label(radicand)})"
        case Call("entry", (inner,), over):
            return f"{_tight(inner)}_{_braced(over)}"
        case Call(function, arguments, over):
            return f"{function}{f'_{_braced(over)}' if over else ''}({', '.join(map(label, arguments))})"
        case Matrix(rows):
            return "[" + "; ".join(", ".join(map(label, row)) for row in rows) + "]"
        case Transpose(inner):
            return f"{_tight(inner)}^T"
        case Several(items):
            return ", ".join(map(label, items))
        case Struck(inner):
            return label(inner)
        case Blank():
            return ""


def _script(mark: str, parts: tuple[Index, ...]) -> str:
    return mark + _braced(",".join(map(str, parts))) if parts else ""


def _braced(text: str) -> str:
    return text if len(text) == 1 else "{" + text + "}"


def _wrap(term: Term, *kinds: type) -> str:
    return f"({label(term)})" if isinstance(term, kinds) else label(term)


def _tight(term: Term) -> str:
    return _wrap(term, Sum, Negative, Product, Quotient, Power)


def _added(term: Term) -> str:
    return f" - {_wrap(term.term, Sum)}" if isinstance(term, Negative) else f" + {label(term)}"


def _factors(factors: tuple[Term, ...]) -> list[str]:
    """QK' in a product is QKᵀ; digits beside digits need a sign between them."""
    texts: list[str] = []
    for position, factor in enumerate(factors):
        named = position and isinstance(factors[position - 1], Name | Transpose)
        if named and isinstance(factor, Name) and factor.primes == 1:
            factor = Transpose(Name(factor.name, factor.indices, factor.upper))
        text = _wrap(factor, Sum, Negative)
        texts.append(f"·{text}" if texts and text[:1].isdecimal() else text)
    return texts
