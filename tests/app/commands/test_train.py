"""From data to a model that the verbs take, by the command; interrupted, resumed, refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image
from torch import nn
from typer.testing import CliRunner

from glassformer.app.cli import build
from glassformer.app.commands.train import _tell
from glassformer.checkpoints import load
from glassformer.errors import ConfigError
from glassformer.tasks.training import Trained

SMALL = ["--kind", "mlp", "--width", "8", "--depth", "1", "--batch", "16"]


@pytest.fixture(autouse=True)
def cached(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path_factory.getbasetemp() / "data"))


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(build(), ["train", *arguments], catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_a_model_its_run_and_its_curves(tmp_path: Path) -> None:
    options = ["--warmup", "1", "--schedule", "inverse_sqrt", "--average", "0.5", "--accumulate", "2", "--no-augment"]
    code, out, error = run("classify", "uci-digits", "-o", str(tmp_path / "m"), "--steps", "4", *SMALL, *options)
    assert code == 0
    assert out.strip() == str(tmp_path / "m")
    assert "parameters" in error
    assert "accuracy" in error
    assert load(tmp_path / "m").config.classes == 10
    assert (tmp_path / "m" / "curves.png").is_file()
    assert (tmp_path / "m" / "run" / "log.csv").is_file()
    with pytest.raises(ConfigError, match="resume it, or choose another folder"):
        run("classify", "uci-digits", "-o", str(tmp_path / "m"), "--steps", "4", *SMALL)


@pytest.mark.parametrize(("best_step", "said"), [(20, "held out: loss 0.4"), (None, "held out: loss 0.7")])
def test_the_measurement_of_the_weights_that_are_kept(
    best_step: int | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = {10: 0.5, 20: 0.4, 30: 0.6, 40: 0.7}
    history = [{"step": step, "held_out": {"loss": loss}} for step, loss in losses.items()]
    _tell(Trained(nn.Identity(), [*history, {"step": 45}], "early", best_step=best_step))
    assert capsys.readouterr().err == f"{said}\n"


def test_what_is_refused(tmp_path: Path) -> None:
    where = ["uci-digits", "-o", str(tmp_path / "m")]
    with pytest.raises(ConfigError, match=r"there is no schedule 'linear': choose cosine"):
        run("classify", *where, *SMALL, "--schedule", "linear")
    with pytest.raises(ConfigError, match=r"vocabulary 300 means nothing to pictures"):
        run("classify", *where, "--vocabulary", "300")
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_interrupted_it_saves_ends_well_and_goes_on(tmp_path: Path) -> None:
    code = "from glassformer.app.cli import main; main()"
    command = [sys.executable, "-c", code, "train", "classify", "uci-digits", "-o", str(tmp_path / "m")]
    command += ["--steps", "1500", *SMALL]
    child = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "m" / "run" / "log.jsonl").exists() and child.poll() is None:
        time.sleep(0.05)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, error = child.communicate(timeout=60)
    assert child.returncode == 0
    assert "interrupted and saved; the same command with --resume goes on" in error
    assert not (tmp_path / "m" / "model.safetensors").exists()
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "m" / "model.safetensors").exists()


def test_what_was_chosen_for_photographs_is_told(tmp_path: Path) -> None:
    for name, colour in (("blue", (0, 0, 200)), ("red", (200, 0, 0))):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(3):
            Image.new("RGB", (400, 300), colour).save(tmp_path / "photos" / name / f"{i}.png")
    _, _, error = run("classify", str(tmp_path / "photos"), "-o", str(tmp_path / "m"), "--steps", "1", *SMALL)
    said = "glassformer: images of 300 × 400 are scaled to 72 × 96; --image SIDE makes them otherwise"
    assert error.splitlines()[0] == said


def test_a_run_goes_on_as_what_it_was(tmp_path: Path) -> None:
    """Another lesson, other heads and other data are told before anything is saved."""
    lines = [f"the {a} sat {b}\tle {a} {b} est assis" for a in ("cat", "dog", "cow") for b in "abcdefgh"]
    data, model = tmp_path / "pairs.tsv", tmp_path / "m"
    data.write_text("\n".join(lines))
    small = ["--width", "16", "--depth", "1", "--vocabulary", "300", "--batch", "64", "--steps", "2"]
    whole = ["translate", str(data), "-o", str(model), *small]
    assert run(*whole)[0] == 0
    before = (model / "tokenizer.json").read_bytes()
    again = lambda *more: run(*whole, "--resume", *more)
    with pytest.raises(ConfigError, match=r"another lesson: smoothing was 0\.1 and is now 0\.6: resume with"):
        again("--smoothing", "0.6")
    with pytest.raises(ConfigError, match=r"another model: .*heads was 4 and is now 2: resume with the model"):
        again("--heads", "2")
    moved = tmp_path / "elsewhere.tsv"
    moved.write_text(data.read_text())
    assert run("translate", str(moved), *whole[2:], "--resume")[0] == 0
    data.write_text("\n".join(lines).replace("cow", "owl"))
    with pytest.raises(ConfigError, match=r"another lesson: data\.contents was [0-9a-f]{16} and is now [0-9a-f]{16}"):
        again()
    assert (model / "tokenizer.json").read_bytes() == before
    where = ["classify", "uci-digits", "-o", str(tmp_path / "c"), "--steps", "1", *SMALL]
    assert run(*where)[0] == 0
    with pytest.raises(ConfigError, match=r"another lesson: augment\.crop was 1 and is now 0"):
        run(*where, "--resume", "--no-augment")
