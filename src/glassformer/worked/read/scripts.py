"""Scripts: indices, powers, transposes, primes, sizes noted under a matrix."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from glassformer.worked.read import names
from glassformer.worked.read.stream import Misread
from glassformer.worked.read.term import (
    Blank,
    Call,
    Constant,
    Index,
    Matrix,
    Name,
    Power,
    Quotient,
    Struck,
    Term,
    Transpose,
    Written,
    written,
)

if TYPE_CHECKING:
    from glassformer.worked.read.parse import Parser

_UPPER = frozenset("QKVOqkvo")


def attach(parser: Parser, term: Term) -> Term | None:
    """The term with the next script on it; None if none follows."""
    sign = parser.peek("op")
    if sign == "_":
        parser.at += 1
        return _lower(parser, term)
    if sign == "^":
        parser.at += 1
        return _raise(parser, term)
    if sign == "'":
        parser.at += 1
        return replace(term, primes=term.primes + 1) if isinstance(term, Name) else Transpose(term)
    if sign == "!":
        parser.at += 1
        return Call("factorial", (term,))
    if sign == "%":
        parser.at += 1
        return Quotient(term, written("100"))
    return _size_beside(parser, term)


def _raise(parser: Parser, term: Term) -> Term:
    low, high = _exponent(parser)
    tokens = [t for t in parser.tokens.items[low:high] if t.kind not in ("open", "close") or t.text != "{"]
    text = "".join(token.text for token in tokens)
    if not tokens:
        raise Misread("an exponent is empty")
    if text in names.TRANSPOSES and not isinstance(term, Written | Constant):
        capital = isinstance(term, Name) and term.name.isupper()
        if text != "t" or isinstance(term, Matrix | Struck) or capital:
            return Transpose(term)
    if text and set(text) <= {"'"}:
        return replace(term, primes=term.primes + len(text)) if isinstance(term, Name) else Transpose(term)
    if isinstance(term, Name) and not term.upper:
        inside = tokens[1:-1] if len(tokens) > 2 and tokens[0].text == "(" else ()
        label = tokens[0].kind in ("name", "words") and len(tokens) == 1 and (text in _UPPER or len(text) > 1)
        if inside or label:
            return replace(term, upper=indices(parser, low, high))
    return Power(term, parser.within(low, high))


def _exponent(parser: Parser) -> tuple[int, int]:
    """{…}, or the next thing; 9**9**9 is 9**(9**9)."""
    low, high = parser.script_range()
    if parser.tokens.items[high - 1].kind not in ("number", "name"):
        return low, high
    last = high
    while parser.peek("op") == "^" and parser.tokens.items[parser.at].end - parser.tokens.items[parser.at].start == 2:
        parser.at += 1
        _, last = parser.script_range()
        if last - low > 40:
            raise Misread("more than 20 powers of powers")
    return low, last


def _lower(parser: Parser, term: Term) -> Term:
    low, high = parser.script_range()
    inner = term.term if isinstance(term, Struck | Transpose) else term
    if isinstance(inner, Matrix):
        size = _size(parser, low, high)
        if size is not None:
            sized = replace(inner, size=size)
            return Struck(sized) if isinstance(term, Struck) else Transpose(sized) if inner is not term else sized
    if any(token.kind == "words" for token in parser.tokens.items[low:high]) and not isinstance(inner, Name):
        return term  # what \underbrace says about its formula
    if isinstance(term, Name):
        return replace(term, indices=(*term.indices, *indices(parser, low, high)))
    if isinstance(term, Transpose | Struck) and isinstance(term.term, Name):
        named = replace(term.term, indices=(*term.term.indices, *indices(parser, low, high)))
        return Transpose(named) if isinstance(term, Transpose) else Struck(named)
    if isinstance(term, Power) and isinstance(term.base, Name):
        return Power(replace(term.base, indices=(*term.base.indices, *indices(parser, low, high))), term.exponent)
    if isinstance(term, Constant):
        return Name(term.symbol, indices(parser, low, high))
    if isinstance(term, Written | Blank):
        raise Misread("an index on a number")
    return Call("entry", (term,), ",".join(map(str, indices(parser, low, high))))


def _size(parser: Parser, low: int, high: int) -> tuple[int, int] | None:
    """(2 \\times 3) or 2×3."""
    found = re.fullmatch(r"\(?(\d{1,6})[*,](\d{1,6})\(?", "".join(t.text for t in parser.tokens.items[low:high]))
    return (int(found[1]), int(found[2])) if found else None


def _size_beside(parser: Parser, term: Term) -> Term | None:
    """[…] (2 × 3): the size noted beside the matrix that has it."""
    if not isinstance(term, Matrix) or term.size is not None or parser.peek("open") != "(":
        return None
    close = parser.tokens.match[parser.at]
    size = _size(parser, parser.at, close + 1)
    if size != term.shape or close != parser.at + 4:
        return None
    parser.at = close + 1
    return replace(term, size=size)


def indices(parser: Parser, low: int, high: int) -> tuple[Index, ...]:
    """1,2 → (1, 2); ij → (i, j); Q_1 → (Q, 1); model → (model,); i+1 → ("i+1",)."""
    found: list[Index] = []
    for start, stop in parser.split(low, high, "op", ","):
        part = parser.tokens.items[start:stop]
        plain = [token for token in part if token.kind not in ("open", "close") and token.text != "_"]
        if any(token.kind not in ("number", "name", "words") for token in plain):
            found.append("".join(token.text for token in plain))
        else:
            found.extend(_index(text) for token in plain for text in token.text.split(","))
        if any(token.kind == "open" and token.text == "(" for token in part):
            nested = [t for t in part if t.kind == "op" and t.text == ","]
            if nested:
                found.pop()
                found.extend(_index(t.text) for t in plain if t.kind in ("number", "name"))
    if not found:
        raise Misread("an index is empty")
    return tuple(found)


def _index(text: str) -> Index:
    return int(text) if text.isdecimal() and len(text) < 9 else text


def subscripted(parser: Parser, name: Name) -> Name:
    """A[1,2] as programs write it, where nothing else stands on that side."""
    start, close = parser.at - 1, parser.tokens.match[parser.at]
    if parser.tokens.match.get(close + 1) == parser.stop - 1 and parser.tokens.items[close + 1].text == "[":
        close = parser.stop - 1  # A[1][2]
    inside = parser.tokens.text(parser.at + 1, close)
    if close + 1 != parser.stop or re.fullmatch(r"\d{1,3}(?:\]?\[?,?\s?\d{1,3})?", inside) is None:
        return name
    parser.at = close + 1
    parser.note(start, close + 1, "read as one cell of a matrix")
    return Name(name.name, (*name.indices, *(int(part) for part in re.findall(r"\d+", inside))))
