from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import glassformer as gf
from glassformer import lens
from glassformer.core.audio import MEL, log_mel, whisper_log_mel
from glassformer.data.audio import read_sound
from glassformer.errors import InputError
from glassformer.models import (
    CLIP,
    Decoder,
    Hybrid,
    Recurrent,
    RecurrentSeq2Seq,
    Tokens,
    clip,
    decoder,
    hybrid,
    recurrent,
    recurrent_seq2seq,
)
from glassformer.models.tiny import tiny_model
from glassformer.pipelines import load
from glassformer.pipelines.transcribe import transcribe
from glassformer.pipelines.translate import translate
from glassformer.report.answer import answer, compare_texts
from glassformer.report.inputs import TITLE, InputReader, Inputs, prepare_inputs, short_title
from glassformer.report.model_report import score_run_heads


def test_without_a_tokenizer_each_new_word_is_the_next_token(shown) -> None:
    _, inputs, _, _ = shown("decoder")
    assert inputs.tensors[0].tolist() == [[3, 4, 5, 6, 7, 3, 4, 5, 8]]
    assert inputs.labels["decoder"][:3] == ["the", "quick", "brown"]
    assert "no tokenizer.json" in inputs.notes[0]


def test_a_tokenizer_is_used_if_there_is_one(tmp_path: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"<unk>": 0, "a": 7, "b": 9}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    gf.save(Decoder(decoder.tiny(), seed=1), tmp_path / "mine")
    tokenizer.save(str(tmp_path / "mine" / "tokenizer.json"))
    inputs = prepare_inputs(gf.load(tmp_path / "mine"), ["a b c"])
    assert inputs.tensors[0].tolist() == [[7, 9, 0]]
    assert inputs.labels == {"decoder": ["a", "b", "<unk>"]}
    assert inputs.notes == ()


def test_a_pair_shares_its_tokens_and_starts_with_the_start_token(shown) -> None:
    model, inputs, _, _ = shown("seq2seq")
    assert inputs.tensors[0].tolist() == [[3, 4, 5, 6]]
    assert inputs.tensors[1].tolist() == [[model.config.start, 7, 8, 9, 10]]
    assert inputs.labels["decoder"] == ["<start>", "this", "is", "a", "house"]
    assert inputs.labels_of("decoder.1.cross.A") == (inputs.labels["decoder"], inputs.labels["encoder"])
    assert set(inputs.tokens) == {"encoder", "decoder"}


@pytest.mark.slow
def test_shipped_models_supply_their_own_answer(tmp_path: Path) -> None:
    """The translation or transcript that is not given."""
    source = "I have a dog."
    model = load("translator")
    inputs = prepare_inputs(model, [source])
    assert inputs.answer == translate(model, source)
    assert "".join(inputs.labels["decoder"][1:]).replace(" ", "").startswith(inputs.answer.replace(" ", "")[:3])
    assert prepare_inputs(model, [source, "Un chat."]).answer == ""
    soundfile.write(tmp_path / "noise.wav", 0.1 * torch.randn(8000, generator=torch.Generator().manual_seed(0)), 8000)
    heard = prepare_inputs(load("listener"), [str(tmp_path / "noise.wav")])
    assert heard.answer == transcribe(load("listener"), tmp_path / "noise.wav").text


def test_an_image_is_resized_to_the_models_size(shown) -> None:
    _, inputs, _, _ = shown("vit")
    assert inputs.tensors[0].shape == (1, 3, 64, 64)
    assert inputs.grid == (8, 8)
    assert inputs.image.shape == (64, 64, 3)
    assert torch.allclose(torch.tensor(inputs.image).movedim(-1, 0) * 2 - 1, inputs.tensors[0][0].double(), atol=1e-6)
    assert inputs.labels["encoder"][:3] == ["CLS", "1,1", "1,2"]
    assert len(inputs.labels["encoder"]) == 65


def test_the_tokens_of_a_hybrid_are_a_grid(files: Path) -> None:
    model = Hybrid(hybrid.tiny()).eval()
    inputs = prepare_inputs(model, [str(files / "picture.png")])
    assert inputs.tensors[0].shape == (1, 3, 8, 8)
    assert inputs.grid == (2, 2)
    assert inputs.labels["encoder"] == ["1,1", "1,2", "2,1", "2,2"]
    with torch.no_grad(), lens.trace(model) as run:
        out = model(*inputs.tensors)
    assert "LABEL_4" in str(answer(model, inputs, out))
    assert {row.path for row in score_run_heads(model, run, inputs).rows} == {
        f"encoder.{i}.attention.A" for i in range(2)
    }


def test_audio_is_resampled_to_the_models_rate(shown, files: Path) -> None:
    model, inputs, _, _ = shown("speech")
    wave = read_sound(files / "sound.wav")
    assert torch.equal(inputs.tensors[0][0], log_mel(wave, model.config.mel).float())
    assert inputs.tensors[0].shape[1:] == (80, 8)  # 0.8 s
    assert inputs.title == "sound.wav, 0.8 s"


