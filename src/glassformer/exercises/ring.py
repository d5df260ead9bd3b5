"""Sums Σ c·√n·e^s·Π b^p as dictionaries {(n, s, atoms): c}: the arithmetic behind `Exact`.

c is rational, n square-free, s = Σ rational·√m an exponent, and atoms a set of (base, power). Without atoms the
dictionary is unique: roots of different square-free numbers are independent over the rationals, and exponentials of
different algebraic numbers over the algebraic ones (Lindemann and Weierstrass).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import gcd
from typing import Any
from weakref import WeakValueDictionary

from flint import arb, ctx, fmpq, fmpz

from glassformer.errors import InputError

MAX_PRODUCT = 300  # maximum number of terms for which a product is expanded
MAX_CLEARED = 20_000  # maximum number of terms for which denominators are cleared to decide an equality
MAX_HEIGHT = 40_000  # maximum bits of a numerator or denominator
MAX_FACTORED = 1 << 80  # largest number whose roots are simplified: factoring stays instant

Exponent = tuple[tuple[int, fmpq], ...]
Atoms = frozenset[tuple["Base", int]]
Key = tuple[int, Exponent, Atoms]
Terms = Mapping[Key, fmpq]

NO_ATOMS: Atoms = frozenset()
UNIT: Key = (1, (), NO_ATOMS)


class Base:
    """A factor kept unexpanded: a `sum` under a power, the `index`-th `root`, the `exp`, `sin` or `cos` of a sum.

    Equal factors are one object while any of them is in use: bases nest, and comparing them would walk the whole nest.
    """

    __slots__ = ("__weakref__", "_ball", "_hash", "argument", "index", "kind", "size")
    _ball: tuple[int, arb] | None
    _hash: int
    argument: Terms
    index: int
    kind: str
    size: int

    def __new__(cls, kind: str, argument: Terms, index: int = 0) -> Base:
        key = (kind, index, frozenset(argument.items()))
        made = _BASES.get(key)
        if made is None:
            made = super().__new__(cls)
            made.kind, made.argument, made.index = kind, argument, index
            made._hash, made._ball, made.size = hash(key), None, 1 + size(argument)
            _BASES[key] = made
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild it from its parts: the cached interval cannot be pickled, and hashes differ between processes."""
        return Base, (self.kind, self.argument, self.index)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Base)
            and (self._hash, self.kind, self.index) == (other._hash, other.kind, other.index)
            and self.argument == other.argument
        )

    def enclose(self) -> arb:
        """Return an interval (an Arb ball) at the working precision; cached, as many numbers share one denominator."""
        if self._ball is None or self._ball[0] != ctx.prec:
            x = enclose(self.argument)
            match self.kind:
                case "sum":
                    value = x
                case "root":
                    value = x.root(self.index)
                case _:
                    value = {"exp": arb.exp, "sin": arb.sin, "cos": arb.cos}[self.kind](x)
            self._ball = (ctx.prec, value)
        return self._ball[1]


_BASES: WeakValueDictionary[tuple[str, int, frozenset[tuple[Key, fmpq]]], Base] = WeakValueDictionary()


def atom(base: Base, power: int = 1) -> Terms:
    return {(1, (), frozenset({(base, power)})): fmpq(1)}


def constant(value: int | fmpq) -> Terms:
    return {UNIT: fmpq(value)} if value else {}


def size(terms: Terms) -> int:
    """Approximate length of the written sum in characters; cheap even where writing it out is not."""
    bases = {base for _, _, atoms in terms for base, _ in atoms}  # a shared denominator is written once
    return sum(1 + (n != 1) + 2 * len(s) for n, s, _ in terms) + sum(base.size for base in bases)


@lru_cache(maxsize=8192)
def _power_of_e(s: Exponent, bits: int) -> arb:
    return sum((arb(q) * arb(n).sqrt() for n, q in s), arb(0)).exp()


