"""Model cards made from training runs, read by Hugging Face's own parser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from PIL import Image

import glassformer as gf
from glassformer.checkpoints.export_folder import export_model
from glassformer.pipelines.calibration import calibration_of
from glassformer.train.model_card import model_card


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("private-place")
    rows = [f"{word} film number {i},{label}" for i in range(30) for word, label in (("good", "pos"), ("bad", "neg"))]
    (place / "reviews.csv").write_text("text,label\n" + "\n".join(rows))
    data = str(place / "reviews.csv")
    gf.train("classify", data, output=place / "mine", steps=2, license="apache-2.0", progress=False)
    return place / "mine"


def test_the_hub_reads_licence_task_and_metrics(trained_folder: Path) -> None:
    card = ModelCard.load(trained_folder / "README.md").data
    assert (card.license, card.pipeline_tag, card.library_name) == ("apache-2.0", "text-classification", "glassformer")
    metrics = {result.metric_type: result.metric_value for result in card.eval_results}
    assert metrics.keys() == {"accuracy", "f1_macro", "loss"}
    assert {result.dataset_split for result in card.eval_results} == {"validation"}


def test_a_card_states_data_split_arguments_and_environment(trained_folder: Path) -> None:
    text = (trained_folder / "README.md").read_text()
    for part in (
        "Validation: 10% of the data, which",
        "54 texts, 6 for validation",
        "neg (27), pos (27)",
        "Batch size: 32 texts.",
        "steps: 2",
        "torch 2.",
        "Python 3.",
    ):
        assert part in text, part
    assert "augment" not in text, "texts are not augmented"
    assert "0.0 minutes" not in text


def test_a_card_reveals_neither_folders_nor_examples(trained_folder: Path) -> None:
    text = (trained_folder / "README.md").read_text()
    assert "private-place" not in text
    assert "film number" not in text


def test_a_card_does_not_quote_a_row_that_is_in_both_splits(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("text,label\n" + "a secret,x\nanother secret,y\n" * 20)
    same = {"width": 16, "depth": 1, "heads": 2, "progress": False}
    trained = gf.train("classify", tmp_path / "d.csv", steps=1, **same)
    assert any("secret" in line for line in trained.objective.understood)
    text = model_card(trained, "mine")
    assert "4 of 4 validation texts also occur in the training data: the metrics look better" in text
    assert "secret" not in text


@pytest.mark.parametrize(("name", "hub"), [("all-minilm-l6-v2", "sentence-transformers/all-MiniLM-L6-v2"), ("x", None)])
def test_the_base_model_is_an_id_of_the_hub_or_named_in_the_text(name: str, hub: str | None) -> None:
    trained = gf.train("classify", "uci-digits", steps=1, arch="mlp", progress=False)
    text = model_card(replace(trained, args=replace(trained.args, arch=None, from_=name)), "mine")
    assert ModelCard(text).data.base_model == hub
    assert f"fine-tuned from {name}" in text


def test_a_card_without_licence_says_so(tmp_path: Path) -> None:
    gf.train("classify", "uci-digits", output=tmp_path / "mine", steps=1, arch="vit", progress=False)
    assert ModelCard.load(tmp_path / "mine" / "README.md").data.license is None
    assert "Not stated" in (tmp_path / "mine" / "README.md").read_text()
    text = (tmp_path / "mine" / "README.md").read_text()
    assert "Validation: its own split test." in text
    temperature = calibration_of(gf.load(tmp_path / "mine"))
    assert temperature is not None
    assert temperature.temperature != 1
    out = export_model(tmp_path / "mine", tmp_path / "out")
    assert calibration_of(gf.load(out)) is None
    Image.effect_noise((8, 8), 60).save(tmp_path / "a.png")
    ours, theirs = (gf.classify(gf.load(folder), tmp_path / "a.png", top_k=3) for folder in (tmp_path / "mine", out))
    assert theirs.label == ours.label
    assert [one.score for one in theirs.scores] == pytest.approx([one.score for one in ours.scores], rel=1e-5)
    said = f"divided by the temperature {temperature.temperature:.4g} of the calibration"
    assert said in (out / "README.md").read_text()
    assert ModelCard.load(out / "README.md").data.library_name == "transformers"
    assert "from transformers import IJepaForImageClassification" in (out / "README.md").read_text()
