from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, log_softmax

from glassformer.checkpoints import load, open_image, origin_of
from glassformer.errors import ConfigError, InputError
from glassformer.tasks.classify import classify
from glassformer.tasks.data.images import Images
from glassformer.tasks.learn.image_models import Size, build
from glassformer.tasks.learn.images import Augment, ImageLesson, save_images, statistics
from glassformer.tasks.seeing import logits_of
from glassformer.tasks.training import Optimise, Plan, train

KINDS = ("vit", "hybrid", "cnn", "mlp", "rnn")


def lesson_of(shapes: Path, **changes: object) -> ImageLesson:
    opened = Images.open(shapes / "train")
    held = Images.open(shapes / "test", labels=opened.labels)
    mean, std = statistics(opened)
    made = ImageLesson(train=opened, held=held, mean=mean, std=std, size=16, seed=5)
    return replace(made, **changes)  # type: ignore[arg-type]


def model_of(kind: str) -> nn.Module:
    return build(kind, (1, 8, 8), 3, Size(width=16, depth=1, heads=2), patch=4, seed=1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns_and_is_used_by_the_same_verb(kind: str, shapes: Path, tmp_path: Path) -> None:
    lesson = lesson_of(shapes, augment=Augment(flip=True), smoothing=0.05)
    plan = Plan(steps=25, optimise=Optimise(rate=2e-2), seed=2)
    trained = train(model_of(kind), lesson, plan).model
    measured = lesson.measure(trained)
    assert measured["accuracy"] > 0.6, "a third is chance"
    for half in (False, True):
        folder = save_images(trained, tmp_path / str(half), lesson.labels, lesson.preprocess, half=half)
        model = load(folder)
        assert {weight.dtype for weight in model.parameters()} == {torch.float32}
        again = lesson.measure(model)
        assert again["loss"] == pytest.approx(measured["loss"], rel=1e-5 if not half else 0.02)
    right = sum(
        classify(model, shapes / "test" / label / f"{i}.png", k=1)[0].label == label
        for label in lesson.labels
        for i in range(10)
    )
    assert right == round(again["accuracy"] * 30)


def test_the_folder_shows_a_picture_to_the_model_as_the_lesson_did(shapes: Path, tmp_path: Path) -> None:
    lesson, model = lesson_of(shapes), model_of("vit").eval()
    save_images(model, tmp_path, lesson.labels, lesson.preprocess)
    logits, y = lesson.answers(model)
    found = {guess.label: guess.probability for guess in classify(load(tmp_path), shapes / "test" / "across" / "0.png")}
    assert y[0] == 0
    expected = logits[0].softmax(-1).tolist()
    assert [found[label] for label in lesson.labels] == pytest.approx(expected, abs=1e-6)
    config = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert config["size"] == {"height": 8, "width": 8}
    origin = origin_of(load(tmp_path))
    assert origin is not None
    assert origin.raw["id2label"] == {"0": "across", "1": "block", "2": "down"}


def test_half_takes_half_the_room(shapes: Path, tmp_path: Path) -> None:
    lesson, model = lesson_of(shapes), model_of("mlp")
    whole, half = (
        save_images(model, tmp_path / str(half), lesson.labels, lesson.preprocess, half=half) for half in (False, True)
    )
    assert (half / "model.safetensors").stat().st_size < 0.6 * (whole / "model.safetensors").stat().st_size
    assert next(model.parameters()).dtype == torch.float32, "the model itself stays as it was"


def test_a_batch_is_a_function_of_its_rows_and_seed(shapes: Path) -> None:
    every = Augment(crop=1, flip=True, affine=1.0, rand=0.5, rand_count=2, erase=0.5, mixup=0.2)
    lesson = lesson_of(shapes, augment=every)
    again = pickle.loads(pickle.dumps(lesson))
    one, same, other = lesson.batch([1, 5, 80], 7), again.batch([1, 5, 80], 7), lesson.batch([1, 5, 80], 8)
    assert one is not None
    assert same is not None
    assert other is not None
    assert torch.equal(one["X"], same["X"])
    assert torch.equal(one["y"], same["y"])
    assert not torch.equal(one["X"], other["X"])
    assert [list(rows) for rows in lesson.epoch(3)] == [list(rows) for rows in again.epoch(3)]
    assert list(lesson.epoch(3)[0]) != list(lesson.epoch(4)[0])
    assert sorted(row for rows in lesson.epoch(0) for row in rows) == list(range(90))


def test_the_loss_is_a_sum_over_images_smoothed_and_mixed(shapes: Path) -> None:
    model = model_of("vit").eval()
    plain = lesson_of(shapes)
    batch = plain.batch([0, 40, 70], 1)
    assert batch is not None
    assert plain.weigh(batch) == 3
    logp = log_softmax(logits_of(model, batch["X"]), -1)
    own = -logp[torch.arange(3), batch["y"]]
    torch.testing.assert_close(plain.loss(model, batch), own.sum())
    smooth = replace(plain, smoothing=0.3)
    torch.testing.assert_close(smooth.loss(model, batch), (0.7 * own - 0.3 * logp.mean(-1)).sum())
    mixed = replace(plain, augment=Augment(mixup=1.0)).batch([0, 40, 70], 1)
    assert mixed is not None
    assert mixed["y"].shape == (3, 3)
    torch.testing.assert_close(mixed["y"].sum(-1), torch.ones(3))
    expected = cross_entropy(logits_of(model, mixed["X"]), mixed["y"], reduction="sum")
    torch.testing.assert_close(plain.loss(model, mixed), expected)


def test_broken_pictures_are_counted_and_left_out(shapes: Path, tmp_path: Path) -> None:
    from shutil import copytree

    copytree(shapes, tmp_path / "data")
    (tmp_path / "data/train/across/0.png").write_bytes(b"not a picture")
    open_image(shapes / "train/across/1.png").resize((5, 5)).save(tmp_path / "data/train/across/10.png")
    lesson = lesson_of(tmp_path / "data")
    files = [lesson.train.files[i] for i in range(3)]
    assert [Path(file).name for file in files] == ["0.png", "1.png", "10.png"]
    batch = lesson.batch([0, 1, 2], 0)
    assert batch is not None
    assert lesson.weigh(batch) == 1
    assert lesson.batch([0], 0) is None
    told = " ".join(lesson.faults.told())
    assert "unreadable" in told
    assert "another size (not 8×8)" in told


def test_statistics_and_confusion(shapes: Path) -> None:
    lesson = lesson_of(shapes)
    pixels = torch.stack([lesson.train.image(i) for i in range(90)]).double() / 255
    assert lesson.mean == pytest.approx([float(pixels.mean())])
    assert lesson.std == pytest.approx([float(pixels.std())])
    C = lesson.confusion(model_of("cnn"))
    assert C.sum(1).tolist() == [10, 10, 10]
    assert int(C.diagonal().sum()) / 30 == lesson.measure(model_of("cnn"))["accuracy"]


def test_mistakes_are_told(shapes: Path, tmp_path: Path) -> None:
    lesson = lesson_of(shapes)
    with pytest.raises(InputError, match="2 names for 3 classes"):
        save_images(model_of("vit"), tmp_path, ["a", "b"], lesson.preprocess)
    with pytest.raises(ConfigError, match="smoothed by 1"):
        replace(lesson, smoothing=1.0)
    with pytest.raises(ConfigError, match="1 channels"):
        replace(lesson, mean=(0.5, 0.5, 0.5))
    with pytest.raises(InputError, match="held out"):
        replace(lesson, held=Images.open(shapes / "test", size=4))
    with pytest.raises(ConfigError, match="crop -1"):
        Augment(crop=-1)
    with pytest.raises(ConfigError, match="no model of the kind 'gan'"):
        model_of("gan")
