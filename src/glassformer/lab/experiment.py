"""Claims as experiments: parameters and a seed as input, plain numbers as output, and a rule that derives a verdict."""

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
Result = dict[str, Any]  # JSON-serialisable: numbers, strings and lists of them
NOT_JUDGED = "Not part of the verdict"  # begins the sentence of a verdict on which the rule does not depend
MEANINGS = {  # of parameters that many experiments share
    "queries": "number of queries",
    "keys": "number of keys",
    "tokens": "number of tokens",
    "width": "width (d)",
    "sigma": "standard deviation of the noise",
    "steps": "training steps",
}


class Verdict(NamedTuple):
    """The verdict on a claim. `condition` states when it holds or what was found; `rule` how the verdict is derived."""

    kind: Kind
    condition: str
    rule: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.condition}" if self.kind != "holds when" else f"holds when {self.condition}"


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of an experiment: an integer if its default is an integer, and at least `least`."""

    default: Value
    meaning: str
    least: float

    def read(self, name: str, text: str | Value) -> Value:
        whole = isinstance(self.default, int)
        try:
            value: Value = int(str(text)) if whole else float(text)
        except ValueError:
            kind = "an integer" if whole else "a number"
            raise InputError(f"{name}={text} is not {kind}", f"give {kind}") from None
        if not math.isfinite(value) or value < self.least:
            raise InputError(f"{name} is {value}", f"choose a number of at least {self.least:g}")
        return value


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment: `measure(seed, *, name=default, …)` returns the result; `judge` and `draw` read nothing else.

    `judge` applies the rule; its text quotes only numbers that the rule has checked, except after NOT_JUDGED.
    `falsified_by` describes the measurement that would change the verdict, `circumstances` the scope of the experiment,
    and `meanings` the parameters that are not in MEANINGS. A result with a `counterexample` holds the data of an
    exercise that `glassformer solve` can solve.
    """

    number: int
    name: str
    statement: str
    formula: str
    measured: str
    rule: str
    falsified_by: str
    measure: Callable[..., Result]
    judge: Callable[[Result], tuple[Kind, str]]
    draw: Callable[[Result], Figure]
    meanings: Mapping[str, str] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)
    circumstances: str = ""

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters, read from the signature of `measure`."""
        found = {}
        for name, each in list(inspect.signature(self.measure).parameters.items())[1:]:
            least = self.least.get(name, 1.0 if isinstance(each.default, int) else 0.0)
            found[name] = Parameter(default=each.default, meaning=(MEANINGS | dict(self.meanings))[name], least=least)
        return found

    def settings(self, changes: Mapping[str, str | Value]) -> dict[str, Value]:
        """Return the value of every parameter: its default, or the changed value."""
        known = self.parameters
        for name in changes:
            if name not in known:
                raise InputError(f"claim {self.number} has no parameter {name!r}", f"set one of {', '.join(known)}")
        return {name: each.read(name, changes.get(name, each.default)) for name, each in known.items()}

    def run(self, parameters: Mapping[str, Value], seed: int) -> Result:
        """Run the measurement and return it as plain data."""
        try:
            return self.measure(seed, **parameters)
        except GlassError:
            raise
        except (ArithmeticError, IndexError, MemoryError, RuntimeError, ValueError) as error:
            if parameters == self.settings({}):
                raise
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            values = ", ".join(f"{name}={value}" for name, value in parameters.items())
            fact = f"claim {self.number} cannot be measured with {values} ({reason})"
            raise InputError(fact, "choose values closer to the defaults") from error

    def verdict(self, result: Result) -> Verdict:
        return Verdict(*self.judge(result), self.rule)

    def figure(self, result: Result) -> Figure:
        return self.draw(result)

    def counterexample(self, result: Result) -> str | None:
        """Return the exercise file of the counterexample, if there is one."""
        from glassformer.exercises.exercise import from_data
        from glassformer.exercises.practice.sheet import exercise_yaml

        data = result.get("counterexample")
        return None if data is None else exercise_yaml(from_data(data))


class Outcome(NamedTuple):
    """One run of an experiment. `cached`: its numbers come from the cache; `seconds`: the time they took."""

    experiment: Experiment
    parameters: dict[str, Value]
    seed: int
    result: Result
    verdict: Verdict
    seconds: float
    cached: bool

    @property
    def command(self) -> str:
        """The command that reproduces the run."""
        return " ".join([f"glassformer lab {self.experiment.number}", *self._set("--set "), f"--seed {self.seed}"])

    @property
    def code(self) -> str:
        """The Python code that reproduces the run."""
        arguments = ", ".join([str(self.experiment.number), f"seed={self.seed}", *self._set("")])
        return f"from glassformer.lab import run_claim\n\noutcome = run_claim({arguments})\nprint(outcome.verdict)"

    def _set(self, prefix: str) -> list[str]:
        defaults = self.experiment.settings({})
        return [f"{prefix}{name}={value}" for name, value in self.parameters.items() if value != defaults[name]]
