"""What the recipes share, on small pictures; and what they shipped, on the test images it was measured with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from glassformer.checkpoints import load
from glassformer.data.images import Images
from glassformer.data.sources import fetch
from glassformer.models import Hybrid
from glassformer.pipelines.classify import classify
from glassformer.pipelines.loading import HERE
from glassformer.train import TrainArgs
from glassformer.train.objectives.image_classification import ImageClassification
from glassformer.train.objectives.image_models import Size, build

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


@pytest.mark.parametrize("name", ["digits", "objects"])
def test_a_recipe_leaves_a_model_its_numbers_and_a_card(
    name: str, recipe: Any, objective: ImageClassification, tmp_path: Path
) -> None:
    pictures, card = recipe("pictures"), recipe(name).CARD
    learners = [
        pictures.Learner(
            name=kind,
            what=f"a {kind}",
            build=lambda kind=kind: build(kind, (1, 4, 4), 2, Size(width=8, depth=1, heads=2), patch=2, seed=1),
            objective=objective,
            plan=TrainArgs(steps=12, lr=1e-2, save_every=4),
        )
        for kind in ("vit", "mlp")
    ]
    out, runs = tmp_path / "out", tmp_path / "runs"
    pictures.compare(name, learners, runs, out, False, card)
    measured = json.loads((out / "measured.json").read_text())
    model = load(out)
    assert measured["held_out"] == {"images": 16, **objective.evaluate(model)}, "of the weights as they were saved"
    assert measured["kind"] == "ViT"
    assert measured["trained"]["images_seen"] == 48
    assert measured["machine"]["threads"] == torch.get_num_threads()
    assert measured["machine"] == json.loads((runs / "vit" / "measured.json").read_text())["machine"]
    assert list(measured["peers"]) == ["mlp"]
    text = (out / "card.md").read_text()
    assert text.startswith(f"# {name}\n")
    assert "{" not in text
    assert f"**{100 * measured['held_out']['accuracy']:.2f} %**" in text
    assert f"| mlp | a mlp | {measured['peers']['mlp']['parameters']:,} | 48 |" in text
    assert classify(model, tmp_path / "test" / "dark" / "0.png")[0].label in ("dark", "bright")

    before = (runs / "vit" / "log.jsonl").stat().st_mtime_ns
    (runs / "mlp" / "measured.json").unlink()
    pictures.compare(name, learners, runs, out, True, card)
    again = json.loads((out / "measured.json").read_text())
    assert (runs / "vit" / "log.jsonl").stat().st_mtime_ns == before, "what was done is not done again"
    assert again["peers"]["mlp"]["held_out"] == measured["peers"]["mlp"]["held_out"]


def test_peers_have_the_same_number_of_weights(recipe: Any) -> None:
    objects, digits = recipe("objects"), recipe("digits")
    hybrid = sum(weight.numel() for weight in Hybrid(objects.config((3, 32, 32), 10)).parameters())
    assert objects.CNN.parameters == pytest.approx(hybrid, rel=0.05)
    vit = sum(weight.numel() for weight in build("vit", (1, 28, 28), 10, digits.SIZE, patch=digits.PATCH).parameters())
    assert digits.CNN.parameters == pytest.approx(vit, rel=0.05)


# ---- what was shipped ------------------------------------------------------------------------------------------------


def answered(name: str, data: str) -> tuple[float, dict[str, Any]]:
    """The share of a dataset's test images that a shipped model names rightly, and what it says of itself."""
    from glassformer.checkpoints.origin import origin_of
    from glassformer.checkpoints.preprocess import read_preprocess

    model = load(HERE / name)
    origin = origin_of(model)
    assert origin is not None
    how = read_preprocess(origin)
    assert how.mean is not None
    assert how.std is not None
    labels = list(origin.raw["id2label"].values())
    held = Images.open(fetch(data) / "test", channels=len(how.mean), labels=labels)
    objective = ImageClassification(train=held, val=held, mean=how.mean, std=how.std)
    return objective.evaluate(model)["accuracy"], json.loads((HERE / name / "measured.json").read_text())


@pytest.mark.slow
def test_digits_reads_99_of_100_of_mnists_test_images() -> None:
    accuracy, said = answered("digits", "mnist")
    assert said["held_out"]["images"] == 10_000
    assert accuracy >= 0.99
    assert accuracy == pytest.approx(said["held_out"]["accuracy"], abs=1e-3)


@pytest.mark.slow
def test_objects_names_as_many_as_its_card_says() -> None:
    accuracy, said = answered("objects", "cifar10")
    assert said["held_out"]["images"] == 10_000
    assert accuracy == pytest.approx(said["held_out"]["accuracy"], abs=1e-3)
