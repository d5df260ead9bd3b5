from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from glassformer.checkpoints import load, save
from glassformer.cli.main import build
from glassformer.errors import GlassError
from glassformer.lens import sweep
from glassformer.models import Decoder, Encoder, ViT, decoder, encoder, vit
from glassformer.pipelines.tokenizers import tokens_of

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


def run(*words: str) -> str:
    done = CliRunner().invoke(build(), ["sweep", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_table_is_that_of_the_function(folder: Path) -> None:
    model = load(folder / "d")
    made = sweep(
        model, torch.tensor([[3, 1, 4, 1, 5, 9, 2]]), torch.tensor([[3, 1, 4, 7, 5, 9, 2]]),
        lambda out: out[0, -1, 8] - out[0, -1, 20], site="A",
    )  # fmt: skip
    text = run(str(folder / "d"), CLEAN, CORRUPTED, "--answer", "8", "--wrong", "20", "--site", "A")
    assert "metric: logit of '8' − logit of '20' at position -1" in text
    line = next(line for line in text.splitlines() if "decoder.1.attention.A" in line)
    assert line.split()[1:] == [f"{x:.2f}" for x in made.recovered[1].tolist()]


def test_answers_are_the_models_own_unless_given(folder: Path) -> None:
    model = load(folder / "d")
    with torch.no_grad():
        own = [int(model(tokens_of(model, text))[0, -1].argmax()) for text in (CLEAN, CORRUPTED)]
    if own[0] == own[1]:
        with pytest.raises(GlassError, match="both texts have the answer"):
            run(str(folder / "d"), CLEAN, CORRUPTED)
    else:
        assert f"logit of '{own[0]}' − logit of '{own[1]}'" in run(str(folder / "d"), CLEAN, CORRUPTED)


def test_an_encoder_answers_at_a_position(folder: Path) -> None:
    text = run(str(folder / "e"), CLEAN, CORRUPTED, "--answer", "8", "--wrong", "9", "--position", "3", "--site", "X")
    assert "at position 3" in text
    assert "p6" in text  # token by token


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_it_is_drawn(folder: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"sweep.{kind}"
    run(str(folder / "d"), CLEAN, CORRUPTED, "--answer", "8", "--wrong", "20", "--figure", str(path))
    start = path.read_bytes()[:300]
    assert start.startswith(b"\x89PNG") if kind == "png" else b"<svg" in start or b"<?xml" in start


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("d", CLEAN, "3 1"), "give two of the same length"),
        (("d", CLEAN, CORRUPTED, "--answer", "8", "--wrong", "8"), "both texts have the answer '8'"),
        (("d", CLEAN, CORRUPTED, "--answer", "99"), "token 99 is outside the vocabulary of 50"),
        (("d", CLEAN, CORRUPTED, "--position", "7"), "there is no position 7 in 7 tokens"),
        (("d", CLEAN, CORRUPTED, "--figure", "x.gif"), "end its name in .png or .svg"),
        (("d", "a b", CORRUPTED), "no tokenizer.json"),
        (("v", CLEAN, CORRUPTED), "does not predict tokens"),
    ],
)
def test_mistakes(folder: Path, words: tuple[str, ...], says: str) -> None:
    with pytest.raises(GlassError, match=says):
        run(str(folder / words[0]), *words[1:])


def test_a_space_before_an_answer_is_not_the_answer(folder: Path) -> None:
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split

    words = {" ": 1, "she": 2, "he": 3, "a": 4, "b": 5}
    tokenizer = Tokenizer(WordLevel(words, unk_token=" "))
    tokenizer.pre_tokenizer = Split(Regex(" "), "isolated")
    place = save(load(folder / "d"), folder / "spaced")
    tokenizer.save(str(place / "tokenizer.json"))
    text = run(str(place), "a b", "b a", "--answer", " she", "--wrong", " he")
    assert "metric: logit of 'she' − logit of 'he'" in text
