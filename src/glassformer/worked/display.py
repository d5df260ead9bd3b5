"""How an exact number is written, as a small tree that renderers walk into text, LaTeX or MathML.

A sum is written over one denominator per group: e²/(e² + 2e + 1), (1 + √5)/2, 26√3, and the largest exponent first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from flint import fmpq

from glassformer.worked.numbers import Exact, Masked
from glassformer.worked.ring import NO_ATOMS, Base, Exponent, Key, Terms


@dataclass(frozen=True, slots=True)
class Num:
    """A whole number, not negative."""

    value: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """−∞, the score of what is masked."""

    name: str


@dataclass(frozen=True, slots=True)
class Frac:
    top: Tree
    bottom: Tree


@dataclass(frozen=True, slots=True)
class Root:
    argument: Tree
    index: int = 2


@dataclass(frozen=True, slots=True)
class Exp:
    """e to the power of `exponent`; Exp(Num(1)) is e itself."""

    exponent: Tree


@dataclass(frozen=True, slots=True)
class Sum:
    """Added up; a Neg among the items is subtracted."""

    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Prod:
    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Power:
    base: Tree
    exponent: int


@dataclass(frozen=True, slots=True)
class Neg:
    argument: Tree


@dataclass(frozen=True, slots=True)
class Func:
    """sin or cos."""

    name: str
    argument: Tree


Tree = Num | Symbol | Frac | Root | Exp | Sum | Prod | Power | Neg | Func

MINUS_INFINITY = Symbol("-∞")


def tree(x: Exact | Masked) -> Tree:
    """The number as it is written on paper."""
    return MINUS_INFINITY if isinstance(x, Masked) else _tree(x.terms)


def size(tree: Tree) -> int:
    """How many signs the tree is made of: the measure by which renderers choose exact or decimal."""
    match tree:
        case Num(value):
            return max(1, (len(str(value)) + 2) // 3)
        case Symbol():
            return 1
        case Sum(items) | Prod(items):
            return len(items) - 1 + sum(map(size, items))
        case Frac(top, bottom):
            return 1 + size(top) + size(bottom)
        case Root(argument) | Exp(argument) | Neg(argument) | Func(_, argument) | Power(argument, _):
            return 1 + size(argument)


def text(tree: Tree) -> str:
    """ASCII that glassformer.worked.expression reads back as the same number."""
    match tree:
        case Num(value):
            return str(value)
        case Symbol():
            return "-inf"
        case Neg(argument):
            return "-" + _in_product(argument)
        case Sum(items):
            first, *rest = items
            return text(first) + "".join(
                f" - {_in_product(item.argument)}" if isinstance(item, Neg) else f" + {text(item)}" for item in rest
            )
        case Prod(items):
            return "*".join(_in_product(item) for item in items)
        case Frac(top, bottom):
            below = f"({text(bottom)})" if isinstance(bottom, Sum | Prod | Frac | Neg) else text(bottom)
            return f"{_in_product(top)}/{below}"
        case Root(argument, 2):
            return f"sqrt({text(argument)})"
        case Root(argument, index):
            return f"{_under_power(argument)}^(1/{index})"
        case Exp(Num(1)):
            return "e"
        case Exp(Num(value)):
            return f"e^{value}"
        case Exp(exponent):
            return f"e^({text(exponent)})"
        case Power(base, exponent):
            return f"{_under_power(base)}^{exponent}"
        case Func(name, argument):
            return f"{name}({text(argument)})"


def _in_product(tree: Tree) -> str:
    return f"({text(tree)})" if isinstance(tree, Sum | Neg) else text(tree)


def _under_power(tree: Tree) -> str:
    return text(tree) if isinstance(tree, Num | Root | Func) else f"({text(tree)})"


# -- from terms to trees ---------------------------------------------------------------------------------------------


def _tree(terms: Terms) -> Tree:
    if not terms:
        return Num(0)
    ordered = sorted(terms.items(), key=lambda item: _order(item[0]))
    groups = [_group(list(group)) for _, group in groupby(ordered, key=lambda item: item[0][2])]
    return groups[0] if len(groups) == 1 else _sum(groups)


@lru_cache(maxsize=8192)
def _order(key: Key) -> tuple[object, ...]:
    """Simple groups first; in a group the largest exponent first, rational before root."""
    n, s, atoms = key
    names = sorted((b.kind, p, len(b.argument), b.index, text(_tree(b.argument))) for b, p in atoms)
    return (len(names), names, -_value(s), n)


def _value(s: Exponent) -> float:
    return sum(float(q.p) / float(q.q) * n**0.5 for n, q in s)


def _group(items: list[tuple[Key, fmpq]]) -> Tree:
    """Terms with the same atoms: their sum, times the atoms above, over the atoms below."""
    bottom = 1
    for _, c in items:
        bottom = int(c.q) * bottom // _gcd(int(c.q), bottom)
    negative = all(c < 0 for _, c in items)
    signs = -1 if negative else 1
    top = _sum([_term(key, int((c * bottom * signs).p)) for key, c in items])
    atoms = sorted(items[0][0][2], key=lambda pair: _order((1, (), frozenset({pair}))))
    above = [_powered(base, power) for base, power in atoms if power > 0]
    below = [_powered(base, -power) for base, power in atoms if power < 0]
    if above:
        top = above[0] if top == Num(1) and len(above) == 1 else Prod((*([] if top == Num(1) else [top]), *above))
    if bottom > 1:
        below = [Num(bottom), *below]
    whole = Frac(top, below[0] if len(below) == 1 else Prod(tuple(below))) if below else top
    return _negated(whole) if negative else whole


def _negated(tree: Tree) -> Tree:
    """−(a + b) is written −a − b, but −(a + b)/c with the sign in front."""
    return Sum(tuple(Neg(item) for item in tree.items)) if isinstance(tree, Sum) else Neg(tree)


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def _sum(items: list[Tree]) -> Tree:
    flat: list[Tree] = []
    for item in items:
        flat.extend(item.items if isinstance(item, Sum) else [item])
    lead = next((at for at, item in enumerate(flat) if not isinstance(item, Neg)), 0)
    flat.insert(0, flat.pop(lead))  # √3 − 1 rather than −1 + √3
    return flat[0] if len(flat) == 1 else Sum(tuple(flat))


def _term(key: Key, c: int) -> Tree:
    """c·√n·e^s with whole c."""
    n, s, _ = key
    factors: list[Tree] = []
    if abs(c) != 1 or (n == 1 and not s):
        factors.append(Num(abs(c)))
    if n != 1:
        factors.append(Root(Num(n)))
    if s:
        factors.append(_power_of_e(s))
    whole = factors[0] if len(factors) == 1 else Prod(tuple(factors))
    return Neg(whole) if c < 0 else whole


@lru_cache(maxsize=4096)
def _power_of_e(s: Exponent) -> Tree:
    return Exp(_tree({(m, (), NO_ATOMS): q for m, q in s}))


@lru_cache(maxsize=4096)
def _powered(base: Base, power: int) -> Tree:
    inner = _tree(base.argument)
    match base.kind:
        case "sum":
            made = inner
        case "root":
            made = Root(inner, base.index)
        case "exp":
            made = Exp(inner)
        case _:
            made = Func(base.kind, inner)
    return made if power == 1 else Power(made, power)
