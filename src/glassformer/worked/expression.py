"""Number expressions as people write them, parsed into a small tree and never run as Python.

`1/2`, `0.25` (exactly ¼), `sqrt(3)`, `2*sqrt(2)/3`, `(1 + 2)^2`, `e`, `exp(2)`, `1e-5`, `1/sqrt(dk)`. The tree is
evaluated in any arithmetic (exact numbers, intervals, floats), with names such as `dk` looked up by the caller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from glassformer.errors import InputError

MAX_LENGTH = 2_000  # characters of one expression
MAX_DEPTH = 40  # of nesting
MAX_DIGITS = 120  # of one number
MAX_POWER = 64  # of an exponent: keeps 9**9**9 from running for ever
FUNCTIONS = ("sqrt", "exp", "sin", "cos")


@dataclass(frozen=True, slots=True)
class Number:
    """numerator / denominator; `text` is what was written, so that 0.1967 can stand for all that rounds to it."""

    numerator: int
    denominator: int
    text: str

    @property
    def places(self) -> int | None:
        """How many digits are written after the point; None for a whole number."""
        mantissa, point, rest = self.text.lower().partition(".")
        if not point:
            return None if "e" not in mantissa else -int(mantissa.partition("e")[2])
        digits, _, exponent = rest.partition("e")
        return len(digits) - int(exponent or 0)


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """left op right; op is one of + - * / ^."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    argument: Expression


Expression = Number | Name | Negative | Binary | Call

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<op>\*\*|[-+*/^()√]))"
)
_SAME = str.maketrans({"−": "-", "–": "-", "·": "*", "×": "*", "÷": "/"})


def shorten(text: str, length: int = 40) -> str:
    """A value to quote in an error: whole if short, on one line."""
    flat = " ".join(text[: 4 * length].split())
    return flat if len(flat) <= length and len(text) <= 4 * length else flat[: length - 1] + "…"


def number(text: str) -> Number:
    """A written number, exactly: 0.25 is 1/4."""
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, decimals = mantissa.partition(".")
    if len(whole) + len(decimals) > MAX_DIGITS or len(exponent) > 5 or abs(int(exponent or 0)) > 4 * MAX_DIGITS:
        raise InputError(f"the number {shorten(text)} is too long", f"write at most {MAX_DIGITS} digits")
    shift = int(exponent or 0) - len(decimals)
    digits = int((whole + decimals) or "0")
    return Number(digits * 10 ** max(shift, 0), 10 ** max(-shift, 0), text)


