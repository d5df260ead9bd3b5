"""The parser: tokens → Expression, by operator precedence.

sum: product ± product; product: factor · factor, factor / factor, or factors side by side; factor: an atom with its
scripts. In brackets `&` and commas separate cells, `\\\\` and semicolons separate rows, and numbers side by side, as in
printed arrays, are cells too. A comma between digits may be a decimal comma: this is reported, not guessed. A part that
cannot be parsed becomes Unknown and a problem, and the rest is still parsed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from glassformer.errors import InputError
from glassformer.exercises.expression import (
    MAX_DIGITS,
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
    Quotient,
    Root,
    Struck,
    Sum,
    Transpose,
    Unknown,
    is_numeric,
    number,
    product,
)
from glassformer.exercises.reader import symbols
from glassformer.exercises.reader.lexer import Misread, Token, TokenList

Range = tuple[int, int]


class Lists:
    """The part of the parser that handles brackets."""

    def __init__(self, tokens: TokenList) -> None:
        self.tokens = tokens
        self.at, self.stop = 0, len(tokens.items)
        self.depth = 0
        self.problems: list[tuple[int, str, str]] = []
        self.notes: list[tuple[int, str, str]] = []

    if TYPE_CHECKING:

        def within(self, low: int, high: int) -> Expression: ...
        def problem(self, low: int, high: int, reason: str) -> Unknown: ...

    def here(self) -> Token:
        return self.tokens.items[self.at]

    def peek(self, kind: str) -> str:
        """Return the text of the next token if it is of that kind, else the empty string."""
        if self.at < self.stop and self.tokens.items[self.at].kind == kind:
            return self.tokens.items[self.at].text
        return ""

    def note(self, low: int, high: int, assumption: str) -> None:
        self.notes.append((self.tokens.items[low].line, self.tokens.text(low, high), assumption))

    def split(self, low: int, high: int, kind: str, *texts: str) -> list[Range]:
        """Return the ranges between tokens of that kind and text, outside all brackets."""
        ranges, start, index = [], low, low
        while index < high:
            token = self.tokens.items[index]
            if token.kind == kind and (not texts or token.text in texts):
                ranges.append((start, index))
                start = index + 1
            index = self.tokens.match.get(index, index) + 1
        return [*ranges, (start, high)]

    def find_op(self, text: str, low: int) -> int:
        """Return the next position of the operator outside brackets within the current range; −1 if there is none."""
        index = low
        while index < self.stop:
            if self.is_op(index, text):
                return index
            index = self.tokens.match.get(index, index) + 1
        return -1

    def has_comma(self, opened: int) -> bool:
        return len(self.split(opened + 1, self.tokens.match[opened], "op", ",")) > 1

    def script_range(self) -> Range:
        """Consume the tokens of a script or an argument: a group in braces or a single token."""
        if self.at >= self.stop:
            raise Misread("something is missing here")
        start = self.at
        if self.here().kind in ("open", "begin"):
            close = self.tokens.match[start]
            self.at = close + 1
            return (start + 1, close) if self.tokens.items[start].text == "{" else (start, close + 1)
        if self.here().kind == "op" and self.here().text in "+-" and start + 1 < self.stop:
            self.at += 1  # 2^-1
        self.at += 1
        return start, self.at

    def arguments(self) -> tuple[Expression, ...]:
        """Parse (a, b, c) after a function."""
        opened = self.at
        close = self.tokens.match[opened]
        ranges = self.split(opened + 1, close, "op", ",", ";")
        self.at = close + 1
        return tuple(self.cell(low, high) for low, high in ranges)

    def cell(self, low: int, high: int) -> Expression:
        """Parse one cell; if that fails it becomes Unknown, and the other cells are still parsed."""
        if low >= high:
            return Blank()
        token = self.tokens.items[low]
        if high == low + 1 and token.kind == "number" and len(token.text) < MAX_DIGITS and "e" not in token.text:
            return number(token.text)  # the most common case
        problems = len(self.problems)
        try:
            return self.within(low, high)
        except Misread as error:
            del self.problems[problems:]
            return self.problem(low, high, error.reason)

    def bracketed(self) -> Expression:
        """Parse ( … ), [ … ], \\{ … \\}: a group if it contains one term, otherwise a list or a matrix."""
        opened = self.at
        close = self.tokens.match[opened]
        kind = self.tokens.items[opened].text
        self.at = close + 1
        if kind == "{":
            if close == opened + 1:
                raise Misread("the braces are empty")
            return self.within(opened + 1, close)
        nested = self.nested(opened + 1, close) if kind == "[" else None
        if nested is not None:
            return self.checked(Array(nested), opened, close + 1)
        rows = self.rows(opened + 1, close, spaces=kind != "(" or self.only_numbers(opened + 1, close))
        if kind == "<":
            return Call("inner", rows[0])
        if len(rows) > 1:
            commas = [i for i in range(opened, close) if self.is_op(i, ",")]
            if all(len(row) == 2 for row in rows) and len(commas) == len(rows) and all(map(self.tight_comma, commas)):
                self.note(opened, close + 1, "commas are read as cell separators and semicolons as row separators")
            return self.checked(Array(tuple(rows)), opened, close + 1)
        row = rows[0]
        if len(row) == 1:
            return self.alone(row[0], opened, close, kind)
        if all(isinstance(item, Array) and item.flat for item in row):  # ((1, 2), (3, 4))
            inner = tuple(item.rows[0] for item in row if isinstance(item, Array))
            return self.checked(Array(inner), opened, close + 1)
        return Array((row,), flat=True)

    def only_numbers(self, low: int, high: int) -> bool:
        """Return whether there are only numbers, at least two of them side by side: ( 2 0 ), but not ( 2 -1 )."""
        items = self.tokens.items[low:high]
        if not all(item.kind == "number" or (item.kind == "op" and item.text == "-") for item in items):
            return False
        return any(one.kind == two.kind == "number" for one, two in pairwise(items))

    def nested(self, low: int, high: int) -> tuple[tuple[Expression, ...], ...] | None:
        """Parse [[1, 2], [3, 4]]: return the rows if everything inside the brackets is bracketed."""
        parts = self.split(low, high, "op", ",")
        parts = self.spaced(low, high) if len(parts) == 1 else parts
        for start, stop in parts:
            bracket = start < stop and self.tokens.items[start].kind == "open" and self.tokens.items[start].text == "["
            if not bracket or self.tokens.match[start] != stop - 1 or self.tokens.items[start + 1].kind == "begin":
                return None
        return tuple(self.row(start + 1, stop - 1, spaces=True) for start, stop in parts)

    def alone(self, item: Expression, opened: int, close: int, kind: str) -> Expression:
        """Parse a single item: [x] is a group, [101211] may be six digits that have lost their spaces."""
        if isinstance(item, Blank):
            raise Misread("the brackets are empty")
        text = self.tokens.items[opened + 1].text
        if kind == "[" and close == opened + 2 and text.isdecimal() and len(text) > 3:
            reason = f"this may be the number {text} or {len(text)} digits side by side: write commas"
            return self.problem(opened, close + 1, reason)
        return item

    def environment(self) -> Expression:
        opened = self.at
        close = self.tokens.match[opened]
        name = self.tokens.items[opened].text
        self.at = close + 1
        if name in ("cases", "dcases", "rcases"):
            return self.cases(opened + 1, close)
        if name not in symbols.MATRICES:
            raise Misread(f"the environment {name} is not known inside a formula")
        rows = self.rows(opened + 1, close, spaces=True)
        if rows == [(Blank(),)]:
            raise Misread("the matrix is empty")
        return self.checked(Array(tuple(rows)), opened, close + 1)

    def cases(self, low: int, high: int) -> Expression:
        """Parse the values of cases, a list in the order of the counter: 0.47 & j = 1 \\\\ 0.53 & j = 2."""
        values: list[tuple[int, Expression]] = []
        items = self.tokens.items
        for position, (start, stop) in enumerate(self.split(low, high, "row")):
            end = next((k for k in range(start, stop) if items[k].kind == "words" or self.is_op(k, "&")), stop)
            counts = [int(t.text) for t in items[end:stop] if t.kind == "number" and t.text.isdecimal()][:2]
            while end - start > 1 and self.is_op(end - 1, ","):
                end -= 1
            if start < end:
                values.append((counts[0] if len(counts) == 1 else position, self.cell(start, end)))
        if not values:
            raise Misread("the cases are empty")
        found = tuple(value for _, value in sorted(values, key=lambda pair: pair[0]))
        vectors = [value.rows[0] for value in found if isinstance(value, Array) and value.flat]
        return Array(tuple(vectors)) if len(vectors) == len(found) else Array((found,), flat=True)

    def checked(self, matrix: Array, low: int, high: int) -> Array:
        """Report rows that differ in length; the matrix is kept unchanged."""
        lengths = [len(row) for row in matrix.rows]
        if matrix.ragged:
            odd = next(i for i, length in enumerate(lengths) if length != lengths[0])
            entries = "1 entry" if lengths[odd] == 1 else f"{lengths[odd]} entries"
            self.problem(low, high, f"row {odd + 1} of the matrix has {entries}, row 1 has {lengths[0]}")
        return matrix

    def rows(self, low: int, high: int, *, spaces: bool) -> list[tuple[Expression, ...]]:
        ranges = [r for part in self.split(low, high, "row") for r in self.split(*part, "op", ";")]
        while len(ranges) > 1 and ranges[-1][0] >= ranges[-1][1]:
            ranges.pop()  # a trailing \\ ends a row and begins none
        if len(ranges) > 1 and (numbers := self.decimal_commas(ranges)):
            self.note(low, high, "commas are read as decimal commas")
            rows = len(self.split(low, high, "row")) > 1
            return [(each,) for each in numbers] if rows else [tuple(numbers)]
        return [self.row(*r, spaces=spaces) for r in ranges]

    def row(self, low: int, high: int, *, spaces: bool) -> tuple[Expression, ...]:
        cells = self.split(low, high, "op", "&")
        if len(cells) > 1:
            cells = [(a, b - 1) if b > a and self.is_op(b - 1, ",") else (a, b) for a, b in cells]
            return tuple(self.cell_with_comma(*c) for c in cells)
        cells = self.split(low, high, "op", ",")
        if len(cells) > 1 and cells[-1][0] >= cells[-1][1]:
            cells.pop()  # (1, 2, )
        if len(cells) == 2 and self.doubtful(cells[0][1]):
            return (self.problem(low, high, COMMA),)
        if len(cells) == 1 and spaces:
            bars = self.split(low, high, "op", "|")
            cells = bars if len(bars) == 2 and all(a < b for a, b in bars) else self.spaced(low, high)
        return tuple(self.cell(*c) for c in cells)

    def decimal_commas(self, ranges: list[Range]) -> list[Expression]:
        """Parse [0,472; 0,057] as one decimal per row; return [] if two columns may be meant: [10,20; 30,40]."""
        found = [self.decimal_comma(*r) for r in ranges]
        texts = [self.tokens.items[high - 3].text for _, high in ranges if high >= 3]
        lengths = {len(self.tokens.items[high - 1].text) for _, high in ranges}
        if any(each is None for each in found) or len(lengths) > 1:
            return []
        sure = min(lengths) > 2 or (min(lengths) > 1 and "0" in texts)
        return [each for each in found if each is not None] if sure else []

    def decimal_comma(self, low: int, high: int) -> Expression | None:
        """Parse 0,47 or -0,47 as one number, if it is the whole range."""
        minus = high - low == 4 and self.is_op(low, "-")
        start = low + minus
        if high - start != 3 or not self.tight_comma(start + 1) or not self.is_op(start + 1, ","):
            return None
        before, after = self.tokens.items[start].text, self.tokens.items[start + 2].text
        if len(before) + len(after) > MAX_DIGITS:
            return None
        value = number(f"{before}.{after}")
        return Negative(value) if minus else value

    def cell_with_comma(self, low: int, high: int) -> Expression:
        if (value := self.decimal_comma(low, high)) is not None:
            self.note(low, high, "the comma is read as a decimal comma, since & separates the cells")
            return value
        if any(self.is_op(i, ",") for i in range(low, high)) and len(self.split(low, high, "op", ",")) > 1:
            return self.problem(low, high, COMMA)
        return self.cell(low, high)

    def is_op(self, index: int, text: str) -> bool:
        token = self.tokens.items[index]
        return token.kind == "op" and token.text == text

    def tight_comma(self, index: int) -> bool:
        """Return whether the comma stands directly between two integers, as in 0,5."""
        items = self.tokens.items
        if not 0 < index < len(items) - 1:
            return False
        before, comma, after = items[index - 1 : index + 2]
        return (
            before.kind == after.kind == "number" and before.text.isdecimal() and after.text.isdecimal()
            and not comma.spaced and not after.spaced
        )  # fmt: skip

    def doubtful(self, index: int) -> bool:
        """Return whether a comma is ambiguous: [1,2] is a list; [0,1967] and [0,05] look like one decimal number."""
        if not self.tight_comma(index):
            return False
        after = self.tokens.items[index + 1].text
        return len(after) > 2 or (len(after) > 1 and after.startswith("0"))

    def spaced(self, low: int, high: int) -> list[Range]:
        """Parse 1 2 −3: numbers, or lists, separated only by spaces."""
        cuts, index, sure = [low], low, False
        while index < high:
            token = self.tokens.items[index]
            before = self.tokens.items[index - 1]
            if index > low and token.spaced and (before.kind in ("number", "close", "name") or before.text == "infty"):
                minus = token.kind == "op" and token.text == "-" and index + 1 < high
                after = self.tokens.items[min(index + 1, high - 1)]
                tight = minus and not after.spaced and (after.kind == "number" or after.text == "infty")
                if token.kind == "number" or tight or (token.kind == "open" and token.text == "["):
                    cuts.append(index)
                    sure |= not tight
            index = self.tokens.match.get(index, index) + 1
        if len(cuts) > 1 and not sure:
            self.note(low, high, "the space before − is read as a cell separator, not as subtraction")
        return list(zip(cuts, [*cuts[1:], high], strict=True))


COMMA = (
    "the comma may be a decimal comma or separate two numbers: write a point, put a space after the comma, or use "
    "--decimal-comma"
)


MOST = 40  # maximum number of signs, quotients or scripts on one term


class Parser(Lists):
    """Parses ranges of one formula's tokens; collects `problems` and `notes`."""

    def within(self, low: int, high: int) -> Expression:
        """Parse the tokens low … high − 1 as one term; Misread if they are not one."""
        before = self.at, self.stop, self.depth
        self.at, self.stop = low, high
        try:
            term = self.sum()
            if self.at < self.stop:
                raise Misread(f"“{self.tokens.text(self.at, self.at + 1)}” is not expected here")
            return term
        finally:
            self.at, self.stop, self.depth = before

    def sum(self) -> Expression:
        terms = [self.product()]
        while (sign := self.peek("op")) in ("+", "-", "±"):
            start = self.at
            self.at += 1
            term = self.product()
            if sign == "±":  # 0.47 ± 0.01
                self.note(start, self.at, "the number after ± is taken as the uncertainty of the number before it")
                continue
            terms.append(Negative(term) if sign == "-" else term)
        return terms[0] if len(terms) == 1 else Sum(tuple(terms))

    def product(self) -> Expression:
        factors = [self.signed()]
        slashes = 0
        while self.at < self.stop:
            sign = self.peek("op")
            if sign == "*":
                self.at += 1
                factors.append(self.signed())
            elif sign == "/":
                slashes += 1
                if slashes > MOST:
                    raise Misread(f"more than {MOST} quotients in a row")
                self.at += 1
                factors = [Quotient(product(factors), self.signed())]
            elif sign in ("⊙", "⊗", "⊕", "∧"):
                self.at += 1
                factors = [Call("hadamard" if sign == "⊙" else sign, (product(factors), self.signed()))]
            elif self.starts_factor():
                factors.append(self.beside(factors[-1]))
            else:
                break
        return product(factors)

    def beside(self, before: Expression) -> Expression:
        """Parse the next factor of an implicit product; never a number, which would be a guess."""
        token = self.here()
        start = self.at
        if token.kind == "number":
            self.at += 1
            return self.problem(start, self.at, "there is a number here without an operator before it")
        factor = self.factor()
        whole = isinstance(before, Number) and before.places is None
        if whole and isinstance(factor, Quotient) and all(isinstance(p, Number) for p in (factor.top, factor.bottom)):
            return self.problem(start, self.at, "this may be a mixed number or a product: write the operator")
        if isinstance(before, Quotient) and self.slash_before(start) and is_numeric(before) and is_numeric(factor):
            self.note(start, self.at, "a/b c is read as (a/b)·c")
        return factor

    def slash_before(self, index: int) -> bool:
        """Return whether the quotient just before `index` was written with a slash (a fraction ends with a brace)."""
        return index > 0 and self.tokens.items[index - 1].kind in ("number", "name")

    def signed(self) -> Expression:
        minus, count = False, 0
        while (sign := self.peek("op")) in ("+", "-"):
            minus ^= sign == "-"
            self.at += 1
            count += 1
            if count > MOST:
                raise Misread(f"more than {MOST} signs in a row")
        factor = self.factor()
        return Negative(factor) if minus else factor

    def starts_factor(self) -> bool:
        token = self.here()
        if token.kind == "op":
            return token.text in "√|‖"
        return token.kind in ("number", "name", "open", "begin", "cmd", "words")

    def factor(self) -> Expression:
        """Parse an atom and the scripts, primes and signs after it."""
        self.depth += 1
        if self.depth > MOST:
            raise Misread(f"expressions nested more than {MOST} deep")
        term = self.atom()
        self.depth -= 1
        for _ in range(MOST):
            after = attach(self, term)
            if after is None:
                return term
            term = after
        raise Misread(f"more than {MOST} scripts on one term")

    def atom(self) -> Expression:
        if self.at >= self.stop:
            raise Misread("something is missing here")
        token = self.here()
        match token.kind:
            case "number":
                return self.number()
            case "name":
                return self.name()
            case "open":
                return self.bracketed()
            case "begin":
                return self.environment()
            case "cmd":
                return self.command()
            case "op" if token.text == "√":
                self.at += 1
                return Root(self.factor())
            case "op" if token.text in "|‖":
                return self.between_bars()
        raise Misread(f"“{self.tokens.text(self.at, self.at + 1)}” is not expected here")

    def number(self) -> Expression:
        text = self.here().text
        self.at += 1
        if self.peek("op") == "%":
            self.at += 1
            text += "%"
        try:
            return number(text)
        except InputError as error:
            raise Misread(error.fact) from None

    def name(self) -> Expression:
        token = self.here()
        self.at += 1
        function = symbols.FUNCTIONS.get(token.text.lower())
        if function is not None and (len(token.text) > 2 or token.text == "ln"):
            return self.call(function, token)
        if token.text == "e" and self.peek("op") != "_":
            return Constant("e")
        if token.text == "π":
            return Constant("π")
        if token.text in ("dk", "dv", "dq", "WQ", "WK", "WV", "WO"):
            term = Name(token.text[0], (token.text[1],))
        else:
            term = Name(token.text)
        after = self.here() if self.at < self.stop else None
        if after is not None and after.kind == "number" and not after.spaced and after.text.isdecimal():
            self.at += 1  # Q1, w12
            return Name(term.name, (*term.indices, int(after.text[:9])))
        if after is not None and after.kind == "open" and after.text == "(" and self.has_comma(self.at):
            return Call(token.text, self.arguments())
        if after is not None and after.kind == "open" and after.text == "[" and not after.spaced:
            return subscripted(self, term)
        return term

    def call(self, function: str, token: Token) -> Expression:
        """Parse a call: softmax(…), \\exp 2, \\log_2 8, softargmax_β(…), \\sin^2 x."""
        over, power, base = "", None, None
        while (mark := self.peek("op")) in ("_", "^"):
            self.at += 1
            low, high = self.script_range()
            if mark == "^":
                power = self.within(low, high)
            elif function == "log":
                base = self.within(low, high)
            else:
                over = self.tokens.text(low, high)
        if self.at >= self.stop or not (self.starts_factor() or self.peek("op") == "-"):
            return Name(token.text, (over,) if over else ())
        if self.here().kind == "open" and self.here().text in ("(", "{"):
            arguments = self.arguments()
        else:
            arguments = (self.signed(),)
        if function == "sqrt" and len(arguments) == 1:
            term: Expression = Root(arguments[0])
        else:
            term = Call(function, arguments, over)
        if base is not None:
            term = Quotient(term, Call("log", (base,)))
        return term if power is None else Power(term, power)

    def command(self) -> Expression:
        token = self.here()
        start = self.at
        self.at += 1
        name = token.text
        if name == "frac":
            top = self.argument()
            return Quotient(top, self.argument())
        if name == "sqrt":
            return self.root()
        if name in ("infty", "pi"):
            return Constant({"infty": "∞", "pi": "π"}[name])
        if name in symbols.BIG.values() or name in symbols.BIG_SIGNS.values():
            return self.big(name)
        if name in symbols.STRIKES:
            return Struck(self.argument())
        if name == "cancelto":
            self.argument()
            return Struck(self.argument())
        if name in symbols.ACCENTS:
            inner = self.argument()
            return Name(inner.name + symbols.ACCENTS[name], inner.indices) if isinstance(inner, Name) else inner
        if name in ("top", "intercal"):
            return Name("⊤")
        return self.problem(start, self.at, f"the command \\{name} is not known")

    def root(self) -> Expression:
        degree = None
        if self.at < self.stop and self.here().kind == "open" and self.here().text == "[":
            close = self.tokens.match[self.at]
            degree = self.within(self.at + 1, close)
            self.at = close + 1
        return Root(self.argument(), degree)

    def big(self, name: str) -> Expression:
        """Parse \\sum_{j=1}^{n} body; its range is kept as written."""
        over = []
        while (mark := self.peek("op")) in ("_", "^"):
            self.at += 1
            low, high = self.script_range()
            over.append(("" if mark == "_" else "…") + self.tokens.text(low, high))
        body: Expression = Blank()
        if self.at < self.stop and (self.starts_factor() or self.peek("op") == "-"):
            body = self.product()
        return Call(name, (body,), " ".join(over) or "?")

    def argument(self) -> Expression:
        """Parse the argument of a command: the group in braces, or the next token alone."""
        if self.at < self.stop and self.here().kind == "open" and self.here().text == "{":
            low, high = self.script_range()
            return self.within(low, high)
        return self.factor() if self.at < self.stop and self.here().kind == "cmd" else self.atom()

    def between_bars(self) -> Expression:
        """Parse |x| and ‖x‖."""
        bar = self.here().text
        close = self.find_op(bar, self.at + 1)
        if close < 0:
            raise Misread(f"the bar {bar} is never closed")
        inner = self.within(self.at + 1, close)
        self.at = close + 1
        return Call("abs" if bar == "|" else "norm", (inner,))

    def problem(self, low: int, high: int, reason: str) -> Unknown:
        source = self.tokens.text(low, high)
        self.problems.append((self.tokens.items[min(low, len(self.tokens.items) - 1)].line, source, reason))
        return Unknown(source, reason)


