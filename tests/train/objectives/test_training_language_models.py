"""Every kind of language model learns from the same blocks; bits per byte against a count by hand."""

from __future__ import annotations

import itertools
import math
import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers import models as models_

from glassformer.checkpoints import load_folder
from glassformer.data import Faults, Text, blocks, bpe
from glassformer.errors import ConfigError, InputError
from glassformer.models import MLP, ConvNet1d, Decoder, Recurrent
from glassformer.pipelines import generate
from glassformer.train import TrainArgs, fit
from glassformer.train.objectives import language_modeling as t

VERSE = "the rat, the cat, the dog and the cow are in the house that Jack built – naïve as ever.\n"

e = import_module("glassformer.pipelines.evaluate")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    folder = tmp_path_factory.mktemp("text")
    (folder / "train.txt").write_text(VERSE * 40, encoding="utf-8")
    text = Text.open(folder / "train.txt")
    tokenizer = bpe.train(text.pieces(), 300, specials=("<|endoftext|>",))
    return blocks(text, tokenizer, 16, folder / "cache"), tokenizer


def models(vocabulary: int) -> dict[str, tuple[torch.nn.Module, int]]:
    """Each with how many tokens it wants before a block."""
    return {
        "transformer": (Decoder(t.transformer(vocabulary, 32, 1, 2, 64, length=16), seed=1), 0),
        "lstm": (Recurrent(t.recurrent(vocabulary, 32, 1), seed=1), 0),
        "cnn": (ConvNet1d(t.convolutional(vocabulary, 32, 2, cycle=2), seed=1), 0),
        "mlp": (MLP(t.mlp(vocabulary, 4, 16, (32,)), seed=1), 3),
    }


def test_an_epoch_goes_once_through_the_text_and_cuts_elsewhere(made: tuple[Any, Any]) -> None:
    text, tokenizer = made
    objective = t.LanguageModeling(text, text, tokenizer, batch_size=4, seed=2)
    for number in (0, 1):
        starts = sorted(start for rows in objective.epoch(number) for start in rows)
        assert len(starts) >= len(text) - 1
        assert {b - a for a, b in itertools.pairwise(starts)} == {16}
        assert starts[-1] + 17 <= text.tokens
    assert objective.epoch(0)[0] != objective.epoch(1)[0]
    assert objective.epoch(1) == pickle.loads(pickle.dumps(objective)).epoch(1)


def test_what_stands_before_a_block(made: tuple[Any, Any]) -> None:
    text, _ = made
    assert e.block_tokens(text, 5, 3).tolist() == text.ids(2, 22).tolist()
    assert e.block_tokens(text, 1, 3).tolist() == [0, 0, *text.ids(0, 18).tolist()]


@pytest.mark.parametrize("kind", ["transformer", "lstm", "cnn", "mlp"])
def test_each_learns(made: tuple[Any, Any], kind: str) -> None:
    text, tokenizer = made
    model, before = models(tokenizer.get_vocab_size())[kind]
    objective = t.LanguageModeling(text, text, tokenizer, batch_size=8, before=before, val_blocks=8, seed=2)
    first = objective.evaluate(model.eval())
    done = fit(model, objective, TrainArgs(steps=30, lr=3e-2 if kind == "lstm" else 1e-2, warmup=3))
    last = done.history[-1]["val"]
    assert last["bits_per_byte"] < 0.5 * first["bits_per_byte"]
    assert objective.count(objective.batch([16, 40], 0)) == 32


@pytest.mark.parametrize("kind", ["transformer", "lstm", "cnn", "mlp"])
def test_every_token_is_predicted_from_those_before_it(made: tuple[Any, Any], kind: str) -> None:
    """Changing a token changes what is said of it and of later ones, and nothing before."""
    text, tokenizer = made
    model, before = models(tokenizer.get_vocab_size())[kind]
    tokens = torch.stack([e.block_tokens(text, 32, before)])
    other = tokens.clone()
    other[0, before + 9] = (other[0, before + 9] + 1) % 300
    a, b = e.token_nats(model.eval(), tokens, before)[0], e.token_nats(model, other, before)[0]
    assert torch.allclose(a[:8], b[:8])
    assert not torch.allclose(a[8:], b[8:])


