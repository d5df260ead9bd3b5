"""The parser: tokens → Term, by operator precedence.

sum: product ± product; product: factor · factor, factor / factor, or factors side by side; a factor: an atom with its
scripts. A part that cannot be read becomes Unknown and a Problem, and the rest is still read.
"""

from __future__ import annotations

from glassformer.worked.read import names
from glassformer.worked.read.lists import Lists
from glassformer.worked.read.scripts import attach, subscripted
from glassformer.worked.read.stream import Misread, Token
from glassformer.worked.read.term import (
    Blank,
    Call,
    Constant,
    Name,
    Negative,
    Power,
    Product,
    Quotient,
    Root,
    Struck,
    Sum,
    Term,
    Unknown,
    Written,
    is_numeric,
    written,
)

MOST = 40  # signs, quotients or scripts that may pile up on one thing


class Parser(Lists):
    """Reads ranges of one formula's tokens; collects `problems` and `notes` on the way."""

    def within(self, low: int, high: int) -> Term:
        """The tokens low … high − 1 as one term; Misread if they are not one."""
        before = self.at, self.stop, self.depth
        self.at, self.stop = low, high
        try:
            term = self.sum()
            if self.at < self.stop:
                raise Misread(f"“{self.tokens.text(self.at, self.at + 1)}” is not expected here")
            return term
        finally:
            self.at, self.stop, self.depth = before

    def sum(self) -> Term:
        terms = [self.product()]
        while (sign := self.peek("op")) in ("+", "-", "±"):
            if sign == "±":
                raise Misread("± stands for two numbers")
            self.at += 1
            term = self.product()
            terms.append(Negative(term) if sign == "-" else term)
        return terms[0] if len(terms) == 1 else Sum(tuple(terms))

    def product(self) -> Term:
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
                factors = [Quotient(_product(factors), self.signed())]
            elif sign in ("⊙", "⊗", "⊕", "∧"):
                self.at += 1
                factors = [Call("hadamard" if sign == "⊙" else sign, (_product(factors), self.signed()))]
            elif self.starts_factor():
                factors.append(self.beside(factors[-1]))
            else:
                break
        return _product(factors)

    def beside(self, before: Term) -> Term:
        """The next factor, with no sign between it and the one before: never a number, which would be a guess."""
        token = self.here()
        start = self.at
        if token.kind == "number":
            self.at += 1
            return self.problem(start, self.at, "a number stands here with no sign before it")
        factor = self.factor()
        whole = isinstance(before, Written) and before.places is None
        if whole and isinstance(factor, Quotient) and all(isinstance(p, Written) for p in (factor.top, factor.bottom)):
            return self.problem(start, self.at, "this may be a mixed number or a product: write the sign")
        if isinstance(before, Quotient) and self.slash_before(start) and is_numeric(before) and is_numeric(factor):
            self.note(start, self.at, "a/b c is read as (a/b)·c")
        return factor

    def slash_before(self, index: int) -> bool:
        """Whether the quotient just before `index` was written with a slash (a fraction ends with a brace)."""
        return index > 0 and self.tokens.items[index - 1].kind in ("number", "name")

    def signed(self) -> Term:
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

    def factor(self) -> Term:
        """An atom and the scripts, primes and signs after it."""
        self.depth += 1
        if self.depth > MOST:
            raise Misread(f"things nested more than {MOST} deep")
        term = self.atom()
        self.depth -= 1
        for _ in range(MOST):
            after = attach(self, term)
            if after is None:
                return term
            term = after
        raise Misread(f"more than {MOST} scripts on one thing")

    def atom(self) -> Term:
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

    def number(self) -> Term:
        text = self.here().text
        self.at += 1
        if self.peek("op") == "%":
            self.at += 1
            text += "%"
        try:
            return written(text)
        except ValueError as error:
            raise Misread(str(error)) from None

    def name(self) -> Term:
        token = self.here()
        self.at += 1
        function = names.FUNCTIONS.get(token.text.lower())
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

    def call(self, function: str, token: Token) -> Term:
        """softmax(…), \\exp 2, \\log_2 8, softargmax_β(…), \\sin^2 x."""
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
            term: Term = Root(arguments[0])
        else:
            term = Call(function, arguments, over)
        if base is not None:
            term = Quotient(term, Call("log", (base,)))
        return term if power is None else Power(term, power)

    def command(self) -> Term:
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
        if name in names.BIG.values() or name in names.BIG_SIGNS.values():
            return self.big(name)
        if name in names.STRIKES:
            return Struck(self.argument())
        if name == "cancelto":
            self.argument()
            return Struck(self.argument())
        if name in names.ACCENTS:
            inner = self.argument()
            return Name(inner.name + names.ACCENTS[name], inner.indices) if isinstance(inner, Name) else inner
        if name in ("top", "intercal"):
            return Name("⊤")
        return self.problem(start, self.at, f"the command \\{name} is not known")

    def root(self) -> Term:
        degree = None
        if self.at < self.stop and self.here().kind == "open" and self.here().text == "[":
            close = self.tokens.match[self.at]
            degree = self.within(self.at + 1, close)
            self.at = close + 1
        return Root(self.argument(), degree)

    def big(self, name: str) -> Term:
        """\\sum_{j=1}^{n} body: over what it runs is kept as it is written."""
        over = []
        while (mark := self.peek("op")) in ("_", "^"):
            self.at += 1
            low, high = self.script_range()
            over.append(("" if mark == "_" else "…") + self.tokens.text(low, high))
        body: Term = Blank()
        if self.at < self.stop and (self.starts_factor() or self.peek("op") == "-"):
            body = self.product()
        return Call(name, (body,), " ".join(over) or "?")

    def argument(self) -> Term:
        """What a command applies to: the group in braces, or the next thing alone."""
        if self.at < self.stop and self.here().kind == "open" and self.here().text == "{":
            low, high = self.script_range()
            return self.within(low, high)
        return self.factor() if self.at < self.stop and self.here().kind == "cmd" else self.atom()

    def between_bars(self) -> Term:
        """|x| and ‖x‖."""
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


def _product(factors: list[Term]) -> Term:
    return factors[0] if len(factors) == 1 else Product(tuple(factors))
