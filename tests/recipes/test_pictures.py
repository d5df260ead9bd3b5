"""What the recipes share, on small pictures; and what they shipped, on the test images it was measured with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from glassformer import lens
from glassformer.checkpoints import load_folder
from glassformer.data import order
from glassformer.data.images import Images
from glassformer.data.sources import fetch
from glassformer.pipelines import evaluate
from glassformer.pipelines.calibration import calibration_of
from glassformer.pipelines.classify import classify
from glassformer.pipelines.loading import HERE
from glassformer.train import TrainArgs
from glassformer.train.objectives.image_classification import ImageClassification
from glassformer.train.objectives.image_models import Size, build_image_model

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture
def objective(tmp_path: Path) -> ImageClassification:
    """Dark and bright pictures."""
    random = np.random.default_rng(0)
    for part in ("train", "test"):
        for label, low in (("bright", 150), ("dark", 0)):
            (tmp_path / part / label).mkdir(parents=True)
            for i in range(8):
                pixels = random.integers(low, low + 100, (4, 4), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / part / label / f"{i}.png")
    train = Images.open(tmp_path / "train")
    held = Images.open(tmp_path / "test", labels=train.labels)
    return ImageClassification(train=train, val=held, mean=(0.4,), std=(0.3,), batch_size=4)


def test_a_trained_model_is_calibrated_and_measured(
    recipe: Any, objective: ImageClassification, tmp_path: Path
) -> None:
    pictures = recipe("pictures")
    learner = pictures.Learner(
        name="vit",
        build=lambda: build_image_model("vit", (1, 4, 4), 2, Size(width=8, depth=1, heads=2), patch=2, seed=1),
        objective=objective,
        plan=TrainArgs(steps=40, lr=1e-2, save_every=20),
        preprocess=objective.preprocess,
    )
    trained = pictures.teach(learner, tmp_path / "run", False)
    assert trained["images_seen"] == 160
    assert pictures.teach(learner, tmp_path / "run", True) == trained, "what was done is not done again"
    model = load_folder(tmp_path / "run" / "model")
    made, fitted = pictures.calibrate(model, objective.train, objective.val, range(16))
    seen, y = pictures.opened(objective.val, range(16))
    logits, _ = pictures.predicted(model, seen)
    if bool((logits.argmax(-1) == y).all()):  # no mistake in 16 answers: (n + 1)/(n + 2)
        confidence = (logits / fitted["temperature"]).softmax(-1).amax(-1).mean()
        assert float(confidence) == pytest.approx(17 / 18, abs=1e-2)
    else:
        assert fitted["cross_entropy_after"] <= fitted["cross_entropy_before"]
    made.save(tmp_path / "run" / "model")
    shown, y = pictures.opened(objective.val, range(16))
    rates = pictures.ablations(model, shown, y)
    assert list(rates) == ["unchanged", "encoder.0.attention", "all layers", pictures.FIXED]
    assert rates["encoder.0.attention"] == rates["all layers"]
    chessboard = Image.fromarray(np.tile(np.array([[0, 255], [255, 0]], np.uint8), (2, 2)))
    far = pictures.detection(model, made, {"chessboard": [chessboard], "validation": shown})
    assert far["chessboard"]["detected"] == 1.0
    assert far["validation"]["detected"] <= 0.1
    found = classify(load_folder(tmp_path / "run" / "model"), chessboard)
    assert found.out_of_distribution
    assert "unlike the images the model was trained on" in str(found)
    assert classify(load_folder(tmp_path / "run" / "model"), shown[0]).out_of_distribution is False


def test_attention_takes_the_place_of_convolutions_and_computes_the_same(
    recipe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = recipe("objects")
    random = torch.Generator().manual_seed(0)
    first = objects.hybrid(objects.config((3, 32, 32), 10))
    first(torch.randn(8, 3, 32, 32, generator=random))  # running statistics of the batch norms
    X = torch.randn(4, 3, 32, 32, generator=random)
    monkeypatch.setattr(objects, "SHARP", 40.0)  # heads that attend to nothing but their own offset
    with torch.no_grad():
        torch.testing.assert_close(objects.recast(first.eval(), 3, 2).eval()(X), first(X), atol=1e-3, rtol=1e-3)
    model = objects.attentive(first).train()
    assert list(lens.attention_layers(model)) == ["stem.4.grid", "stem.5.grid", "stem.6.grid", "encoder.0.attention"]
    kept = {name: weight.clone() for name, weight in model.state_dict().items()}
    empty = ImageClassification.__new__(objects.FrozenConvolutions)
    empty.label_smoothing = 0.1
    empty.loss(model, {"X": X, "y": torch.tensor([0, 1, 2, 3])}).backward()
    for name, weight in model.state_dict(keep_vars=True).items():
        frozen = name.startswith(("stem.0", "stem.1", "stem.2", "stem.3"))
        assert not frozen or (weight.grad is None and torch.equal(weight, kept[name]))
        assert frozen or not weight.requires_grad or weight.grad is not None


def test_the_expected_calibration_error(recipe: Any) -> None:
    error = recipe("pictures").expected_calibration_error
    sure = torch.tensor([[9.0, -9.0]] * 4)
    assert error(sure, torch.tensor([0, 0, 0, 0])) == pytest.approx(0, abs=1e-6)
    assert error(sure, torch.tensor([0, 0, 1, 1])) == pytest.approx(0.5, abs=1e-6)


# ---- what was shipped ------------------------------------------------------------------------------------------------


def answered(name: str, data: str, limit: int | None = None) -> tuple[dict[str, float], dict[str, Any]]:
    """What `evaluate` finds, and what the model says of itself."""
    found = evaluate(load_folder(HERE / name), fetch(data), limit=limit)
    return found, json.loads((HERE / name / "measured.json").read_text())


@pytest.mark.slow
def test_digits_is_as_good_as_its_card_says(recipe: Any) -> None:
    found, said = answered("digits", "mnist")
    assert found["images"] == said["held_out"]["images"] == 10_000
    assert found["accuracy"] == pytest.approx(said["held_out"]["accuracy"], abs=1e-3)
    assert found["accuracy"] >= 0.985
    module, pictures = recipe("digits"), recipe("pictures")
    test = Images.open(fetch("mnist") / "test", channels=1)
    shown, y = pictures.opened(test, order.spread(len(test), said["held_out"]["varied"]["images"]))
    for name, varied in module.variations(shown).items():
        share = float((pictures.predicted(load_folder(HERE / "digits"), varied)[0].argmax(-1) == y).float().mean())
        assert share == pytest.approx(said["held_out"]["varied"][name], abs=0.005)


@pytest.mark.slow
def test_digits_is_selected_and_calibrated_on_training_images_that_are_held_out(recipe: Any) -> None:
    said = json.loads((HERE / "digits" / "measured.json").read_text())
    train, val = recipe("digits").parts()
    assert {len(train), len(val)} == {55_000, 5_000}
    assert not set(train.files) & set(val.files)
    pictures, model = recipe("pictures"), load_folder(HERE / "digits")
    calibration, fitted = pictures.calibrate(model, train, val, range(len(val)))
    assert fitted == pytest.approx(said["calibration"], abs=0.01)
    shipped = calibration_of(model)
    assert shipped is not None
    assert shipped.temperature == pytest.approx(calibration.temperature, abs=1e-3)
    assert shipped.threshold == pytest.approx(calibration.threshold, rel=1e-3)


@pytest.mark.slow
def test_objects_is_as_good_as_its_card_says() -> None:
    found, said = answered("objects", "cifar10")
    assert found["images"] == said["held_out"]["images"] == 10_000
    assert found["accuracy"] == pytest.approx(said["held_out"]["accuracy"], abs=1e-3)


@pytest.mark.slow
def test_uniform_attention_costs_objects_what_its_card_says(recipe: Any) -> None:
    pictures = recipe("pictures")
    said = json.loads((HERE / "objects" / "measured.json").read_text())["uniform_attention"]
    test = Images.open(fetch("cifar10") / "test", channels=3)
    shown, y = pictures.opened(test, order.spread(len(test), said.pop("images")))
    assert said["unchanged"] - said["all layers"] >= 0.15, "attention matters"
    assert pictures.ablations(load_folder(HERE / "objects"), shown, y) == pytest.approx(said, abs=0.002)


@pytest.mark.parametrize("name", ["digits", "objects"])
def test_drawings_and_noise_are_detected_as_often_as_the_card_says(name: str, recipe: Any) -> None:
    """A coin, a house, letters, blank pages and noise: nothing that digits or objects has learned."""
    pictures = recipe("pictures")
    model, said = load_folder(HERE / name), json.loads((HERE / name / "measured.json").read_text())["outside"]
    calibration = calibration_of(model)
    assert calibration is not None
    outside = {"simple drawings and patterns": pictures.drawings(), "random noise": pictures.noise(20)}
    found = pictures.detection(model, calibration, outside)
    drawn = found["simple drawings and patterns"]
    assert drawn == pytest.approx(said["simple drawings and patterns"], abs=0.051)  # one of twenty
    card = (HERE / name / "card.md").read_text()
    share = pictures.percent(said["simple drawings and patterns"]["detected"])
    assert f"| simple drawings and patterns | 20 | {share} |" in card
    assert found["random noise"]["detected"] == pytest.approx(said["random noise"]["detected"], abs=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "own", "other"), [("digits", "mnist", "fashion"), ("objects", "cifar10", "mnist")])
def test_unknown_pictures_are_detected_as_often_as_the_card_says(name: str, own: str, other: str, recipe: Any) -> None:
    pictures = recipe("pictures")
    model, said = load_folder(HERE / name), json.loads((HERE / name / "measured.json").read_text())
    calibration = calibration_of(model)
    assert calibration is not None
    label, folder = {"fashion": ("Fashion-MNIST", "fashion-mnist"), "mnist": ("MNIST", "mnist")}[other]
    outside = {label: pictures.some(fetch(folder) / "test")}
    assert pictures.detection(model, calibration, outside)[label] == pytest.approx(said["outside"][label], abs=0.01)
    inside = {own: pictures.some(fetch(own) / "test")}
    assert pictures.detection(model, calibration, inside)[own]["detected"] < 0.1
