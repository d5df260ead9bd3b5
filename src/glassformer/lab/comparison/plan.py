"""A run is a frozen plan: architectures × tasks × sizes × seeds × budget, in units that are measured one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from glassformer.lab.comparison.nets import ARCHITECTURES

Setting = int | float | str
TASKS = ("reach", "data", "bias", "streaming", "cost")  # in the order they are measured


class Unit(NamedTuple):
    """What is measured in one go, and saved before the next begins."""

    task: str
    part: str
    settings: Mapping[str, Setting]
    seed: int

    @property
    def key(self) -> str:
        """Its name, of which there is one in a plan; also that of its file."""
        told = [f"{name}={value}" for name, value in self.settings.items()]
        return ",".join([self.task, self.part, *told, f"seed={self.seed}"]).replace(" ", "-")


@dataclass(frozen=True, kw_only=True)
class CostPlan:
    """One layer of each architecture on n positions of width d; speed-up by threads at one n and d."""

    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    rounds: int
    threads: tuple[int, ...]
    thread_length: int
    thread_width: int


@dataclass(frozen=True, kw_only=True)
class ReachPlan:
    """Networks of one budget that read tokens: ∂y_n/∂x_1 untrained, then recall of the first token, trained."""

    budget: int
    gradients: tuple[int, ...]
    distances: tuple[int, ...]
    window: int  # tokens that the MLP sees
    steps: int
    batch: int
    rate: float
    tests: int


@dataclass(frozen=True, kw_only=True)
class DataPlan:
    """A vision Transformer and a convolutional net of one budget, from scratch, on more and more images."""

    source: str
    embedded: bool  # the part that comes along, even if all of it was fetched
    budget: int
    sizes: tuple[int, ...]
    steps: int
    batch: int
    rate: float
    tests: int
    patch: int


@dataclass(frozen=True, kw_only=True)
class StreamingPlan:
    """The cost of one more token after so many, with caches, states and buffers as each architecture has them."""

    budget: int
    after: tuple[int, ...]
    window: int
    rounds: int


@dataclass(frozen=True, kw_only=True)
class BiasPlan:
    """What is built in: shifts, the order of patches, and lengths that were never seen."""

    budget: int
    images: int
    steps: int
    shifts: tuple[int, ...]
    length: int
    longer: tuple[int, ...]
    sequence_budget: int
    sequence_steps: int


@dataclass(frozen=True, kw_only=True)
class Plan:
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


def read(data: Mapping[str, Any]) -> Plan:
    """The plan that `dump` wrote."""

    def fixed(part: Mapping[str, Any]) -> dict[str, Any]:
        return {name: tuple(value) if isinstance(value, list) else value for name, value in part.items()}

    whole = fixed(data)
    kinds = {"cost": CostPlan, "reach": ReachPlan, "data": DataPlan, "streaming": StreamingPlan, "bias": BiasPlan}
    return Plan(**{**whole, **{name: kind(**fixed(whole[name])) for name, kind in kinds.items()}})


def full() -> Plan:
    """About a quarter of an hour on a core of its own; needs `glassformer data fetch fashion-mnist`."""
    return Plan(
        name="full",
        seeds=(0, 1, 2),
        cost=CostPlan(
            lengths=(64, 128, 256, 512, 1024, 2048, 4096),
            widths=(64, 128, 256, 512),
            rounds=2,
            threads=(1, 2),
            thread_length=256,
            thread_width=512,
        ),
        reach=ReachPlan(
            budget=15_000,
            gradients=(4, 16, 64, 256, 1024),
            distances=(4, 16, 64, 256),
            window=32,
            steps=600,
            batch=16,
            rate=1e-2,
            tests=256,
        ),
        data=DataPlan(
            source="fashion-mnist",
            embedded=False,
            budget=19_000,
            sizes=(500, 5_000, 50_000),
            steps=800,  # of 64 images: all 50,000 are seen
            batch=64,
            rate=3e-3,
            tests=5000,
            patch=7,
        ),
        streaming=StreamingPlan(budget=48_500, after=(100, 1000, 10_000), window=64, rounds=20),
        bias=BiasPlan(
            budget=19_000,
            images=4000,
            steps=160,
            shifts=(1, 2, 4),
            length=16,
            longer=(16, 32, 64, 128),
            sequence_budget=15_000,
            sequence_steps=200,
        ),
    )


def quick() -> Plan:
    """The full plan made small: under three minutes on two cores, two seeds, the images that come along."""
    plan = full()
    return replace(
        plan,
        name="quick",
        seeds=(0, 1),
        cost=replace(
            plan.cost, lengths=(64, 256, 1024), widths=(64, 256), rounds=1, thread_length=256, thread_width=256
        ),
        reach=replace(plan.reach, gradients=(4, 16, 64, 256), distances=(4, 16, 64), steps=120),
        data=replace(plan.data, embedded=True, sizes=(40, 400, 4000), steps=120, tests=1000),
        streaming=replace(plan.streaming, rounds=5),
        bias=replace(plan.bias, steps=120, longer=(16, 32, 64), sequence_steps=120),
    )


def units(plan: Plan) -> Iterator[Unit]:
    """Everything the plan measures, seed by seed: a run that is stopped early has something of everything."""
    from glassformer.lab.comparison.tasks import TASKS as parts

    for seed in plan.seeds:
        for task in plan.tasks:
            yield from (Unit(task, part, settings, seed) for part, settings in parts[task].units(plan, seed))
