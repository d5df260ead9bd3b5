"""for every batch: a step; then, when due, a measurement, a line of the log, a state: the one loop of every task."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, InputError
from glassformer.nn.stack import Stack
from glassformer.tasks.data.faults import Faults
from glassformer.tasks.training import state
from glassformer.tasks.training.average import kept, lent, put
from glassformer.tasks.training.course import Job, jobs, made, mixed, own_randomness, seed_all
from glassformer.tasks.training.folder import begin, held
from glassformer.tasks.training.interrupt import Interrupt
from glassformer.tasks.training.judge import Judge, Place
from glassformer.tasks.training.lesson import Batch, Lesson
from glassformer.tasks.training.log import Line, Log, Progress, Show, silent
from glassformer.tasks.training.plan import Plan
from glassformer.tasks.training.spread import Spread, device_of, gathered
from glassformer.tasks.training.update import Stepped, Update

Stopped = Literal["done", "interrupted", "early"]


@dataclass(frozen=True)
class Trained:
    """The model that was given, trained: with averaged weights if the plan averages, the best if it has patience."""

    model: nn.Module
    history: list[Line]
    stopped: Stopped
    faults: Any = None
    best_step: int | None = None  # after which the weights were measured that the model has, if the plan has patience


def train(
    model: nn.Module,
    lesson: Lesson,
    plan: Plan,
    folder: Path | None = None,
    *,
    resume: bool = False,
    shard: bool = False,
    show: Show = silent,
) -> Trained:
    """Trains the model in place. With a folder the run is kept there, and `resume` goes on to the same bits."""
    with own_randomness(), Interrupt() as interrupt, gathered(shard, device_of(model)) as spread, held(folder, spread):
        run = Run(model, lesson, plan, folder, spread, resume)
        stacks = [module for module in run.model.modules() if isinstance(module, Stack)]
        try:
            if plan.checkpointing and not stacks:
                raise ConfigError(f"a {type(model).__name__} has no blocks to compute again", "leave out checkpointing")
            for stack in stacks:
                stack.checkpointing = plan.checkpointing
            stopped = run.go(interrupt, show)
            run.finish()
            spread.give_back(run.model, model)
            if isinstance(faults := getattr(lesson, "faults", None), Faults):
                spread.tell(faults)
        finally:
            for stack in stacks:
                stack.checkpointing = False
            run.log.close()
    return Trained(model, run.log.lines, stopped, faults, run.place.best_step if run.keeps_best else None)


class Run:
    """A training under way."""

    def __init__(
        self, model: nn.Module, lesson: Lesson, plan: Plan, folder: Path | None, spread: Spread, resume: bool
    ) -> None:
        self.lesson, self.plan, self.folder, self.spread = lesson, plan, folder, spread
        path = None if folder is None else begin(folder, plan, model, lesson, resume, spread)
        self.update = Update(model, lesson, plan, spread, folder)
        self.model, self.average = self.update.model, self.update.average
        self.judge = Judge(plan.patience, lesson.better, kept(self.model))
        self.random = torch.get_rng_state()
        self.place = Place()
        if path is not None:
            self.place = Place(**state.load(path, self.tensors(), spread))
            torch.set_rng_state(self.random)
            self._require_same_data()
        try:
            self.log = Log(folder, self.place.step, writes=spread.first)
        except OSError as error:
            raise state.not_written(folder or Path(), self.place.step, error) from error
        self.since = Since()
        self.clock = time.perf_counter() - self.place.seconds

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a run needs to go on: weights, moments, average, best, random state."""
        best = {f"best.{name}": tensor for name, tensor in self.judge.best.items()}
        return {**self.update.tensors(), **best, "random": self.random}

    def go(self, interrupt: Interrupt, show: Show) -> Stopped:
        plan, place = self.plan, self.place
        start, begun = place.step, time.perf_counter()
        self.model.train()
        with closing(self._batches()) as stream:
            while place.step < plan.steps and not self.judge.gives_up(place):
                taken = [next(stream) for _ in range(plan.accumulate)]
                stepped = self.update.step(place.step, taken)
                self._moved(taken[-1][0], stepped)
                asked = self.spread.any(interrupt.asked)
                self._keep(stepped, asked)
                if self.spread.first:
                    left = (plan.steps - place.step) * (time.perf_counter() - begun) / (place.step - start)
                    told = (place.step, plan.steps, stepped.mean, stepped.rate, place.seconds, left, place.held_out)
                    show(Progress(*told))
                if asked and place.step < plan.steps:
                    return "interrupted"
        return "early" if self.judge.gives_up(place) else "done"

    @property
    def keeps_best(self) -> bool:
        return bool(self.judge.best) and self.place.best is not None

    def finish(self) -> None:
        """The weights that the run was for, into the model."""
        if self.keeps_best:
            put(self.model, self.judge.best)
        elif self.average is not None:
            put(self.model, self.average.tensors)

    def _batches(self) -> Generator[tuple[Job, Batch | None], None, None]:
        place, spread = self.place, self.spread
        stream = jobs(self.lesson, self.plan.seed, place.epoch, place.number, spread.rank, spread.world)
        return made(self.lesson, stream, self.plan.workers)

    def _moved(self, job: Job, stepped: Stepped) -> None:
        place = self.place
        place.step += 1
        place.epoch, place.number = job.next
        place.batches = job.batches
        place.seconds = time.perf_counter() - self.clock
        self.since.add(stepped)

    def _keep(self, stepped: Stepped, asked: bool) -> None:
        """What is due after this step: a measurement, a line of the log, a state."""
        plan, step = self.plan, self.place.step
        measured = self._measure() if plan.measures(step) else None
        saves = self.folder is not None and (asked or plan.saves(step) or self.judge.gives_up(self.place))
        if measured is not None or saves or step % plan.log_every == 0:
            try:
                self._write(stepped, measured)
            except OSError as error:
                raise state.not_written(self.log.folder or Path(), step, error) from error
        if saves:
            self._save()

    def _measure(self) -> dict[str, float]:
        """With the averaged weights if there are; every process measures, and the first one's numbers count."""
        place = self.place
        tensors = None if self.average is None else self.average.tensors
        seed_all(mixed(self.plan.seed, place.step, -1))
        with lent(self.model, tensors), self.spread.whole(self.update.task), torch.no_grad():
            self.model.eval()
            numbers = {name: float(value) for name, value in self.lesson.measure(self.model).items()}
            self.model.train()
        place.held_out = dict(zip(numbers, self.spread.agreed(*numbers.values()), strict=True))
        self.judge.judge(place, kept(self.model) if tensors is None else tensors)
        return place.held_out

    def _write(self, stepped: Stepped, measured: dict[str, float] | None) -> None:
        loss, speed = self.since.told()
        place = self.place
        line: Line = {"step": place.step, "epoch": place.epoch, "loss": loss, "rate": stepped.rate}
        line |= {"gradient": stepped.gradient, "seconds": round(place.seconds, 3)}
        line |= {"examples_per_second": round(speed, 2)}
        self.log.write(line if measured is None else {**line, "held_out": dict(measured)})
        self.since = Since()

    def _save(self) -> None:
        assert self.folder is not None
        self.random.copy_(torch.get_rng_state())
        state.save(self.folder, self.place.step, self.tensors(), asdict(self.place), self.spread)

    def _require_same_data(self) -> None:
        place = self.place
        if place.number and (now := len(self.lesson.epoch(place.epoch))) != place.batches:
            fact = f"epoch {place.epoch} has {now} batches and had {place.batches} when the run was saved"
            raise InputError(fact, "resume with the data of the run")


class Since:
    """Sums since the last line of the log."""

    def __init__(self) -> None:
        self.loss = self.weight = self.rows = 0.0
        self.start = time.perf_counter()

    def add(self, stepped: Stepped) -> None:
        self.loss, self.weight = self.loss + stepped.loss, self.weight + stepped.weight
        self.rows += stepped.rows

    def told(self) -> tuple[float | None, float]:
        """Loss per prediction, rows per second."""
        return self.loss / self.weight if self.weight else None, self.rows / (time.perf_counter() - self.start)
