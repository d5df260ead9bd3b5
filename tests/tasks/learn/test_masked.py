"""BERT's shares of masked, replaced and kept words, counted; and words that can only be known from the other side."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoints import load
from glassformer.errors import ConfigError
from glassformer.models import Encoder
from glassformer.tasks import embed
from glassformer.tasks.data import bpe
from glassformer.tasks.learn import masked as m
from glassformer.tasks.training import Optimise, Plan, train

PREY = {"cat": "mouse", "dog": "bone", "bee": "hive"}
SENTENCES = [f"the {a} {b} the {c}" for a, c in PREY.items() for b in ("saw", "has", "got")]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return bpe.train(SENTENCES, 300, m.SPECIALS, begin="<s>", end="</s>")


def test_of_the_words_chosen_most_are_masked_some_replaced_some_kept() -> None:
    tokens = torch.randint(4, 500, (400, 32), generator=torch.Generator().manual_seed(0))
    tokens[:, 0], tokens[:, 30], tokens[:, 31] = m.START, m.END, m.PAD
    seen, target = m.mask(tokens, 0.15, 500, torch.Generator().manual_seed(1))
    chosen = target != m.NOWHERE
    assert chosen[:, 1:30].float().mean() == pytest.approx(0.15, abs=0.01)
    assert not chosen[:, 0].any()
    assert not chosen[:, 30:].any()
    assert torch.equal(target[chosen], tokens[chosen])
    assert torch.equal(seen[~chosen], tokens[~chosen])
    assert (seen[chosen] == m.MASK).float().mean() == pytest.approx(0.8, abs=0.03)
    assert (seen[chosen] == tokens[chosen]).float().mean() == pytest.approx(0.1, abs=0.03)
    assert int(seen[chosen & (seen != m.MASK)].min()) >= len(m.SPECIALS)


def test_every_sentence_has_something_to_fill_in() -> None:
    tokens = torch.tensor([[m.START, 7, m.END], [m.START, 8, m.END]])
    for seed in range(20):
        _, target = m.mask(tokens, 0.01, 50, torch.Generator().manual_seed(seed))
        assert (target != m.NOWHERE).sum(1).tolist() == [1, 1]


def test_learned_from_both_sides(tokenizer: Any, tmp_path: Path) -> None:
    """The animal is told by what comes after it: no model that reads from the left could know."""
    lesson = m.MaskedLesson(m.Listed(SENTENCES), m.Listed(SENTENCES), tokenizer, tokens=128, rate=0.2, seed=1)
    model = Encoder(m.transformer(tokenizer.get_vocab_size(), 32, 1, 2, 64), seed=1)
    done = train(model, lesson, Plan(steps=60, optimise=Optimise(rate=1e-2, warmup=5)))
    assert done.history[-1]["held_out"]["nats"] < 1.2
    kept = load(m.save_finder(model.eval(), tmp_path / "f", tokenizer, half=True))
    tokens = torch.tensor([tokenizer.encode("the cat saw the bone").ids])
    place = 2
    tokens[0, place] = m.MASK
    guess = int(kept.words(kept(tokens))[0, place].argmax())
    assert tokenizer.decode([guess]).strip().startswith("d")
    vectors = embed(kept, SENTENCES[:4])
    assert torch.allclose(vectors.norm(dim=1), torch.ones(4), atol=1e-5)


def test_long_sentences_are_left_out_and_do_not_end_it(tokenizer: Any) -> None:
    many = m.Listed([SENTENCES[0]] * 300 + [" ".join(SENTENCES)] * 100)
    lesson = m.MaskedLesson(many, many, tokenizer, longest=20)
    assert sorted(row for batch in lesson.epoch(0) for row in batch) == list(range(300))
    assert lesson.faults.counts == {"sentence of more than 20 tokens": 100}
    lesson.faults.check()


def test_a_batch_is_a_function_of_its_rows_and_seed(tokenizer: Any) -> None:
    lesson = m.MaskedLesson(m.Listed([*SENTENCES, "far " * 80]), m.Listed(SENTENCES), tokenizer, tokens=64, seed=1)
    rows = lesson.epoch(0)
    assert sorted(row for batch in rows for row in batch) == list(range(9))
    assert list(lesson.faults.counts.values()) == [1]
    again = pickle.loads(pickle.dumps(lesson))
    for name, value in lesson.batch(rows[0], 5).items():
        assert torch.equal(value, again.batch(rows[0], 5)[name])
    assert not torch.equal(lesson.batch(rows[0], 5)["tokens"], lesson.batch(rows[0], 6)["tokens"])


def test_what_is_refused(tokenizer: Any, refused: Any) -> None:
    wrong = bpe.train(["a"], 270)
    refused(ConfigError, "the tokenizer does not count <pad>, <s>, </s>, <mask>", lambda: m.require_specials(wrong))
    lines = m.Listed(SENTENCES)
    refused(ConfigError, "a part of 1.5", lambda: m.MaskedLesson(lines, lines, tokenizer, rate=1.5))
