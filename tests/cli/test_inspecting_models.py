"""Commands that inspect a model: look, sweep, construct, leaks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file
from typer.testing import CliRunner

from fixtures.command_line import Glassformer
from glassformer.checkpoints import load_folder, save
from glassformer.cli.main import build_app
from glassformer.errors import GlassError, InputError
from glassformer.lens import construct as c
from glassformer.lens import sweep
from glassformer.models import (
    ConvNet1d,
    Decoder,
    Encoder,
    Frames,
    Hybrid,
    Speech,
    ViT,
    convolutional_sequence,
    decoder,
    encoder,
    hybrid,
    speech,
    vit,
)
from glassformer.pipelines.tokenizers import tokens_of


def test_it_writes_the_page(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    done = CliRunner().invoke(build_app("look"), ["look", "tiny:decoder", "a b a b", "-o", str(path), "--seed", "4"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{path}: 0.")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "Decoder: a b a b" in text
    assert "(seed 4)" in text


def test_mistakes_write_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    done = CliRunner().invoke(build_app("look"), ["look", "tiny:cat", "a", "-o", str(path)])
    assert isinstance(done.exception, InputError)
    assert not path.exists()
    done = CliRunner().invoke(build_app("look"), ["look", "tiny:vit", str(tmp_path / "none.png"), "-o", str(path)])
    assert isinstance(done.exception, InputError)
    assert not path.exists()


CLEAN, CORRUPTED = "3 1 4 1 5 9 2", "3 1 4 7 5 9 2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Larger weights than a new model's, so that two texts have two answers."""
    place = tmp_path_factory.mktemp("models")
    for name, model in (("d", Decoder(decoder.tiny(), seed=5)), ("e", Encoder(encoder.tiny(), seed=5))):
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(4 if weight.dim() == 2 else 1)
        save(model, place / name)
    save(ViT(vit.tiny()), place / "v")
    return place


def run_sweep(*words: str) -> str:
    done = CliRunner().invoke(build_app("sweep"), ["sweep", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_table_is_that_of_the_function(folder: Path) -> None:
    model = load_folder(folder / "d")
    made = sweep(
        model, torch.tensor([[3, 1, 4, 1, 5, 9, 2]]), torch.tensor([[3, 1, 4, 7, 5, 9, 2]]),
        lambda out: out[0, -1, 8] - out[0, -1, 20], site="A",
    )  # fmt: skip
    text = run_sweep(str(folder / "d"), CLEAN, CORRUPTED, "--answer", "8", "--wrong", "20", "--site", "A")
    assert "metric: logit of '8' − logit of '20' at position -1" in text
    line = next(line for line in text.splitlines() if "decoder.1.attention.A" in line)
    assert line.split()[1:] == [f"{x:.2f}" for x in made.recovered[1].tolist()]


def test_answers_are_the_models_own_unless_given(folder: Path) -> None:
    model = load_folder(folder / "d")
    with torch.no_grad():
        own = [int(model(tokens_of(model, text))[0, -1].argmax()) for text in (CLEAN, CORRUPTED)]
    if own[0] == own[1]:
        with pytest.raises(GlassError, match="both texts have the answer"):
            run_sweep(str(folder / "d"), CLEAN, CORRUPTED)
    else:
        assert f"logit of '{own[0]}' − logit of '{own[1]}'" in run_sweep(str(folder / "d"), CLEAN, CORRUPTED)


def test_an_encoder_answers_at_a_position(folder: Path) -> None:
    text = run_sweep(
        str(folder / "e"), CLEAN, CORRUPTED, "--answer", "8", "--wrong", "9", "--position", "3", "--site", "X"
    )
    assert "at position 3" in text
    assert "p6" in text  # token by token


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_it_is_drawn(folder: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"sweep.{kind}"
    run_sweep(str(folder / "d"), CLEAN, CORRUPTED, "--answer", "8", "--wrong", "20", "--figure", str(path))
    start = path.read_bytes()[:300]
    assert start.startswith(b"\x89PNG") if kind == "png" else b"<svg" in start or b"<?xml" in start


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("d", CLEAN, "3 1"), "give two inputs of the same length"),
        (("d", CLEAN, CORRUPTED, "--answer", "8", "--wrong", "8"), "both texts have the answer '8'"),
        (("d", CLEAN, CORRUPTED, "--answer", "99"), "token 99 is outside the vocabulary of 50"),
        (("d", CLEAN, CORRUPTED, "--position", "7"), "there is no position 7 in 7 tokens"),
        (("d", CLEAN, CORRUPTED, "--figure", "x.gif"), "end its name in .png or .svg"),
        (("d", "a b", CORRUPTED), "no tokenizer.json"),
        (("v", CLEAN, CORRUPTED), "does not predict tokens"),
    ],
)
def test_sweep_mistakes(folder: Path, words: tuple[str, ...], says: str) -> None:
    with pytest.raises(GlassError, match=says):
        run_sweep(str(folder / words[0]), *words[1:])