def test_mistakes(refused, files: Path) -> None:

    def tried(kind: str, *inputs: str) -> None:
        prepare_inputs(tiny_model(kind), inputs)

    refused(InputError, "there is no translation of 'a': give it as a second input", lambda: tried("seq2seq", "a"))
    refused(
        InputError,
        "a Seq2Seq takes at most 2 inputs, got 3: give a text and its",
        lambda: tried("seq2seq", "a", "b", "c"),
    )
    picture = f"{files}/picture.png"
    refused(InputError, f"{picture!r} is a file, and the model reads text", lambda: tried("encoder", picture))
    refused(InputError, "a Decoder takes at most 1 inputs, got 2: give one text", lambda: tried("decoder", "a", "b"))
    refused(InputError, "'' has no tokens", lambda: tried("encoder", ""))
    words = " ".join(f"w{i}" for i in range(60))
    refused(InputError, "the input has 60 different tokens, but the vocabulary has 50", lambda: tried("decoder", words))
    refused(InputError, f"there is no file {files}/none.png", lambda: tried("vit", f"{files}/none.png"))
    refused(InputError, f"{files}/not.wav cannot be read", lambda: tried("speech", f"{files}/not.wav"))
    plain = Recurrent(recurrent.tiny(Tokens(vocabulary=9), 2))
    refused(
        InputError, "this Recurrent has no attention to show: gf.trace(model)", lambda: prepare_inputs(plain, ["a"])
    )
    silent = RecurrentSeq2Seq(recurrent_seq2seq.tiny(Tokens(vocabulary=9), 9, attention=False))
    refused(InputError, "this RecurrentSeq2Seq has no attention to show", lambda: prepare_inputs(silent, ["a", "b"]))


def test_audio_and_its_transcript(shown, files: Path) -> None:
    model, inputs, _, _ = shown("whisper")
    assert inputs.tensors[0].shape == (1, 100, 20)  # a window of 1 s, padded after 0.8 s
    wave = torch.cat([read_sound(files / "sound.wav"), torch.zeros(16000)])[:16000]
    assert torch.equal(inputs.tensors[0][0], whisper_log_mel(wave, replace(MEL, bands=20)))
    assert inputs.tensors[1].tolist() == [[model.config.start, 3, 4, 5]]
    assert inputs.labels == {"decoder": ["<start>", "this", "is", "said"]}
    assert (inputs.audible, inputs.seconds) == (40, 0.02)


def test_audio_longer_than_a_window(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "long.wav", np.sin(np.arange(24000) / 5), 16000)
    inputs = prepare_inputs(tiny_model("whisper"), [tmp_path / "long.wav"])
    assert inputs.tensors[1].shape == (1, 1)
    assert "give one as a second input" in inputs.notes[0]
    assert "The first 1 s are shown" in inputs.notes[1]
    assert inputs.audible == 50


def test_an_image_and_texts(shown) -> None:
    model, inputs, _, _ = shown("clip")
    assert [name for name, _, _ in inputs.towers] == ["Image", "Text"]
    assert inputs.title == "picture.png and a cat & a dog and a house"
    assert inputs.towers[1][2].labels["text"] == ["a", "cat", "&", "a", "dog", "<end>"]
    rows = compare_texts(model, inputs)
    wanted = torch.cat([model(inputs.tensors[0], ids) for ids in inputs.tensors[1:]], 1)[0]
    assert [row[0] for row in rows] == ["a cat & a dog", "a house"]
    assert [float(row[1]) for row in rows] == pytest.approx(wanted.softmax(-1).tolist(), abs=1e-3)
    assert [float(row[2]) for row in rows] == pytest.approx((wanted / model.tau.exp()).tolist(), abs=1e-3)


def test_one_tower_is_enough(files: Path) -> None:
    model = tiny_model("clip")
    for given, name in ((["a house"], "Text"), ([str(files / "picture.png")], "Image")):
        inputs = prepare_inputs(model, given)
        assert [tower for tower, _, _ in inputs.towers] == [name]
        assert compare_texts(model, inputs) == []
        assert torch.equal(inputs.towers[0][1](*inputs.towers[0][2].tensors), inputs.towers[0][1](*inputs.tensors))


def test_too_many_inputs_and_missing_towers(refused, files: Path) -> None:
    picture = str(files / "picture.png")
    refused(InputError, "a CLIP takes 1 image, got 2", lambda: prepare_inputs(tiny_model("clip"), [picture, picture]))
    no_text = CLIP(replace(clip.tiny(), text=None))
    refused(InputError, "this CLIP has no text tower for 'a'", lambda: prepare_inputs(no_text, ["a"]))
    refused(
        InputError, "a Whisper takes at most 2 inputs", lambda: prepare_inputs(tiny_model("whisper"), ["a", "b", "c"])
    )
    refused(InputError, "no input was given", lambda: prepare_inputs(tiny_model("decoder"), []))


def test_tokens_belong_to_their_stacks() -> None:
    ids, frames = torch.tensor([[1, 2]]), torch.zeros(1, 4, 3)
    assert Inputs(tensors=(ids,), title="").tokens is ids
    assert Inputs(tensors=(frames,), title="").tokens is None
    assert list(Inputs(tensors=(ids, ids), title="").tokens) == ["encoder", "decoder"]
    assert list(Inputs(tensors=(frames, ids), title="").tokens) == ["decoder"]


def test_a_repeated_word_is_the_same_token() -> None:
    reader = InputReader(Decoder(decoder.tiny()), 50)
    assert reader.read("a b a") == ([3, 4, 3], ["a", "b", "a"])
    assert reader.read("b c")[0] == [4, 5]
    assert "no tokenizer.json" in reader.notes[0]


def test_long_titles_are_shortened() -> None:
    assert short_title("a" * TITLE) == "a" * TITLE
    assert short_title("a" * 99) == "a" * (TITLE - 1) + "…"
