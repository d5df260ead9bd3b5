"""Search for an architecture of `objects` in which attention matters, starting from the shipped model.

A candidate keeps the first convolutions of the shipped model, frozen, and has new attention layers behind them, which
learn the shipped model's probabilities (Hinton et al., "Distilling the knowledge in a neural network", 2015). It is
trained on 45,000 training images of CIFAR-10 and measured on the other 5,000: accuracy, and the points of accuracy that
are lost when every layer's attention is replaced by its mean. The test images are not read. The shipped model was
trained on all 50,000 images, so accuracy on the 5,000 ranks candidates but does not estimate that on new images.

    OMP_NUM_THREADS=2 python recipes/objects_search.py [--runs FOLDER] [--steps N] [--only NAME]

Runs are resumed where they were interrupted.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from objects import hybrid, objective_of, plan
from pictures import Learner, ablations, opened, percent, teach
from shared import FOLDER, SEED
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.checkpoints import load
from glassformer.data import order
from glassformer.data.images import Images
from glassformer.data.sources import open_data
from glassformer.models import Hybrid
from glassformer.models.hybrid import compact
from glassformer.models.protocols import require
from glassformer.train.objective import Batch
from glassformer.train.objectives.image_classification import ImageClassification

HELD_OUT = 5000
NEEDED = 0.15  # accuracy that uniform attention must cost
# convolutions that are kept, new layers, heads: fewer convolutions leave more to attention
CANDIDATES = {
    "16 tokens, 2 layers": (6, 2, 8),
    "16 tokens, 4 layers": (6, 4, 8),
    "64 tokens, 3 layers": (5, 3, 8),
    "64 tokens, 4 layers": (4, 4, 8),
}


@dataclass(kw_only=True)
class Distillation(ImageClassification):
    """Cross-entropy with the probabilities of a trained model."""

    teacher: nn.Module

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        with torch.no_grad():
            p = require(self.teacher, "classify").class_logits(batch["X"]).float().softmax(-1)
        return cross_entropy(require(model, "classify").class_logits(batch["X"]), p, reduction="sum")


class Frozen(nn.ModuleList):
    """Layers that are not trained: no gradients, and batch norms keep their statistics."""

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__(copy.deepcopy(layer) for layer in layers)
        self.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> Frozen:
        return super().train(False)


def candidate(teacher: Hybrid, convolutions: int, depth: int, heads: int) -> nn.Module:
    """Return a model with the teacher's first convolutions, frozen, and its pooling and head; its layers are new."""
    c = teacher.config
    stem = replace(c.stem, widths=c.stem.widths[:convolutions], halves=c.stem.halves[:convolutions])
    made = compact(c.image[0], stem.widths, depth, heads, classes=c.classes, channels=c.channels)
    model = hybrid(replace(made, stem=stem))
    model.stem = Frozen(teacher.stem[:convolutions])
    for name in ("pool", "head", "encoder.norm"):
        model.get_submodule(name).load_state_dict(teacher.get_submodule(name).state_dict())
    return model


def search(runs: Path, steps: int, names: Sequence[str]) -> None:
    whole = Images.open(open_data("cifar10") / "train", channels=3)
    kept, held = order.held_out(len(whole), HELD_OUT / len(whole), SEED, most=HELD_OUT)
    train, val = whole.part(kept), whole.part(held)
    teacher = load(FOLDER / "objects").eval()
    assert isinstance(teacher, Hybrid)
    plain = objective_of(train, val)
    objective = Distillation(
        train=train,
        val=val,
        mean=plain.mean,
        std=plain.std,
        augment=plain.augment,
        batch_size=plain.batch_size,
        seed=SEED,
        teacher=teacher,
    )
    pictures, y = opened(val, range(len(val)))
    file = runs / "found.json"
    found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    for name in names:
        learner = Learner(
            name=name,
            build=partial(candidate, teacher, *CANDIDATES[name]),
            objective=objective,
            plan=replace(plan(steps), weight_decay=0.02),
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
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/objects-search"), help="Folder of the training runs.")
    parser.add_argument("--steps", type=int, default=1500, help="Optimizer steps of every candidate.")
    parser.add_argument("--only", choices=CANDIDATES, help="Train only this candidate.")
    given = parser.parse_args()
    search(given.runs, given.steps, [given.only] if given.only else list(CANDIDATES))
