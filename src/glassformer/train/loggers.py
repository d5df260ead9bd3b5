"""Experiment trackers: TensorBoard, Weights & Biases and MLflow, each if it is installed and requested."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from glassformer.errors import ConfigError

TRACKERS = ("tensorboard", "wandb", "mlflow")


class Logger(Protocol):
    """Receives every line of the log as plain numbers by name."""

    def write(self, row: Mapping[str, float], step: int) -> None: ...

    def close(self) -> None: ...


def open_loggers(names: str, folder: Path, args: Mapping[str, Any], step: int) -> list[Logger]:
    """Open the trackers of a run. `auto` is TensorBoard if it is installed; `none` opens none."""
    kinds: dict[str, Any] = {"tensorboard": TensorBoard, "wandb": WandB, "mlflow": MLflow}
    return [kinds[name](folder, args, step) for name in parse_trackers(names)]


def parse_trackers(names: str) -> Sequence[str]:
    """Parse `tensorboard,wandb`, and require that each tracker is installed."""
    if names == "none":
        return ()
    if names == "auto":
        return ("tensorboard",) if find_spec("tensorboard") is not None else ()
    found = [name.strip() for name in names.split(",")]
    for name in found:
        if name not in TRACKERS:
            raise ConfigError(f"--report-to {name} is unknown", f"choose auto, none, {', '.join(TRACKERS)}")
        if find_spec(name) is None:
            raise ConfigError(f"--report-to {name} needs the package {name}", f"pip install {name}")
    return found


class TensorBoard:
    """Event files in run/tensorboard."""

    def __init__(self, folder: Path, args: Mapping[str, Any], step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def write(self, row: Mapping[str, float], step: int) -> None:
        for name, value in row.items():
            self.writer.add_scalar(name.replace(".", "/"), value, step)

    def close(self) -> None:
        self.writer.close()


class WandB:
    """Weights & Biases, offline in run/wandb unless WANDB_MODE says otherwise; upload it with `wandb sync`."""

    def __init__(self, folder: Path, args: Mapping[str, Any], step: int) -> None:
        self.run = import_module("wandb").init(
            project=os.environ.get("WANDB_PROJECT", "glassformer"),
            dir=str(folder),
            config=dict(args),
            mode=os.environ.get("WANDB_MODE", "offline"),
        )

    def write(self, row: Mapping[str, float], step: int) -> None:
        self.run.log({name.replace(".", "/"): value for name, value in row.items()}, step=step)

    def close(self) -> None:
        self.run.finish()


class MLflow:
    """MLflow, in the database run/mlflow.db unless MLFLOW_TRACKING_URI says otherwise."""

    def __init__(self, folder: Path, args: Mapping[str, Any], step: int) -> None:
        self.mlflow = import_module("mlflow")
        if "MLFLOW_TRACKING_URI" not in os.environ:
            self.mlflow.set_tracking_uri(f"sqlite:///{folder.resolve()}/mlflow.db")
        self.mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "glassformer"))
        self.mlflow.start_run()
        self.mlflow.log_params({name: value for name, value in args.items() if value is not None})

    def write(self, row: Mapping[str, float], step: int) -> None:
        self.mlflow.log_metrics({name.replace(".", "/"): value for name, value in row.items()}, step=step)

    def close(self) -> None:
        self.mlflow.end_run()
