"""Closed forms of the sums in `ring`: expressions with one denominator per group of terms.

Examples: e²/(e² + 2e + 1), (1 + √5)/2, 26√3. The largest exponent comes first.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from math import lcm

from flint import fmpq

from glassformer.exercises.expression import (
    Call,
    Constant,
    Expression,
    Negative,
    Power,
    Quotient,
    Root,
    Sum,
    product,
    whole,
)
from glassformer.exercises.printers.text import ascii_code
from glassformer.exercises.ring import NO_ATOMS, Base, Exponent, Key, Terms


def expression(terms: Terms) -> Expression:
    """Return the sum as it is written on paper."""
    if not terms:
        return whole(0)
    ordered = sorted(terms.items(), key=lambda item: _order(item[0]))
    groups = [_group(list(group)) for _, group in groupby(ordered, key=lambda item: item[0][2])]
    return groups[0] if len(groups) == 1 else _sum(groups)


@lru_cache(maxsize=8192)
def _order(key: Key) -> tuple[object, ...]:
    """Sort key: simple groups first; within a group the largest exponent first, rational before root."""
    n, s, atoms = key
    names = sorted((b.kind, p, len(b.argument), b.index, ascii_code(expression(b.argument))) for b, p in atoms)
    return (len(names), names, -_value(s), n)


def _value(s: Exponent) -> float:
    return sum(int(q.p) / int(q.q) * n**0.5 for n, q in s)


def _group(items: list[tuple[Key, fmpq]]) -> Expression:
    """Combine terms with the same atoms: their sum, times the atoms in the numerator, over those in the denominator."""
    bottom = lcm(*(int(c.q) for _, c in items))
    negative = all(c < 0 for _, c in items)
    signs = -1 if negative else 1
    top = _sum([_term(key, int((c * bottom * signs).p)) for key, c in items])
    atoms = sorted(items[0][0][2], key=lambda pair: _order((1, (), frozenset({pair}))))
    above = [_powered(base, power) for base, power in atoms if power > 0]
    below = [_powered(base, -power) for base, power in atoms if power < 0]
    if above:
        top = product([*([] if top == whole(1) else [top]), *above])
    if bottom > 1:
        below = [whole(bottom), *below]
    fraction = Quotient(top, product(below)) if below else top
    return _negated(fraction) if negative else fraction


def _negated(tree: Expression) -> Expression:
    """Negate an expression: −(a + b) is written −a − b, but −(a + b)/c keeps the sign in front."""
    return Sum(tuple(Negative(item) for item in tree.terms)) if isinstance(tree, Sum) else Negative(tree)


def _sum(items: list[Expression]) -> Expression:
    flat: list[Expression] = []
    for item in items:
        flat.extend(item.terms if isinstance(item, Sum) else [item])
    lead = next((at for at, item in enumerate(flat) if not isinstance(item, Negative)), 0)
    flat.insert(0, flat.pop(lead))  # √3 − 1 rather than −1 + √3
    return flat[0] if len(flat) == 1 else Sum(tuple(flat))


def _term(key: Key, c: int) -> Expression:
    """c·√n·e^s with integer c."""
    n, s, _ = key
    factors: list[Expression] = []
    if abs(c) != 1 or (n == 1 and not s):
        factors.append(whole(abs(c)))
    if n != 1:
        factors.append(Root(whole(n)))
    if s:
        factors.append(_power_of_e(s))
    term = product(factors)
    return Negative(term) if c < 0 else term


@lru_cache(maxsize=4096)
def _power_of_e(s: Exponent) -> Expression:
    return _exp(expression({(m, (), NO_ATOMS): q for m, q in s}))


@lru_cache(maxsize=4096)
def _powered(base: Base, power: int) -> Expression:
    inner = expression(base.argument)
    match base.kind:
        case "sum":
            made = inner
        case "root":
            made = Root(inner, None if base.index == 2 else whole(base.index))
        case "exp":
            made = _exp(inner)
        case _:
            made = Call(base.kind, (inner,))
    return made if power == 1 else Power(made, whole(power))


def _exp(exponent: Expression) -> Expression:
    return Constant("e") if exponent == whole(1) else Power(Constant("e"), exponent)
