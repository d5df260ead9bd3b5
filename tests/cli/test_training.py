"""The train and data commands: models, interruption, resumption, invalid options."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import nn
from typer.testing import CliRunner

from glassformer.checkpoints import load_folder
from glassformer.cli.main import build_app
from glassformer.errors import ConfigError, InputError
from glassformer.train import TrainArgs, Trained

# From data to a model that the verbs take, by the command; interrupted, resumed, refused.


SMALL = ["--arch", "mlp", "--width", "8", "--depth", "1", "--batch-size", "16"]


pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(autouse=True)
def cached(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path_factory.getbasetemp() / "data"))


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(build_app("train"), ["train", *arguments], catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_a_model_its_run_and_its_curves(tmp_path: Path) -> None:
    options = ["--warmup", "1", "--schedule", "inverse_sqrt", "--ema", "0.5", "--grad-accum", "2", "--no-augment"]
    code, out, error = run("classify", "uci-digits", "-o", str(tmp_path / "m"), "--steps", "4", *SMALL, *options)
    assert code == 0
    assert out.strip() == str(tmp_path / "m")
    assert error.splitlines()[-1] == f"glassformer: use it: glassformer classify … -m {tmp_path / 'm'}"
    assert "parameters" in error
    assert "accuracy" in error
    assert load_folder(tmp_path / "m").config.classes == 10
    assert (tmp_path / "m" / "curves.png").is_file()
    assert (tmp_path / "m" / "run" / "log.csv").is_file()
    with pytest.raises(ConfigError, match="add --resume to continue it, or choose another folder"):
        run("classify", "uci-digits", "-o", str(tmp_path / "m"), "--steps", "4", *SMALL)


@pytest.mark.parametrize(("best_step", "said"), [(20, "val: loss 0.4"), (None, "val: loss 0.7")])
def test_the_reported_metrics_are_those_of_the_saved_weights(best_step: int | None, said: str) -> None:
    losses = {10: 0.5, 20: 0.4, 30: 0.6, 40: 0.7}
    history = [{"step": step, "val": {"loss": loss}} for step, loss in losses.items()]
    trained = Trained(nn.Identity(), object(), TrainArgs(), [*history, {"step": 45}], "early", best_step)  # type: ignore[arg-type]
    assert str(trained).endswith(said)
    assert str(trained).startswith("stopped early after 45 steps")


def test_options_from_a_file_and_from_the_command_line(tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("task: classify\ndata: uci-digits\narch: mlp\nwidth: 8\ndepth: 1\nsteps: 3\nlr: 1e-2\n")
    code, _, _ = run("--config", str(config), "-o", str(tmp_path / "m"), "--steps", "2")
    assert code == 0
    kept = TrainArgs.read(tmp_path / "m" / "train.yaml")
    assert (kept["steps"], kept["lr"], kept["arch"], kept["data"]) == (2, 0.01, "mlp", "uci-digits")
    code, _, _ = run("--config", str(tmp_path / "m" / "train.yaml"), "-o", str(tmp_path / "again"))
    assert code == 0
    one, two = (load_folder(tmp_path / name).state_dict() for name in ("m", "again"))
    assert all(torch.equal(tensor, two[name]) for name, tensor in one.items())
    config.write_text("learning-rate: 1")
    with pytest.raises(ConfigError, match=r"mine\.yaml: there is no option 'learning-rate': did you mean lr\?"):
        run("classify", "uci-digits", "--config", str(config), "-o", str(tmp_path / "n"))


def test_what_is_refused(tmp_path: Path) -> None:
    where = ["uci-digits", "-o", str(tmp_path / "m")]
    with pytest.raises(ConfigError, match=r"--schedule 'linear' is unknown: choose cosine"):
        run("classify", *where, *SMALL, "--schedule", "linear")
    with pytest.raises(ConfigError, match=r"--vocab-size has no effect on image classification"):
        run("classify", *where, "--vocab-size", "300")
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_an_interrupted_run_saves_exits_with_0_and_resumes(tmp_path: Path) -> None:
    code = "from glassformer.cli.main import main; main()"
    command = [sys.executable, "-c", code, "train", "classify", "uci-digits", "-o", str(tmp_path / "m")]
    command += ["--steps", "1500", *SMALL]
    child = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "m" / "run" / "log.jsonl").exists() and child.poll() is None:
        time.sleep(0.05)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, error = child.communicate(timeout=60)
    assert child.returncode == 0
    assert "interrupted after" in error
    assert error.index("stopping after this step and saving") < error.index("interrupted after")
    assert error.splitlines()[-1] == f"glassformer: the model so far: glassformer classify … -m {tmp_path / 'm'}"
    assert f"continue the run: glassformer train -o {tmp_path / 'm'} --resume" in error
    assert load_folder(tmp_path / "m").config.classes == load_folder(tmp_path / "m" / "last").config.classes == 10
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "m" / "model.safetensors").exists()


def test_the_settings_chosen_for_photographs_are_printed(tmp_path: Path) -> None:
    for name, colour in (("blue", (0, 0, 200)), ("red", (200, 0, 0))):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(3):
            Image.new("RGB", (400, 300), colour).save(tmp_path / "photos" / name / f"{i}.png")
    _, _, error = run("classify", str(tmp_path / "photos"), "-o", str(tmp_path / "m"), "--steps", "1", *SMALL)
    said = "glassformer: images of 300 × 400 are resized to 72 × 96 (see --image-size)"
    assert said in error.splitlines()


@pytest.mark.slow
def test_a_resumed_run_keeps_its_task_and_arguments(tmp_path: Path) -> None:
    """Other arguments and other data are refused before anything is saved."""
    lines = [f"the {a} sat {b}\tle {a} {b} est assis" for a in ("cat", "dog", "cow") for b in "abcdefgh"]
    data, model = tmp_path / "pairs.tsv", tmp_path / "m"
    data.write_text("\n".join(lines))
    small = ["--width", "16", "--depth", "1", "--vocab-size", "300", "--batch-size", "64", "--steps", "2"]
    whole = ["translate", str(data), "-o", str(model), *small]
    assert run(*whole)[0] == 0
    before = (model / "tokenizer.json").read_bytes()
    again = lambda *more: run(*whole, "--resume", *more)
    with pytest.raises(ConfigError, match=r"different options: --label-smoothing was not given.* and is now 0\.6"):
        again("--label-smoothing", "0.6")
    with pytest.raises(ConfigError, match=r"different options: --heads was not given.* and is now 2"):
        again("--heads", "2")
    moved = tmp_path / "elsewhere.tsv"
    moved.write_text(data.read_text())
    assert run("translate", str(moved), *whole[2:], "--resume")[0] == 0
    data.write_text("\n".join(lines).replace("cow", "owl"))
    with pytest.raises(ConfigError, match=r"the training data has the same size, but not the same contents"):
        again()
    assert (model / "tokenizer.json").read_bytes() == before
    where = ["classify", "uci-digits", "-o", str(tmp_path / "c"), "--steps", "1", *SMALL]
    assert run(*where)[0] == 0
    with pytest.raises(ConfigError, match=r"different options: --augment was on and is now off"):
        run(*where, "--resume", "--no-augment")
    again = ["-o", str(tmp_path / "c"), "--resume"]  # everything else is that of the run
    assert run(*again, "--steps", "3")[0] == 0
    assert run(*again, "--epochs", "0.05")[0] == 0
    steps = [json.loads(line)["step"] for line in (tmp_path / "c" / "run" / "log.jsonl").read_text().splitlines()]
    assert steps[-1] == 5
    assert "trained 5 steps" in run(*again, "--steps", "2")[2], "fewer steps than it has"


def test_curves_of_a_log() -> None:
    args: Any = (nn.Identity(), None, TrainArgs(task="classify", data="x"))
    run = lambda history: Trained(*args, history, "finished")
    history = [
        {"step": 1, "loss": 2.0, "lr": 1e-3},
        {"step": 2, "loss": None, "lr": 1e-3, "val": {"accuracy": 0.4}},
        {"step": 3, "loss": 1.0, "lr": 1e-3, "val": {"accuracy": 0.6, "loss": 1.1}},
    ]
    losses, _, accuracy, *_ = run(history).figures["curves"].axes
    assert [len(line.get_xdata()) for line in losses.get_lines()] == [2, 1], "training and validation in one panel"
    assert accuracy.get_ylabel() in ("val accuracy", "rate (dotted)")
    assert run([{"step": 1, "loss": None}]).figures == {}


def test_the_list_names_what_there_is(monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    (tmp_path / "stories15m").mkdir()
    shown = CliRunner().invoke(build_app("data"), ["data", "list"]).stdout
    rows = {line.split()[0]: line for line in shown.splitlines()}
    assert rows["stories15m"].split()[-1] == str(tmp_path / "stories15m")
    assert rows["whisper-tiny.en"].endswith(": not fetched")
    assert {"all-minilm-l6-v2", "smollm2-135m", "librivox"} < rows.keys()
    assert rows["cifar10"].split()[1:5] == ["139", "MB", "none", "stated"]
    assert rows["cifar10"].endswith(": not fetched")
    assert rows["fashion-mnist"].endswith(": embedded (5,000 images, 500 per class)")
    assert "CC BY 2.0 FR" in rows["tatoeba-en-fr"]


def test_what_is_there_is_not_fetched_again(monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    (tmp_path / "stories15m").mkdir()
    assert (
        CliRunner().invoke(build_app("data"), ["data", "fetch", "stories15m"]).stdout == f"{tmp_path / 'stories15m'}\n"
    )
    with pytest.raises(InputError, match="there is no dataset or model 'x' to fetch"):
        CliRunner().invoke(build_app("data"), ["data", "fetch", "stories15m", "x"], catch_exceptions=False)
