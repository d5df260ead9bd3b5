from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors import safe_open

import glassformer as gf
from glassformer.errors import CheckpointError, ConfigError
from glassformer.models import ViT
from glassformer.train import Trained
from glassformer.train.batches import BatchJob
from glassformer.train.distributed import SingleProcess
from glassformer.train.objective import Objective
from glassformer.train.run_folder import check_unused, locked, not_finite, open_run, resumed_options
from glassformer.train.state import save_state

ALONE = SingleProcess()


noted: list[str] = []


def test_a_new_run_keeps_its_plan(child: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    assert open_run(folder, child.ARGS, child.model(), child.Made(), False, ALONE, noted.append) is None
    kept = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert kept["args"]["lr"] == child.ARGS.lr
    assert kept["model"]["positions"] == "float64[5, 16]"
    assert open_run(folder, child.ARGS, child.model(), child.Made(), True, ALONE, noted.append) is None, (
        "killed before its first state"
    )


def test_a_run_that_is_there(child: ModuleType, tmp_path: Path, refused) -> None:  # type: ignore[no-untyped-def]
    plan, model, objective = child.ARGS, child.model(), child.Made()
    open_run(tmp_path, plan, model, objective, False, ALONE, noted.append)
    there = save_state(tmp_path, 4, {"a": torch.zeros(1)}, {}, ALONE)
    said = f"{tmp_path} contains a run at step 4: add --resume to continue it, or choose another folder"
    refused(ConfigError, said, lambda: open_run(tmp_path, plan, model, objective, False, ALONE, noted.append))
    refused(ConfigError, said, lambda: check_unused(tmp_path, False))
    check_unused(tmp_path, True)
    check_unused(tmp_path / "new", False)
    assert open_run(tmp_path, plan, model, objective, True, ALONE, noted.append) == there
    assert open_run(tmp_path, replace(plan, num_workers=3), model, objective, True, ALONE, noted.append) == there
    other = replace(plan, grad_clip=0.5)
    said = f"{tmp_path} was started with different options: --grad-clip was {plan.grad_clip} and is now 0.5"
    refused(ConfigError, said, lambda: open_run(tmp_path, other, model, objective, True, ALONE, noted.append))
    said = f"{tmp_path} was started with different weights: prefix was float64[1, 16] and is now float32[1, 16]"
    refused(
        ConfigError,
        said,
        lambda: open_run(tmp_path, plan, child.model(double=False), objective, True, ALONE, noted.append),
    )
    record = tmp_path / "run.json"
    text = record.read_text(encoding="utf-8")
    for before, after in (('"lr": 0.01', '"lr": 0.03'), ('"steps"', '"stepx"')):
        assert before in text
        record.write_text(text.replace(before, after, 1), encoding="utf-8")
        said = f"{record} is damaged (its checksum does not match): restore it"
        refused(CheckpointError, said, lambda: resumed_options(tmp_path, {}))
        refused(CheckpointError, said, lambda: open_run(tmp_path, plan, model, objective, True, ALONE, noted.append))
    record.write_text("{", encoding="utf-8")
    said = f"{record} is not the record of a run"
    refused(CheckpointError, said, lambda: open_run(tmp_path, plan, model, objective, True, ALONE, noted.append))


def test_what_changed_is_said_in_words(tmp_path: Path, refused: Callable[..., None]) -> None:
    listed = tmp_path / "pairs.csv"

    def write(word: str, rows: int = 30) -> None:
        listed.write_text("text,label\n" + "".join(f"a {word} text {i},{i % 2}\n" for i in range(rows)))

    def go(**changes: Any) -> Callable[[], Trained]:
        small = {"width": 8, "depth": 1, "heads": 2, "vocab_size": 280, "steps": 1, "progress": False}
        return lambda: gf.train("classify", listed, output=tmp_path / "m", **{**small, **changes})

    write("good")
    go()()
    folder = tmp_path / "m" / "run"
    said = f"{folder} was started with different options: --batch-size was not given (its default is 32) and is now 8:"
    refused(ConfigError, said, go(batch_size=8, resume=True))
    said = f"{folder} was started with different options: --ema was not given and is now 0.9: resume with"
    refused(ConfigError, said, go(ema=0.9, resume=True))
    same = go(batch_size=32, resume=True, steps=2)()
    assert same.history[-1]["step"] == 2, "the default may be spelled out"
    write("poor")
    said = f"{folder} was started with different data or settings: the training data has the same size, but not the"
    refused(ConfigError, said, go(resume=True))
    write("good", 40)
    said = f"{folder} was started with different data or settings: the training data had 27 rows and now has 36:"
    refused(ConfigError, said, go(resume=True))


def test_the_learning_rate_and_its_schedule_may_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def go(**changes: Any) -> Trained:
        small = {"arch": "mlp", "width": 8, "depth": 1, "lr": 1e-2, "log_every": 1}
        return gf.train("classify", "uci-digits", output=tmp_path / "m", **{**small, **changes})

    go(steps=4)
    capsys.readouterr()
    more = go(steps=8, lr=1e-3, schedule="constant", resume=True)
    err = capsys.readouterr().err
    assert "--lr was 0.01 and is now 0.001\n" in err
    assert "--schedule was cosine and is now constant\n" in err
    assert [line["lr"] for line in more.history[4:]] == [1e-3] * 4
    assert more.history[3]["lr"] < 1e-2
    said = (tmp_path / "m" / "train.yaml").read_text()
    assert "lr: 0.001\n" in said
    go(steps=3, lr=0.5, schedule="wsd", resume=True)
    assert "is now" not in capsys.readouterr().err, "the run is past step 3: nothing is trained"
    assert (tmp_path / "m" / "train.yaml").read_text() == said
    assert resumed_options(tmp_path / "m" / "run", {})["lr"] == 1e-3


def test_another_lesson_or_other_heads(child: ModuleType, tmp_path: Path, refused) -> None:  # type: ignore[no-untyped-def]
    """Heads are none of the weights' business; an older run, and a objective that tells nothing, are not compared."""

    class Telling(child.Made):  # type: ignore[misc, name-defined]
        def fingerprint(self) -> dict[str, object]:
            return {"data": {"count": len(self.X)}, "smoothing": 0.1, "speeds": (0.9, 1.1)}

    def go(objective: Objective, model: ViT | None = None) -> Callable[[], Path | None]:
        return lambda: open_run(tmp_path, child.ARGS, model or child.model(), objective, True, ALONE, noted.append)

    go(Telling())()
    assert go(Telling())() is None
    said = f"{tmp_path} was started with different data or settings: the training data had 101 rows and now has 60"
    refused(ConfigError, said, go(Telling(60)))
    one = ViT(replace(child.model().config, block=replace(child.model().config.block, dropout=0.5)), seed=0).double()
    said = f"{tmp_path} was started with different model settings: block.dropout was 0.0 and is now 0.5: resume with"
    refused(ConfigError, said, go(Telling(), one))
    assert go(child.Made(60))() is None
    file = tmp_path / "run.json"
    older = {part: kept for part, kept in json.loads(file.read_text()).items() if part in ("args", "model")}
    file.write_text(json.dumps(older))
    assert go(Telling(60), one)() is None
    file.write_text(json.dumps(older).replace('"steps"', '"stepx"', 1))
    refused(CheckpointError, f"{file} is not the record of a run", go(Telling(60), one))


def test_two_runs_do_not_share_a_folder(tmp_path: Path, refused) -> None:  # type: ignore[no-untyped-def]
    """Held by another process; free again once that one is killed, though a child that it forked lives on."""
    code = (
        "import os, sys, time, pathlib\n"
        "from glassformer.train.run_folder import locked\n"
        "from glassformer.train.distributed import SingleProcess\n"
        f"with locked(pathlib.Path({str(tmp_path)!r}), SingleProcess()):\n"
        "    child = os.fork()\n"
        "    if child: print(child, flush=True)\n"
        "    time.sleep(60)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    child = int(run.stdout.readline())

    def enter() -> None:
        with locked(tmp_path, ALONE):
            pass

    refused(ConfigError, f"{tmp_path} is in use by another run (process {run.pid} on ", enter)
    run.kill()
    run.wait()
    run.stdout.close()
    enter()
    os.kill(child, signal.SIGKILL)
    (tmp_path / "file").write_text("")
    refused(
        ConfigError, f"{tmp_path / 'file'} cannot be written (", lambda: locked(tmp_path / "file", ALONE).__enter__()
    )


@pytest.mark.slow
def test_a_full_disk_at_the_start_is_one_line(tmp_path: Path) -> None:
    """Files of at most 0 bytes: the lock cannot be written, nor the plan."""
    code = (
        "import pathlib, resource, signal, sys\n"
        "from glassformer.errors import ConfigError\n"
        "from glassformer.train.run_folder import locked, open_run\n"
        "from glassformer.train.distributed import SingleProcess\n"
        "from glassformer.train import TrainArgs\n"
        "from torch import nn\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        f"folder = pathlib.Path({str(tmp_path / 'run')!r})\n"
        "try:\n"
        "    with locked(folder, SingleProcess()):\n"
        "        open_run(folder, TrainArgs(steps=1), nn.Linear(1, 1), object(), False, SingleProcess(), print)\n"
        "except ConfigError as error:\n"
        "    sys.stdout.write(str(error))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert (
        run.stdout
        == f"{tmp_path / 'run'} cannot be written (File too large): free some disk space, or choose another folder"
    )


@pytest.mark.parametrize("count", [1, 2])
def test_the_batch_that_broke_it_is_kept(tmp_path: Path, count: int) -> None:
    turns = [(BatchJob(0, i, [4 + i, 9], 77 + i, 5), {"X": torch.full((2, 3), float(i))}) for i in range(count)]
    error = not_finite(tmp_path, 12, "loss", float("nan"), turns, 0)
    path = tmp_path / "broken-step-00000012.safetensors"
    assert f"the loss of step 12 is nan; its batch is saved in {path}" in str(error)
    with safe_open(path, "pt") as file:
        about = file.metadata()
        assert about["step"] == "12"
        assert json.loads(about["rows"]) == [[4, 9], [5, 9]][:count]
        assert json.loads(about["seeds"]) == [77, 78][:count]
        assert sorted(file.keys()) == (["X"] if count == 1 else ["X.0", "X.1"])


def test_nowhere_to_keep_it(tmp_path: Path) -> None:
    job = BatchJob(0, 0, [4, 9], 1, 5)
    assert "the loss of step 3 is inf: lower" in str(not_finite(None, 3, "loss", float("inf"), [(job, {})], 0))
    gone = not_finite(tmp_path / "no", 3, "loss", float("inf"), [(job, {"X": torch.ones(2)})], 0)
    assert "rows [[4, 9]], could not be saved" in str(gone)
