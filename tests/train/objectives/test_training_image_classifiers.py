from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, log_softmax

from glassformer.checkpoints import load_folder, open_image, origin_of
from glassformer.data.images import Images
from glassformer.errors import ConfigError, InputError
from glassformer.pipelines.classify import classify
from glassformer.train import TrainArgs, fit
from glassformer.train.objectives.image_classification import (
    ImageAugmentation,
    ImageClassification,
    save_images,
    statistics,
)
from glassformer.train.objectives.image_models import Size, build_image_model

KINDS = ("vit", "hybrid", "cnn", "mlp", "rnn")


def lesson_of(shapes: Path, **changes: object) -> ImageClassification:
    opened = Images.open(shapes / "train")
    held = Images.open(shapes / "test", labels=opened.labels)
    mean, std = statistics(opened)
    made = ImageClassification(train=opened, val=held, mean=mean, std=std, batch_size=16, seed=5)
    return replace(made, **changes)  # type: ignore[arg-type]


def model_of(kind: str) -> nn.Module:
    return build_image_model(kind, (1, 8, 8), 3, Size(width=16, depth=1, heads=2), patch=4, seed=1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns_and_is_used_by_the_same_verb(kind: str, shapes: Path, tmp_path: Path) -> None:
    objective = lesson_of(shapes, augment=ImageAugmentation(flip=True), label_smoothing=0.05)
    plan = TrainArgs(steps=25, lr=2e-2, seed=2)
    trained = fit(model_of(kind), objective, plan).model
    measured = objective.evaluate(trained)
    assert measured["accuracy"] > 0.6, "a third is chance"
    for half in (False, True):
        folder = save_images(trained, tmp_path / str(half), objective.labels, objective.preprocess, half=half)
        model = load_folder(folder)
        assert {weight.dtype for weight in model.parameters()} == {torch.float32}
        again = objective.evaluate(model)
        assert again["loss"] == pytest.approx(measured["loss"], rel=1e-5 if not half else 0.02)
    right = sum(
        classify(model, shapes / "test" / label / f"{i}.png", top_k=1)[0].label == label
        for label in objective.labels
        for i in range(10)
    )
    assert right == round(again["accuracy"] * 30)


def test_the_folder_shows_a_picture_to_the_model_as_the_lesson_did(shapes: Path, tmp_path: Path) -> None:
    objective, model = lesson_of(shapes), model_of("vit").eval()
    save_images(model, tmp_path, objective.labels, objective.preprocess)
    logits, y, _ = objective.predict(model)
    found = {
        guess.label: guess.score for guess in classify(load_folder(tmp_path), shapes / "test" / "across" / "0.png")
    }
    assert y[0] == 0
    expected = logits[0].softmax(-1).tolist()
    assert [found[label] for label in objective.labels] == pytest.approx(expected, abs=1e-6)
    config = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert config["size"] == {"height": 8, "width": 8}
    origin = origin_of(load_folder(tmp_path))
    assert origin is not None
    assert origin.raw["id2label"] == {"0": "across", "1": "block", "2": "down"}


def test_half_takes_half_the_room(shapes: Path, tmp_path: Path) -> None:
    objective, model = lesson_of(shapes), model_of("mlp")
    whole, half = (
        save_images(model, tmp_path / str(half), objective.labels, objective.preprocess, half=half)
        for half in (False, True)
    )
    assert (half / "model.safetensors").stat().st_size < 0.6 * (whole / "model.safetensors").stat().st_size
    assert next(model.parameters()).dtype == torch.float32, "the model itself stays as it was"


def test_a_batch_is_a_function_of_its_rows_and_seed(shapes: Path) -> None:
    every = ImageAugmentation(crop=1, flip=True, affine=1.0, rand=0.5, rand_count=2, erase=0.5, mixup=0.2)
    objective = lesson_of(shapes, augment=every)
    again = pickle.loads(pickle.dumps(objective))
    one, same, other = objective.batch([1, 5, 80], 7), again.batch([1, 5, 80], 7), objective.batch([1, 5, 80], 8)
    assert one is not None
    assert same is not None
    assert other is not None
    assert torch.equal(one["X"], same["X"])
    assert torch.equal(one["y"], same["y"])
    assert not torch.equal(one["X"], other["X"])
    assert [list(rows) for rows in objective.epoch(3)] == [list(rows) for rows in again.epoch(3)]
    assert list(objective.epoch(3)[0]) != list(objective.epoch(4)[0])
    assert sorted(row for rows in objective.epoch(0) for row in rows) == list(range(90))


def test_the_loss_is_a_sum_over_images_smoothed_and_mixed(shapes: Path) -> None:
    model = model_of("vit").eval()
    plain = lesson_of(shapes)
    batch = plain.batch([0, 40, 70], 1)
    assert batch is not None
    assert plain.count(batch) == 3
    logp = log_softmax(model.class_logits(batch["X"]), -1)
    own = -logp[torch.arange(3), batch["y"]]
    torch.testing.assert_close(plain.loss(model, batch), own.sum())
    smooth = replace(plain, label_smoothing=0.3)
    torch.testing.assert_close(smooth.loss(model, batch), (0.7 * own - 0.3 * logp.mean(-1)).sum())
    mixed = replace(plain, augment=ImageAugmentation(mixup=1.0)).batch([0, 40, 70], 1)
    assert mixed is not None
    assert mixed["y"].shape == (3, 3)
    torch.testing.assert_close(mixed["y"].sum(-1), torch.ones(3))
    expected = cross_entropy(model.class_logits(mixed["X"]), mixed["y"], reduction="sum")
    torch.testing.assert_close(plain.loss(model, mixed), expected)


def test_broken_pictures_are_counted_and_left_out(shapes: Path, tmp_path: Path) -> None:
    from shutil import copytree

    copytree(shapes, tmp_path / "data")
    broken = tmp_path / "data/train/across/0.png"
    broken.write_bytes(broken.read_bytes()[:-30])
    (tmp_path / "data/train/across/2.png").write_bytes(b"not a picture")
    open_image(shapes / "train/across/1.png").resize((5, 5)).save(tmp_path / "data/train/across/10.png")
    objective = lesson_of(tmp_path / "data")
    assert "across/2.png" not in [objective.train.files[i] for i in range(len(objective.train))]
    files = [objective.train.files[i] for i in range(3)]
    assert [Path(file).name for file in files] == ["0.png", "1.png", "10.png"]
    batch = objective.batch([0, 1, 2], 0)
    assert batch is not None
    assert objective.count(batch) == 1
    assert objective.batch([0], 0) is None
    told = " ".join(objective.faults.summary())
    assert "unreadable image: 1 (across/0.png)" in told
    assert "different size (not 8×8)" in told


def test_statistics_and_confusion(shapes: Path) -> None:
    objective = lesson_of(shapes)
    pixels = torch.stack([objective.train.image(i) for i in range(90)]).double() / 255
    assert objective.mean == pytest.approx([float(pixels.mean())])
    assert objective.std == pytest.approx([float(pixels.std())])
    examined = objective.examine(model_of("cnn"))
    C = torch.tensor(examined.confusion)
    assert C.sum(1).tolist() == [10, 10, 10]
    assert examined.mistaken == 30 - int(C.diagonal().sum())
    assert all(one.picture.startswith(b"\x89PNG") for one in examined.mistakes)
    assert int(C.diagonal().sum()) / 30 == objective.evaluate(model_of("cnn"))["accuracy"]


def test_mistakes_are_errors(shapes: Path, tmp_path: Path) -> None:
    objective = lesson_of(shapes)
    with pytest.raises(InputError, match="there are 2 labels for 3 classes"):
        save_images(model_of("vit"), tmp_path, ["a", "b"], objective.preprocess)
    with pytest.raises(ConfigError, match="label_smoothing is 1"):
        replace(objective, label_smoothing=1.0)
    with pytest.raises(ConfigError, match="1 channels"):
        replace(objective, mean=(0.5, 0.5, 0.5))
    with pytest.raises(InputError, match="do not match"):
        replace(objective, val=Images.open(shapes / "test", size=4))
    with pytest.raises(ConfigError, match="crop is -1"):
        ImageAugmentation(crop=-1)
    with pytest.raises(ConfigError, match="the architecture 'gan' is unknown"):
        model_of("gan")
