"""What the recipes for pictures share: a model and its peers learn in turn, then are measured, saved and described."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from shared import SEED, learn, machine
from torch import nn

from glassformer.checkpoints import load
from glassformer.runtime import card as circumstances
from glassformer.train import TrainArgs
from glassformer.train.device import autocast_of
from glassformer.train.objectives.image_classification import ImageClassification, save_images


@dataclass(frozen=True, kw_only=True)
class Learner:
    """One of those that are compared. The first of a recipe is the one that is shipped."""

    name: str
    what: str  # in words, for the card
    build: Callable[[], nn.Module]
    objective: ImageClassification
    plan: TrainArgs


def quick(model: nn.Module) -> nn.Module:
    """Kernels with their channels last: on processors convolutions are then a third faster."""
    for weight in model.parameters():
        if weight.dim() == 4:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    return model


def teach(learner: Learner, folder: Path, resume: bool) -> None:
    """Trains one of them (or goes on where it was), saves it beside its run, and measures how well it does."""
    done, model_folder = folder / "measured.json", folder / "model"
    if resume and done.is_file():
        return
    objective, plan = learner.objective, learner.plan
    model = learner.build()
    trained, seconds = learn(learner.name, model, objective, plan, folder, resume)
    save_images(trained.model.eval(), model_folder, objective.labels, objective.preprocess, half=True)
    saved = load(model_folder)
    cast = autocast_of(plan.precision, torch.device("cpu"))
    measured = {
        "machine": circumstances(),  # here, not when all are put together: that may be another day on another machine
        "kind": type(model).__name__,
        "what": learner.what,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "held_out": {"images": len(objective.val), **objective.evaluate(saved)},  # as saved: float16
        "confused": confused(objective, saved),
        "trained": {
            "steps": plan.steps,
            "batch": objective.batch_size,
            "images_seen": plan.steps * objective.batch_size,
            "precision": "float32" if cast is None else "bfloat16",
            **seconds,
        },
    }
    done.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


def confused(objective: ImageClassification, model: nn.Module, most: int = 3) -> list[list[Any]]:
    """The classes that are taken for each other most: both names, and how often, either way."""
    C = objective.confusion(model)
    both = (C + C.T).triu(1)
    n = len(objective.labels)
    order = both.flatten().argsort(descending=True)[:most].tolist()
    return [[objective.labels[i // n], objective.labels[i % n], int(both.flatten()[i])] for i in order]


def compare(name: str, learners: Sequence[Learner], runs: Path, out: Path, resume: bool, card: str) -> None:
    """All of them learn; the first is saved in `out` with what was measured of all, and its card.

    It is saved there as soon as it is done, and again with every peer.
    """
    for count in range(1, len(learners) + 1):
        teach(learners[count - 1], runs / learners[count - 1].name, resume)
        _keep(name, learners[:count], runs, out, card)


def _keep(name: str, learners: Sequence[Learner], runs: Path, out: Path, card: str) -> None:
    read = lambda one: json.loads((runs / one.name / "measured.json").read_text(encoding="utf-8"))
    found = {one.name: read(one) for one in learners}
    first = learners[0]
    model = load(runs / first.name / "model")
    save_images(model, out, first.objective.labels, first.objective.preprocess, half=True)
    measured = {"model": name, "seed": SEED, "machine": circumstances(), **found[first.name]}
    measured["peers"] = {one.name: found[one.name] for one in learners[1:]}
    (out / "measured.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    words = told(measured) | {"labels": ", ".join(first.objective.labels)}
    words["epochs"] = f"{measured['trained']['images_seen'] / len(first.objective.train):.1f}"
    (out / "card.md").write_text(card.format(**words), encoding="utf-8")
    print(f"{name}: {100 * measured['held_out']['accuracy']:.2f} % in {out}", flush=True)


def told(measured: dict[str, Any]) -> dict[str, str]:
    """The numbers that a card says."""
    rows = [("**this model**", measured), *((name, peer) for name, peer in measured["peers"].items())]
    lines = ["| | what | parameters | images seen | minutes | right |", "|---|---|---|---|---|---|"]
    for name, one in rows:
        made = one["trained"]
        lines.append(
            f"| {name} | {one['what']} | {one['parameters']:,} | {made['images_seen']:,} | "
            f"{made['processor_seconds'] / 60:.1f} | {100 * one['held_out']['accuracy']:.2f} % |"
        )
    return {
        "accuracy": f"{100 * measured['held_out']['accuracy']:.2f} %",
        "images": f"{measured['held_out']['images']:,}",
        "parameters": f"{measured['parameters']:,}",
        "table": "\n".join(lines),
        "machine": machine(measured),
        "precision": measured["trained"]["precision"],
        "minutes": f"{measured['trained']['processor_seconds'] / 60:.0f}",
        "seed": str(measured["seed"]),
        "confused": ", ".join(f"{one} and {other} ({n})" for one, other, n in measured["confused"]),
        "steps": f"{measured['trained']['steps']:,}",
    }