def enclose(terms: Terms) -> arb:
    """Return an interval (an Arb ball) that contains the sum, at the working precision."""
    value = arb(0)
    for (n, s, atoms), c in terms.items():
        term = arb(c)
        if n != 1:
            term *= arb(n).sqrt()
        if s:
            term *= _power_of_e(s, ctx.prec)
        for base, power in atoms:
            term *= base.enclose() ** power
        value += term
    return value


def total(many: Iterable[Terms]) -> Terms:
    """x + y + …"""
    result: dict[Key, fmpq] = {}
    for terms in many:
        for key, c in terms.items():
            result[key] = result[key] + c if key in result else c
    return _tidy(result)


def scaled(terms: Terms, factor: fmpq) -> Terms:
    return {key: c * factor for key, c in terms.items()} if factor else {}


def product(x: Terms, y: Terms) -> Terms:
    return dot(((x, y),))


def dot(pairs: Iterable[tuple[Terms, Terms]]) -> Terms:
    """x·y + x'·y' + …, accumulated in one dictionary."""
    result: dict[Key, fmpq] = {}
    extra: list[Terms] = []
    for x, y in pairs:
        if len(x) * len(y) > MAX_PRODUCT:
            x, y = _wrapped(x), _wrapped(y)
        _multiply_into(result, extra, x, y)
    tidy = _tidy(result)
    return total([tidy, *extra]) if extra else tidy


