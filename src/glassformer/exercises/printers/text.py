"""Prints expressions as text: `label` (one canonical line), `ascii_code` (exercise file syntax), `block` (terminals).

A block draws matrices with multi-line brackets, side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from unicodedata import normalize

from glassformer.exercises.expression import (
    Array,
    Blank,
    Call,
    Constant,
    Expression,
    Index,
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

_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


class _Line:
    """Prints one line of text; the subclasses differ in their symbols."""

    times, minus = "", "-"

    def show(self, node: Expression) -> str:
        match node:
            case Number(text) | Constant(text) | Unknown(text):
                return text
            case Name():
                return self.name(node)
            case Negative(inner):
                return self.minus + self.wrap(inner, Sum, Negative)
            case Sum(terms):
                return self.show(terms[0]) + "".join(map(self.added, terms[1:]))
            case Product(factors):
                return self.product(factors)
            case Quotient(top, bottom):
                return f"{self.wrap(top, Sum, Negative)}/{self.wrap(bottom, Sum, Negative, Product, Quotient)}"
            case Power(base, exponent):
                return self.power(base, exponent)
            case Root(radicand, degree):
                return self.root(radicand, degree)
            case Call(function, arguments, over):
                return self.call(function, arguments, over)
            case Array(rows):
                return "[" + "; ".join(", ".join(map(self.show, row)) for row in rows) + "]"
            case Transpose(inner):
                return f"{self.tight(inner)}^T"
            case Several(items):
                return ", ".join(map(self.show, items))
            case Struck(inner):
                return self.show(inner)
            case Blank():
                return ""

    def wrap(self, node: Expression, *kinds: type) -> str:
        return f"({self.show(node)})" if isinstance(node, kinds) else self.show(node)

    def tight(self, node: Expression) -> str:
        return self.wrap(node, Sum, Negative, Product, Quotient, Power)

    def added(self, term: Expression) -> str:
        if isinstance(term, Negative):
            return f" {self.minus} {self.wrap(term.term, Sum, Negative)}"
        return f" + {self.show(term)}"

    def name(self, name: Name) -> str:
        return name.name + _script("_", name.indices) + _script("^", name.upper) + "'" * name.primes

    def product(self, factors: tuple[Expression, ...]) -> str:
        return self.times.join(self.wrap(factor, Sum, Negative) for factor in factors)

    def power(self, base: Expression, exponent: Expression) -> str:
        return f"{self.tight(base)}^{_braced(self.show(exponent))}"

    def root(self, radicand: Expression, degree: Expression | None) -> str:
        return f"√{_braced(self.show(degree)) if degree is not None else ''}({self.show(radicand)})"

    def call(self, function: str, arguments: tuple[Expression, ...], over: str) -> str:
        if function == "entry":
            return f"{self.tight(arguments[0])}_{_braced(over)}"
        return f"{function}{f'_{_braced(over)}' if over else ''}({', '.join(map(self.show, arguments))})"


def _script(mark: str, parts: tuple[Index, ...]) -> str:
    return mark + _braced(",".join(map(str, parts))) if parts else ""


def _braced(text: str) -> str:
    return text if len(text) == 1 else "{" + text + "}"


class _Label(_Line):
    def product(self, factors: tuple[Expression, ...]) -> str:
        """Format a product: QK' in a product is QKᵀ; adjacent digits need a sign between them."""
        texts: list[str] = []
        for position, factor in enumerate(factors):
            named = position and isinstance(factors[position - 1], Name | Transpose)
            if named and isinstance(factor, Name) and factor.primes == 1:
                factor = Transpose(Name(factor.name, factor.indices, factor.upper))
            text = self.wrap(factor, Sum, Negative)
            texts.append(f"·{text}" if texts and text[:1].isdecimal() else text)
        return "".join(texts)


class _Code(_Line):
    times = "*"

    def power(self, base: Expression, exponent: Expression) -> str:
        simple = isinstance(exponent, Number | Constant | Name)
        return f"{self.tight(base)}^{self.show(exponent) if simple else f'({self.show(exponent)})'}"

    def root(self, radicand: Expression, degree: Expression | None) -> str:
        if degree is None:
            return f"sqrt({self.show(radicand)})"
        return f"{self.tight(radicand)}^(1/{self.show(degree)})"

    def show(self, node: Expression) -> str:
        return "inf" if node == Constant("∞") else super().show(node)


class _Unicode(_Line):
    minus = "−"

    def name(self, name: Name) -> str:
        letter = normalize("NFC", name.name) + "'" * name.primes
        numbers = len(name.indices) > 1 and all(isinstance(index, int) for index in name.indices)
        below = f"[{','.join(map(str, name.indices))}]" if numbers else "".join(map(str, name.indices))
        return letter + below + "".join(map(str, name.upper))

    def show(self, node: Expression) -> str:
        if isinstance(node, Transpose):
            return f"{self.tight(node.term)}ᵀ"
        return super().show(node)

    def product(self, factors: tuple[Expression, ...]) -> str:
        out = self.wrap(factors[0], Sum, Negative)
        for before, factor in pairwise(factors):
            out += (_between(before, factor) or ("·" if out[-1:] == ")" else "")) + self.wrap(factor, Sum, Negative)
        return out

    def power(self, base: Expression, exponent: Expression) -> str:
        text = self.wrap(base, Sum, Negative, Product, Quotient, Power, Root, Call)
        raised = exponent.term if isinstance(exponent, Negative) else exponent
        if isinstance(raised, Number) and raised.text.isdecimal():
            return text + self.show(exponent).replace("−", "-").translate(_SUPERSCRIPTS)
        return f"{text}^({self.show(exponent)})"

    def root(self, radicand: Expression, degree: Expression | None) -> str:
        index = self.show(degree).translate(_SUPERSCRIPTS) if degree is not None else ""
        plain = isinstance(radicand, Number | Name) and not index
        return f"{index}√{self.show(radicand)}" if plain else f"{index}√({self.show(radicand)})"

    def call(self, function: str, arguments: tuple[Expression, ...], over: str) -> str:
        shown = [self.show(argument) for argument in arguments]
        match function:
            case "abs":
                return f"|{shown[0]}|"
            case "hadamard":
                return " ∘ ".join(shown)
            case "concat":
                return f"[{' '.join(shown)}]"
        return super().call("softargmax" if function == "softmax" else function, arguments, over)


