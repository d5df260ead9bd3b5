"""Trains a small ViT on made-up images, or on UCI's digits; run by tests in processes of their own.

child.py train FOLDER OUT [resume] [fsdp] [stop=N] [few]     one run; OUT gets the weights, FOLDER-last.pt and
                                                              FOLDER-best.pt those of its last checkpoint
child.py both FOLDER                                          replicated, then sharded, in the same processes
child.py killed FOLDER KILLS SEED                             a run on digits, killed again and again
child.py full FOLDER                                          a run whose disk fills up
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.data import Faults
from glassformer.errors import GlassError
from glassformer.models import ViT
from glassformer.models.vit import plain
from glassformer.train import Batch, Objective, Progress, TrainArgs, fit


class Made:
    """Images whose class is the largest of four random projections; no augmentation, so that processes may differ."""

    better: Literal["higher", "lower"] = "higher"

    def __init__(self, count: int = 101, size: int = 25) -> None:
        draw = torch.Generator().manual_seed(1)
        self.X = torch.randn(count, 1, 8, 8, generator=draw, dtype=torch.float64)
        self.y = (self.X.flatten(1) @ torch.randn(64, 4, generator=draw, dtype=torch.float64)).argmax(1)
        self.size = size

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        order = torch.randperm(len(self.X), generator=torch.Generator().manual_seed(number))
        return [part.tolist() for part in order.split(self.size)]

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        return {"X": self.X[list(rows)], "y": self.y[list(rows)]}

    def count(self, batch: Batch) -> float:
        return float(len(batch["y"]))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return cross_entropy(model(batch["X"]), batch["y"], reduction="sum")

    @torch.inference_mode()
    def evaluate(self, model: nn.Module) -> dict[str, float]:
        logits = model(self.X)
        right = (logits.argmax(-1) == self.y).double().mean()
        return {"accuracy": float(right), "loss": float(cross_entropy(logits, self.y))}


class Watched(Made):
    """Tells the rows that it was asked for as if they were faulty, unweighed."""

    def __init__(self) -> None:
        super().__init__()
        self.faults = Faults()

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        self.faults.places.setdefault("asked for", {}).update((f"row {row}", None) for row in rows)
        return super().batch(rows, seed)


ARGS = TrainArgs(
    steps=12, lr=1e-2, warmup=2, grad_accum=2, ema=0.9, eval_every=4, save_every=4, patience=5, log_every=3
)


def model(*, dropout: float = 0.0, double: bool = True) -> ViT:
    config = plain(8, 4, 16, 1, 2, classes=4, channels=1)
    config = replace(config, block=replace(config.block, dropout=dropout))
    built = ViT(config, seed=0)
    return built.double() if double else built


def same(one: nn.Module, other: nn.Module) -> bool:
    """Bit for bit."""
    there = other.state_dict()
    return all(torch.equal(tensor, there[name]) for name, tensor in one.state_dict().items())


def _train(arguments: list[str]) -> None:
    folder, out, *words = arguments
    options = dict(word.split("=") for word in words if "=" in word)

    def show(progress: Progress) -> None:
        if progress.step == int(options.get("stop", 0)):
            os.kill(os.getpid(), signal.SIGTERM)

    def export(usable: nn.Module, which: str) -> None:
        torch.save(usable.state_dict(), f"{folder}-{which}.pt")

    built, objective = model(), Made(7, 3) if "few" in words else Made()
    args = replace(ARGS, fsdp="fsdp" in words)
    done = fit(built, objective, args, Path(folder), resume="resume" in words, callbacks=[show], export=export)
    if os.environ.get("RANK", "0") == "0":
        torch.save(built.state_dict(), out)
        print(json.dumps({"stopped": done.stopped, "history": done.history}))


def _both(arguments: list[str]) -> None:
    torch.distributed.init_process_group("gloo")
    said = {}
    for name, fsdp in (("replicated", False), ("sharded", True)):
        built = model()
        folder = Path(arguments[0]) / name
        done = fit(built, Watched(), replace(ARGS, fsdp=fsdp), folder)
        size = sum(len(p.read_bytes()) for p in folder.rglob("*.distcp"))
        said[name] = {"history": done.history, "asked": done.faults.counts["asked for"], "bytes": size}
        if torch.distributed.get_rank() == 0:
            torch.save(built.state_dict(), folder / "out.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    print(json.dumps(said))


# ---- killed ----------------------------------------------------------------------------------------------------------


def _digits() -> tuple[Objective, TrainArgs]:
    from glassformer.data import Images
    from glassformer.data.sources import open_data
    from glassformer.train.objectives.image_classification import ImageAugmentation, ImageClassification

    folder = open_data("uci-digits")
    first = Images.open(folder / "train")
    objective = ImageClassification(
        train=first,
        val=Images.open(folder / "test", labels=first.labels),
        mean=(0.3,),
        std=(0.4,),
        augment=ImageAugmentation(crop=1, mixup=0.2),
        batch_size=32,
    )
    for row in range(len(objective.train)):
        objective.train.image(row)  # read here once, for all the processes that are forked
    plan = TrainArgs(steps=36, lr=5e-3, warmup=5, grad_accum=2, ema=0.98, eval_every=12, save_every=3, patience=9)
    return objective, plan


def _digit_model() -> ViT:
    config = plain(8, 2, 32, 2, 4, classes=10, channels=1)
    return ViT(replace(config, block=replace(config.block, dropout=0.1)), seed=0)


def _forked(objective: Objective, plan: TrainArgs, folder: Path, dies_at: int | None = None) -> int:
    """A process that goes on with the run, or starts it; with `dies_at` it kills itself at that touch of the folder."""
    if (pid := os.fork()) != 0:
        return pid
    touched = 0

    def watch(event: str, given: tuple[object, ...]) -> None:
        nonlocal touched
        if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir") and str(folder) in str(given[0]):
            touched += 1
            if touched == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

    try:
        if dies_at is not None:
            sys.addaudithook(watch)
        built = _digit_model()
        fit(built, objective, plan, folder, resume=True)
        torch.save(built.state_dict(), folder / "out.pt")
        os._exit(0)
    finally:
        os._exit(1)


def _ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _killed(arguments: list[str]) -> None:
    """Half of the kills after a random time, half at a random touch of the disk; then the rest undisturbed."""
    where, kills, draw = Path(arguments[0]), int(arguments[1]), random.Random(int(arguments[2]))
    objective, plan = _digits()
    begun = time.perf_counter()
    assert _ended(_forked(objective, plan, where / "calm")) == 0
    whole = time.perf_counter() - begun
    codes, halves = [], 0
    folder = where / "killed"
    for number in range(kills):
        if number % 2:
            pid = _forked(objective, plan, folder, dies_at=draw.randint(1, 40))
        else:
            pid = _forked(objective, plan, folder)
            time.sleep(draw.uniform(0, whole / 8))
            os.kill(pid, signal.SIGKILL)
        codes.append(_ended(pid))
        halves += any(folder.glob("state/*.*"))
    last = _ended(_forked(objective, plan, folder))
    print(json.dumps({"codes": codes, "half-written": halves, "last": last}))


def _full(arguments: list[str]) -> None:
    """Something else fills the disk meanwhile; what is said then."""
    folder = Path(arguments[0])

    def fill(_: Progress) -> None:
        with suppress(OSError), (folder.parent / "ballast").open("ab") as file:
            file.write(bytes(50_000))

    try:
        fit(model(), Made(), replace(ARGS, steps=400, save_every=1, patience=None), folder, callbacks=[fill])
    except GlassError as error:
        print(error)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"train": _train, "both": _both, "killed": _killed, "full": _full}[sys.argv[1]](sys.argv[2:])
