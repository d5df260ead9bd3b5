"""BERT's shares of masked, replaced and kept words, counted; and words that can only be known from the other side."""

from __future__ import annotations

import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoints import load_folder
from glassformer.data import Lines, bpe
from glassformer.data.python import reader_of
from glassformer.errors import ConfigError
from glassformer.models import Encoder
from glassformer.pipelines import embed
from glassformer.train import TrainArgs, fit
from glassformer.train.objectives import mlm as m

PREY = {"cat": "mouse", "dog": "bone", "bee": "hive"}
SENTENCES = [f"the {a} {b} the {c}" for a, c in PREY.items() for b in ("saw", "has", "got")]

e = import_module("glassformer.pipelines.evaluate")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return bpe.train(SENTENCES, 300, e.SPECIALS, begin="<s>", end="</s>")


def test_of_the_words_chosen_most_are_masked_some_replaced_some_kept() -> None:
    tokens = torch.randint(4, 500, (400, 32), generator=torch.Generator().manual_seed(0))
    tokens[:, 0], tokens[:, 30], tokens[:, 31] = e.START, e.END, e.PAD
    seen, target = e.mask_tokens(tokens, 0.15, 500, torch.Generator().manual_seed(1))
    chosen = target != e.IGNORED
    assert chosen[:, 1:30].float().mean() == pytest.approx(0.15, abs=0.01)
    assert not chosen[:, 0].any()
    assert not chosen[:, 30:].any()
    assert torch.equal(target[chosen], tokens[chosen])
    assert torch.equal(seen[~chosen], tokens[~chosen])
    assert (seen[chosen] == e.MASK).float().mean() == pytest.approx(0.8, abs=0.03)
    assert (seen[chosen] == tokens[chosen]).float().mean() == pytest.approx(0.1, abs=0.03)
    assert int(seen[chosen & (seen != e.MASK)].min()) >= len(e.SPECIALS)


def in_memory(texts: list[str]) -> Lines:
    return Lines.open(reader_of(texts))


def test_every_sentence_has_something_to_fill_in() -> None:
    tokens = torch.tensor([[e.START, 7, e.END], [e.START, 8, e.END]])
    for seed in range(20):
        _, target = e.mask_tokens(tokens, 0.01, 50, torch.Generator().manual_seed(seed))
        assert (target != e.IGNORED).sum(1).tolist() == [1, 1]


def test_learned_from_both_sides(tokenizer: Any, tmp_path: Path) -> None:
    """The animal is told by what comes after it: no model that reads from the left could know."""
    objective = m.MaskedLM(
        in_memory(SENTENCES), in_memory(SENTENCES), tokenizer, batch_tokens=128, mask_rate=0.2, seed=1
    )
    model = Encoder(m.transformer(tokenizer.get_vocab_size(), 32, 1, 2, 64), seed=1)
    done = fit(model, objective, TrainArgs(steps=60, lr=1e-2, warmup=5))
    assert done.history[-1]["val"]["nats"] < 1.2
    kept = load_folder(m.save_encoder(model.eval(), tmp_path / "f", tokenizer, half=True))
    tokens = torch.tensor([tokenizer.encode("the cat saw the bone").ids])
    place = 2
    tokens[0, place] = e.MASK
    guess = int(kept.words(kept(tokens))[0, place].argmax())
    assert tokenizer.decode([guess]).strip().startswith("d")
    vectors = embed(kept, SENTENCES[:4])
    assert torch.allclose(vectors.norm(dim=1), torch.ones(4), atol=1e-5)


def test_long_sentences_are_left_out_and_do_not_end_it(tokenizer: Any) -> None:
    many = in_memory([SENTENCES[0]] * 300 + [" ".join(SENTENCES)] * 100)
    objective = m.MaskedLM(many, many, tokenizer, max_tokens=20)
    assert sorted(row for batch in objective.epoch(0) for row in batch) == list(range(300))
    assert objective.faults.counts == {"sentence of more than 20 tokens": 100}
    objective.faults.check()


def test_a_batch_is_a_function_of_its_rows_and_seed(tokenizer: Any) -> None:
    objective = m.MaskedLM(
        in_memory([*SENTENCES, "far " * 80]), in_memory(SENTENCES), tokenizer, batch_tokens=64, seed=1
    )
    rows = objective.epoch(0)
    assert sorted(row for batch in rows for row in batch) == list(range(9))
    assert list(objective.faults.counts.values()) == [1]
    again = pickle.loads(pickle.dumps(objective))
    for name, value in objective.batch(rows[0], 5).items():
        assert torch.equal(value, again.batch(rows[0], 5)[name])
    assert not torch.equal(objective.batch(rows[0], 5)["tokens"], objective.batch(rows[0], 6)["tokens"])


def test_what_is_refused(tokenizer: Any, refused: Any) -> None:
    wrong = bpe.train(["a"], 270)
    refused(ConfigError, "the tokenizer's ids of <pad>, <s>, </s>, <mask>", lambda: m.require_specials(wrong))
    lines = in_memory(SENTENCES)
    refused(ConfigError, "mask_rate is 1.5", lambda: m.MaskedLM(lines, lines, tokenizer, mask_rate=1.5))
