"""Search for an architecture of `objects` in which attention matters.

Every candidate is trained on 45,000 training images of CIFAR-10 and measured on the other 5,000: accuracy, and the
points of accuracy that are lost when every layer's attention is replaced by its mean. The test images are not read.
Runs are resumed where they were interrupted.

    OMP_NUM_THREADS=2 python recipes/objects_search.py [--runs FOLDER] [--steps N]
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from objects import STEM, hybrid, objective_of, plan
from pictures import Learner, ablations, opened, percent, teach
from shared import SEED

from glassformer.checkpoints import load
from glassformer.data import order
from glassformer.data.images import Images
from glassformer.data.sources import open_data
from glassformer.models import HybridConfig, StemConfig
from glassformer.models.hybrid import compact

HELD_OUT = 5000
NEEDED = 0.15  # accuracy that uniform attention must cost
# widths and halvings of the stem, layers, heads: fewer convolutions and more tokens leave more to attention
CANDIDATES: dict[str, tuple[tuple[int, ...], tuple[bool, ...], int, int]] = {
    "now": (STEM.widths, STEM.halves, 2, 4),
    "64 tokens, 4 layers": ((64, 128, 192), (True, True, False), 4, 6),
    "64 tokens, 6 layers": ((64, 192), (True, True), 6, 6),
    "64 tokens, 8 layers": ((128, 192), (True, True), 8, 6),
    "256 tokens, 4 layers": ((64, 128), (True, False), 4, 4),
}


def config(name: str, classes: int) -> HybridConfig:
    widths, halves, depth, heads = CANDIDATES[name]
    stem = STEM if name == "now" else StemConfig(widths=widths, halves=halves, norm=STEM.norm)
    return replace(compact(32, widths, depth, heads, classes=classes), stem=stem)


def search(runs: Path, steps: int) -> None:
    whole = Images.open(open_data("cifar10") / "train", channels=3)
    kept, held = order.held_out(len(whole), HELD_OUT / len(whole), SEED, most=HELD_OUT)
    train, val = whole.part(kept), whole.part(held)
    objective = objective_of(train, val)
    pictures, y = opened(val, range(len(val)))
    found = {}
    for name in CANDIDATES:
        made = config(name, len(train.labels))
        learner = Learner(
            name=name,
            build=lambda made=made: hybrid(made),
            objective=objective,
            plan=plan(steps),
            preprocess=objective.preprocess,
        )
        folder = runs / name.replace(" ", "-").replace(",", "")
        trained = teach(learner, folder, True)
        rates = ablations(load(folder / "model"), pictures, y)
        found[name] = {
            "accuracy": rates["unchanged"],
            "uniform_attention": rates["all layers"],
            "processor_seconds": trained["processor_seconds"],
        }
        cost = rates["unchanged"] - rates["all layers"]
        enough = "enough" if cost >= NEEDED else f"less than {percent(NEEDED)}"
        print(f"{name}: {percent(rates['unchanged'])}; uniform attention costs {percent(cost)}, {enough}", flush=True)
        (runs / "found.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/objects-search"), help="Folder of the training runs.")
    parser.add_argument("--steps", type=int, default=1500, help="Optimizer steps of every candidate.")
    given = parser.parse_args()
    search(given.runs, given.steps)
