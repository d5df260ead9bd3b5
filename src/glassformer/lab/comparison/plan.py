"""The plan of a comparison: architectures × tasks × sizes × seeds, as units that are measured one by one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from glassformer.lab.comparison.networks import ARCHITECTURES

Setting = int | float | str
TASKS = ("reach", "streaming", "cost", "bias", "data")  # in the order in which they are measured
SEARCH_SEED = 10_000  # weights, training data and validation data of every search; no measurement uses them


class Unit(NamedTuple):
    """One measurement, saved before the next one starts."""

    task: str
    part: str
    settings: Mapping[str, Setting]
    seed: int

    @property
    def key(self) -> str:
        """A name that is unique in a plan; also the name of the unit's file."""
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        return ",".join([self.task, self.part, *settings, f"seed={self.seed}"]).replace(" ", "-")


@dataclass(frozen=True, kw_only=True)
class CostPlan:
    """Cost of one layer of each architecture on n positions of width d, and the speed-up by threads at one n and d."""

    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    rounds: int
    threads: tuple[int, ...]
    thread_length: int
    thread_width: int


@dataclass(frozen=True, kw_only=True)
class ReachPlan:
    """Reach of sequence networks of equal size: ∂y_n/∂x_1 before training, recall of the first token after training.

    Each architecture is trained with every learning rate of `rates` at every distance of `search`; the rate with the
    best validation accuracy is used for all distances and seeds. The accuracy on longer sequences is a separate task
    with its own search, at `length`.
    """

    budget: int
    gradients: tuple[int, ...]
    distances: tuple[int, ...]
    rates: tuple[float, ...]
    search: tuple[int, ...]
    window: int  # tokens that the MLP reads
    steps: int
    batch_size: int
    tests: int
    length: int  # trained on, for the accuracy on longer sequences
    longer: tuple[int, ...]
    longer_steps: int


@dataclass(frozen=True, kw_only=True)
class DataPlan:
    """A vision Transformer and a residual CNN of equal size, trained from scratch on training sets of growing size.

    The search works as in ReachPlan, over the training set sizes `search`, for each dataset. Larger training sets get
    more steps.
    """

    datasets: tuple[str, ...]
    embedded: bool  # use the embedded subset even if the whole dataset was fetched
    budget: int
    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    search: tuple[int, ...]  # some of `sizes`
    size_steps: tuple[int, ...]  # optimizer steps for each of `sizes`
    size_seeds: tuple[int, ...] = ()  # how many of the plan's seeds are measured at each of `sizes`; empty means all
    batch_size: int
    validation: int
    tests: int
    patches: int  # along each side

    def steps(self, size: int) -> int:
        """Return the number of optimizer steps on a training set of this size."""
        return self.size_steps[self.sizes.index(size)]

    def seeds(self, seeds: tuple[int, ...], size: int) -> tuple[int, ...]:
        """Return those of the plan's seeds that are measured at this size."""
        return seeds[: self.size_seeds[self.sizes.index(size)]] if self.size_seeds else seeds

    def epochs(self, size: int) -> float:
        """Return how often each training image is seen."""
        return self.steps(size) / math.ceil(size / self.batch_size)


