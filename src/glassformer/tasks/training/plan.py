"""How a training goes: how many steps, how the weights move, what is kept when. Checked where it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from glassformer.errors import ConfigError

# Fields that change how fast a run goes and not where it goes: a resumed run may have others.
FREE = ("workers",)


@dataclass(frozen=True, kw_only=True)
class Optimise:
    """AdamW (Loshchilov, Hutter 2019) and its rate: up in `warmup` steps, then along the schedule.

    `floor` is the part of the rate below which no schedule goes; `clip` the longest gradient that is not shortened.
    """

    rate: float
    schedule: Literal["cosine", "inverse_sqrt", "constant"] = "cosine"
    warmup: int = 0
    decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    clip: float | None = 1.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        _require(self.rate > 0, f"a rate of {self.rate} learns nothing", "choose a positive one such as 3e-4")
        choices = ("cosine", "inverse_sqrt", "constant")
        _require(self.schedule in choices, f"there is no schedule {self.schedule!r}", "choose " + " or ".join(choices))
        _require(self.warmup >= 0, f"a warm-up of {self.warmup} steps", "choose 0 or more")
        _require(self.decay >= 0, f"a weight decay of {self.decay}", "choose 0 or more")
        fact = f"betas of {self.betas}"
        _require(len(self.betas) == 2 and all(0 <= b < 1 for b in self.betas), fact, "choose two numbers in [0, 1)")
        _require(self.clip is None or self.clip > 0, f"gradients clipped to {self.clip}", "choose a length, or None")
        _require(0 <= self.floor <= 1, f"a floor of {self.floor}", "choose a part of the rate, from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One training. A step is `accumulate` batches; None for `measure_every` or `save_every` is the end alone.

    `average` is the decay of the weights' running average, `patience` how many measurements may pass without a better
    one, `workers` the processes that make batches (0: this one), `log_every` the steps between two lines of the log.
    """

    steps: int
    optimise: Optimise
    accumulate: int = 1
    average: float | None = None
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    measure_every: int | None = None
    save_every: int | None = None
    patience: int | None = None
    seed: int = 0
    workers: int = 0
    checkpointing: bool = False
    log_every: int = 10

    def __post_init__(self) -> None:
        for name in ("steps", "accumulate", "measure_every", "save_every", "patience", "log_every"):
            value = getattr(self, name)
            _require(value is None or value >= 1, f"{name} is {value}", "choose at least 1")
        _require(self.workers >= 0, f"{self.workers} workers", "choose 0 or more")
        fact = f"an average with decay {self.average}"
        _require(self.average is None or 0 <= self.average < 1, fact, "choose one in [0, 1) such as 0.999, or None")
        fact = f"there is no precision {self.precision!r}"
        _require(self.precision in ("auto", "fp32", "bf16"), fact, "choose auto, fp32 or bf16")
        if self.optimise.schedule == "cosine":
            fact = f"a warm-up of {self.optimise.warmup} steps does not fit in {self.steps}"
            _require(self.optimise.warmup < self.steps, fact, "choose a shorter warm-up")

    def as_dict(self) -> dict[str, Any]:
        """What `plan.json` keeps."""
        return {**asdict(self), "optimise": {**asdict(self.optimise), "betas": list(self.optimise.betas)}}

    def measures(self, step: int) -> bool:
        return step == self.steps or (self.measure_every is not None and step % self.measure_every == 0)

    def saves(self, step: int) -> bool:
        return step == self.steps or (self.save_every is not None and step % self.save_every == 0)


def difference(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> str | None:
    """The first field that is not the same, with both values; None if there is none that matters."""
    for name in [*old, *(name for name in new if name not in old)]:
        here = f"{path}{name}"
        if here in FREE or (name in old and name in new and old[name] == new[name]):
            continue
        if isinstance(old.get(name), dict) and isinstance(new.get(name), dict):
            if (inner := difference(old[name], new[name], f"{here}.")) is not None:
                return inner
            continue
        return f"{here} was {old.get(name, 'not there')} and is now {new.get(name, 'not there')}"
    return None


def _require(holds: bool, fact: str, remedy: str) -> None:
    if not holds:
        raise ConfigError(fact, remedy)
