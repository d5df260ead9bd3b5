"""A lesson of pairs is learned by both kinds of model, and what is saved translates as what was trained."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from glassformer.checkpoints import load
from glassformer.errors import ConfigError
from glassformer.models import RecurrentSeq2Seq, Seq2Seq
from glassformer.tasks import generate, translate
from glassformer.tasks.data import Pairs, bpe
from glassformer.tasks.learn import pairs as p
from glassformer.tasks.training import Optimise, Plan, train

NOUNS = {"cat": "chat", "dog": "chien", "horse": "cheval", "boy": "garçon"}
VERBS = {"sleeps": "dort", "sings": "chante", "waits": "attend"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    lines = [f"the {n} {v} .\tle {a} {b} .\n" for n, a in NOUNS.items() for v, b in VERBS.items()]
    (folder / "train.tsv").write_text("".join(lines) + "the cat\tle chat\nno target\n", encoding="utf-8")
    (folder / "test.tsv").write_text("".join(lines[::4]) + lines[0].replace("chat", "matou"), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def lesson(files: Path) -> p.PairLesson:
    train_, test = Pairs.open(files / "train.tsv"), Pairs.open(files / "test.tsv")
    texts = [text for i in range(len(train_)) for text in train_.pair(i)]
    return p.PairLesson(train_, test, bpe.train(texts, 320, end="</s>"), tokens=60, smoothing=0.1, seed=3)


def build(kind: str, vocabulary: int) -> torch.nn.Module:
    if kind == "lstm":
        return RecurrentSeq2Seq(p.recurrent(vocabulary, 32, 1), seed=1)
    return Seq2Seq(p.transformer(vocabulary, 32, 1, 2, 64, length=40), seed=1)


def size(lesson: p.PairLesson) -> int:
    return int(lesson.tokenizer.get_vocab_size())


def test_batches_have_like_lengths_and_every_pair_once(lesson: p.PairLesson) -> None:
    for number in (0, 1):
        rows = [row for batch in lesson.epoch(number) for row in batch]
        assert sorted(rows) == list(range(13))
    assert lesson.epoch(0) == lesson.epoch(0) != lesson.epoch(1)
    assert lesson.faults.counts == {"wrong number of columns (not 2)": 1}
    for rows in lesson.epoch(0):
        batch = lesson.batch(rows, 0)
        assert batch is not None
        assert batch["target"].numel() <= 60
        text = lesson.tokenizer.decode(batch["source"][0].tolist())
        assert text == lesson.pairs.source(rows[0])
    again = pickle.loads(pickle.dumps(lesson))
    assert torch.equal(again.batch([3, 4], 0)["source"], lesson.batch([3, 4], 0)["source"])


def test_long_pairs_are_left_out_and_do_not_end_it(lesson: p.PairLesson, tmp_path: Path) -> None:
    (tmp_path / "many.tsv").write_text(
        "the cat\tle chat\n" * 300 + "the cat\tle chat\n".replace("cat", "cat " * 40) * 100
    )
    many = Pairs.open(tmp_path / "many.tsv")
    found = p.PairLesson(many, lesson.held, lesson.tokenizer, longest=20)
    assert sorted(row for batch in found.epoch(0) for row in batch) == list(range(300))
    assert found.faults.counts == {"sentence of more than 20 tokens": 100}
    found.faults.check()


def test_the_target_is_what_follows(lesson: p.PairLesson) -> None:
    batch = lesson.batch([0, 12], 0)
    assert batch is not None
    before, target = batch["before"], batch["target"]
    assert before[:, 0].tolist() == [p.START, p.START]
    assert torch.equal(before[0, 1:], target[0, :-1])
    assert target[0, -1] == p.END
    assert (target[1] == p.NOWHERE).any()
    assert lesson.weigh(batch) == int((target != p.NOWHERE).sum())


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
def test_the_loss_is_a_sum_and_padding_is_nothing(lesson: p.PairLesson, kind: str) -> None:
    model = build(kind, size(lesson)).eval()
    both = lesson.loss(model, lesson.batch([0, 12], 0))
    alone = sum(lesson.loss(model, lesson.batch([row], 0)) for row in (0, 12))
    assert torch.allclose(both, alone, rtol=1e-4)
    batch = lesson.batch([0], 0)
    plain = cross_entropy(model(batch["source"], batch["before"])[0], batch["target"][0], reduction="sum")
    lesson.smoothing, kept = 0.0, lesson.smoothing
    assert torch.allclose(lesson.loss(model, batch), plain)
    lesson.smoothing = kept


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
def test_learned_saved_and_translated(lesson: p.PairLesson, kind: str, tmp_path: Path) -> None:
    model = build(kind, size(lesson))
    whole = p.PairLesson(lesson.pairs, lesson.pairs, lesson.tokenizer, tokens=400)
    steps, rate = (120, 2e-2) if kind == "lstm" else (40, 1e-2)
    done = train(model, whole, Plan(steps=steps, optimise=Optimise(rate=rate, warmup=5)))
    assert done.history[-1]["held_out"]["accuracy"] > 0.95
    folder = p.save_translator(model.eval(), tmp_path / "m", lesson.tokenizer, languages=("en", "fr"), half=True)
    kept = load(folder)
    assert next(kept.parameters()).dtype == torch.float32
    assert next(model.parameters()).dtype == torch.float32
    said = translate(kept, ["the dog sings .", "the horse waits ."])
    assert said == ["le chien chante .", "le cheval attend ."]
    assert generate(kept, "the dog sings .") == said[0]
    told = p.judge(kept, lesson.held)
    assert told["sentences"] == 3
    assert told["references"] == 4
    assert told["bleu"] > 60
    assert told["bleu"] >= told["bleu_first_reference"]
    assert "nrefs" in told["signature"]


def test_what_is_refused(files: Path, refused: Any) -> None:
    pairs = Pairs.open(files / "test.tsv")
    wrong = bpe.train(["a"], 270, specials=("<|endoftext|>",))
    refused(ConfigError, "the tokenizer does not count <pad>", lambda: p.PairLesson(pairs, pairs, wrong))
