"""A step as a chain `Q = X W_Q = [ ][ ] = [ ] ≈ [ ]` of small nodes, which text, LaTeX and MathML walk alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.worked.display import Tree, tree
from glassformer.worked.matrix import Matrix
from glassformer.worked.numbers import READABLE, Exact, Masked
from glassformer.worked.solve import Step

SHORT = 6  # the size of 3√2/2
LARGE = 1e7  # from here on a number is written with its power of ten


@dataclass(frozen=True, slots=True)
class Letter:
    """A symbol: base, index below, mark above ("T", "2", "^")."""

    base: str
    below: str = ""
    above: str = ""


@dataclass(frozen=True, slots=True)
class Number:
    tree: Tree


@dataclass(frozen=True, slots=True)
class Decimal:
    text: str


@dataclass(frozen=True, slots=True)
class Ten:
    """digits · 10^exponent"""

    digits: str
    exponent: int


@dataclass(frozen=True, slots=True)
class Sign:
    """One of · + − ∘ | ( ) , or a word such as softargmax."""

    text: str


@dataclass(frozen=True, slots=True)
class Row:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Over:
    top: Node
    bottom: Node


@dataclass(frozen=True, slots=True)
class Radical:
    argument: Node


@dataclass(frozen=True, slots=True)
class Grid:
    rows: tuple[tuple[Node, ...], ...]


Node = Letter | Number | Decimal | Ten | Sign | Row | Over | Radical | Grid


@dataclass(frozen=True, slots=True)
class Link:
    """A node and how it is joined to the one before: "", "=" or "≈"."""

    relation: str
    node: Node


# -- names -----------------------------------------------------------------------------------------------------------

_LETTERS = {
    "mu": Letter("μ"), "var": Letter("σ", above="2"), "gamma": Letter("γ"), "beta": Letter("β"),
    "muF": Letter("μ", "F"), "varF": Letter("σ", "F", "2"), "NF": Letter("N", "F"), "LF": Letter("L", "F"),
    "RF": Letter("R", "F"), "Wc": Letter("W", "c"), "nh": Letter("n", "h"), "nw": Letter("n", "w"),
    "PE": Letter("PE"), "total": Letter("total"), "QKV": Letter("QKV"), "height": Letter("height"),
    "width": Letter("width"), "size": Letter("size"),
}  # fmt: skip


def name(symbol: str) -> Node:
    """`Q1` is Q with index 1, `WQ2` is W with Q2, `QKt1` is Q₁K₁ᵀ, `Su` is S before it is masked."""
    if symbol.endswith("^T"):
        inner = name(symbol[:-2])
        return Letter(inner.base, inner.below, "T") if isinstance(inner, Letter) else inner
    if symbol in _LETTERS:
        return _LETTERS[symbol]
    parts = re.fullmatch(r"([A-Za-z]+?)(\d*)", symbol)
    base, index = parts.groups() if parts else (symbol, "")
    match base:
        case "QKt":
            return Row((Letter("Q", index), Letter("K", index, "T")))
        case "KtQ":
            return Row((Letter("K", index, "T"), Letter("Q", index)))
        case "Su":
            return Letter("S", index, "^")
        case _ if len(base) == 2 and base[0] in "Wb":
            return Letter(base[0], base[1] + index)
    return Letter(base, index)


# -- a step ----------------------------------------------------------------------------------------------------------


def chain(step: Step, digits: int, *, exact: bool = True) -> list[Link]:
    """name = formula = with the numbers put in = exact value ≈ decimals; parts that say nothing new are left out."""
    links = [Link("", name(step.symbol))]
    made = formula(step)
    if made is not None and made != links[0].node:
        links.append(Link("=", made))
    put_in = substitution(step)
    if put_in is not None:
        links.append(Link("=", put_in))
    plain = all(_is_fraction(x) for _, _, x in step.value.cells())
    if plain or (exact and is_readable(step.value)):
        links.append(Link("=", exact_grid(step.value)))
    if not plain or has_long_fractions(step.value):
        links.append(Link("≈", decimal_grid(step.value, digits)))
    return links


def is_readable(matrix: Matrix[Exact]) -> bool:
    """Whether every cell's exact form is short, and all of them together still fit a page."""
    sizes = [x.size for _, _, x in matrix.cells()]
    return max(sizes) <= READABLE and sum(sizes) <= 12 * READABLE


def has_long_fractions(matrix: Matrix[Exact]) -> bool:
    """Whether a decimal helps: some cell is a fraction."""
    return any(not _is_whole(x) for _, _, x in matrix.cells())