@dataclass(frozen=True, kw_only=True)
class BiasPlan:
    """Accuracy on shifted images, after training on centred images and after training with random shifts.

    Images get a margin as wide as the largest shift, so that nothing leaves the image.
    """

    dataset: str
    embedded: bool
    budget: int
    images: int
    rates: tuple[float, ...]
    steps: int
    batch_size: int
    validation: int
    tests: int
    patches: int
    shifts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class StreamingPlan:
    """Cost of one more token, using the caches, states and buffers of each architecture."""

    budget: int
    after: tuple[int, ...]
    window: int
    rounds: int


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """Everything that a comparison measures. It is written before the first measurement and does not change."""

    name: str
    seeds: tuple[int, ...]
    cost: CostPlan
    reach: ReachPlan
    data: DataPlan
    streaming: StreamingPlan
    bias: BiasPlan
    tasks: tuple[str, ...] = TASKS
    architectures: tuple[str, ...] = ARCHITECTURES

    def dump(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def relevant_settings(plan: ComparisonPlan, unit: Unit) -> dict[str, Any]:
    """Return the settings of the plan on which the measurement of this unit depends, apart from its learning rate."""
    settings = asdict(getattr(plan, unit.task))
    if unit.task == "data":
        sizes = [int(unit.settings["size"])] if "size" in unit.settings else plan.data.search
        settings["size_steps"] = [plan.data.steps(size) for size in sizes]
        for name in ("datasets", "sizes", "size_seeds"):  # which units there are
            del settings[name]
    if unit.task in ("bias", "data") and unit.part != "search":
        settings = {name: value for name, value in settings.items() if name not in ("rates", "search")}
    return settings


def read_plan(data: Mapping[str, Any]) -> ComparisonPlan:
    """Read a plan written by `dump`."""

    def fixed(part: Mapping[str, Any]) -> dict[str, Any]:
        return {name: tuple(value) if isinstance(value, list) else value for name, value in part.items()}

    whole = fixed(data)
    whole["data"] = dict(whole["data"])
    if "steps" in whole["data"]:  # in files from when every size had the same number of steps
        whole["data"]["size_steps"] = [whole["data"].pop("steps")] * len(whole["data"]["sizes"])
    kinds = {"cost": CostPlan, "reach": ReachPlan, "data": DataPlan, "streaming": StreamingPlan, "bias": BiasPlan}
    return ComparisonPlan(**{**whole, **{name: kind(**fixed(whole[name])) for name, kind in kinds.items()}})


def full() -> ComparisonPlan:
    """Return the full plan, which takes about 50 minutes of processor time.

    It needs `glassformer data fetch` of fashion-mnist and cifar10.
    """
    return ComparisonPlan(
        name="full",
        seeds=(0, 1, 2, 3, 4),
        cost=CostPlan(
            lengths=(64, 256, 1024),
            widths=(64, 128, 256),
            rounds=2,
            threads=(1, 2),
            thread_length=256,
            thread_width=256,
        ),
        reach=ReachPlan(
            budget=15_000,
            gradients=(4, 16, 64, 256),
            distances=(4, 16, 64),
            rates=(1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2),
            search=(16, 64),
            window=32,
            steps=600,
            batch_size=16,
            tests=256,
            length=16,
            longer=(16, 32, 64, 128),
            longer_steps=300,
        ),
        data=DataPlan(
            datasets=("fashion-mnist", "cifar10"),
            embedded=False,
            budget=19_000,
            sizes=(100, 1_000, 10_000, 49_000),  # CIFAR-10 has 50,000 training images, 1,000 of which are validation
            rates=(1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2),
            search=(1_000,),
            size_steps=(160, 400, 1_256, 6_128),  # 80, 25, 8 and 8 epochs
            size_seeds=(5, 5, 5, 2),
            batch_size=64,
            validation=1_000,
            tests=2_000,
            patches=4,
        ),
        streaming=StreamingPlan(budget=48_500, after=(100, 1000, 10_000), window=64, rounds=20),
        bias=BiasPlan(
            dataset="fashion-mnist",
            embedded=True,
            budget=19_000,
            images=3_000,
            rates=(1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2),
            steps=120,
            batch_size=64,
            validation=500,
            tests=700,
            patches=4,
            shifts=(1, 2, 4),
        ),
    )


def quick() -> ComparisonPlan:
    """Return a small version of the full plan: minutes, two seeds, three learning rates, embedded data only."""
    plan = full()
    rates = (2e-3, 5e-3, 1.2e-2)
    return replace(
        plan,
        name="quick",
        seeds=(0, 1),
        cost=replace(plan.cost, widths=(64, 256), rounds=1),
        reach=replace(
            plan.reach,
            gradients=(4, 16, 64, 256),
            distances=(4, 16),
            rates=rates,
            search=(16,),
            steps=150,
            longer=(16, 32, 64),
            longer_steps=120,
        ),
        data=replace(
            plan.data,
            datasets=("fashion-mnist",),
            embedded=True,
            sizes=(40, 400, 3_000),
            rates=rates,
            search=(400,),
            size_steps=(60, 60, 60),
            size_seeds=(),
            validation=500,
            tests=700,
        ),
        streaming=replace(plan.streaming, rounds=5),
        bias=replace(plan.bias, rates=rates, steps=60),
    )
