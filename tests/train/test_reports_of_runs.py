"""The report of a run: scores counted by hand, calibration, mistakes that can be looked at, and the range test."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import glassformer as gf
from glassformer.pipelines.calibration import calibration_error, calibration_of, fit_temperature
from glassformer.train import TrainArgs
from glassformer.train.examined import Misprediction, examine_classes, examine_labels
from glassformer.train.lr_finder import find_lr, suggestion
from glassformer.train.measured_runs import MeasuredRun, expectation, measured_runs
from glassformer.train.objectives import build
from glassformer.train.report import figures


@pytest.fixture
def undrawn() -> None:
    """Here, figures are drawn."""


def show(row: int, truth: str, answer: str, p: float) -> Misprediction:
    return Misprediction(place=str(row), truth=truth, answer=answer, score=p)


def test_scores_counted_by_hand() -> None:
    logits = torch.tensor([[5.0, 0, 0], [0, 2, 0], [0, 4, 0], [3, 0, 0], [0, 1, 0]])
    found = examine_classes(logits, torch.tensor([0, 1, 0, 0, 1]), "abc", show)
    assert found.confusion == ((2, 1, 0), (0, 2, 0), (0, 0, 0))
    a, b, c = found.classes
    assert (a.precision, a.recall, a.count) == (1.0, pytest.approx(2 / 3), 3)
    assert (b.precision, b.recall) == (pytest.approx(2 / 3), 1.0)
    assert (c.precision, c.recall, c.f1) == (None, None, 0.0)
    assert [(one.place, one.truth, one.answer) for one in found.mistakes] == [("2", "a", "b")]
    assert found.temperature is None, "too few rows"


def test_no_mistake_does_not_mean_certainty() -> None:
    """Without a mistake the likelihood would choose the lowest temperature; the confidence stays that of n answers."""
    y = torch.arange(40) % 3
    logits = 4 * torch.nn.functional.one_hot(y, 3) + torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    confidence = (logits / fit_temperature(logits, y)).softmax(-1).amax(-1).mean()
    assert 0.96 < confidence <= 41 / 42


def test_a_temperature_undoes_overconfidence() -> None:
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(4000, 3, generator=random)
    y = torch.multinomial(logits.softmax(-1), 1, generator=random).flatten()
    assert fit_temperature(5 * logits, y) == pytest.approx(5, rel=0.1)
    assert calibration_error(logits, y) < 0.03 < 0.2 < calibration_error(5 * logits, y)
    found = examine_classes(5 * logits, y, "abc", show)
    assert found.calibration is not None
    assert found.calibration[1] < 0.04
    sure = [one.score for one in found.mistakes]
    assert sure == sorted(sure, reverse=True)
    half = torch.tensor([[math.log(3), 0.0]] * 4)
    assert calibration_error(half, torch.tensor([0, 0, 0, 1])) == pytest.approx(0, abs=1e-7)


def test_the_page_of_images(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name, level in (("dark", 60), ("light", 110)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(120):
            pixels = random.normal(level, 60, (8, 8)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    trained = gf.train("classify", tmp_path / "photos", output=tmp_path / "m", steps=10, arch="mlp", progress=False)
    assert set(trained.figures) == {"curves", "confusion"}
    assert trained.examined is not None
    assert sum(map(sum, trained.examined.confusion)) == trained.examined.rows == 24
    page = (tmp_path / "m" / "report.html").read_text()
    assert "precision" in page
    assert "data:image/png;base64," in page
    assert page.count("<li><img") == len(trained.examined.mistakes)
    assert "216 images of 8 × 8 in 2 classes, 24 for validation" in page
    assert "64 images" in page, "the default batch size"
    model = gf.load(tmp_path / "m")
    found = calibration_of(model)
    assert found is not None
    assert found.temperature == trained.examined.temperature
    picture = tmp_path / "photos" / "dark" / "0.png"
    plain = gf.load(trained.objective.save(trained.model, tmp_path / "plain"))  # type: ignore[attr-defined]
    sure, before = gf.classify(model, picture), gf.classify(plain, picture)
    odds = lambda one: math.log(one.score / (1 - one.score))
    assert odds(sure) == pytest.approx(odds(before) / found.temperature, rel=1e-3)
    assert sure.out_of_distribution is None


def test_the_page_of_texts(tmp_path: Path) -> None:
    rows = [{"text": f"<b>{'good' if i % 2 else 'bad'} film {i}", "label": "yes" if i % 3 else "no"} for i in range(90)]
    trained = gf.train("classify", rows, val=rows, steps=2, width=16, depth=1, progress=False)
    page = trained.report()
    assert trained.examined is not None
    assert trained.examined.mistaken > 0
    assert "&lt;b&gt;" in page
    assert "<b>good" not in page, "texts are escaped"
    assert "<audio" not in page


def test_the_page_of_words() -> None:
    rows = [{"tokens": ["see", "Rome", "now", str(i)], "tags": ["O", "B-LOC", "O", "O"]} for i in range(30)]
    trained = gf.train("classify", rows, val=rows, steps=1, width=16, depth=1, lr=1e-9, progress=False)
    found = trained.examined
    assert found is not None
    assert (found.rows, found.unit, sum(map(sum, found.confusion))) == (120, "words", 120)
    assert sum(found.confusion[found.labels.index("B-LOC")]) == 30
    assert found.mistaken == 120 - sum(row[i] for i, row in enumerate(found.confusion)) > 0
    assert "[" in found.mistakes[0].text
    page = trained.report()
    assert "Confusion matrix" in page
    assert "120 words" in page


def test_the_page_of_several_labels() -> None:
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(2000, 2, generator=random)
    y = (torch.rand(2000, 2, generator=random) < logits.sigmoid()).float()
    found = examine_labels(4 * logits, y, ["a", "b"], show)
    assert found.temperature == pytest.approx(4, rel=0.1), "one temperature for all labels"
    assert found.calibration is not None
    assert found.calibration[1] < 0.04 < found.calibration[0]
    few = examine_labels(
        torch.tensor([[1.0, 1], [-1, 1], [-1, -1]]), torch.tensor([[1.0, 0], [1, 1], [0, 0]]), "ab", show
    )
    assert [one.outcomes for one in few.classes] == [(1, 0, 1, 1), (1, 1, 0, 1)]
    rows = [{"text": f"{word} {i}", "label": [word, "film"]} for i in range(15) for word in ("good", "bad")]
    page = gf.train("classify", rows, val=rows, steps=1, width=16, depth=1, progress=False).report()
    assert "Confusion of each label" in page
    assert "The saved model divides its logits by the temperature" in page


@pytest.mark.parametrize("metric", ["loss", "nats"])
def test_the_validation_loss_is_drawn_over_the_training_loss(metric: str) -> None:
    args = TrainArgs(task="classify", data="uci-digits")
    line = {"step": 1, "loss": 2.0, "lr": 0.1, "seconds": 1.0, "val": {"accuracy": 0.5, metric: 3.0}}
    trained = gf.train("classify", "uci-digits", steps=1, arch="mlp", progress=False)
    curves = figures(replace(trained, history=[line, {**line, "step": 2}], args=args))["curves"]
    drawn = [list(one.get_ydata()) for one in curves.axes[0].get_lines()]
    assert drawn == [[2.0, 2.0], [3.0, 3.0]]


def test_early_stopping_says_so() -> None:
    trained = gf.train(
        "classify", "uci-digits", steps=40, arch="mlp", lr=1e-12, eval_every=5, patience=2, progress=False
    )
    assert "stopped early after 15 steps, as accuracy did not improve in 2 evaluations (best weights: step 5)" in str(
        trained
    )


def test_the_range_test_finds_a_rate_that_trains() -> None:
    args = TrainArgs(task="classify", data="uci-digits", arch="mlp")
    found = [find_lr(*build(args), args) for _ in range(2)]
    assert found[0] == found[1], "the same data and seed"
    assert 1e-4 < found[0].lr < 1e-1
    assert suggestion([10.0**k for k in range(12)], [*range(11, 0, -1), 5]) == 10.0**9
    trained = gf.train("classify", "uci-digits", arch="mlp", lr="auto", steps=60, progress=False)
    assert trained.args.lr == found[0].lr
    assert trained.metrics["accuracy"] > 0.8


def test_what_to_expect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for run in measured_runs():
        assert isinstance(run, MeasuredRun)
        assert run.rows > 0
        assert run.curve == tuple(sorted(run.curve))
    runs = [
        {"name": "few", "task": "classify", "kind": "images", "rows": 100, "classes": 2, "from_": None,
         "metric": "accuracy", "curve": [[10, 0.5], [20, 0.6]]},
        {"name": "many", "task": "classify", "kind": "images", "rows": 9000, "classes": 2, "from_": None,
         "metric": "accuracy", "curve": [[10, 0.7], [20, 0.8]]},
    ]  # fmt: skip
    (tmp_path / "runs.json").write_text(json.dumps({"runs": runs}))
    monkeypatch.setattr("glassformer.train.measured_runs.FILE", tmp_path / "runs.json")
    measured_runs.cache_clear()
    said = expectation("images", 5000, None, 15)
    reached = "reached a validation accuracy of 0.700 after 10 s of processor time"
    assert said == f"for comparison, many (9,000 rows, 2 classes) {reached}"
    assert expectation("images", 5000, "objects", 15) == expectation("texts", 5, None, 15) == ""
    measured_runs.cache_clear()


def test_the_remaining_time_is_estimated_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("glassformer.train.loop.MINUTE", 0.0)
    gf.train("classify", "uci-digits", steps=3, arch="mlp", progress=False)
    said = capsys.readouterr().err
    assert said.count("left for 2 steps") == 1
    assert "for comparison, uci-digits (1,451 rows, 10 classes) reached a validation accuracy" in said
    gf.train("classify", "uci-digits", steps=1, arch="mlp", progress=False)
    assert "left for" not in capsys.readouterr().err