def test_bits_per_byte_by_hand(made: tuple[Any, Any]) -> None:
    """A model that finds all tokens equally likely pays log₂ v bits for each."""
    text, tokenizer = made
    v = tokenizer.get_vocab_size()
    model = Decoder(t.transformer(v, 8, 1, 1, 8, length=16))
    torch.nn.init.zeros_(model.decoder.embed.table.weight)
    starts = [16 * (i * len(text) // 3) for i in range(3)]  # from all over
    sizes = e.token_bytes(tokenizer)
    size = sum(float(sizes[text.ids(start + 1, start + 17)].sum()) for start in starts)
    told = e.score_text(model, text, sizes, limit=3)
    assert told["bits_per_byte"] == pytest.approx(3 * 16 * math.log2(v) / size)
    assert told["perplexity_per_byte"] == pytest.approx(2 ** told["bits_per_byte"])
    assert told["nats"] == pytest.approx(math.log(v))


def test_bytes_of_tokens(made: tuple[Any, Any]) -> None:
    text, tokenizer = made
    sizes = e.token_bytes(tokenizer)
    assert sizes[tokenizer.token_to_id("<|endoftext|>")] == 0
    assert int(sizes[text.ids(0, text.tokens)].sum()) == text.bytes == len((VERSE * 40).encode())


@pytest.fixture
def pieces() -> Tokenizer:
    """Llama's kind, with gaps between its ids: 9 and 10 stand for nothing."""
    letters = [*"▁Aacdefhlnorstu12.,é\t", "▁caf", "<0x0A>", "<0xC3>", "<0x96>"]
    merges = [("▁", "c"), ("▁c", "a"), ("▁ca", "f")]
    names = ["<unk>", "<s>", "▁c", "▁ca", *letters]
    vocabulary = {piece: i if i < 9 else i + 2 for i, piece in enumerate(names)}
    model = models_.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.add_special_tokens(["<unk>", "<s>"])
    return tokenizer


def test_bytes_of_pieces(pieces: Tokenizer) -> None:
    """As many as the text has, and the space that this tokenizer puts before it."""
    sizes = e.token_bytes(pieces)
    text = "the café  on a\tÖ\n2é."
    assert float(sizes[pieces.encode(text, add_special_tokens=False).ids].sum()) == 1 + len(text.encode())
    assert len(sizes) == max(pieces.get_vocab().values()) + 1 > pieces.get_vocab_size()
    named = {piece: float(sizes[i]) for piece, i in pieces.get_vocab().items()}
    assert [named[piece] for piece in ("▁caf", "é", "<0x0A>", "<s>")] == [4, 2, 1, 0]
    assert math.isnan(named["<unk>"])


def test_text_that_is_added_to_a_byte_level_tokenizer(byte_words: Tokenizer) -> None:
    tokenizer = Tokenizer.from_str(byte_words.to_str())
    tokenizer.add_tokens(["–é–"])
    text = "the cat – on –é– mats\n"
    assert float(e.token_bytes(tokenizer)[tokenizer.encode(text).ids].sum()) == len(text.encode())


def test_a_character_without_a_token_is_reported_and_not_counted(pieces: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the café on a lane\nthe 語 cat sat and sat\n" * 3, encoding="utf-8")
    text = blocks(Text.open(tmp_path / "a.txt"), pieces, 8, tmp_path / "cache")
    model = Decoder(t.transformer(max(pieces.get_vocab().values()) + 1, 8, 1, 1, 8, length=8), seed=1).eval()
    sizes, faults = e.token_bytes(pieces), Faults()
    found = e.score_text(model, text, sizes, faults=faults)
    rows = torch.stack([text.block(i) for i in range(len(text))])
    each, nats = sizes[rows[:, 1:]], e.token_nats(model, rows).detach()
    known = rows[:, 1:] != pieces.token_to_id("<unk>")
    assert found["bits_per_byte"] == pytest.approx(float(nats[known].sum() / math.log(2) / each[known].sum()))
    assert found["nats"] == pytest.approx(float(nats[known].mean()))
    assert faults.counts == {"characters that the tokenizer does not know": int((~known).any(1).sum())} != {}


@pytest.mark.parametrize("kind", ["transformer", "lstm", "cnn"])
def test_saved_it_writes(made: tuple[Any, Any], kind: str, tmp_path: Path) -> None:
    _, tokenizer = made
    model, _ = models(tokenizer.get_vocab_size())[kind]
    kept = load_folder(t.save_language_model(model, tmp_path / kind, tokenizer, half=kind == "lstm"))
    said = generate(kept, "the rat", max_new_tokens=5)
    assert said == generate(kept, "the rat", max_new_tokens=5)
    assert said
    assert generate(kept, "the rat", max_new_tokens=5, temperature=1.0, seed=4)


def test_what_is_refused(made: tuple[Any, Any], refused: Any) -> None:
    text, tokenizer = made
    model, _ = models(tokenizer.get_vocab_size())["mlp"]
    refused(ConfigError, "the MLP has a window of", lambda: e.token_nats(model, text.ids(0, 17)[None]))
    words = Tokenizer(models_.WordLevel({"[UNK]": 0, "the": 1, "cat": 2}, unk_token="[UNK]"))
    words.normalizer, words.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    refused(InputError, "the tokenizer normalises text", lambda: e.token_bytes(words))
