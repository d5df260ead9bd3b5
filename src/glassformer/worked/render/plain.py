"""Nodes as blocks of text: matrices in brackets of several lines, side by side, for a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from unicodedata import normalize

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

_UP = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of equal length; `middle` is the one that stands on the line of the equation."""

    lines: tuple[str, ...]
    middle: int = 0

    @property
    def width(self) -> int:
        return len(self.lines[0])


def block(node: Node) -> Block:
    match node:
        case Grid(rows):
            return _grid([[_line(cell) for cell in row] for row in rows])
        case Row(items):
            return _row([block(item) for item in items], items)
        case _:
            return Block((_line(node),))


def _grid(cells: list[list[str]]) -> Block:
    widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
    body = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    last = len(body) - 1
    if last == 0:
        return Block((f"[{body[0]}]",))
    left = ["⎡"] + ["⎢"] * (last - 1) + ["⎣"]
    right = ["⎤"] + ["⎥"] * (last - 1) + ["⎦"]
    return Block(tuple(a + line + b for a, line, b in zip(left, body, right, strict=True)), last // 2)


def _row(blocks: list[Block], items: tuple[Node, ...]) -> Block:
    """Side by side; a dot between two factors, spaces around + and −."""
    out = blocks[0]
    for before, item, part in zip(items, items[1:], blocks[1:], strict=False):
        factors = not isinstance(before, Sign | Decimal) and not isinstance(item, Sign)
        loose = {text for text in "+−·∘" if item == Sign(text) or before == Sign(text)}
        out = beside(out, part, "·" if factors else " " if loose else "")
    return out


def beside(a: Block, b: Block, between: str = "") -> Block:
    middle = max(a.middle, b.middle)
    below = max(len(a.lines) - a.middle, len(b.lines) - b.middle)
    lines = []
    for at in range(-middle, below):
        joint = between if at == 0 else " " * len(between)
        lines.append(_at(a, at) + joint + _at(b, at))
    return Block(tuple(lines), middle)


def _at(part: Block, at: int) -> str:
    line = part.middle + at
    return part.lines[line] if 0 <= line < len(part.lines) else " " * part.width


def chain(links: list[Link], width: int = 100) -> str:
    """The equation, broken before a relation where it would grow wider than the page."""
    lines: list[str] = []
    current: Block | None = None
    for at, link in enumerate(links):
        part = block(link.node)
        if part.width > width - 4 and [later.relation for later in links[at + 1 :]] == ["≈"]:
            continue  # too wide to read, and its decimals follow
        joined = part if current is None else beside(current, part, f" {link.relation} ")
        if current is not None and joined.width > width:
            lines.extend(current.lines)
            joined = beside(Block((f"  {link.relation} ",)), part)
        current = joined
    if current is not None:
        lines.extend(current.lines)
    return "\n".join(line.rstrip() for line in lines)


def _line(node: Node) -> str:
    match node:
        case Letter(base, below, above):
            letter = normalize("NFC", base + "\u0302") if above == "^" else base
            index = f"[{below}]" if "," in below else below
            return letter + index + {"T": "ᵀ", "2": "²"}.get(above, "")
        case Number(value):
            return number(value)
        case Ten(digits, exponent):
            return f"{digits}·10{str(exponent).translate(_UP)}"
        case Decimal(text) | Sign(text):
            return text
        case Over(top, bottom):
            return f"{_tight(top)}/{_tight(bottom)}"
        case Radical(argument):
            return f"√({_line(argument)})" if isinstance(argument, Row) else f"√{_line(argument)}"
        case Row() | Grid():
            return " ".join(line.strip() for line in block(node).lines)


def _tight(node: Node) -> str:
    return f"({_line(node)})" if isinstance(node, Row) else _line(node)


def number(tree: Tree) -> str:
    match tree:
        case Num(value):
            return str(value)
        case Symbol():
            return "−∞"
        case Neg(argument):
            return "−" + _factor(argument)
        case Sum(items):
            first, *rest = items
            return number(first) + "".join(
                f" − {_factor(item.argument)}" if isinstance(item, Neg) else f" + {number(item)}" for item in rest
            )
        case Prod(items):
            out = _factor(items[0])
            for item in items[1:]:
                out += ("·" if isinstance(item, Num | Frac) or out[-1:] == ")" else "") + _factor(item)
            return out
        case Frac(top, bottom):
            below = number(bottom)
            return f"{_factor(top)}/{f'({below})' if isinstance(bottom, Sum | Prod | Frac | Neg) else below}"
        case Root(Num(value), 2):
            return f"√{value}"
        case Root(argument, index):
            return f"{'' if index == 2 else str(index).translate(_UP)}√({number(argument)})"
        case Exp(Num(1)):
            return "e"
        case Exp(Num(value)):
            return "e" + str(value).translate(_UP)
        case Exp(Neg(Num(value))):
            return "e" + f"-{value}".translate(_UP)
        case Exp(exponent):
            return f"e^({number(exponent)})"
        case Power(base, exponent):
            inner = number(base)
            return (inner if isinstance(base, Num) else f"({inner})") + str(exponent).translate(_UP)
        case Func(name, argument):
            return f"{name}({number(argument)})"


def _factor(tree: Tree) -> str:
    return f"({number(tree)})" if isinstance(tree, Sum | Neg) else number(tree)
