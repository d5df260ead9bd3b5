from __future__ import annotations

from pathlib import Path

import soundfile
import torch

import glassformer as gf
from glassformer import lens
from glassformer.app.choice import opened
from glassformer.app.report import see
from glassformer.app.report.build import head_table
from glassformer.app.report.card import answer
from glassformer.core.audio import log_mel
from glassformer.errors import InputError
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
from glassformer.tasks.transcribe import transcribe
from glassformer.tasks.translate import translate


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


def test_models_that_come_along_answer_for_themselves(tmp_path: Path) -> None:
    """What is not given, the model says: a translation, and what it hears."""
    source = "I have a dog."
    model = opened("translator")[0]
    seen = see(model, [source])
    assert seen.said == translate(model, source)
    assert "".join(seen.labels["decoder"][1:]).replace(" ", "").startswith(seen.said.replace(" ", "")[:3])
    assert see(model, [source, "Un chat."]).said == ""
    soundfile.write(tmp_path / "noise.wav", 0.1 * torch.randn(8000, generator=torch.Generator().manual_seed(0)), 8000)
    heard = see(opened("listener")[0], [str(tmp_path / "noise.wav")])
    assert heard.said == transcribe(opened("listener")[0], tmp_path / "noise.wav").text


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
    assert "LABEL_4" in answer(model, seen, out)
    assert {row.path for row in head_table(model, run, seen).rows} == {f"encoder.{i}.attention.A" for i in range(2)}


def test_sound_is_heard_at_the_models_rate(shown, files: Path) -> None:
    model, seen, _, _ = shown("speech")
    wave = read_sound(files / "sound.wav")
    assert torch.equal(seen.inputs[0][0], log_mel(wave, model.config.mel).float())
    assert seen.inputs[0].shape[1:] == (80, 8)  # 0.8 s
    assert seen.title == "sound.wav, 0.8 s"


def test_mistakes(refused, files: Path) -> None:

    def tried(kind: str, *inputs: str) -> None:
        see(opened(f"tiny:{kind}")[0], inputs)

    refused(InputError, "there is no translation of 'a': give it as a second input", lambda: tried("seq2seq", "a"))
    refused(InputError, "a Seq2Seq was given 3 inputs: give a text and its", lambda: tried("seq2seq", "a", "b", "c"))
    picture = f"{files}/picture.png"
    refused(InputError, f"{picture!r} is a file, and the model reads text", lambda: tried("encoder", picture))
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
