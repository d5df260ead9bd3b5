"""Text classification of every kind, against Hugging Face's training of the same model on the same batches."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import glassformer as gf
from glassformer.cli.main import build_app
from glassformer.data import remarks
from glassformer.data.labelled_texts import LabelledTexts
from glassformer.errors import ConfigError, InputError
from glassformer.pipelines.text_classification import entities, split_words
from glassformer.train import Trained
from glassformer.train.args import TrainArgs
from glassformer.train.objectives import build

GOOD, BAD = "the soft warm cat sat", "the market fell in food"


def table(path: Path, rows: list[tuple[Any, ...]], header: str = "text,label") -> Path:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    return table(
        tmp_path / "reviews.csv", [(f"{GOOD} {i}", "good") if i % 2 else (f"{BAD} {i}", "bad") for i in range(24)]
    )


@pytest.fixture
def still(bert: Path, tmp_path: Path) -> Path:
    """Without dropout, whose random numbers differ."""
    folder = tmp_path / "still"
    shutil.copytree(bert, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


PLAIN = {"progress": False, "schedule": "constant", "warmup": 0, "weight_decay": 0.0, "grad_clip": 0.0, "lr": 1e-2}
PROBLEMS: dict[str, tuple[str, list[tuple[Any, ...]], str]] = {
    "single_label_classification": ("text,label", [(GOOD, "a"), (BAD, "b"), ("a man is eating", "c")] * 4, ""),
    "multi_label_classification": (
        "text,x,y",
        [(GOOD, 1, 0), (BAD, 1, 1), ("the dog", 0, 0)] * 4,
        "text=text,label=x+y",
    ),
    "regression": ("text,label", [(GOOD, 0.5), (BAD, -1.25), ("the dog", 2.0)] * 4, ""),
    "pairs": ("premise,hypothesis,label", [(GOOD, "the dog sat", 1), (BAD, "a meal", 0)] * 6, ""),
}


@pytest.mark.parametrize("kind", [*PROBLEMS, "token_classification"])
def test_training_equals_hugging_faces(kind: str, hf: Any, still: Path, tmp_path: Path) -> None:
    """A few steps of AdamW on the same batches: the same losses, and a folder that transformers loads."""
    if kind == "token_classification":
        data = tmp_path / "t.conll"
        data.write_text("the DT O\ncat NN B-X\nwarm JJ I-X\n\nthe DT O\ndog NN B-Y\n\na O\nman B-X\n\n" * 4)
        columns = None
    else:
        header, rows, columns = PROBLEMS[kind]
        data, columns = table(tmp_path / "t.csv", rows, header), columns or None
    options = {
        **PLAIN,
        "from": str(still),
        "val": str(data),
        "columns": columns,
        "batch_size": 5,
        "steps": 4,
        "log_every": 1,
    }
    args = TrainArgs.from_dict(
        {"task": "classify", "data": str(data)} | {k: v for k, v in options.items() if k != "progress"}
    )
    model, objective = build(args)
    folder = objective.save(model, tmp_path / "start")
    heads = {"token_classification": hf.AutoModelForTokenClassification}
    kind_of = heads.get(kind, hf.AutoModelForSequenceClassification)
    theirs, left = kind_of.from_pretrained(folder, output_loading_info=True)
    assert not any(left.values()), left
    if kind in PROBLEMS and kind != "pairs":
        assert theirs.config.problem_type == kind
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-2, weight_decay=0.0)
    mean, std = objective.moments or (0.0, 1.0)  # a regression is trained on standardised targets
    with torch.no_grad():
        theirs.classifier.weight.div_(std)
        theirs.classifier.bias.sub_(mean).div_(std)
    theirs.train()
    expected = []
    for rows in list(objective.epoch(0)) + list(objective.epoch(1))[:1]:
        batch = objective.batch(rows, 0)
        labels = (batch["y"].float()[:, None] - mean) / std if kind == "regression" else batch["y"]
        out = theirs(
            input_ids=batch["tokens"],
            attention_mask=batch["real"].long(),
            token_type_ids=batch["segments"],
            labels=labels,
        )
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
        expected.append(float(out.loss.detach()))
    trained = gf.train.fit(model, objective, args)
    found = [line["loss"] for line in trained.history]
    assert found == pytest.approx(expected, rel=2e-4)
    assert abs(found[0] - found[-1]) > 1e-3, "it moved"
    metrics = dict(trained.metrics)
    if objective.moments is not None:  # the only one that depends on the training data
        assert metrics.pop("loss") == pytest.approx(metrics["mse"] / std**2)
    loaded = gf.load(trained.save(tmp_path / "end"))
    assert gf.evaluate(loaded, data, columns=args.column_names) == pytest.approx(
        {**metrics, "texts": len(objective.train)}, rel=1e-4
    )


@pytest.mark.parametrize("published", [False, True])
def test_a_model_of_pairs_refuses_a_single_text(
    published: bool, bert: Path, tmp_path: Path, refused: Callable[..., None]
) -> None:
    data = table(tmp_path / "t.csv", PROBLEMS["pairs"][1], PROBLEMS["pairs"][0])
    size = {"from_": str(bert)} if published else {"width": 8, "depth": 1, "heads": 2}
    trained = gf.train("classify", data, output=tmp_path / "m", steps=1, progress=False, **size)
    model = gf.load(tmp_path / "m")
    answer = gf.classify(model, (GOOD, BAD))
    says = "the model was trained on pairs of texts, and this is one text: give a tuple of two"
    refused(InputError, says, lambda: gf.classify(model, GOOD))
    refused(InputError, says, lambda: gf.classify(trained.model, GOOD))
    line = ["classify", "-m", str(tmp_path / "m"), f"{GOOD}\t{BAD}"]
    said = CliRunner().invoke(build_app("classify"), line, catch_exceptions=False).stdout
    assert said.strip() == f"{GOOD}\t{BAD}\t" + "  ".join(f"{a.label} {a.score:.4f}" for a in answer)
    assert 'gf.classify(model, ("…", "…"))' in (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
    single = gf.train("classify", [(GOOD, "a"), (BAD, "b")] * 10, from_=str(tmp_path / "m"), steps=1, progress=False)
    assert len(gf.classify(gf.load(single.save(tmp_path / "s")), GOOD)) == 2


def test_from_scratch_and_by_lora(reviews: Path, bert: Path, tmp_path: Path) -> None:
    small = {"steps": 30, "lr": 1e-2, "batch_size": 8, "progress": False, "val": str(reviews)}
    trained = gf.train("classify", reviews, width=16, depth=1, heads=2, vocab_size=300, **small)
    assert trained.metrics["accuracy"] == 1.0
    model = gf.load(trained.save(tmp_path / "m"))
    assert gf.classify(model, f"{GOOD} 3").label == "good"
    assert gf.evaluate(model, reviews)["accuracy"] == 1.0
    again = gf.train("classify", reviews, from_=str(tmp_path / "m"), **small | {"steps": 1})
    assert isinstance(again, Trained)
    tuned = gf.train("classify", reviews, from_=str(bert), lora_rank=2, **small)
    frozen = {name for name, weight in tuned.model.named_parameters() if not weight.requires_grad}
    assert "encoder.embed.table.weight" in frozen
    saved = gf.load(tuned.save(tmp_path / "lora"))
    assert json.loads((tmp_path / "lora" / "config.json").read_text())["id2label"] == {"0": "bad", "1": "good"}
    assert torch.equal(saved.encoder.embed.table.weight, gf.load(bert).encoder.embed.table.weight)


@pytest.mark.slow
def test_regression_learns_by_default_whatever_the_scale(tmp_path: Path) -> None:
    """Prices far from 0: the defaults learn them, a resumed run is the same, and the saved head is a plain layer."""
    rows = [(f"{GOOD} {i}", 250_000.5 + i) if i % 2 else (f"{BAD} {i}", 90_000.5 + i) for i in range(160)]
    data = str(table(tmp_path / "prices.csv", rows, "text,price"))
    small = {"columns": "text=text,label=price", "width": 16, "depth": 1, "heads": 2, "vocab_size": 300, "val": data}
    run: dict[str, Any] = {**small, "batch_size": 8, "lr": 3e-3, "progress": False}
    trained = gf.train("classify", data, output=tmp_path / "m", **run)
    assert trained.metrics["r2"] > 0.9
    assert trained.history[0]["loss"] < 10, "in units of the variance"
    assert gf.evaluate(gf.load(tmp_path / "m"), data, columns={"text": "text", "label": "price"})["r2"] > 0.9
    assert type(trained.model.class_head) is type(gf.load(tmp_path / "m").class_head)
    steps = trained.args.total_steps
    stop = lambda progress: os.kill(os.getpid(), signal.SIGINT) if progress.step == steps // 2 else None
    gf.train("classify", data, output=tmp_path / "n", callbacks=[stop], **run)
    again = gf.train("classify", data, output=tmp_path / "n", resume=True, progress=False)
    assert again.metrics == trained.metrics


def test_labels_joined_in_one_column_are_several(tmp_path: Path) -> None:
    """Most texts have no label: they are texts without any, not rows to leave out."""
    path = tmp_path / "t.tsv"
    path.write_text("text\tlabels\n" + f"{BAD}\ttoxic,rude\n{BAD} 2\ttoxic\n{BAD} 3\trude\n" + f"{GOOD}\t\n" * 9)
    data = LabelledTexts.open(path)
    assert (data.problem, data.labels, len(data)) == ("multi_label_classification", ("rude", "toxic"), 12)
    assert data.targets[:4] == [(0, 1), (1,), (0,), ()]
    _, objective = build(TrainArgs(task="classify", data=str(path), val=str(path), width=8, heads=2))
    says = "remark: 'toxic,rude' is read as several labels, and 9 texts have none; to change that, add --problem-type"
    assert f"{says} single_label_classification" in objective.understood
    path.write_text("text\tlabels\n" + f"{BAD}\tArts, Crafts\n{GOOD}\tSports\n" * 4)
    _, objective = build(TrainArgs(task="classify", data=str(path), val=str(path), width=8, heads=2))
    says = "remark: 'Arts, Crafts' is read as one class; to change that, add --problem-type multi_label_classification"
    assert says in objective.understood


def test_words_with_tags(bert: Path, tmp_path: Path) -> None:
    lines = [
        {"tokens": ["the", "cat", "sat"], "ner_tags": ["O", "B-ANIMAL", "O"]},
        {"tokens": ["a", "man"], "ner_tags": ["O", "B-PERSON"]},
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines * 6))
    trained = gf.train(
        "classify",
        tmp_path / "t.jsonl",
        from_=str(bert),
        steps=100,
        lr=1e-2,
        batch_size=6,
        progress=False,
        val=str(tmp_path / "t.jsonl"),
    )
    assert trained.metrics["f1"] == 1.0
    model = gf.load(trained.save(tmp_path / "m"))
    found = gf.classify(model, "the cat sat")
    assert [(one.word, one.label) for one in found][1] == ("cat", "B-ANIMAL")
    assert [one.label for one in gf.classify(model, ["a", "man"])] == ["O", "B-PERSON"]


def test_entities_and_words() -> None:
    assert entities(["O", "B-A", "I-A", "I-B", "B-B", "O", "I-A"]) == [
        (1, 2, "A"),
        (3, 3, "B"),
        (4, 4, "B"),
        (6, 6, "A"),
    ]
    assert split_words("It's 3.5, ok") == ["It", "'", "s", "3", ".", "5", ",", "ok"]


def test_what_labels_are(tmp_path: Path, refused: Callable[..., None]) -> None:
    problem = lambda labels: (
        LabelledTexts.open(table(tmp_path / "t.csv", [(f"text {i}", x) for i, x in enumerate(labels)])).problem
    )
    assert problem(["a", "b", "a"]) == "single_label_classification"
    assert problem([1, 2, 3, 4, 5] * 3) == "single_label_classification"
    assert problem([0.5, 1, 2]) == "regression"
    assert problem(range(40)) == "regression"
    listed = tmp_path / "t.csv"
    table(listed, [("one two", "a|b"), ("three", "b"), ("four", "")])
    data = LabelledTexts.open(listed, problem="multi_label_classification")
    assert (data.labels, data.targets) == (("a", "b"), [(0, 1), (1,), ()])
    table(listed, [("one", "x"), ("two", "1")])
    refused(
        InputError,
        "t.csv line 2 has the label 'x', which is not a number",
        lambda: LabelledTexts.open(listed, problem="regression"),
    )
    table(listed, [("one", "a"), ("two", "a")])
    refused(InputError, f"{listed} has only the class 'a': give data of at least 2", lambda: LabelledTexts.open(listed))


def test_classes_without_validation_rows_are_named() -> None:
    named = remarks.classes_not_validated(["a", "b", "c"], [0, 1, 2, 2], [1, 1])
    assert named == [
        "remark: the validation data has no row of a (its only row is used for training), c, so that metrics "
        "say nothing about them"
    ]
    assert remarks.classes_not_validated(["a", "b", "c"], [0, 1, 0], [1, 0]) == []


def test_what_was_understood_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(i, f"a text of some words {i % 15}", "spam" if i % 10 == 0 else "ham") for i in range(40)]
    data = table(tmp_path / "t.csv", [*rows, (41, "", "ham")], "id,text,label")
    gf.train("classify", data, steps=1, width=8, depth=1, heads=2, vocab_size=300, progress=lambda _: None)
    said = capsys.readouterr().err
    assert "columns text=text, label=label (not used: id)" in said
    assert "classes: ham (3" in said
    assert re.search(r'example \(t.csv line \d+\): "a text of some words \d+" → (sp|h)am', said)
    assert "left out: empty text: 1 (t.csv line 42)" in said
    assert "remark: the classes are imbalanced: ham has" in said
    assert "remark: there are only 4 validation rows" in said
    assert "4 of 4 validation texts also occur in the training data" in said


def test_texts_in_folders(tmp_path: Path) -> None:
    for i in range(8):
        path = tmp_path / "reviews" / ("pos" if i % 2 else "neg") / f"{i}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{GOOD if i % 2 else BAD} {i}")
    trained = gf.train(
        "classify", tmp_path / "reviews", steps=1, width=8, depth=1, heads=2, vocab_size=300, progress=False
    )
    assert trained.objective.train.labels == ("neg", "pos")


def test_options_that_do_not_fit(reviews: Path, bert: Path, refused: Callable[..., None]) -> None:
    run = lambda **more: lambda: gf.train("classify", reviews, progress=False, **more)
    refused(ConfigError, "--augment has no effect on text classification", run(augment=False))
    refused(ConfigError, "--max-length is 99: the model's context is 32 tokens", run(from_=str(bert), max_length=99))
    refused(ConfigError, "--problem-type 'ranking' is unknown: choose", run(problem_type="ranking"))
    refused(ConfigError, "--arch rnn is not available for this task", run(arch="rnn"))
