from __future__ import annotations

from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer import lens
from glassformer.app.report import open_model, see
from glassformer.app.report.build import head_table
from glassformer.app.report.card import answer
from glassformer.app.report.inputs import TINY
from glassformer.core.audio import log_mel
from glassformer.errors import GlassError, InputError
from glassformer.models import (
    Decoder,
    Hybrid,
    Recurrent,
    RecurrentSeq2Seq,
    Tokens,
    decoder,
    hybrid,
    recurrent,
    recurrent_seq2seq,
)
from glassformer.tasks.sound import read_sound


@pytest.mark.parametrize("kind", TINY)
def test_tiny_models_say_that_they_know_nothing(kind: str) -> None:
    model, note = open_model(f"tiny:{kind}", seed=5)
    assert note.startswith("Its weights are random (seed 5)")
    assert not model.training
    again, _ = open_model(f"tiny:{kind}", seed=5)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_a_folder_is_a_model(tmp_path: Path) -> None:
    gf.save(Decoder(decoder.tiny(), seed=1), tmp_path / "mine")
    model, note = open_model(str(tmp_path / "mine"))
    assert isinstance(model, Decoder)
    assert note == ""


def test_words_without_a_tokenizer_become_tokens_in_their_order(shown) -> None:
    _, seen, _, _ = shown("decoder")
    assert seen.inputs[0].tolist() == [[3, 4, 5, 6, 7, 3, 4, 5, 8]]
    assert seen.labels["decoder"][:3] == ["the", "quick", "brown"]
    assert "without tokenizer.json" in seen.notes[0]


def test_a_tokenizer_reads_where_there_is_one(tmp_path: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"<unk>": 0, "a": 7, "b": 9}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    gf.save(Decoder(decoder.tiny(), seed=1), tmp_path / "mine")
    tokenizer.save(str(tmp_path / "mine" / "tokenizer.json"))
    seen = see(gf.load(tmp_path / "mine"), ["a b c"])
    assert seen.inputs[0].tolist() == [[7, 9, 0]]
    assert seen.labels == {"decoder": ["a", "b", "<unk>"]}
    assert seen.notes == ()


def test_a_pair_shares_its_words_and_begins_with_start(shown) -> None:
    model, seen, _, _ = shown("seq2seq")
    assert seen.inputs[0].tolist() == [[3, 4, 5, 6]]
    assert seen.inputs[1].tolist() == [[model.config.start, 7, 8, 9, 10]]
    assert seen.labels["decoder"] == ["<start>", "this", "is", "a", "house"]
    assert seen.labels_of("decoder.1.cross.A") == (seen.labels["decoder"], seen.labels["encoder"])
    assert set(seen.tokens) == {"encoder", "decoder"}


def test_a_picture_is_made_the_models_size(shown) -> None:
    _, seen, _, _ = shown("vit")
    assert seen.inputs[0].shape == (1, 3, 64, 64)
    assert seen.grid == (8, 8)
    assert seen.picture.shape == (64, 64, 3)
    assert torch.allclose(torch.tensor(seen.picture).movedim(-1, 0) * 2 - 1, seen.inputs[0][0].double(), atol=1e-6)
    assert seen.labels["encoder"][:3] == ["CLS", "0,0", "0,1"]
    assert len(seen.labels["encoder"]) == 65


def test_a_hybrids_tokens_are_a_grid_too(files: Path) -> None:
    model = Hybrid(hybrid.tiny()).eval()
    seen = see(model, [str(files / "picture.png")])
    assert seen.inputs[0].shape == (1, 3, 8, 8)
    assert seen.grid == (2, 2)
    assert seen.labels["encoder"] == ["0,0", "0,1", "1,0", "1,1"]
    with torch.no_grad(), lens.trace(model) as run:
        out = model(*seen.inputs)
    assert "class 4" in answer(model, seen, out)
    assert {row.path for row in head_table(model, run, seen).rows} == {f"encoder.{i}.attention.A" for i in range(2)}


def test_sound_is_heard_at_the_models_rate(shown, files: Path) -> None:
    model, seen, _, _ = shown("speech")
    wave = read_sound(files / "sound.wav")
    assert torch.equal(seen.inputs[0][0], log_mel(wave, model.config.mel).float())
    assert seen.inputs[0].shape[1:] == (80, 8)  # 0.8 s
    assert seen.title == "sound.wav, 0.8 s"


def test_mistakes(refused, files: Path) -> None:
    refused(InputError, "there is no tiny:horse: choose a model's folder", lambda: open_model("tiny:horse"))
    with pytest.raises(GlassError):
        open_model(str(files / "nowhere"))

    def tried(kind: str, *inputs: str) -> None:
        see(open_model(f"tiny:{kind}")[0], inputs)

    refused(InputError, "a Seq2Seq was given 1 inputs: give a text and its translation", lambda: tried("seq2seq", "a"))
    refused(InputError, "a Decoder was given 2 inputs: give one", lambda: tried("decoder", "a", "b"))
    refused(InputError, "'' is 0 tokens", lambda: tried("encoder", ""))
    words = " ".join(f"w{i}" for i in range(60))
    refused(InputError, "60 different words for a vocabulary of 50", lambda: tried("decoder", words))
    refused(InputError, f"there is no {files}/none.png", lambda: tried("vit", f"{files}/none.png"))
    refused(InputError, f"{files}/not.wav cannot be read", lambda: tried("speech", f"{files}/not.wav"))
    plain = Recurrent(recurrent.tiny(Tokens(vocabulary=9), 2))
    refused(InputError, "a Recurrent has no attention to show: gf.trace(model)", lambda: see(plain, ["a"]))
    silent = RecurrentSeq2Seq(recurrent_seq2seq.tiny(Tokens(vocabulary=9), 9, attention=False))
    refused(InputError, "this RecurrentSeq2Seq has no attention to show", lambda: see(silent, ["a", "b"]))