_UPPER = frozenset("QKVOqkvo")


def attach(parser: Parser, term: Expression) -> Expression | None:
    """Attach the next script to the term; None if none follows."""
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
        return Quotient(term, number("100"))
    return _size_beside(parser, term)


def _raise(parser: Parser, term: Expression) -> Expression:
    low, high = _exponent(parser)
    tokens = [t for t in parser.tokens.items[low:high] if t.kind not in ("open", "close") or t.text != "{"]
    text = "".join(token.text for token in tokens)
    if not tokens:
        raise Misread("an exponent is empty")
    if text in symbols.TRANSPOSES and not isinstance(term, Number | Constant):
        capital = isinstance(term, Name) and term.name.isupper()
        if text != "t" or isinstance(term, Array | Struck) or capital:
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
    """Return the range of an exponent: {…}, or the next token; 9**9**9 is 9**(9**9)."""
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


def _lower(parser: Parser, term: Expression) -> Expression:
    low, high = parser.script_range()
    inner = term.term if isinstance(term, Struck | Transpose) else term
    if isinstance(inner, Array):
        size = _size(parser, low, high)
        if size is not None:
            sized = replace(inner, size=size)
            return Struck(sized) if isinstance(term, Struck) else Transpose(sized) if inner is not term else sized
    script = [token for token in parser.tokens.items[low:high] if token.text != "{"]
    noted = any(token.kind in ("words", "rel") for token in script) and not isinstance(inner, Name)
    if noted or (isinstance(inner, Array) and script and script[0].kind == "name" and script[0].text[:1].isupper()):
        return term  # the annotation of \underbrace
    if isinstance(term, Name):
        return replace(term, indices=(*term.indices, *indices(parser, low, high)))
    if isinstance(term, Transpose | Struck) and isinstance(term.term, Name):
        named = replace(term.term, indices=(*term.term.indices, *indices(parser, low, high)))
        return Transpose(named) if isinstance(term, Transpose) else Struck(named)
    if isinstance(term, Power) and isinstance(term.base, Name):
        return Power(replace(term.base, indices=(*term.base.indices, *indices(parser, low, high))), term.exponent)
    if isinstance(term, Constant):
        return Name(term.symbol, indices(parser, low, high))
    if isinstance(term, Number | Blank):
        raise Misread("a number has an index")
    return Call("entry", (term,), ",".join(map(str, indices(parser, low, high))))