def _magnitude(x: Exact) -> int:
    """The power of ten of a large number; `significant` writes larger ones with it and others in full."""
    digits, _, exponent = x.significant(17).lstrip("-").partition("e")
    return int(exponent) if exponent else len(digits.partition(".")[0]) - 1


def _is_fraction(x: Exact | Masked) -> bool:
    return isinstance(x, Masked) or x.rational() is not None


def _is_whole(x: Exact | Masked) -> bool:
    q = None if isinstance(x, Masked) else x.rational()
    return isinstance(x, Masked) or (q is not None and q.q == 1)


def exact_grid(matrix: Matrix[Exact]) -> Node:
    return _grid(matrix, lambda x: Number(tree(x)))


def decimal_grid(matrix: Matrix[Exact], digits: int) -> Node:
    """Rounded to so many places; whole numbers stay whole."""

    def cell(x: Exact | Masked) -> Node:
        if isinstance(x, Masked) or _is_whole(x):
            return Number(tree(x))
        if abs(float(x)) < LARGE:
            return Decimal(x.decimal(digits))
        exponent = _magnitude(x)
        return Ten((x / Exact(10) ** exponent).decimal(digits), exponent)

    return _grid(matrix, cell)


def _grid(matrix: Matrix[Exact], cell: Any) -> Node:
    rows = tuple(tuple(cell(x) for x in row) for row in matrix)
    return rows[0][0] if matrix.shape == (1, 1) else Grid(rows)


def substitution(step: Step) -> Node | None:
    """The operands put in, where that shows how the value comes about."""
    values = [exact_grid(value) for _, value in step.operands]
    op = step.operation
    if any(x.size > SHORT for _, value in step.operands for _, _, x in value.cells()):
        return None  # fractions of exponentials put in say less than their letters
    match op.op:
        case "matmul":
            return Row(tuple(values))
        case "linear":
            return Row((values[0], values[1], Sign("+"), values[2]))
        case "add":
            return Row((values[0], Sign("+"), values[1]))
        case "scale":
            return Row((Number(tree(op.params["factor"])), Sign("·"), values[0]))
    return None


def formula(step: Step) -> Node | None:
    """The right side in letters; None where words say it better."""
    names = [name(operand) for operand, _ in step.operands]
    op, params = step.operation.op, step.operation.params
    match op:
        case "matmul":
            return Row(tuple(names))
        case "linear":
            return Row((names[0], names[1], Sign("+"), names[2]))
        case "add":
            return Row((names[0], Sign("+"), names[1]))
        case "scale":
            return Row((Number(tree(params["factor"])), Sign("·"), names[0]))
        case "exp":
            return Row((Sign("exp"), Sign("("), names[0], Sign(")")))
        case "softargmax":
            return Row((Sign("softargmax"), Sign("("), names[0], Sign(")")))
        case "divide":
            return Over(names[0], names[1])
        case "concat":
            return Row((Sign("["), *names, Sign("]")))
        case "copy":
            return names[0]
        case "standardise":
            eps = params["eps"]
            below = Row((names[2], Sign("+"), Number(tree(eps)))) if eps else names[2]
            return Over(Row((names[0], Sign("−"), names[1])), Radical(below))
        case "affine":
            return Row((names[1], Sign("∘"), names[0], Sign("+"), names[2]))
        case "relu":
            return Row((Sign("max"), Sign("("), Decimal("0"), Sign(","), names[0], Sign(")")))
        case "gap":
            return Row((Sign("|"), names[0], Sign("−"), names[1], Sign("|")))
        case "move":
            place = f"{params['source'] + 1},{params['target'] + 1}"
            return Row((Letter("T", place), Sign("·"), Number(tree(params["distance"]))))
        case "weigh":
            parts = [(Letter("D", str(i)), Sign("·"), Number(tree(w))) for i, w in enumerate(params["weights"], 1) if w]
            return added([Row(part) for part in parts])
        case "gather":
            return added(names)
        case "count":
            return spelled(str(params["text"]))
    return None


def added(items: Sequence[Node]) -> Node | None:
    out: list[Node] = []
    for item in items:
        out += [Sign("+"), item] if out else [item]
    return Row(tuple(out)) if out else None


def spelled(text: str) -> Node:
    """A product or sum in plain text, `4ND² + 2N²D` or `height/size`, as letters and numbers."""
    nodes: list[Node] = []
    for part in re.findall(r"height|width|size|nh|nw|[A-Z]²?|\d+|[·+/]", text):
        if part.isdigit():
            nodes.append(Decimal(part))
        elif part in "·+/":
            nodes.append(Sign(part))
        else:
            nodes.append(Letter(part[0], above="2") if part.endswith("²") else name(part))
    return Row(tuple(nodes))
