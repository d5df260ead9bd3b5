"""Shared by all recipes: the seed, training with progress lines, the machine, and the command-line arguments."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.train import Objective, Progress, TrainArgs, Trained, fit

SEED = 20
FOLDER = Path(__file__).parent.parent / "src/glassformer/checkpoints/shipped"


class Shown:
    """Print a progress line every `every` seconds, and count processor time over all resumptions of a run."""

    def __init__(self, name: str, folder: Path, every: float = 20.0) -> None:
        self.name, self.every, self.last = name, every, 0.0
        self.file = folder / "processor_seconds"
        self.before = float(self.file.read_text()) if self.file.is_file() else 0.0
        self.began = time.process_time()

    @property
    def seconds(self) -> float:
        return self.before + time.process_time() - self.began

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self.last < self.every and progress.step != progress.steps:
            return
        self.last = now
        self.file.write_text(f"{self.seconds:.1f}")
        held = " ".join(f"{name} {value:.4f}" for name, value in progress.val.items())
        line = f"{self.name} {progress.step}/{progress.steps} loss {progress.loss:.3f} {held}"
        print(f"{line} {progress.seconds:.0f} s, {progress.seconds_left:.0f} s left", flush=True)


def learn(
    name: str, model: nn.Module, objective: Objective, plan: TrainArgs, folder: Path, resume: bool
) -> tuple[Trained, Any]:
    """Train to the end and return the result with wall-clock and processor seconds; exit if the run was interrupted."""
    folder.mkdir(parents=True, exist_ok=True)
    clock = Shown(name, folder)
    trained = fit(model, objective, plan, folder, resume=resume and (folder / "state").is_dir(), callbacks=[clock])
    if trained.stopped != "finished":
        print(f"{name}: {trained.stopped}; continue with --resume", flush=True)
        sys.exit(0)
    return trained, {"seconds": round(trained.history[-1]["seconds"]), "processor_seconds": round(clock.seconds)}


def machine(measured: dict[str, Any]) -> str:
    """Return the machine and versions as text for a card."""
    m = measured["machine"]
    threads = "1 thread" if m["threads"] == 1 else f"{m['threads']} threads"
    return f"{m['processor']}, {threads} of {m['cores']} cores, torch {m['torch']}"


def arguments(name: str, about: str, *, describe: bool = False) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--out", type=Path, default=FOLDER / name, help="Folder of the model.")
    parser.add_argument("--runs", type=Path, default=Path("runs") / name, help="Folder of the training runs.")
    parser.add_argument("--resume", action="store_true", help="Continue the training runs.")
    if describe:
        parser.add_argument("--describe", action="store_true", help="Only measure the model in --out.")
    return parser.parse_args()