class _Parser:
    """Recursive descent: sum > product > sign > power > atom."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise InputError(
                f"the expression {shorten(text)} has {len(text)} characters", f"write at most {MAX_LENGTH}"
            )
        self.text = text
        self.tokens = self.split(text.translate(_SAME))
        self.at = 0
        self.depth = 0

    def fail(self, what: str) -> InputError:
        return InputError(
            f"the expression {shorten(self.text)!r} {what}", "write numbers, + - * / ^, brackets, sqrt(…) and exp(…)"
        )

    def split(self, text: str) -> list[str]:
        tokens, at, end = [], 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.fail(f"has {shorten(text[at:].strip(), 12)!r} in it")
            tokens.append(match.group().strip())
            at = match.end()
        if not tokens:
            raise self.fail("is empty")
        return tokens

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def nested(self, rule: Callable[[], Expression]) -> Expression:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail(f"is nested deeper than {MAX_DEPTH}")
        tree = rule()
        self.depth -= 1
        return tree

    def whole(self) -> Expression:
        tree = self.sum()
        if self.peek():
            raise self.fail(f"goes on with {self.peek()!r} where it should end")
        return tree

    def sum(self) -> Expression:
        tree = self.product()
        while self.peek() in ("+", "-"):
            tree = self.join(tree, self.take(), self.product())
        return tree

    def product(self) -> Expression:
        tree = self.sign()
        while self.peek() in ("*", "/"):
            tree = self.join(tree, self.take(), self.sign())
        return tree

    def join(self, left: Expression, op: str, right: Expression) -> Expression:
        self.joined = getattr(self, "joined", 0) + 1
        if self.joined > 8 * MAX_DEPTH:  # a long sum is a deep tree
            raise self.fail(f"has more than {8 * MAX_DEPTH} operations")
        return Binary(op, left, right)

    def sign(self) -> Expression:
        if self.peek() in ("-", "+"):
            negative = self.take() == "-"
            tree = self.nested(self.sign)
            return Negative(tree) if negative else tree
        return self.power()

    def power(self) -> Expression:
        base = self.atom()
        if self.peek() in ("^", "**"):
            self.take()
            return Binary("^", base, self.nested(self.sign))
        return base

    def atom(self) -> Expression:
        token = self.take()
        if token == "(":
            tree = self.nested(self.sum)
            if self.take() != ")":
                raise self.fail("has a bracket that is not closed")
            return tree
        if token == "√":
            return Call("sqrt", self.nested(self.atom))
        if token[:1].isdigit() or token[:1] == ".":
            return number(token)
        if token[:1].isalpha() or token[:1] == "_":
            if self.peek() != "(":
                return Name(token)
            if token not in FUNCTIONS:
                raise self.fail(f"calls {shorten(token, 12)!r}, which is not one of {', '.join(FUNCTIONS)}")
            return Call(token, self.nested(self.atom))
        raise self.fail(f"has {token!r} where a number should be" if token else "ends too early")


def parse(text: str) -> Expression:
    """The tree of an expression, or an InputError that quotes it."""
    return _Parser(text).whole()


class Operations(Protocol):
    """What evaluation needs of an arithmetic; its numbers have + - * / themselves (glassformer.worked.arithmetic)."""

    def rational(self, numerator: int, denominator: int) -> Any: ...
    def sqrt(self, x: Any) -> Any: ...
    def exp(self, x: Any) -> Any: ...
    def sin(self, x: Any) -> Any: ...
    def cos(self, x: Any) -> Any: ...
    def power(self, x: Any, numerator: int, denominator: int) -> Any: ...


def evaluate(tree: Expression, operations: Operations, names: Mapping[str, Any] | None = None) -> Any:
    """The value of a tree; `e` is Euler's number unless `names` says otherwise."""
    match tree:
        case Number(numerator, denominator):
            return operations.rational(numerator, denominator)
        case Name(name):
            if names and name in names:
                return names[name]
            if name == "e":
                return operations.exp(operations.rational(1, 1))
            known = ", ".join(["e", *(names or {})])
            raise InputError(f"the name {shorten(name, 20)!r} stands for nothing here", f"use one of {known}")
        case Negative(operand):
            return -evaluate(operand, operations, names)
        case Call(name, argument):
            return getattr(operations, name)(evaluate(argument, operations, names))
        case Binary("^", left, right):
            return _power(left, right, operations, names)
        case Binary(op, left, right):
            a, b = evaluate(left, operations, names), evaluate(right, operations, names)
            if op == "/":
                try:
                    return a / b
                except ZeroDivisionError:
                    raise InputError("an expression divides by zero", "write a denominator that is not 0") from None
            return a + b if op == "+" else a - b if op == "-" else a * b
    raise AssertionError(tree)


def _power(left: Expression, right: Expression, operations: Operations, names: Mapping[str, Any] | None) -> Any:
    if left == Name("e") and not (names and "e" in names):
        return operations.exp(evaluate(right, operations, names))
    p, q = _ratio(right)
    if abs(p) > MAX_POWER or q > 12:
        raise InputError(f"the exponent {shorten(f'{p}/{q}' if q > 1 else str(p), 20)} is too large", "use a small one")
    return operations.power(evaluate(left, operations, names), p, q)


def _ratio(tree: Expression) -> tuple[int, int]:
    """A plain exponent as a reduced fraction; powers inside it are refused, as they are never needed."""
    from fractions import Fraction

    match tree:
        case Number(p, q):
            value = Fraction(p, q)
        case Negative(operand):
            value = -Fraction(*_ratio(operand))
        case Binary("/", left, right) if _ratio(right)[0]:
            value = Fraction(*_ratio(left)) / Fraction(*_ratio(right))
        case _:
            raise InputError("an exponent is not a plain number", "write exponents such as 2, -1 or 1/2")
    return value.numerator, value.denominator
