from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.errors import ConfigError
from glassformer.train.log import Log, flatten_metrics, read

LINES = [{"step": i, "loss": 1 / i, **({"val": {"accuracy": i / 10}} if i % 2 == 0 else {})} for i in range(1, 6)]


def written(folder: Path) -> Log:
    log = Log(folder)
    for line in LINES:
        log.write(line)
    log.close()
    return log


def test_both_forms_say_the_same(tmp_path: Path) -> None:
    assert written(tmp_path).lines == LINES
    assert read(tmp_path / "log.jsonl") == LINES
    with open(tmp_path / "log.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["step", "loss", "val.accuracy"], "a column that comes later is a column of all"
    for row, line in zip(rows, LINES, strict=True):
        assert {name: float(text) for name, text in row.items() if text} == flatten_metrics(line)


def test_opened_again_it_forgets_what_came_after(tmp_path: Path) -> None:
    written(tmp_path)
    again = Log(tmp_path, 3)
    again.write({"step": 4, "loss": 9.0})
    assert read(tmp_path / "log.jsonl") == [*LINES[:3], {"step": 4, "loss": 9.0}] == again.lines
    assert len((tmp_path / "log.csv").read_text(encoding="utf-8").splitlines()) == 5


def test_a_line_that_was_cut_off_is_no_line(tmp_path: Path) -> None:
    written(tmp_path)
    text = (tmp_path / "log.jsonl").read_text(encoding="utf-8")
    (tmp_path / "log.jsonl").write_text(text[:-9], encoding="utf-8")
    assert read(tmp_path / "log.jsonl") == LINES[:-1]
    assert read(tmp_path / "none.jsonl") == []


def test_who_does_not_write_reads(tmp_path: Path) -> None:
    written(tmp_path)
    before = (tmp_path / "log.jsonl").read_bytes()
    other = Log(tmp_path, 2, writes=False)
    other.write({"step": 3})
    assert [line["step"] for line in other.lines] == [1, 2, 3]
    assert (tmp_path / "log.jsonl").read_bytes() == before


def test_without_a_folder(tmp_path: Path) -> None:
    log = Log(None)
    log.write(LINES[0])
    assert log.lines == LINES[:1]


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    written(tmp_path)
    found = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [round(event.value, 5) for event in found.Scalars("loss")] == [round(line["loss"], 5) for line in LINES]
    assert [event.step for event in found.Scalars("held_out/accuracy")] == [2, 4]
    assert json.loads(json.dumps(LINES)) == LINES


def test_trackers_that_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Any) -> None:
    """What W&B and MLflow are given; their packages are no dependency, so their functions are recorded here."""
    said: list[Any] = []
    run = SimpleNamespace(log=lambda row, step: said.append((step, row)), finish=lambda: said.append("finished"))
    module = SimpleNamespace(init=lambda **how: said.append(how["mode"]) or run)
    monkeypatch.setattr("glassformer.train.loggers.find_spec", lambda name: object() if name == "wandb" else None)
    monkeypatch.setattr("glassformer.train.loggers.import_module", lambda name: {"wandb": module}[name])
    monkeypatch.delenv("WANDB_MODE", raising=False)
    log = Log(tmp_path, report_to="wandb", args={"lr": 1.0})
    log.write({"step": 2, "loss": 0.5, "val": {"accuracy": 1.0}})
    log.close()
    assert said == ["offline", (2, {"loss": 0.5, "val/accuracy": 1.0}), "finished"]
    refused(ConfigError, "--report-to mlflow needs the package mlflow: pip", lambda: Log(tmp_path, report_to="mlflow"))
    refused(ConfigError, "--report-to comet is unknown: choose auto, none", lambda: Log(tmp_path, report_to="comet"))
