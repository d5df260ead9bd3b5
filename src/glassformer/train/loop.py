"""The training loop shared by all tasks: step, evaluate, log, save."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from glassformer.checkpoints import read_origin
from glassformer.checkpoints.native import replace_file
from glassformer.checkpoints.origin import with_origin
from glassformer.data.faults import Faults
from glassformer.errors import ConfigError, InputError
from glassformer.nn.stack import Stack
from glassformer.pipelines.calibration import FILE as CALIBRATION
from glassformer.pipelines.calibration import Calibration
from glassformer.train import state
from glassformer.train.args import AUTO, TrainArgs, derived
from glassformer.train.batches import BatchJob, jobs, load_batches, mix_seeds, preserve_rng, seed_all, stream_of
from glassformer.train.device import resolve_device
from glassformer.train.distributed import SingleProcess, is_main_process, process_group
from glassformer.train.early_stopping import EarlyStopping
from glassformer.train.ema import load_tensors, swapped, tensors_of
from glassformer.train.examined import Examined
from glassformer.train.interrupt import Interrupt
from glassformer.train.log import Line, Log, flatten_metrics
from glassformer.train.lora import merged_model
from glassformer.train.lr_finder import find_lr
from glassformer.train.measured_runs import expectation
from glassformer.train.model_card import write_card
from glassformer.train.objective import Batch, Objective, TaskObjective
from glassformer.train.optimizer import make_contiguous
from glassformer.train.progress import Callback, Progress, format_seconds
from glassformer.train.run_folder import as_planned, is_past, locked, open_run, recorded_args
from glassformer.train.step import Stepper, StepResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MINUTE = 60.0  # seconds after which the remaining time is estimated
Stopped = Literal["finished", "interrupted", "early"]
Which = Literal["best", "last"]
Export = Callable[[nn.Module, Which], None]
Say = Callable[[str], None]


def say(text: str) -> None:
    """Print a message of the run to standard error."""
    print(f"glassformer: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Trained:
    """A trained model, its log, and the reason the run ended."""

    model: nn.Module
    objective: Objective
    args: TrainArgs
    history: list[Line]
    stopped: Stopped
    best_step: int | None = None
    """The step of the model's weights, if those are the best ones."""

    @property
    def metrics(self) -> dict[str, float]:
        """Validation metrics of the model's current weights; empty if nothing was evaluated."""
        evaluated = [line for line in self.history if line.get("val")]
        kept = [line for line in evaluated if line["step"] == self.best_step] or evaluated
        return dict(kept[-1]["val"]) if kept else {}

    @property
    def effective_args(self) -> dict[str, Any]:
        """The arguments as plain values, without those that have no effect on the task."""
        found = self.args.as_dict()
        if isinstance(self.objective, TaskObjective) and self.objective.augment is None and self.args.augment:
            del found["augment"], found["augmentation"]
        return found

    @property
    def faults(self) -> Faults | None:
        """Unusable rows of the data, grouped by reason."""
        found = getattr(self.objective, "faults", None)
        return found if isinstance(found, Faults) else None

    @property
    def curves(self) -> dict[str, tuple[list[int], list[float]]]:
        """Steps and values of the loss, the learning rate and each validation metric (`val.accuracy`), to plot."""
        found: dict[str, tuple[list[int], list[float]]] = {}
        for line in self.history:
            for name, value in flatten_metrics(line).items():
                if name in ("loss", "lr") or name.startswith("val."):
                    steps, values = found.setdefault(name, ([], []))
                    if value is not None:
                        steps.append(line["step"])
                        values.append(value)
        return {name: curve for name, curve in found.items() if curve[0]}

    @cached_property
    def examined(self) -> Examined | None:
        """Validation results in detail: class scores, confusions, mistakes, calibration; None for other tasks."""
        if not isinstance(self.objective, TaskObjective):
            return None
        training = self.model.training
        with torch.no_grad():
            found = self.objective.examine(self.model.eval())
        self.model.train(training)
        return found

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Figures by name: `curves` of loss, learning rate and validation metrics, and `confusion` of a classifier."""
        from glassformer.train.report import figures  # matplotlib takes a while to import

        return figures(self)

    @cached_property
    def images(self) -> dict[str, bytes]:
        """The figures as PNG files, drawn once for the report and `curves.png`."""
        from glassformer.figures import to_bytes

        return {name: to_bytes(figure) for name, figure in self.figures.items()}

    def report(self) -> str:
        """Return an HTML page: curves, scores of each class, confusions, the most confident mistakes, arguments."""
        from glassformer.train.report import render_report

        return render_report(self)

    def save(self, folder: str | Path) -> Path:
        """Save the model, its preprocessing, calibration, `train.yaml`, model card (README.md) and `report.html`.

        From then on, `model` uses the files of this folder.
        """
        from glassformer.train.report import FILE

        path = save_trained(self.model, self.objective, self.args, folder)
        if self.examined is not None and self.examined.temperature is not None:
            Calibration(temperature=self.examined.temperature).save(path)
        with_origin(self.model, read_origin(path))
        state.write_atomic(path / FILE, self.report())
        if "curves" in self.images:
            replace_file(path / "curves.png", lambda place: place.write_bytes(self.images["curves"]))
        write_card(self, folder)
        return path

    def __repr__(self) -> str:
        return f"Trained({self})"

    def __str__(self) -> str:
        why = {"finished": "trained", "early": "stopped early after", "interrupted": "interrupted after"}
        steps = self.history[-1]["step"] if self.history else 0
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        first = next(iter(self.metrics), "the metric")
        patience = _counted(self.args.patience or 0, "evaluation")
        reason = f", as {first} did not improve in {patience}" if self.stopped == "early" else ""
        best = f" (best weights: step {self.best_step:,})" if self.best_step and self.best_step != steps else ""
        return f"{why[self.stopped]} {_counted(steps, 'step')}{reason}{best}{'; val: ' if numbers else ''}{numbers}"


def save_trained(model: nn.Module, objective: Objective, args: TrainArgs, folder: str | Path) -> Path:
    """Save the model, with adapters merged, and the arguments of its run to a folder."""
    if not isinstance(objective, TaskObjective):
        fact = f"a {type(objective).__name__} does not define how to save its model"
        raise ConfigError(fact, "call glassformer.save(model, folder)")
    path = objective.save(merged_model(model), folder)
    for name in (CALIBRATION, "report.html"):  # these describe earlier weights
        (path / name).unlink(missing_ok=True)
    state.write_atomic(Path(folder) / "train.yaml", args.to_yaml())
    return path


def fit(
    model: nn.Module,
    objective: Objective,
    args: TrainArgs,
    folder: Path | None = None,
    *,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    export: Export | None = None,
    say: Say = say,
    announce: bool = False,
) -> Trained:
    """Train the model in place. If `folder` is set, the run is saved there and `resume` continues it bit for bit.

    `export(model, "last" or "best")` is called with ready-to-use weights whenever a checkpoint is written. With
    `announce`, the batch size, learning rate and length are printed, whether given or default.
    """
    device = resolve_device(args.device)
    model.to(device)
    make_contiguous(model)
    recorded = recorded_args(folder) if resume else {}
    args = _with_lr(args, recorded, model, objective, say)
    warmup = recorded.get("warmup") if args.warmup is None else None
    if warmup is not None and warmup == derived(recorded["steps"])["warmup"]:
        warmup = None  # derived again, since the number of steps may have changed
    args = args.resolved(objective, warmup=warmup)
    if announce and isinstance(objective, TaskObjective):
        say(_hyperparameters(args, objective))
    with (
        preserve_rng(),
        Interrupt(quiet=not is_main_process()) as interrupt,
        process_group(args.fsdp, device) as processes,
        locked(folder, processes),
    ):
        run = _Run(model, objective, args, folder, processes, resume, say)
        run.export = export
        stacks = [module for module in run.model.modules() if isinstance(module, Stack)]
        try:
            if args.grad_checkpointing and not stacks:
                fact = f"--grad-checkpointing has no effect on a {type(model).__name__}"
                raise ConfigError(fact, "leave it out")
            for stack in stacks:
                stack.checkpointing = args.grad_checkpointing
            if args.compile:
                run.model.compile(dynamic=True)
            stopped = run.run(interrupt, callbacks)
            run.finish()
            processes.copy_back(run.model, model)
            if isinstance(objective, TaskObjective):
                objective.finish(model)
            if isinstance(faults := getattr(objective, "faults", None), Faults):
                processes.gather_faults(faults)
        finally:
            for stack in stacks:
                stack.checkpointing = False
            run.model._compiled_call_impl = None
            run.log.close()
    best_step = run.position.best_step if run.has_best else None
    return Trained(model, objective, run.args, run.log.lines, stopped, best_step)


def _hyperparameters(args: TrainArgs, objective: TaskObjective) -> str:
    """Describe the batch size, length and learning rate of a run, whether given or default."""
    batch = f"batch size {objective.batch_summary()}" + (f" × {args.grad_accum}" if args.grad_accum > 1 else "")
    length = _counted(args.total_steps, "step")
    if objective.stream is None:
        epochs = args.total_steps * args.grad_accum / max(1, len(objective.epoch(0)))
        length += f" ({epochs:.3g} epoch{'' if epochs == 1 else 's'})"
    rate = f"lr {args.peak_lr:g} ({args.schedule}, {_counted(args.warmup or 0, 'warm-up step')})"
    return f"{batch}, {length}, {rate}, weight decay {args.weight_decay:g}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _with_lr(args: TrainArgs, recorded: dict[str, Any], model: nn.Module, objective: Objective, say: Say) -> TrainArgs:
    """Replace --lr auto by the rate of the resumed run, or by the result of a range test."""
    if args.lr != AUTO:
        return args
    if isinstance(recorded.get("lr"), float):
        return replace(args, lr=recorded["lr"])
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "--lr auto supports a single process only", "find the learning rate without torchrun, then pass it"
        )
    with preserve_rng():
        found = find_lr(model, objective, args)
    tried = f"{len(found.rates)} rates up to {found.rates[-1]:.1e}"
    say(f"--lr auto: {found.lr:g}, a tenth of the rate with the lowest loss among {tried}")
    return replace(args, lr=found.lr)


class _Run:
    """State of a run in progress."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        args: TrainArgs,
        folder: Path | None,
        processes: SingleProcess,
        resume: bool,
        say: Say,
    ) -> None:
        self.objective, self.args, self.folder, self.processes = objective, args, folder, processes
        self.given, self.say = model, say
        path = None if folder is None else open_run(folder, args, model, objective, resume, processes, say)
        self.requested = args.total_steps
        self.past = is_past(path, args)
        if folder is not None and self.past:
            self.args = args = as_planned(folder, args)
        self.stepper = Stepper(model, objective, args, processes, folder)
        self.model, self.ema = self.stepper.model, self.stepper.ema
        weights = tensors_of(self.model)
        keep_best = args.keep == "best"
        self.early_stopping = EarlyStopping(args.patience, objective.better, weights, keep_best=keep_best)
        self.rng = torch.get_rng_state()
        self.position = state.Position()
        if path is not None:
            self.position = state.Position(**state.load_state(path, self.tensors(), processes))
            torch.set_rng_state(self.rng)
            self._require_same_data()
        try:
            self.log = Log(
                folder, self.position.step, writes=processes.is_main, report_to=args.report_to, args=args.as_dict()
            )
        except OSError as error:
            raise state.not_written(folder or Path(), self.position.step, error) from error
        found = getattr(objective, "faults", None)
        self.faulty = found.counts if isinstance(found, Faults) else {}  # rows known to be unusable before training
        self.reported: set[str] = set()
        self.sums = _Sums()
        self.clock = time.perf_counter() - self.position.seconds
        self.export: Export | None = None
        self.exported: int | None = None  # step of the best weights exported so far

    def tensors(self) -> dict[str, Tensor]:
        """Return everything needed to resume: weights, moments, moving average, best weights, random state."""
        best = {f"best.{name}": tensor for name, tensor in self.early_stopping.best.items()}
        return {**self.stepper.tensors(), **best, "random": self.rng}

    def run(self, interrupt: Interrupt, callbacks: Sequence[Callback]) -> Stopped:
        args, position = self.args, self.position
        first, began, cpu_began, estimated = position.step, time.perf_counter(), time.process_time(), False
        result: StepResult | None = None
        used = 0.0  # predictions
        if self.past:
            if self.processes.is_main:
                self.say(self._nothing_left())
            unfinished: Stopped = "early" if self.early_stopping.should_stop(position) else "interrupted"
            return "finished" if first >= args.total_steps else unfinished
        self.model.train()
        with closing(self._batches()) as stream:
            while position.step < args.total_steps and not self.early_stopping.should_stop(position):
                loaded = list(islice(stream, args.grad_accum))
                if not loaded:  # only a stream ends
                    return self._end_of_stream(result)
                result = self.stepper.step(position.step, loaded)
                used += result.predictions
                self._advance(loaded[-1][0], result)
                self._say_new_faults()
                stop = self.processes.any(interrupt.requested)
                self._keep(result, stop)
                if self.processes.is_main:
                    elapsed = time.perf_counter() - began
                    left = (args.total_steps - position.step) * elapsed / (position.step - first)
                    if elapsed > MINUTE and not estimated and position.step < args.total_steps:
                        estimated = True
                        self._say_estimate(left, (time.process_time() - cpu_began) * (1 + left / elapsed))
                    now = (position.step, args.total_steps, result.mean, result.lr, position.seconds, left)
                    for callback in callbacks:
                        callback(Progress(*now, position.val))
                if stop and position.step < args.total_steps:
                    return "interrupted"
        if result is not None and not used and not first:
            if isinstance(faults := getattr(self.objective, "faults", None), Faults):
                faults.check(1)
            raise InputError("no row of these steps can be used", "check the data")
        return "early" if self.early_stopping.should_stop(position) else "finished"

    def _nothing_left(self) -> str:
        step, planned = self.position.step, self.args.total_steps
        if self.requested == planned:
            return f"the run is at step {step:,} of {planned:,}: nothing is left to train"
        fact = f"the run is at step {step:,}, past the {self.requested:,} steps that were asked for: nothing is trained"
        return f"{fact}, and its length remains {planned:,} steps"

    def _end_of_stream(self, last: StepResult | None) -> Stopped:
        """Evaluate and save after the data has ended before the last step."""
        stream, step = stream_of(self.objective), self.position.step
        assert stream is not None
        why = f"broke off ({stream.broken})" if stream.broken else "ended"
        fact = f"the stream {why} after {stream.seen:,} examples, at step {step:,} of {self.args.total_steps:,}"
        if last is None:
            remedy = "give --resume the whole stream again, or fewer --steps"
            raise InputError(f"{fact}, where the run was saved", remedy)
        self.say(fact)
        metrics = None if self.args.evaluates(step) else self._evaluate()
        if metrics is not None:
            self._write(last, metrics)
        if self.folder is not None and not self.args.saves(step):
            self._save()
        return "interrupted" if stream.broken else "finished"

    def _say_new_faults(self) -> None:
        """For every reason, name the first row that turned out to be unusable in training, and count the others."""
        faults = getattr(self.objective, "faults", None)
        if not isinstance(faults, Faults) or not self.processes.is_main:
            return
        for reason, places in faults.places.items():
            if reason not in self.reported and len(places) > self.faulty.get(reason, 0):
                self.reported.add(reason)
                more = "others are counted at the end"
                self.say(f"left out: {reason}: {next(reversed(places))}; the run goes on, and {more}")

    def _say_estimate(self, left: float, processor_seconds: float) -> None:
        """Print the remaining time, and what a measured run reached in the processor time that this one will take."""
        self.say(f"about {format_seconds(left)} left for {self.args.total_steps - self.position.step:,} steps")
        described = getattr(self.objective, "described", None)
        if described is not None:
            kind, rows = described
            if text := expectation(kind, rows, self.args.from_, processor_seconds):
                self.say(text)

    @property
    def has_best(self) -> bool:
        return bool(self.early_stopping.best) and self.position.best is not None

    def finish(self) -> None:
        """Load the final weights of the run into the model."""
        if self.has_best:
            load_tensors(self.model, self.early_stopping.best)
        elif self.ema is not None:
            load_tensors(self.model, self.ema.tensors)

    def _batches(self) -> Generator[tuple[BatchJob, Batch | None], None, None]:
        position, processes = self.position, self.processes
        order = (self.args.seed, position.epoch, position.number, processes.rank, processes.world_size)
        stream = stream_of(self.objective)
        return load_batches(self.objective, jobs(self.objective, *order, stream), self.args.num_workers)

    def _advance(self, job: BatchJob, result: StepResult) -> None:
        position = self.position
        position.step += 1
        position.epoch, position.number = job.next
        position.batches = job.batches
        position.seconds = time.perf_counter() - self.clock
        self.sums.add(result)

    def _keep(self, result: StepResult, stop: bool) -> None:
        """Evaluate, log and save a checkpoint if due after this step."""
        args, step = self.args, self.position.step
        metrics = self._evaluate() if args.evaluates(step) else None
        ends = stop or self.early_stopping.should_stop(self.position)
        saves = self.folder is not None and (ends or args.saves(step))
        if metrics is not None or saves or step % args.log_every == 0:
            try:
                self._write(result, metrics)
            except OSError as error:
                raise state.not_written(self.log.folder or Path(), step, error) from error
        if saves:
            self._save()

    def _evaluate(self) -> dict[str, float]:
        """Evaluate in every process, with the averaged weights if there are any; return the main process's metrics."""
        position = self.position
        tensors = None if self.ema is None else self.ema.tensors
        seed_all(mix_seeds(self.args.seed, position.step, -1))
        with swapped(self.model, tensors), self.processes.unsharded(self.stepper.task), torch.no_grad():
            self.model.eval()
            metrics = {name: float(value) for name, value in self.objective.evaluate(self.model).items()}
            self.model.train()
        position.val = dict(zip(metrics, self.processes.broadcast(*metrics.values()), strict=True))
        self.early_stopping.update(position, tensors_of(self.model) if tensors is None else tensors)
        return position.val

    def _write(self, result: StepResult, metrics: dict[str, float] | None) -> None:
        loss, speed = self.sums.rates()
        position = self.position
        line: Line = {"step": position.step, "epoch": position.epoch, "loss": loss, "lr": result.lr}
        line |= {"grad_norm": result.grad_norm, "seconds": round(position.seconds, 3)}
        line |= {"examples_per_second": round(speed, 2)}
        self.log.write(line if metrics is None else {**line, "val": dict(metrics)})
        self.sums = _Sums()

    def _save(self) -> None:
        assert self.folder is not None
        self.rng.copy_(torch.get_rng_state())
        state.save_state(self.folder, self.position.step, self.tensors(), asdict(self.position), self.processes)
        if self.export is None:
            return
        with swapped(self.model, None if self.ema is None else self.ema.tensors):
            self._export("last")
            if not self.has_best:
                self._export("best")
        if self.has_best and self.exported != self.position.best_step:
            with swapped(self.model, self.early_stopping.best):
                self._export("best")
            self.exported = self.position.best_step

    def _export(self, which: Which) -> None:
        """Gather the weights in every process and export them in the main one; all agree on whether it succeeded."""
        assert self.folder is not None
        assert self.export is not None
        self.processes.copy_back(self.model, self.given)
        error: OSError | None = None
        try:
            if self.processes.is_main:
                self.export(self.given, which)
        except OSError as caught:
            error = caught
        if self.processes.any(error is not None):
            raise state.not_written(self.folder, self.position.step, error) from error

    def _require_same_data(self) -> None:
        position = self.position
        if stream_of(self.objective) is not None:  # its first window has been compared, the others are still unread
            return
        if position.number and (now := len(self.objective.epoch(position.epoch))) != position.batches:
            fact = f"epoch {position.epoch} has {now} batches and had {position.batches} when the run was saved"
            raise InputError(fact, "resume with the data of the run")


class _Sums:
    """Running sums since the last log line."""

    def __init__(self) -> None:
        self.loss = self.count = self.rows = 0.0
        self.start = time.perf_counter()

    def add(self, result: StepResult) -> None:
        self.loss, self.count = self.loss + result.loss, self.count + result.predictions
        self.rows += result.rows

    def rates(self) -> tuple[float | None, float]:
        """Return the mean loss per prediction and the rows per second."""
        return self.loss / self.count if self.count else None, self.rows / (time.perf_counter() - self.start)
