"""Oracle: Hugging Face's `generate` on the same folders, with the settings that are in them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

import glassformer as gf
from glassformer.checkpoints import load_folder
from glassformer.errors import InputError
from glassformer.models import Decoder, RecurrentSeq2Seq, Tokens, decoder, recurrent_seq2seq
from glassformer.pipelines.loading import find_model
from glassformer.pipelines.tokenizers import tokenizer_of
from glassformer.pipelines.translate import _looked, normalized, translate, translate_aligned
from glassformer.train.objectives.translation import save_translator

TEXTS = ["the cat sat", "a man is eating food", "the dog"]


@pytest.fixture(scope="module")
def marian(hf: Any, byte_words: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian")
    size = byte_words.get_vocab_size()
    sides = {"layers": 1, "ffn_dim": 32, "attention_heads": 2}
    config = hf.MarianConfig(
        vocab_size=size + 1,
        d_model=16,
        max_position_embeddings=24,
        pad_token_id=size,
        eos_token_id=0,
        decoder_start_token_id=size,
        forced_eos_token_id=None,
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sides.items()},
    )
    model = hf.MarianMTModel(config)
    generator = torch.Generator().manual_seed(2)
    for name, weight in model.named_parameters():
        if "embed_positions" not in name:
            weight.data = (weight.dim() == 1 and "bias" not in name) + 0.4 * torch.randn(
                weight.shape, generator=generator
            )
    model.generation_config = hf.GenerationConfig(
        num_beams=3,
        max_length=16,
        bad_words_ids=[[size]],
        eos_token_id=0,
        pad_token_id=size,
        decoder_start_token_id=size,
        length_penalty=0.8,
    )
    model.save_pretrained(folder)
    byte_words.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def t5(hf: Any, byte_words: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("t5")
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
    tokens = {"pad_token_id": 1, "eos_token_id": 0, "decoder_start_token_id": 1}
    model = hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=byte_words.get_vocab_size(), **sizes, **tokens))
    generator = torch.Generator().manual_seed(1)
    for weight in model.parameters():
        weight.data = (weight.dim() == 1) + 0.4 * torch.randn(weight.shape, generator=generator)
    model.generation_config = hf.GenerationConfig(max_length=14, **tokens)
    model.save_pretrained(folder)
    byte_words.save(str(folder / "tokenizer.json"))
    return folder


def theirs(peer: Any, folder: Path, text: str, **how: Any) -> str:
    words = tokenizer_of(load_folder(folder))
    tokens = torch.tensor([words.encode(text)])
    said = peer.from_pretrained(folder).generate(tokens, attention_mask=torch.ones_like(tokens), **how)[0]
    known = words.encode("") + [token for token in said.tolist()[1:] if token != 0]
    return words.decode(known)


def test_as_hugging_face_by_the_folders_own_settings(hf: Any, marian: Path, t5: Path) -> None:
    for peer, folder in ((hf.MarianMTModel, marian), (hf.T5ForConditionalGeneration, t5)):
        expected = [theirs(peer, folder, text) for text in TEXTS]
        assert translate(load_folder(folder), TEXTS) == expected
        assert len(set(expected)) > 1
        assert translate(load_folder(folder), TEXTS[0]) == expected[0]


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    "config",
    [
        {"num_beams": 3, "length_penalty": 0.0},
        {"num_beams": 2, "no_repeat_ngram_size": 1, "forced_eos_token_id": 0},
        {"num_beams": 2, "renormalize_logits": True, "bad_words_ids": [[5], [7, 9]], "max_length": 9},
        {"num_beams": 1, "min_length": 8, "repetition_penalty": 1.6, "forced_bos_token_id": 11},
        {"num_beams": 1, "max_length": 4, "max_new_tokens": 9},
    ],
    ids=str,
)
def test_generation_configs_as_hugging_face(
    hf: Any, marian: Path, edited: Callable[..., Path], config: dict[str, Any]
) -> None:
    folder = edited(marian, generation_config=config)
    assert translate(load_folder(folder), TEXTS) == [theirs(hf.MarianMTModel, folder, text) for text in TEXTS]


def test_other_beams_and_lengths(hf: Any, marian: Path, t5: Path) -> None:
    for peer, folder in ((hf.MarianMTModel, marian), (hf.T5ForConditionalGeneration, t5)):
        expected = [theirs(peer, folder, text, num_beams=2, max_length=8) for text in TEXTS]
        assert translate(load_folder(folder), TEXTS, num_beams=2, max_new_tokens=7) == expected


@pytest.mark.parametrize("beams", [1, 2])
def test_stop_strings_of_the_folder_end_a_translation(marian: Path, edited: Callable[..., Path], beams: int) -> None:
    whole = translate(load_folder(marian), TEXTS[0], num_beams=1)
    assert isinstance(whole, str)
    stop = whole[len(whole) // 2 :][:2]
    model = load_folder(edited(marian, generation_config={"stop_strings": [stop]}))
    assert stop not in translate(model, TEXTS[0], num_beams=beams)
    assert translate(model, TEXTS[0], num_beams=1) == whole[: whole.index(stop)]


def test_a_long_answer_that_the_folder_allows_is_not_cut_at_the_default(
    t5: Path, edited: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = edited(t5, generation_config={"max_length": 14, "min_length": 14})
    whole = translate(load_folder(folder), TEXTS[0])
    monkeypatch.setattr(sys.modules["glassformer.pipelines.translate"], "LONGEST", 4)
    assert translate(load_folder(folder), TEXTS[0]) == whole


def test_a_prefix_stands_before_each(marian: Path) -> None:
    model = load_folder(marian)
    assert translate(model, "cat sat", prefix="the ") == translate(model, "the cat sat")


def test_a_batch_equals_one_by_one(marian: Path) -> None:
    model = load_folder(marian)
    many = [text[: 4 + i % 9] for i, text in enumerate(TEXTS * 25)]
    alone = [translate(model, text, num_beams=1) for text in many[:9]]
    assert translate(model, many, num_beams=1) == alone + translate(model, many[9:], num_beams=1)


def test_what_a_token_looked_at_is_hugging_faces_cross_attention(hf: Any, marian: Path, t5: Path) -> None:
    for peer, folder in ((hf.MarianMTModel, marian), (hf.T5ForConditionalGeneration, t5)):
        model = load_folder(folder)
        source, target = tokenizer_of(model).encode(TEXTS[1]), [5, 17, 9, 30]
        theirs_ = peer.from_pretrained(folder, attn_implementation="eager")
        before = torch.tensor([[theirs_.config.decoder_start_token_id, *target[:-1]]])
        out = theirs_(input_ids=torch.tensor([source]), decoder_input_ids=before, output_attentions=True)
        expected = torch.cat([layer[0] for layer in out.cross_attentions])
        assert torch.allclose(_looked(model, source, target), expected, atol=1e-5)


def test_a_translation_word_by_word(marian: Path) -> None:
    model = load_folder(marian)
    found = translate_aligned(model, "the cat sat on")
    assert found.text == translate(model, "the cat sat on")
    assert found.source == ("the", "cat", "sat", "on")
    assert found.A.shape == (len(found.target), 4) == (len(found.text.split()), 4)
    assert found.target == tuple(found.text.split())
    assert (found.A >= 0).all()
    assert (found.A.sum(1) <= 1 + 1e-5).all()
    assert len(found.looks) == len(found.target)
    assert set(found.looks) <= set(range(4))


def test_the_shipped_translator_aligns_words() -> None:
    """The last layer's heads mostly attend to the end of the sentence; another head aligns."""
    found = translate_aligned(gf.load("translator"), "I have a dog.")
    assert [found.source[i] for i in found.looks] == ["I", "a", "dog."]
    assert found.A.amax(1).min() > 0.5