def _between(before: Expression, factor: Expression) -> str:
    """Return the sign between two factors: 26√3, 4N, X·W, 2·3, √2/2 · S."""
    left, right = is_symbolic(before), is_symbolic(factor)
    if left and right:
        return "·"
    if left or right:
        return "" if isinstance(before, Number) and isinstance(factor, Name | Power) else " · "
    return "·" if isinstance(factor, Number | Quotient | Power) and not _is_power_of_e(factor) else ""


def _is_power_of_e(node: Expression) -> bool:
    return isinstance(node, Power) and node.base == Constant("e")


_LABEL, _CODE, _UNICODE = _Label(), _Code(), _Unicode()


def label(node: Expression) -> str:
    """Return one canonical line for every notation: `Q K^{\\top}` and `QKᵀ` are both "QK^T"."""
    return _LABEL.show(node)


def ascii_code(node: Expression) -> str:
    """Return ASCII that `expression.parse` parses to the same number: 2*sqrt(3)/3, e^2/(e^2 + 2*e + 1), -inf."""
    return _CODE.show(node)


def text(node: Expression) -> str:
    """Return one line of Unicode: e²/(e² + 2e + 1), X·WQ."""
    return " ".join(line.strip() for line in block(node).lines)


# -- blocks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Lines of equal length; `middle` is the index of the line aligned with the equation."""

    lines: tuple[str, ...]
    middle: int = 0

    @property
    def width(self) -> int:
        return len(self.lines[0])


def block(node: Expression) -> TextBlock:
    """Format the expression as text of several lines."""
    match node:
        case Array(rows):
            return _grid([[text(cell) for cell in row] for row in rows])
        case Product(factors) if any(map(_tall, factors)):
            out = block(factors[0])
            for before, factor in pairwise(factors):
                out = side_by_side(out, block(factor), _between(before, factor) or "·")
            return out
        case Sum(terms) if any(map(_tall, terms)):
            out = block(terms[0])
            for term in terms[1:]:
                inner, sign = (term.term, " − ") if isinstance(term, Negative) else (term, " + ")
                out = side_by_side(out, block(inner), sign)
            return out
        case Transpose(inner) if _tall(inner):
            return side_by_side(block(inner), TextBlock(("ᵀ",)))
    return TextBlock((_UNICODE.show(node),))


def _tall(node: Expression) -> bool:
    match node:
        case Array(rows):
            return len(rows) > 1 or bool(rows)
        case Product(parts) | Sum(parts):
            return any(map(_tall, parts))
        case Transpose(inner) | Negative(inner):
            return _tall(inner)
    return False


def _grid(cells: list[list[str]]) -> TextBlock:
    widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
    body = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    last = len(body) - 1
    if last == 0:
        return TextBlock((f"[{body[0]}]",))
    left = ["⎡"] + ["⎢"] * (last - 1) + ["⎣"]
    right = ["⎤"] + ["⎥"] * (last - 1) + ["⎦"]
    return TextBlock(tuple(a + line + b for a, line, b in zip(left, body, right, strict=True)), last // 2)


def side_by_side(a: TextBlock, b: TextBlock, between: str = "") -> TextBlock:
    """Place two blocks side by side with their middle lines aligned and `between` on that line."""
    middle = max(a.middle, b.middle)
    below = max(len(a.lines) - a.middle, len(b.lines) - b.middle)
    lines = []
    for at in range(-middle, below):
        joint = between if at == 0 else " " * len(between)
        lines.append(_at(a, at) + joint + _at(b, at))
    return TextBlock(tuple(lines), middle)


def _at(part: TextBlock, at: int) -> str:
    line = part.middle + at
    return part.lines[line] if 0 <= line < len(part.lines) else " " * part.width


def equation(sides: list[tuple[str, Expression]], width: int = 100) -> str:
    """Format `(relation, expression)` pairs as an equation, wrapped before a relation where it exceeds `width`."""
    lines: list[str] = []
    current: TextBlock | None = None
    for at, (relation, expression) in enumerate(sides):
        part = block(expression)
        if part.width > width - 4 and [later for later, _ in sides[at + 1 :]] == ["≈"]:
            continue  # too wide to read; its decimals follow
        joined = part if current is None else side_by_side(current, part, f" {relation} ")
        if current is not None and joined.width > width:
            lines.extend(current.lines)
            joined = side_by_side(TextBlock((f"  {relation} ",)), part)
        current = joined
    if current is not None:
        lines.extend(current.lines)
    return "\n".join(line.rstrip() for line in lines)
