"""`glassformer train classify mnist -o digits`: a model for your data; `--resume` goes on where a run was left."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from glassformer.tasks.learn.wish import Wish
    from glassformer.tasks.training import Plan, Trained


def train(
    task: Annotated[str, typer.Argument(help="classify, translate, transcribe, generate or embed.")],
    data: Annotated[str, typer.Argument(help="A folder, a file, or a dataset's name (`data list`).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model and its run are kept.")],
    held: Annotated[str | None, typer.Option(help="Data to measure with; else the set's own, or a tenth.")] = None,
    from_: Annotated[str | None, typer.Option("--from", help="Go on from this model: a name or a folder.")] = None,
    low_rank: Annotated[int | None, typer.Option(help="Change the model by matrices of this rank alone.")] = None,
    kind: Annotated[str | None, typer.Option(help="transformer, vit, hybrid, cnn, rnn or mlp.")] = None,
    width: Annotated[int | None, typer.Option(help="Of a token.")] = None,
    depth: Annotated[int | None, typer.Option(help="Layers.")] = None,
    heads: Annotated[int | None, typer.Option(help="Heads of a layer.")] = None,
    image: Annotated[int | None, typer.Option(help="Pixels a side of images; else large ones get 96.")] = None,
    vocabulary: Annotated[int | None, typer.Option(help="Tokens of the tokenizer that is trained.")] = None,
    augment: Annotated[bool, typer.Option(help="Change images and recordings at random.")] = True,
    change: Annotated[
        list[str] | None, typer.Option(help="How, as mixup=0.2; more than once for more (docs/training.md).")
    ] = None,
    smoothing: Annotated[float | None, typer.Option(help="Of labels.")] = None,
    batch: Annotated[int | None, typer.Option(help="Images, blocks, target tokens or seconds of a batch.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Updates of the weights.")] = 2000,
    rate: Annotated[float | None, typer.Option(help="The largest learning rate.")] = None,
    schedule: Annotated[str, typer.Option(help="cosine, inverse_sqrt or constant.")] = "cosine",
    warmup: Annotated[int | None, typer.Option(help="Steps in which the rate rises; a twentieth.")] = None,
    decay: Annotated[float, typer.Option(help="Of weights.")] = 0.05,
    clip: Annotated[float, typer.Option(help="The longest gradient that is not shortened.")] = 1.0,
    accumulate: Annotated[int, typer.Option(help="Batches of a step.")] = 1,
    average: Annotated[float | None, typer.Option(help="Decay of the weights' running average, as 0.998.")] = None,
    precision: Annotated[str, typer.Option(help="fp32, bf16, or auto: bf16 where the machine has it.")] = "fp32",
    checkpointing: Annotated[bool, typer.Option("--checkpointing", help="Less memory, a third more work.")] = False,
    measure_every: Annotated[int | None, typer.Option(help="Steps between measurements; a tenth.")] = None,
    save_every: Annotated[int | None, typer.Option(help="Steps between states on disk; a fiftieth.")] = None,
    patience: Annotated[int | None, typer.Option(help="Stop after so many measurements without a better one.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is random.")] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Processes that make batches; 0: this one.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in this folder was left.")] = False,
    shard: Annotated[bool, typer.Option("--shard", help="Under torchrun: share the weights out (FSDP2).")] = False,
) -> None:
    """Train a model on your data; leaves a folder that the verbs take. Ctrl-C saves and stops; --resume goes on."""
    from glassformer.tasks.learn.wish import Wish
    from glassformer.tasks.training import Optimise, Plan

    wish = Wish(
        data=data, held=held, kind=kind, width=width, depth=depth, heads=heads, batch=batch, smoothing=smoothing,
        augment=augment, changes=_changes(change or []), image=image, vocabulary=vocabulary, base=from_, rank=low_rank,
        seed=seed,
    )  # fmt: skip

    def plan(own_rate: float) -> Plan:
        optimise = Optimise(
            rate=own_rate if rate is None else rate,
            schedule=_one_of("schedule", schedule, "cosine", "inverse_sqrt", "constant"),
            warmup=min(steps // 20, 500) if warmup is None else warmup,
            decay=decay,
            clip=clip or None,
        )
        return Plan(
            steps=steps,
            optimise=optimise,
            accumulate=accumulate,
            average=average,
            precision=_one_of("precision", precision, "fp32", "bf16", "auto"),
            measure_every=max(1, steps // 10) if measure_every is None else measure_every,
            save_every=max(20, steps // 50) if save_every is None else save_every,
            patience=patience,
            seed=seed,
            workers=workers,
            checkpointing=checkpointing,
        )

    _run(task, wish, plan, output, resume=resume, shard=shard)


def _changes(given: list[str]) -> tuple[tuple[str, float], ...]:
    """"mixup=0.2" → ("mixup", 0.2)."""
    from glassformer.errors import ConfigError

    def one(text: str) -> tuple[str, float]:
        name, _, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ConfigError(f"a change of {text!r}", "give a name and a number, as mixup=0.2")
        return name.strip(), number

    return tuple(map(one, given))


def _one_of(name: str, value: str, *known: str) -> Any:
    from glassformer.errors import ConfigError

    if value not in known:
        raise ConfigError(f"there is no {name} {value!r}", f"choose {', '.join(known)}")
    return value


def _run(task: str, wish: Wish, plan: Any, output: Path, *, resume: bool, shard: bool) -> None:
    from glassformer.app.learning import draw_curves, shown
    from glassformer.tasks.learn.start import start
    from glassformer.tasks.training import train as go
    from glassformer.tasks.training.folder import found_in

    plan(1.0)  # what is wrong with it is said before data is read
    found_in(output / "run", resume)
    first = os.environ.get("RANK", "0") == "0"  # of several processes one talks and writes
    begun = start(task, wish)
    if not first:
        go(begun.model, begun.lesson, plan(begun.rate), output / "run", resume=resume, shard=shard)
        return
    if begun.note:
        print(f"glassformer: {begun.note}", file=sys.stderr)
    print(f"{begun.what}; {sum(p.numel() for p in begun.model.parameters()):,} parameters", file=sys.stderr)
    with shown(task) as show:
        trained = go(begun.model, begun.lesson, plan(begun.rate), output / "run", resume=resume, shard=shard, show=show)
    _tell(trained)
    if trained.stopped == "interrupted":
        print(f"glassformer: interrupted and saved; the same command with --resume goes on ({output})", file=sys.stderr)
    else:
        print(begun.save(trained.model, output))
    draw_curves(trained.history, output / "curves.png", f"{task} {wish.data}")  # last: nothing is lost if it cannot be


def _tell(trained: Trained) -> None:
    """What could not be used, and how good the weights are that are kept: with patience the best, else the last."""
    from glassformer.app.learning import measured

    for line in trained.faults.told() if trained.faults is not None else ():
        print(f"glassformer: left out: {line}", file=sys.stderr)
    lines = [line for line in trained.history if line.get("held_out")]
    best = [line for line in lines if line["step"] == trained.best_step]
    if lines:
        print(measured((best or lines)[-1]["held_out"]), file=sys.stderr)
