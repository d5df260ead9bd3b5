"""A objective of pairs is learned by both kinds of model, and what is saved translates as what was trained."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from glassformer.checkpoints import load_folder
from glassformer.data import Pairs, bpe
from glassformer.errors import ConfigError
from glassformer.models import RecurrentSeq2Seq, Seq2Seq
from glassformer.pipelines import generate, translate
from glassformer.pipelines.evaluate import score_translations
from glassformer.train import TrainArgs, fit
from glassformer.train.objectives import translation as p

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
def objective(files: Path) -> p.Translation:
    train_, test = Pairs.open(files / "train.tsv"), Pairs.open(files / "test.tsv")
    texts = [text for i in range(len(train_)) for text in train_.pair(i)]
    return p.Translation(train_, test, bpe.train(texts, 320, end="</s>"), batch_tokens=60, label_smoothing=0.1, seed=3)


def build(kind: str, vocabulary: int) -> torch.nn.Module:
    if kind == "lstm":
        return RecurrentSeq2Seq(p.recurrent(vocabulary, 32, 1), seed=1)
    return Seq2Seq(p.transformer(vocabulary, 32, 1, 2, 64, length=40), seed=1)


def size(objective: p.Translation) -> int:
    return int(objective.tokenizer.get_vocab_size())


def test_batches_have_like_lengths_and_every_pair_once(objective: p.Translation) -> None:
    for number in (0, 1):
        rows = [row for batch in objective.epoch(number) for row in batch]
        assert sorted(rows) == list(range(13))
    assert objective.epoch(0) == objective.epoch(0) != objective.epoch(1)
    assert objective.faults.counts == {"wrong number of columns (not 2)": 1}
    for rows in objective.epoch(0):
        batch = objective.batch(rows, 0)
        assert batch is not None
        assert batch["target"].numel() <= 60
        text = objective.tokenizer.decode(batch["source"][0].tolist())
        assert text == objective.train.source(rows[0])
    again = pickle.loads(pickle.dumps(objective))
    assert torch.equal(again.batch([3, 4], 0)["source"], objective.batch([3, 4], 0)["source"])


def test_long_pairs_are_left_out_and_do_not_end_it(objective: p.Translation, tmp_path: Path) -> None:
    (tmp_path / "many.tsv").write_text(
        "the cat\tle chat\n" * 300 + "the cat\tle chat\n".replace("cat", "cat " * 40) * 100
    )
    many = Pairs.open(tmp_path / "many.tsv")
    found = p.Translation(many, objective.val, objective.tokenizer, max_tokens=20)
    assert sorted(row for batch in found.epoch(0) for row in batch) == list(range(300))
    assert found.faults.counts == {"sentence of more than 20 tokens": 100}
    found.faults.check()


def test_the_target_is_what_follows(objective: p.Translation) -> None:
    batch = objective.batch([0, 12], 0)
    assert batch is not None
    before, target = batch["before"], batch["target"]
    assert before[:, 0].tolist() == [p.START, p.START]
    assert torch.equal(before[0, 1:], target[0, :-1])
    assert target[0, -1] == p.END
    assert (target[1] == p.IGNORED).any()
    assert objective.count(batch) == int((target != p.IGNORED).sum())


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
def test_the_loss_is_a_sum_and_padding_is_nothing(objective: p.Translation, kind: str) -> None:
    model = build(kind, size(objective)).eval()
    both = objective.loss(model, objective.batch([0, 12], 0))
    alone = sum(objective.loss(model, objective.batch([row], 0)) for row in (0, 12))
    assert torch.allclose(both, alone, rtol=1e-4)
    batch = objective.batch([0], 0)
    plain = cross_entropy(model(batch["source"], batch["before"])[0], batch["target"][0], reduction="sum")
    objective.label_smoothing, kept = 0.0, objective.label_smoothing
    assert torch.allclose(objective.loss(model, batch), plain)
    objective.label_smoothing = kept


@pytest.mark.parametrize("kind", ["transformer", pytest.param("lstm", marks=pytest.mark.slow)])
def test_learned_saved_and_translated(objective: p.Translation, kind: str, tmp_path: Path) -> None:
    model = build(kind, size(objective))
    whole = p.Translation(objective.train, objective.train, objective.tokenizer, batch_tokens=400)
    steps, rate = (200, 2e-2) if kind == "lstm" else (40, 1e-2)
    done = fit(model, whole, TrainArgs(steps=steps, lr=rate, warmup=5))
    assert done.history[-1]["val"]["accuracy"] > 0.95
    folder = p.save_translator(model.eval(), tmp_path / "m", objective.tokenizer, languages=("en", "fr"), half=True)
    kept = load_folder(folder)
    assert next(kept.parameters()).dtype == torch.float32
    assert next(model.parameters()).dtype == torch.float32
    said = translate(kept, ["the dog sings .", "the horse waits ."])
    assert said == ["le chien chante .", "le cheval attend ."]
    assert generate(kept, "the dog sings .") == said[0]
    told = score_translations(kept, objective.val)
    assert told["sentences"] == 3
    assert told["references"] == 4
    assert told["bleu"] > 60
    assert told["bleu"] >= told["bleu_first_reference"]
    assert "nrefs" in told["signature"]


def test_what_is_refused(files: Path, refused: Any) -> None:
    pairs = Pairs.open(files / "test.tsv")
    wrong = bpe.train(["a"], 270, specials=("<|endoftext|>",))
    refused(ConfigError, "the tokenizer's ids of <pad>", lambda: p.Translation(pairs, pairs, wrong))