def _multiply_into(result: dict[Key, fmpq], extra: list[Terms], x: Terms, y: Terms) -> None:
    if len(x) == 1 and UNIT in x:
        x, y = y, x
    if len(y) == 1 and UNIT in y:  # a rational factor leaves the keys unchanged
        d = y[UNIT]
        for key, c in x.items():
            result[key] = result[key] + c * d if key in result else c * d
        return
    for (n, s, a), c in x.items():
        for (m, t, b), d in y.items():
            g = gcd(n, m)
            atoms = (a or b) if not (a and b) else _merged(a, b)
            key = (n * m // (g * g), _joined(s, t), atoms)
            value = c * d * g
            if any(base.kind == "root" and abs(power) >= base.index for base, power in atoms):
                extra.append(_unrooted(key, value))
            else:
                result[key] = result[key] + value if key in result else value


def _joined(s: Exponent, t: Exponent) -> Exponent:
    if not s or not t:
        return s or t
    sums = dict(s)
    for n, q in t:
        sums[n] = sums.get(n, fmpq(0)) + q
    return tuple(sorted((n, q) for n, q in sums.items() if q))


def _merged(a: Atoms, b: Atoms) -> Atoms:
    powers = dict(a)
    for base, power in b:
        powers[base] = powers.get(base, 0) + power
    return frozenset((base, power) for base, power in powers.items() if power)


def _unrooted(key: Key, value: fmpq) -> Terms:
    """√x·√x = x."""
    n, s, atoms = key
    powers = dict(atoms)
    base = next(base for base, power in atoms if base.kind == "root" and abs(power) >= base.index)
    whole, rest = divmod(abs(powers[base]), base.index)
    sign = 1 if powers.pop(base) > 0 else -1
    if rest:
        powers[base] = sign * rest
    result: Terms = {(n, s, frozenset(powers.items())): value}
    factor = base.argument if sign > 0 else inverse(base.argument)
    for _ in range(whole):
        result = product(result, factor)
    return result


def _wrapped(x: Terms) -> Terms:
    if len(x) == 1:
        return x
    c = content(x)
    return scaled(atom(Base("sum", scaled(x, 1 / c))), c)


def _tidy(terms: dict[Key, fmpq]) -> Terms:
    """Remove zeros and cancel numerators that are multiples of their denominators."""
    terms = {key: c for key, c in terms.items() if c}
    for c in terms.values():
        if c.height_bits() > MAX_HEIGHT:
            raise InputError("a number has grown too large to write out", "use smaller numbers or exponents")
    for atoms in {atoms for _, _, atoms in terms if atoms}:
        for base, power in atoms:
            if base.kind != "sum" or power > 0:
                continue
            group = {(n, s, NO_ATOMS): c for (n, s, a), c in terms.items() if a == atoms}
            if group.keys() != base.argument.keys():
                continue
            ratios = {c / base.argument[key] for key, c in group.items()}
            if len(ratios) == 1:
                kept = {key: c for key, c in terms.items() if key[2] != atoms}
                rest: Terms = {(1, (), _merged(atoms, frozenset({(base, 1)}))): ratios.pop()}
                return total([kept, rest])
    return terms


def content(terms: Terms) -> fmpq:
    """Return the positive rational that, divided out, leaves integer coefficients without a common factor."""
    top, bottom = fmpz(0), fmpz(1)
    for c in terms.values():
        top, bottom = top.gcd(c.p), bottom.lcm(c.q)
    return fmpq(top, bottom)


def is_root_sum(terms: Terms) -> bool:
    return all(not s and not atoms for _, s, atoms in terms)


def inverse(terms: Terms) -> Terms:
    """1/x of a nonzero sum: roots are removed from the denominator (1/√3 = √3/3), exponentials stay in it."""
    if len(terms) == 1:
        (((n, s, atoms), c),) = terms.items()
        key = (n, tuple((m, -q) for m, q in s), frozenset((base, -power) for base, power in atoms))
        return {key: 1 / (c * n)}
    if is_root_sum(terms) and len(terms) <= 8:
        other = _conjugate(terms)
        return product(other, inverse(product(terms, other)))
    c = content(terms)
    return scaled(atom(Base("sum", scaled(terms, 1 / c)), -1), 1 / c)


def _conjugate(terms: Terms) -> Terms:
    """Return a − b√p for a + b√p, with p a prime under some root."""
    p = int(fmpz(max(n for n, _, _ in terms)).factor()[0][0])
    return {key: -c if key[0] % p == 0 else c for key, c in terms.items()}


def root_of_rational(q: fmpq, index: int) -> tuple[fmpq, int] | None:
    """(c, n) with q^(1/index) = c·√n and n square-free; None if there is none or the number is too large."""
    top, bottom = int(q.p), int(q.q)
    if index != 2:
        above, below = whole_root(top, index), whole_root(bottom, index)
        return None if above is None or below is None else (fmpq(above, below), 1)
    if top * bottom > MAX_FACTORED:
        return None
    outside, inside = 1, 1
    for prime, power in fmpz(top * bottom).factor():
        outside *= int(prime) ** (power // 2)
        inside *= int(prime) ** (power % 2)
    return fmpq(outside, bottom), inside


def whole_root(value: int, index: int) -> int | None:
    """Return the integer `index`-th root, or None if there is none."""
    guess = int(fmpz(value).root(index))
    return guess if guess**index == value else None


def cleared(terms: Terms) -> Terms | None:
    """Multiply the sum by its denominators; None if it contains bases other than sums or grows too long."""
    powers: dict[Base, int] = {}
    for _, _, atoms in terms:
        for base, power in atoms:
            if base.kind != "sum" or any(a for _, _, a in base.argument):
                return None
            powers[base] = max(powers.get(base, 0), -power)
    result: dict[Key, fmpq] = {}
    for (n, s, atoms), c in terms.items():
        here = dict(atoms)
        term: Terms = {(n, s, NO_ATOMS): c}
        for base, power in powers.items():
            for _ in range(power + here.get(base, 0)):
                if len(term) * len(base.argument) > MAX_CLEARED:
                    return None
                wider: dict[Key, fmpq] = {}
                _multiply_into(wider, [], term, base.argument)
                term = wider
        for key, value in term.items():
            result[key] = result[key] + value if key in result else value
    return {key: c for key, c in result.items() if c}