def test_an_lstm_translates_with_attention_to_look_at(byte_words: Tokenizer, tmp_path: Path, refused: Any) -> None:
    size = byte_words.get_vocab_size()
    config = recurrent_seq2seq.tiny(Tokens(vocabulary=size), size)
    model = load_folder(
        save_translator(RecurrentSeq2Seq(config, seed=3), tmp_path / "m", byte_words, beams=2, max_length=9)
    )
    said = translate(model, TEXTS)
    assert len(said) == 3
    assert said[0] == translate(model, TEXTS[0])
    found = translate_aligned(model, "the cat sat", max_new_tokens=4)
    assert found.A.shape == (len(found.target), 3)
    assert torch.allclose(_looked(model, [5, 6, 7], [8, 9]).sum(2), torch.ones(1, 2))
    deaf = recurrent_seq2seq.tiny(Tokens(vocabulary=size), size, attention=False)
    model = load_folder(save_translator(RecurrentSeq2Seq(deaf, seed=3), tmp_path / "deaf", byte_words, max_length=9))
    refused(InputError, "this model translates without attention", lambda: translate_aligned(model, "the cat"))
    bare = RecurrentSeq2Seq(config)
    bare.__dict__["origin"] = model.__dict__["origin"].__class__(folder=tmp_path / "m")
    refused(InputError, "the start token of this", lambda: translate(bare, "the cat"))


def test_what_is_refused(marian: Path, refused: Any) -> None:
    refused(InputError, "this Decoder cannot translate", lambda: translate(Decoder(decoder.tiny()), "a"))
    refused(InputError, "a source of ", lambda: translate(load_folder(marian), "the cat " * 30))
    refused(InputError, "a source is empty", lambda: translate(load_folder(marian), ""))


@pytest.mark.parametrize(
    ("text", "sentence", "added"),
    [
        ("hello", "Hello.", True),
        ("  thank you ", "Thank you.", True),
        ("Where is it?", "Where is it?", False),
        ("THE BOOK IS HERE", "The book is here.", True),
        ("USA", "USA.", True),
        ("", "", False),
    ],
)
def test_a_source_is_written_as_a_sentence_if_the_config_says_so(
    text: str, sentence: str, added: bool, marian: Path
) -> None:
    shipped = load_folder(find_model("translator"))
    assert normalized(shipped, text) == (sentence, added)
    assert normalized(load_folder(marian), text) == (text, False)


def test_the_shipped_translator_takes_single_words_without_capital_and_full_stop() -> None:
    shipped = load_folder(find_model("translator"))
    assert translate(shipped, ["hello", "Yes", "no", "thank you"]) == ["Salut", "Oui", "Non", "Merci"]
    assert translate(shipped, "Yes.") == "Oui."
    assert translate_aligned(shipped, "yes").text == "Oui"
