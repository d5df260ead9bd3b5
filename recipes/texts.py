"""Shared by the recipes of text models: train one after another, save, measure and describe."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared import SEED, learn, machine
from torch import nn

from glassformer.checkpoints import load
from glassformer.runtime import card as circumstances
from glassformer.train import Objective, TrainArgs


@dataclass(frozen=True, kw_only=True)
class Learner:
    """One of those that are compared. `save` writes a folder that the verbs can use; `measure` tells its quality."""

    name: str
    what: str
    build: Callable[[], nn.Module]
    objective: Objective
    plan: TrainArgs
    save: Callable[[nn.Module, Path], Path]
    measure: Callable[[nn.Module], dict[str, Any]]


def teach(learner: Learner, folder: Path, resume: bool, *, measured: bool = True) -> dict[str, Any]:
    """Trains one (or goes on where it was), saves it in float16 beside its run, and measures what was saved."""
    done, model_folder = folder / "measured.json", folder / "model"
    if resume and done.is_file():
        return dict(json.loads(done.read_text(encoding="utf-8")))
    if not (resume and (model_folder / "glassformer.json").is_file()):
        _train(learner, folder, model_folder, resume)
    if not measured:
        return {}
    model = load(model_folder)
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
    told = {"steps": plan.steps, "seed": plan.seed, **seconds, "left_out": faults}
    learner.save(trained.model.eval(), model_folder)
    (folder / "trained.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def with_unit_tables(build: Callable[..., nn.Module], *, seed: int) -> nn.Module:
    """A recurrent net whose embeddings start with deviation 1, as torch's do: from 1/√width it learns much later."""
    model = build(seed=seed)
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.weight.data.mul_(math.sqrt(module.embedding_dim))
    return model


def minutes(one: dict[str, Any]) -> str:
    return f"{one['trained']['processor_seconds'] / 60:.1f}"


def told(measured: dict[str, Any]) -> dict[str, str]:
    """What every card says."""
    return {
        "parameters": f"{measured['parameters']:,}",
        "steps": f"{measured['trained']['steps']:,}",
        "minutes": minutes(measured),
        "seed": str(measured["seed"]),
        "machine": machine(measured),
    }


def table(head: str, rows: Sequence[Sequence[str]]) -> str:
    """Markdown: the columns are parted by | in the head."""
    columns = head.split("|")
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.strip() for cell in line)} |" for line in lines)


def compare(learners: Sequence[Learner], runs: Path, out: Path, resume: bool) -> dict[str, Any]:
    """All of them learn; the first is saved in `out` with what was measured of all."""
    found = {one.name: teach(one, runs / one.name, resume) for one in learners}
    first = learners[0]
    first.save(load(runs / first.name / "model"), out)
    measured = {"model": first.name, "seed": SEED, "machine": circumstances(), **found[first.name]}
    measured["peers"] = {one.name: found[one.name] for one in learners[1:]}
    (out / "measured.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    return measured
