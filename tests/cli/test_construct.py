from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file
from typer.testing import CliRunner

from glassformer.checkpoints import save
from glassformer.cli.main import build
from glassformer.errors import GlassError
from glassformer.lens import construct as c
from glassformer.models import Decoder, Hybrid, Speech, ViT, decoder, hybrid, speech, vit


def run(*words: str) -> str:
    """In this process, for speed; a mistake comes out as the error that `main` prints."""
    done = CliRunner().invoke(build(), ["construct", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["shift", "--by", "2"], "shift by 2: 16 tokens, 1 → 1 channels, zero edges"),
        (["identity", "--channels", "3"], "identity: 16 tokens, 3 → 3 channels"),
        (["permutation", "3,1,2"], "permutation 3,1,2: 3 tokens"),
        (["previous-token", "--size", "5", "--edges", "hold"], "previous-token: 5 tokens, 1 → 1 channels, hold edges"),
        (["convolution", "[1,2,1]/4", "--code", "quadratic"], "3 head(s), quadratic codes, 18 keys, gap 1, ‖C‖ 1"),
        (["convolution", "[1,2,1]/4", "--edges", "renormalised"], "1 head(s), one-hot codes"),
        (["convolution", "3x3", "blur", "--size", "4x5"], "convolution 3×3: 4 × 5 tokens"),
        (["convolution", "3x3", "random", "--channels", "2", "--size", "4"], "9 head(s)"),
        (["convolution", "3x3 [[0,1,0],[1,-4,1],[0,1,0]]", "--size", "4"], "‖C‖ 8"),
    ],
)
def test_every_behaviour_is_certified(words: list[str], says: str) -> None:
    text = run(*words)
    assert says in text
    assert "every measured number is within its bound: yes" in text


def test_beta_and_tolerance() -> None:
    text = run("shift", "--beta", "3", "--beta", "5.5", "--tolerance", "0.01")
    lines = [line.split()[0] for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert lines[-2:] == ["3", "5.5"]
    assert "for an error below 0.01: β ≥" in text


def test_weights_are_written_and_work(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    run("convolution", "[1,2,1]/4", "--size", "9", "--beta", "40", "-o", str(path))
    made = c.build(c.convolution([0, 0, 0]), 9, beta=40.0)
    made.load_state_dict(load_file(path))
    X = torch.randn(1, 9, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(made(X), c.convolution([0.25, 0.5, 0.25]).target(X, 9))
    with safe_open(path, "pt") as file:
        assert file.metadata()["beta"] == "40.0"


def test_the_nearest_heads_of_a_model(tmp_path: Path) -> None:
    save(Decoder(decoder.tiny(), seed=0), tmp_path / "m")
    text = run("shift", "--by", "2", "--model", str(tmp_path / "m"), "--text", "3 1 4 1 5 9 2 6", "--text", "7 7 8 9 1")
    assert "nearest to shift by 2" in text
    assert text.count("decoder.") == 4
    with pytest.raises(GlassError, match="give some with --text"):
        run("shift", "--model", str(tmp_path / "m"))
    save(Speech(speech.tiny()), tmp_path / "s")
    with pytest.raises(GlassError, match="compare with a model of text or images"):
        run("shift", "--model", str(tmp_path / "s"), "--text", "3")


def test_the_nearest_heads_of_an_image_model(tmp_path: Path) -> None:
    """On the grid for what is 2-D; along the row of patches for what is 1-D."""
    Image.effect_noise((16, 16), 60).convert("RGB").save(tmp_path / "p.png")
    save(ViT(vit.tiny()), tmp_path / "v")
    save(Hybrid(hybrid.tiny()), tmp_path / "h")
    for folder in ("v", "h"):
        seeing = ("--model", str(tmp_path / folder), "--image", str(tmp_path / "p.png"))
        text = run("convolution", "3x3 blur", "--size", "2x2", *seeing)
        assert "nearest to convolution 3×3" in text
        assert "encoder.0.attention" in text
        assert "nearest to shift by 1" in run("shift", *seeing)
    with pytest.raises(GlassError, match="a ViT takes image input, and only that: give some with --image"):
        run("shift", "--model", str(tmp_path / "v"), "--text", "3")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["spin"], "there is no behaviour 'spin'"),
        (["permutation"], "is not a permutation"),
        (["permutation", "3,x"], "is not a permutation"),
        (["shift", "7"], "shift takes no 7"),
        (["identity", "--by", "2"], "identity takes no --by 2"),
        (["permutation", "2,1", "--edges", "wrap"], "permutation takes no --edges wrap"),
        (["shift", "--size", "big"], "'big' is not a size"),
        (["shift", "--edges", "mirror"], "edges are 'mirror'"),
        (["shift", "--code", "gray"], "there is no code 'gray'"),
        (["shift", "--beta", "-1"], "--beta must be at least 0, got -1"),
        (["shift", "--tolerance", "0"], "a tolerance of 0"),
        (["convolution", "what"], "what has no size"),
        (["shift", "-o", "/no/such/folder/w"], "there is no folder /no/such/folder"),
    ],
)
def test_mistakes(words: list[str], says: str) -> None:
    with pytest.raises(GlassError, match=says.replace("(", r"\(")):
        run(*words)


def test_a_mistake_is_one_line_and_exit_2() -> None:
    code = "from glassformer.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "construct", "spin"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("glassformer: there is no behaviour 'spin': choose one of identity")
    assert done.stderr.count("\n") == 1
