"""Shared by the recipes of text models: train, save, measure and describe."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared import SEED, learn, machine
from torch import nn

from glassformer.checkpoints import load_folder
from glassformer.runtime import card as circumstances
from glassformer.train import Objective, TrainArgs


@dataclass(frozen=True, kw_only=True)
class Learner:
    """A model to train. `save` writes a folder that the pipelines load; `measure` evaluates what was saved."""

    name: str
    what: str
    build: Callable[[], nn.Module]
    objective: Objective
    plan: TrainArgs
    save: Callable[[nn.Module, Path], Path]
    measure: Callable[[nn.Module], dict[str, Any]]


def teach(learner: Learner, folder: Path, resume: bool, *, measured: bool = True) -> dict[str, Any]:
    """Train a model, or resume its run, save it in float16 beside the run, and measure what was saved."""
    done, model_folder = folder / "measured.json", folder / "model"
    if resume and done.is_file():
        return dict(json.loads(done.read_text(encoding="utf-8")))
    if not (resume and (model_folder / "glassformer.json").is_file()):
        _train(learner, folder, model_folder, resume)
    if not measured:
        return {}
    model = load_folder(model_folder)
    trained = json.loads((folder / "trained.json").read_text(encoding="utf-8"))
    trained["epochs"] = round(learner.plan.steps / len(learner.objective.epoch(0)), 2)
    found = {
        "machine": circumstances(),
        "kind": type(model).__name__,
        "what": learner.what,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "held_out": learner.measure(model),
        "trained": trained,
    }
    done.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(learner.name, json.dumps(found["held_out"]), flush=True)
    return found


def _train(learner: Learner, folder: Path, model_folder: Path, resume: bool) -> None:
    plan = learner.plan
    trained, seconds = learn(learner.name, learner.build(), learner.objective, plan, folder, resume)
    faults = trained.faults.summary() if trained.faults is not None else []
    how = {"steps": plan.steps, "seed": plan.seed, **seconds, "left_out": faults}
    learner.save(trained.model.eval(), model_folder)
    (folder / "trained.json").write_text(json.dumps(how, indent=1) + "\n", encoding="utf-8")


def ship(learner: Learner, runs: Path, out: Path, resume: bool) -> dict[str, Any]:
    """Train and measure a model, save it in `out`, and return the contents of its measured.json."""
    found = teach(learner, runs / learner.name, resume)
    learner.save(load_folder(runs / learner.name / "model"), out)
    return {"model": learner.name, "seed": SEED, "machine": circumstances(), **found}


# ---- the card --------------------------------------------------------------------------------------------------------


def minutes(one: dict[str, Any]) -> str:
    return f"{one['trained']['processor_seconds'] / 60:.1f}"


def card_fields(measured: dict[str, Any]) -> dict[str, str]:
    """Return the fields that every card has."""
    return {
        "parameters": f"{measured['parameters']:,}",
        "steps": f"{measured['trained']['steps']:,}",
        "minutes": minutes(measured),
        "seed": str(measured["seed"]),
        "machine": machine(measured),
    }


def table(head: str, rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the columns of the head are separated by |."""
    columns = head.split("|")
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.strip() for cell in line)} |" for line in lines)
