"""The contrast is torch's cross-entropy over cosines; pairs that share no word come together."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import cosine_similarity

from glassformer.data import bpe
from glassformer.errors import ConfigError
from glassformer.models import Encoder
from glassformer.pipelines.evaluate import SPECIALS
from glassformer.train import TrainArgs, fit
from glassformer.train.objectives import contrastive as vectors
from glassformer.train.objectives import mlm as masked

TRIPLES: list[vectors.Triple] = [
    ("a big house", "one large home", "a big mouse"),
    ("go away now", "leave at once", None),
    ("the boy laughs", "that child smiles", "the toy laughs"),
    ("cold water", "chilly drink", None),
]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    texts = [text for triple in TRIPLES for text in triple if text]
    return bpe.train(texts, 300, SPECIALS, begin="<s>", end="</s>")


def test_the_loss_by_hand(tokenizer: Any) -> None:
    objective = vectors.Contrastive(TRIPLES, [], tokenizer, batch_size=4, temperature=0.1)
    model = Encoder(masked.transformer(tokenizer.get_vocab_size(), 16, 1, 2, 16), seed=1).eval()
    batch = objective.batch([0, 1], 0)
    assert batch is not None
    assert len(batch["tokens"]) == 5
    assert objective.count(batch) == 2
    X = vectors.vectors(model, batch["tokens"], batch["real"])
    S = torch.stack([cosine_similarity(x[None], X[2:]) for x in X[:2]]) / 0.1
    onward = -(S.log_softmax(1)[0, 0] + S.log_softmax(1)[1, 1])
    back = -(S[:, :2].log_softmax(0)[0, 0] + S[:, :2].log_softmax(0)[1, 1])
    assert torch.allclose(objective.loss(model, batch), (onward + back) / 2, rtol=1e-4)


@pytest.mark.parametrize("batch_size", [2, 64])
def test_the_validation_loss_is_that_of_training(tokenizer: Any, batch_size: int) -> None:
    val = [(first, second) for first, second, _ in TRIPLES]
    plain = [(first, second, None) for first, second in val]
    objective = vectors.Contrastive(plain, val, tokenizer, batch_size=batch_size, temperature=0.1)
    model = Encoder(masked.transformer(tokenizer.get_vocab_size(), 16, 1, 2, 16), seed=1).eval()
    n = min(batch_size, len(val))
    rows = [list(range(start, start + n)) for start in range(0, len(val) - n + 1, n)]
    with torch.no_grad():
        losses = [float(objective.loss(model, objective.batch(some, 0))) / n for some in rows]
    assert objective.evaluate(model)["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-4)


def test_pairs_that_share_no_word_come_together(tokenizer: Any) -> None:
    held = [(first, second) for first, second, _ in TRIPLES] * 2  # what comes again is counted once
    objective = vectors.Contrastive(TRIPLES, held, tokenizer, batch_size=4, seed=1)
    model = Encoder(masked.transformer(tokenizer.get_vocab_size(), 16, 1, 2, 16, dropout=0.1), seed=1)
    before = objective.evaluate(model.eval())["nearest"]
    done = fit(model, objective, TrainArgs(steps=25, lr=1e-2))
    assert before < done.history[-1]["val"]["nearest"] == 1


def test_a_sentence_with_itself_differs_by_dropout(tokenizer: Any) -> None:
    objective = vectors.Contrastive([("a big house", "a big house", None)] * 2, [], tokenizer, batch_size=2)
    model = Encoder(masked.transformer(tokenizer.get_vocab_size(), 16, 1, 2, 16, dropout=0.3), seed=1)
    batch = objective.batch([0, 1], 0)
    X = vectors.vectors(model.train(), batch["tokens"], batch["real"])
    assert not torch.allclose(X[0], X[2])
    X = vectors.vectors(model.eval(), batch["tokens"], batch["real"])
    assert torch.allclose(X[0], X[2])


def test_what_is_refused(tokenizer: Any, refused: Any) -> None:
    refused(
        ConfigError,
        "batch_size is 1 and temperature is 0.05",
        lambda: vectors.Contrastive(TRIPLES, [], tokenizer, batch_size=1),
    )