def _size(parser: Parser, low: int, high: int) -> tuple[int, int] | None:
    """Parse a size: (2 \\times 3) or 2×3."""
    found = re.fullmatch(r"\(?(\d{1,6})[*,](\d{1,6})\(?", "".join(t.text for t in parser.tokens.items[low:high]))
    return (int(found[1]), int(found[2])) if found else None


def _size_beside(parser: Parser, term: Expression) -> Expression | None:
    """Parse […] (2 × 3): the size noted beside its matrix."""
    if not isinstance(term, Array) or term.size is not None or parser.peek("open") != "(":
        return None
    close = parser.tokens.match[parser.at]
    size = _size(parser, parser.at, close + 1)
    if size != term.shape or close != parser.at + 4:
        return None
    parser.at = close + 1
    return replace(term, size=size)


def indices(parser: Parser, low: int, high: int) -> tuple[Index, ...]:
    """Parse indices: 1,2 → (1, 2); ij → (i, j); Q_1 → (Q, 1); model → (model,); i+1 → ("i+1",)."""
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
    """Parse A[1,2] as in program code, if nothing else is on that side."""
    start, close = parser.at - 1, parser.tokens.match[parser.at]
    if parser.tokens.match.get(close + 1) == parser.stop - 1 and parser.tokens.items[close + 1].text == "[":
        close = parser.stop - 1  # A[1][2]
    inside = parser.tokens.text(parser.at + 1, close)
    if close + 1 != parser.stop or re.fullmatch(r"\d{1,3}(?:\]?\[?,?\s?\d{1,3})?", inside) is None:
        return name
    parser.at = close + 1
    parser.note(start, close + 1, "read as one cell of a matrix")
    return Name(name.name, (*name.indices, *(int(part) for part in re.findall(r"\d+", inside))))
