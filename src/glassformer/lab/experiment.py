"""A claim as an experiment: parameters and a seed in, plain numbers out, and a verdict that a stated rule derives."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from glassformer.errors import GlassError, InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind = Literal["holds", "holds when", "fails"]
Value = int | float
Result = dict[str, Any]  # numbers, strings, lists of them: what JSON can hold


class Verdict(NamedTuple):
    """`condition` says when it holds, why it fails, or what was found; `rule` is how that follows from the numbers."""

    kind: Kind
    condition: str
    rule: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.condition}" if self.kind != "holds when" else f"holds when {self.condition}"


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A number that may be set: whole or not as its default is, and not below `least`."""

    default: Value
    meaning: str
    least: float

    def read(self, name: str, text: str | Value) -> Value:
        whole = isinstance(self.default, int)
        try:
            value: Value = int(str(text)) if whole else float(text)
        except ValueError:
            kind = "a whole number" if whole else "a number"
            raise InputError(f"{name}={text} is no {'whole ' if whole else ''}number", f"give {kind}") from None
        if not math.isfinite(value) or value < self.least:
            raise InputError(f"{name} is {value}", f"choose a number of at least {self.least:g}")
        return value


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """`measure(seed, *, name=default, …)` makes the result; `judge` and `draw` read nothing else.

    A result with a `counterexample` holds the data of an exercise that `glassformer solve` works out.
    """

    number: int
    name: str
    statement: str
    formula: str
    measured: str
    rule: str
    measure: Callable[..., Result]
    judge: Callable[[Result], tuple[Kind, str]]
    draw: Callable[[Result], Figure]
    meanings: Mapping[str, str] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)
    circumstances: str = ""

    @property
    def parameters(self) -> dict[str, Parameter]:
        """What can be set, from the signature of `measure`."""
        found = {}
        for name, each in list(inspect.signature(self.measure).parameters.items())[1:]:
            least = self.least.get(name, 1.0 if isinstance(each.default, int) else 0.0)
            found[name] = Parameter(default=each.default, meaning=self.meanings[name], least=least)
        return found

    def settings(self, changes: Mapping[str, str | Value]) -> dict[str, Value]:
        """Every parameter's value: the default, or what the changes say."""
        known = self.parameters
        for name in changes:
            if name not in known:
                raise InputError(f"claim {self.number} has no parameter {name!r}", f"set one of {', '.join(known)}")
        return {name: each.read(name, changes.get(name, each.default)) for name, each in known.items()}

    def run(self, parameters: Mapping[str, Value], seed: int) -> Result:
        """The measurement itself, as plain data."""
        try:
            return self.measure(seed, **parameters)
        except GlassError:
            raise
        except (ArithmeticError, IndexError, MemoryError, RuntimeError, ValueError) as error:
            if parameters == self.settings({}):
                raise
            words = (str(error).strip().splitlines() or [type(error).__name__])[0]
            set_to = ", ".join(f"{name}={value}" for name, value in parameters.items())
            fact = f"claim {self.number} cannot be measured with {set_to} ({words})"
            raise InputError(fact, "choose values nearer to the defaults") from error

    def verdict(self, result: Result) -> Verdict:
        return Verdict(*self.judge(result), self.rule)

    def figure(self, result: Result) -> Figure:
        return self.draw(result)

    def counterexample(self, result: Result) -> str | None:
        """The exercise file, if the result has one."""
        from glassformer.worked.practice.sheet import dump
        from glassformer.worked.problem import from_data

        data = result.get("counterexample")
        return None if data is None else dump(from_data(data))
