"""Oracle: Hugging Face's encoder and the mean over real tokens, written out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.checkpoints import load_folder
from glassformer.data.registry import fetch
from glassformer.errors import InputError
from glassformer.models import Decoder, decoder
from glassformer.pipelines.embed import embed, nearest, tokenize
from glassformer.pipelines.tokenizers import tokenizer_of

TEXTS = ["the cat sat on the mat", "a man is eating food", "the market fell", "someone has a meal and food", "the"]


@pytest.fixture
def sentence(bert: Path, edited: Callable[..., Path]) -> Path:
    """As sentence-transformers folders are: pooled by the mean, of length 1, at most 10 tokens."""
    folder = edited(bert, sentence_bert_config={"max_seq_length": 10})
    kinds = ("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    return folder


def by_hand(hf: Any, folder: Path, tokens: list[int]) -> torch.Tensor:
    peer = hf.BertModel.from_pretrained(folder)
    with torch.no_grad():
        mean = peer(torch.tensor([tokens])).last_hidden_state[0].mean(0)
    return mean / mean.norm()


def test_as_by_hand_in_any_batch(hf: Any, sentence: Path) -> None:
    model = load_folder(sentence)
    words = tokenizer_of(model)
    expected = torch.stack([by_hand(hf, sentence, words.encode(text)) for text in TEXTS])
    for batch in (1, 2, 32):
        torch.testing.assert_close(embed(model, TEXTS, batch_size=batch), expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(gf.embed(model, TEXTS[0]), embed(model, TEXTS[:1])[0])


def test_texts_are_truncated_at_the_max_seq_length_of_the_folder(hf: Any, sentence: Path) -> None:
    model = load_folder(sentence)
    long = "the cat sat on the mat because it was soft and warm"
    tokens = tokenizer_of(model).encode(long)
    found = tokenize(model, long)
    assert found.cut
    assert found.tokens == [*tokens[:9], tokens[-1]]
    assert not tokenize(model, "the cat").cut


def test_elsewhere_it_is_refused(bert: Path, refused: Any) -> None:
    model = load_folder(bert)
    refused(InputError, "a text of ", lambda: embed(model, "the cat sat on the mat " * 10))
    refused(InputError, "no texts were given", lambda: embed(model, []))
    refused(InputError, "this Decoder cannot embed texts", lambda: embed(Decoder(decoder.tiny()), "a"))


def test_nearest_is_sorted_by_cosine(refused: Any) -> None:
    among = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    query = among[7] * 3
    found = nearest(query, among, 4)
    cosines = (among @ query / among.norm(dim=1) / query.norm()).numpy()
    assert [one.place for one in found] == np.argsort(-cosines)[:4].tolist()
    assert found[0].place == 7
    assert found[0].cosine == pytest.approx(1)
    assert len(nearest(query, among, 99)) == 20
    refused(
        InputError, "the query has shape (5,) and the vectors have shape (20, 6)", lambda: nearest(query[:5], among)
    )
    refused(InputError, "k must be at least 1, got 0", lambda: nearest(query, among, 0))


@pytest.mark.slow
def test_minilm_is_hugging_faces(hf: Any) -> None:
    folder = fetch("all-minilm-l6-v2")
    model = load_folder(folder)
    texts = [
        "A man is eating food.",
        "Someone is having a meal.",
        "A cheetah is running behind its prey.",
        "The stock market fell sharply on Monday.",
        "Shares dropped at the start of the week.",
        "king",
        "queen",
        "banana",
        "The quick brown fox jumps over the lazy dog, and then it sleeps under the old oak tree until evening comes.",
    ]
    words = tokenizer_of(model)
    expected = torch.stack([by_hand(hf, folder, words.encode(text)) for text in texts])
    found = embed(model, texts)
    cosines = (found * expected).sum(-1)
    assert float(cosines.min()) >= 0.99999
    alike = lambda a, b: float(found[a] @ found[b])
    assert alike(0, 1) > 0.5 > alike(0, 3)
    assert alike(3, 4) > 0.5 > alike(1, 4)
    assert alike(5, 6) > alike(5, 7)
