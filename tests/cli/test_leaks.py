from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.checkpoints import save
from glassformer.cli.main import build
from glassformer.errors import InputError
from glassformer.models import ConvNet1d, Frames, convolutional_sequence

ENCODERS = """
import torch
from torch import nn
from glassformer.lens import Declared, LeakTest
from glassformer.models import ConvNet1d, Frames, convolutional_sequence


class Filter(nn.Module):
    def __init__(self, ahead):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.ahead = nn.Conv1d(5, 4, 3), ahead

    def forward(self, X):
        return self.conv(nn.functional.pad(X.mT, (2 - self.ahead, self.ahead))).mT


def causal():
    return Filter(0).double()


def centred():
    return Filter(1)


def forgets():
    encoder = Filter(0)
    return encoder, lambda pieces: (encoder(piece) for piece in pieces)


def tokens():
    torch.manual_seed(0)
    table = nn.Embedding(9, 4)
    return lambda ids: table(ids).cumsum(1)


def ours():
    return ConvNet1d(convolutional_sequence.tiny(Frames(features=3), 4))


def whole():
    return LeakTest(centred(), torch.randn(1, 12, 5), Declared(lookahead=1))


def broken():
    raise RuntimeError("no weights")


def number():
    return 3
"""


@pytest.fixture
def place(tmp_path: Path) -> str:
    path = tmp_path / "their_encoders.py"
    path.write_text(ENCODERS)
    return str(path)


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(build(), ["leaks", *words])
    if isinstance(done.exception, InputError):
        return 2, str(done.exception)  # as the command line's main makes of it
    return done.exit_code, done.output


def test_a_clean_encoder(place: str) -> None:
    code, text = run(f"{place}:causal", "--features", "5", "--frames", "12", "--left", "2", "--frame-seconds", "0.01")
    assert code == 0, text
    assert "latency   1 frame, 0.01 s\nclean     no dependence on inputs" in text


def test_a_leak_is_exit_code_1(place: str) -> None:
    code, text = run(f"{place}:centred", "--features", "5", "--frames", "12")
    assert code == 1
    assert "LEAK      output 0 depends on frame 1, 1 after all that is declared" in text
    assert run(f"{place}:centred", "--features", "5", "--frames", "12", "--lookahead", "1")[0] == 0
    assert run(f"{place}:centred", "--features", "5", "--frames", "12", "--offline")[0] == 0
    assert run(f"{place}:causal", "--features", "5", "--frames", "12", "--left", "1")[0] == 1


def test_a_stream_that_forgets(place: str) -> None:
    code, text = run(f"{place}:forgets", "--features", "5", "--frames", "12", "--pieces", "4,6")
    assert code == 1
    assert "fed 4 at a time, the stream first differs from offline at output 4" in text
    assert "fed 6 at a time, the stream first differs from offline at output 6" in text


def test_other_things_that_a_function_may_return(place: str) -> None:
    assert run(f"{place}:tokens", "--tokens", "9", "--frames", "10")[0] == 0
    assert run(f"{place}:ours", "--frames", "12")[0] == 0
    assert run(f"{place}:whole")[0] == 0


def test_a_saved_model_and_tiny_ones(tmp_path: Path) -> None:
    save(ConvNet1d(convolutional_sequence.tiny(Frames(features=3), 4)), tmp_path / "model")
    assert run(str(tmp_path / "model"), "--frames", "12")[0] == 0
    for name in ("convolution", "recurrent", "decoder"):
        code, text = run(f"tiny:{name}", "--frames", "8", "--pieces", "3")
        assert code == 0, text
    code, text = run("tiny:speech", "--frames", "24", "--pieces", "5")
    assert code == 0, text
    assert "latency   20 frames" in text
    assert run("tiny:speech", "--frames", "24", "--pieces", "5", "--lookahead", "8")[0] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tiny:poem"], "there is no tiny:poem"),
        (["nowhere"], "there is no model 'nowhere'"),
        (["no.such.module:f"], "failed (ModuleNotFoundError"),
        (["{place}:broken"], "failed (RuntimeError: no weights)"),
        (["{place}:nothing"], "failed (AttributeError"),
        (["/nowhere.py:f"], "failed (FileNotFoundError"),
        (["{place}:number"], "returned int"),
        (["{place}:causal"], "give --features"),
        (["{place}:causal", "--features", "0"], "features must be at least 1, got 0"),
        (["{place}:causal", "--features", "5", "--frames", "0"], "frames must be at least 4, got 0"),
        (["tiny:decoder", "--frames", "0"], "an example of 0 frames"),
        (["{place}:causal", "--features", "7"], "the encoder failed on an input of shape (1, 48, 7)"),
        (["{place}:causal", "--features", "5", "--pieces", "1,x"], "--pieces '1,x' is not a list of sizes"),
        (["{place}:causal", "--features", "5", "--lookahead", "-1"], "describes no view"),
    ],
)
def test_mistakes_are_exit_code_2(place: str, words: list[str], says: str) -> None:
    code, text = run(*(word.format(place=place) for word in words))
    assert code == 2
    assert says in text


def test_a_module_is_found_from_where_one_stands(place: str) -> None:
    words = ["leaks", "their_encoders:centred", "--features", "5", "--frames", "8"]
    command = [sys.executable, "-c", "from glassformer.cli.main import main; main()", *words]
    done = subprocess.run(command, cwd=Path(place).parent, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "LEAK" in done.stdout
    assert done.stderr == ""