def test_a_space_before_an_answer_is_not_the_answer(folder: Path) -> None:
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split

    words = {" ": 1, "she": 2, "he": 3, "a": 4, "b": 5}
    tokenizer = Tokenizer(WordLevel(words, unk_token=" "))
    tokenizer.pre_tokenizer = Split(Regex(" "), "isolated")
    place = save(load_folder(folder / "d"), folder / "spaced")
    tokenizer.save(str(place / "tokenizer.json"))
    text = run_sweep(str(place), "a b", "b a", "--answer", " she", "--wrong", " he")
    assert "metric: logit of 'she' − logit of 'he'" in text


def run_construct(*words: str) -> str:
    """In this process, for speed; a mistake comes out as the error that `main` prints."""
    done = CliRunner().invoke(build_app("construct"), ["construct", *words])
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
    text = run_construct(*words)
    assert says in text
    assert "every measured number is within its bound: yes" in text


def test_beta_and_tolerance() -> None:
    text = run_construct("shift", "--beta", "3", "--beta", "5.5", "--tolerance", "0.01")
    lines = [line.split()[0] for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert lines[-2:] == ["3", "5.5"]
    assert "for an error below 0.01: β ≥" in text


def test_weights_are_written_and_work(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    run_construct("convolution", "[1,2,1]/4", "--size", "9", "--beta", "40", "-o", str(path))
    made = c.build(c.convolution([0, 0, 0]), 9, beta=40.0)
    made.load_state_dict(load_file(path))
    X = torch.randn(1, 9, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(made(X), c.convolution([0.25, 0.5, 0.25]).target(X, 9))
    with safe_open(path, "pt") as file:
        assert file.metadata()["beta"] == "40.0"


def test_the_nearest_heads_of_a_model(tmp_path: Path) -> None:
    save(Decoder(decoder.tiny(), seed=0), tmp_path / "m")
    text = run_construct(
        "shift", "--by", "2", "--model", str(tmp_path / "m"), "--text", "3 1 4 1 5 9 2 6", "--text", "7 7 8 9 1"
    )
    assert "nearest to shift by 2" in text
    assert text.count("decoder.") == 4
    with pytest.raises(GlassError, match="give some with --text"):
        run_construct("shift", "--model", str(tmp_path / "m"))
    save(Speech(speech.tiny()), tmp_path / "s")
    with pytest.raises(GlassError, match="compare with a model of text or images"):
        run_construct("shift", "--model", str(tmp_path / "s"), "--text", "3")


def test_the_nearest_heads_of_an_image_model(tmp_path: Path) -> None:
    """On the grid for what is 2-D; along the row of patches for what is 1-D."""
    Image.effect_noise((16, 16), 60).convert("RGB").save(tmp_path / "p.png")
    save(ViT(vit.tiny()), tmp_path / "v")
    save(Hybrid(hybrid.tiny()), tmp_path / "h")
    for folder in ("v", "h"):
        seeing = ("--model", str(tmp_path / folder), "--image", str(tmp_path / "p.png"))
        text = run_construct("convolution", "3x3 blur", "--size", "2x2", *seeing)
        assert "nearest to convolution 3×3" in text
        assert "encoder.0.attention" in text
        assert "nearest to shift by 1" in run_construct("shift", *seeing)
    with pytest.raises(GlassError, match="a ViT takes only image input: give some with --image"):
        run_construct("shift", "--model", str(tmp_path / "v"), "--text", "3")


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
        (["shift", "--code", "gray"], "there is no positional encoding 'gray'"),
        (["shift", "--beta", "-1"], "--beta must be at least 0, got -1"),
        (["shift", "--tolerance", "0"], "tolerance must be above 0, got 0"),
        (["convolution", "what"], "what has no size"),
        (["shift", "-o", "/no/such/folder/w"], "there is no folder /no/such/folder"),
    ],
)
def test_construct_mistakes(words: list[str], says: str) -> None:
    with pytest.raises(GlassError, match=says.replace("(", r"\(")):
        run_construct(*words)


def test_a_mistake_is_one_line_and_exit_2(glassformer: Glassformer) -> None:
    done = glassformer("construct", "spin")
    assert done.code == 2
    assert done.err.startswith("glassformer: there is no behaviour 'spin': choose one of identity")
    assert done.err.count("\n") == 1


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


def run_leaks(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(build_app("leaks"), ["leaks", *words])
    if isinstance(done.exception, InputError):
        return 2, str(done.exception)  # as the command line's main makes of it
    return done.exit_code, done.output


def test_a_clean_encoder(place: str) -> None:
    code, text = run_leaks(
        f"{place}:causal", "--features", "5", "--frames", "12", "--left-context", "2", "--frame-seconds", "0.01"
    )
    assert code == 0, text
    assert "latency   1 frame, 0.01 s\nclean     no dependence on inputs" in text


def test_a_leak_is_exit_code_1(place: str) -> None:
    code, text = run_leaks(f"{place}:centred", "--features", "5", "--frames", "12")
    assert code == 1
    assert "LEAK      output 0 depends on frame 1, 1 after all that is declared" in text
    assert run_leaks(f"{place}:centred", "--features", "5", "--frames", "12", "--lookahead", "1")[0] == 0
    assert run_leaks(f"{place}:centred", "--features", "5", "--frames", "12", "--offline")[0] == 0
    assert run_leaks(f"{place}:causal", "--features", "5", "--frames", "12", "--left-context", "1")[0] == 1


def test_a_stream_that_forgets(place: str) -> None:
    code, text = run_leaks(f"{place}:forgets", "--features", "5", "--frames", "12", "--stream-chunks", "4,6")
    assert code == 1
    assert "fed 4 at a time, the stream first differs from offline at output 4" in text
    assert "fed 6 at a time, the stream first differs from offline at output 6" in text


def test_other_things_that_a_function_may_return(place: str) -> None:
    assert run_leaks(f"{place}:tokens", "--tokens", "9", "--frames", "10")[0] == 0
    assert run_leaks(f"{place}:ours", "--frames", "12")[0] == 0
    assert run_leaks(f"{place}:whole")[0] == 0


def test_leaks_of_a_saved_model(tmp_path: Path) -> None:
    save(ConvNet1d(convolutional_sequence.tiny(Frames(features=3), 4)), tmp_path / "model")
    assert run_leaks(str(tmp_path / "model"), "--frames", "12")[0] == 0


def test_leaks_in_int8(tmp_path: Path) -> None:
    """Products in int8 have no float64 copy and no gradient, and frames that share a scale depend on each other."""
    save(ConvNet1d(convolutional_sequence.tiny(Frames(features=3), 4)), tmp_path / "frames")
    code, text = run_leaks(str(tmp_path / "frames"), "--frames", "12", "--precision", "int8")
    assert code in (0, 1), text
    assert "by 3 perturbations of every frame\n" in text
    code, text = run_leaks("tiny:decoder", "--frames", "8", "--stream-chunks", "3", "--precision", "int8")
    assert code == 1, text
    assert "eval mode, float32" in text
    assert "LEAK" in text


def test_a_function_chooses_its_own_precision(place: str) -> None:
    code, text = run_leaks(f"{place}:causal", "--features", "5", "--precision", "int8")
    assert code == 2
    assert "--precision int8 has no effect" in text


@pytest.mark.slow
def test_leaks_of_tiny_models() -> None:
    for name in ("convolution", "recurrent", "decoder"):
        code, text = run_leaks(f"tiny:{name}", "--frames", "8", "--stream-chunks", "3")
        assert code == 0, text
    code, text = run_leaks("tiny:speech", "--frames", "24", "--stream-chunks", "5")
    assert code == 0, text
    assert "latency   20 frames" in text
    assert run_leaks("tiny:speech", "--frames", "24", "--stream-chunks", "5", "--lookahead", "8")[0] == 1


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
        (["tiny:decoder", "--frames", "0"], "frames must be at least 4, got 0"),
        (["{place}:causal", "--features", "7"], "the encoder failed on an input of shape (1, 48, 7)"),
        (
            ["{place}:causal", "--features", "5", "--stream-chunks", "1,x"],
            "--stream-chunks '1,x' is not a list of sizes",
        ),
        (["{place}:causal", "--features", "5", "--lookahead", "-1"], "is not a valid receptive field"),
        (["tiny:decoder", "--features", "5"], "--features 5 has no effect on tiny:decoder, which declares its input"),
        (["{place}:causal", "--features", "5", "--tokens", "9"], "--features and --tokens were both given"),
        (["{place}:causal", "--features", "5", "--lookahead", "3", "--offline"], "--lookahead 3 and --offline were"),
    ],
)
def test_mistakes_are_exit_code_2(place: str, words: list[str], says: str) -> None:
    code, text = run_leaks(*(word.format(place=place) for word in words))
    assert code == 2
    assert says in text


def test_a_module_is_found_in_the_working_directory(
    place: str, glassformer: Glassformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(place).parent)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.delitem(sys.modules, "their_encoders", raising=False)
    done = glassformer("leaks", "their_encoders:centred", "--features", "5", "--frames", "8")
    assert done.code == 1, done.err
    assert "LEAK" in done.out
    assert done.err == ""
