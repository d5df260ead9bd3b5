"""`train(task, data, …)`: build a model and an objective for a task, fit, and save the result."""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Unpack

from torch import nn

from glassformer.checkpoints import read_origin
from glassformer.checkpoints.origin import with_origin
from glassformer.checkpoints.weights import ONE
from glassformer.errors import ConfigError
from glassformer.train.args import TrainArgs, TrainOptions
from glassformer.train.device import resolve_device
from glassformer.train.distributed import is_main_process
from glassformer.train.loggers import parse_trackers
from glassformer.train.loop import Trained, Which, fit, save_trained
from glassformer.train.loop import say as to_stderr
from glassformer.train.lora import LoRA, add_adapters
from glassformer.train.objectives import build
from glassformer.train.progress import Callback, progress_bar
from glassformer.train.run_folder import check_unused, resumed_options
from glassformer.train.state import write_atomic

LEFT_OUT = "left-out.tsv"  # reason and position of every row that was not used


def train(
    task: str,
    data: Any,
    *,
    output: str | Path | None = None,
    resume: bool = False,
    progress: bool | Callback = True,
    callbacks: Sequence[Callback] = (),
    **args: Unpack[TrainOptions],
) -> Trained:
    """Train a model for a task: classify, translate, transcribe, generate or embed.

    `args` are the fields of `TrainArgs`, which are also the options of `glassformer train`. If `output` is set, the
    model and its run are saved in that folder: it holds a usable model from the first checkpoint on, and `resume=True`
    continues the run with its original arguments, unless others are given. `progress` shows a progress bar, or is a
    function called after every step, like `callbacks`. `trained.model` can be passed to `gf.classify` and the other
    functions directly; without `output`, its probabilities are calibrated only once it is saved and loaded.

    >>> trained = gf.train("classify", "uci-digits", steps=2, progress=False)
    >>> sorted(trained.metrics)
    ['accuracy', 'loss']
    >>> trained.save("trained")
    PosixPath('trained')
    """
    given: dict[str, Any] = {**args, "task": task, "data": data}
    if resume and output is not None:
        given = resumed_options(Path(output) / "run", given)
    return run_training(TrainArgs.from_dict(given), output, resume=resume, progress=progress, callbacks=callbacks)


def run_training(
    args: TrainArgs,
    output: str | Path | None = None,
    *,
    resume: bool = False,
    progress: bool | Callback = True,
    callbacks: Sequence[Callback] = (),
    say: Callable[[str], None] = to_stderr,
) -> Trained:
    """Train a model as `train` does, from a `TrainArgs`."""
    if args.task is None or args.data is None:
        missing = "a task" if args.task is None else "training data"
        raise ConfigError(f"{missing} is missing", "give a task and data, for example train classify photos/")
    if not isinstance(callbacks, Sequence) or not all(map(callable, callbacks)):
        raise ConfigError(f"callbacks is {callbacks!r}", "give a list of functions that take a Progress")
    folder = None if output is None else Path(output)
    if resume and folder is None:
        raise ConfigError("resume needs an output folder", "give the folder of the run")
    if folder is not None:
        check_unused(folder / "run", resume)
    resolve_device(args.device)  # a missing device or package is an error before the data is read
    parse_trackers(args.report_to)
    model, objective = build(args)
    if args.lora_rank is not None:
        add_adapters(model, LoRA(rank=args.lora_rank, alpha=2.0 * args.lora_rank), seed=args.seed)
    is_main = is_main_process()
    known: list[str] = []
    if is_main and progress is not False:
        if objective.stream is None:
            objective.epoch(0)  # finds examples that are too long, to report them with the other unusable rows
        known = objective.faults.summary()
        for line in (*objective.understood, *(f"left out: {line}" for line in known), *objective.notes):
            say(line)
        trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
        say(f"{objective.summary()}; {type(model).__name__}, {trainable:,} trainable parameters")

    def export(model: nn.Module, which: Which) -> None:
        assert folder is not None
        save_trained(model, objective, args, folder if which == "best" else folder / "last")

    with ExitStack() as stack:
        watching = list(callbacks)
        if progress is True and is_main:
            watching.append(stack.enter_context(progress_bar(args.task)))
        elif callable(progress):
            watching.append(progress)
        trained = fit(
            model,
            objective,
            args,
            None if folder is None else folder / "run",
            resume=resume,
            callbacks=watching,
            export=None if folder is None else export,
            say=say,
            announce=is_main and progress is not False,
        )
    if folder is not None and is_main:
        trained.save(folder)
        rows = "".join(f"{fault.reason}\t{fault.place}\n" for fault in objective.faults)
        if rows:  # the summary names three of each kind
            write_atomic(folder / "run" / LEFT_OUT, rows)
    if is_main and progress is not False:
        for line in objective.faults.summary():
            if line not in known:
                say(f"left out: {line}")
    trained.model.eval()
    if folder is None and is_main:
        _save_companions(trained)
    return trained


def _save_companions(trained: Trained) -> None:
    """Save what a model without an output folder needs for inference to a temporary folder, removed when Python exits.

    These are its tokenizer, class names and preprocessing.
    """
    folder = Path(mkdtemp(prefix="glassformer-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    save_trained(trained.model, trained.objective, trained.args, folder)
    with_origin(trained.model, read_origin(folder))
    (folder / ONE).unlink()  # the weights are in the model itself
