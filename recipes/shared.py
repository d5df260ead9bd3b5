"""What all recipes share: the seed, how a training is followed and kept, the circumstances, what a script is given."""

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
    """A line every so many seconds, for a log that someone follows; and the processor's time, over all resumptions.

    The time that passes says little on a machine that does other things too.
    """

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
    """Trained to the end (else the script ends, to be resumed), and the seconds that it took, by both clocks."""
    folder.mkdir(parents=True, exist_ok=True)
    clock = Shown(name, folder)
    trained = fit(model, objective, plan, folder, resume=resume and (folder / "state").is_dir(), callbacks=[clock])
    if trained.stopped != "finished":
        print(f"{name}: {trained.stopped}; go on with --resume", flush=True)
        sys.exit(0)
    return trained, {"seconds": round(trained.history[-1]["seconds"]), "processor_seconds": round(clock.seconds)}


def machine(measured: dict[str, Any]) -> str:
    """The circumstances, as a card says them."""
    m = measured["machine"]
    threads = "1 thread" if m["threads"] == 1 else f"{m['threads']} threads"
    return f"{m['processor']}, {threads} of {m['cores']} cores, torch {m['torch']}"


def arguments(name: str, about: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--out", type=Path, default=FOLDER / name, help="where the model goes")
    parser.add_argument("--runs", type=Path, default=Path("runs") / name, help="where the trainings are kept")
    parser.add_argument("--resume", action="store_true", help="go on where a training was left")
    return parser.parse_args()
