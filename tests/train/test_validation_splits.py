"""Training and validation data of a run, and the model that it fine-tunes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from glassformer.checkpoints import save
from glassformer.data import Lines
from glassformer.errors import InputError
from glassformer.models import ViT, vit
from glassformer.train.args import TrainArgs
from glassformer.train.objectives import build
from glassformer.train.splits import base_model, data_paths, split, split_notes


def test_splits_of_a_folder(tmp_path: Path) -> None:
    for name in ("train.tsv", "test.tsv"):
        (tmp_path / name).write_text("a\tb\n")
    whole = str(tmp_path)
    assert data_paths(TrainArgs(data=whole)) == (tmp_path / "train.tsv", tmp_path / "test.tsv")
    (tmp_path / "valid.tsv").write_text("a\tb\n")
    assert data_paths(TrainArgs(data=whole))[1] == tmp_path / "valid.tsv", "the test split stays unseen"
    one = str(tmp_path / "test.tsv")
    assert data_paths(TrainArgs(data=one)) == (tmp_path / "test.tsv", None)
    assert data_paths(TrainArgs(data=one, val=whole)) == (tmp_path / "test.tsv", tmp_path)


def test_a_dataset_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    first, val = data_paths(TrainArgs(data="uci-digits"))
    assert first.name == "train"
    assert val is not None
    assert val.name == "test"


def test_data_that_does_not_exist(refused: Callable[..., None], tmp_path: Path) -> None:
    refused(InputError, "nowhere does not exist: give a folder", lambda: data_paths(TrainArgs(data="nowhere")))
    missing = TrainArgs(data=str(tmp_path), val="gone")
    refused(InputError, "--val gone does not exist", lambda: data_paths(missing))


@pytest.mark.parametrize(
    ("data", "files", "close"),
    [
        ("revews.csv", ["reviews.csv"], "{}/reviews.csv"),
        ("corpus", ["corpus.en", "corpus.fr"], "{0}/corpus.en,{0}/corpus.fr"),
    ],
)
def test_a_similar_name_is_suggested(
    data: str, files: list[str], close: str, refused: Callable[..., None], tmp_path: Path
) -> None:
    for file in files:
        (tmp_path / file).write_text("a\n")
    fact = f"{tmp_path / data} does not exist: did you mean {close.format(tmp_path)}?"
    refused(InputError, fact, lambda: data_paths(TrainArgs(data=str(tmp_path / data))))
    refused(InputError, "minst does not exist: did you mean mnist?", lambda: data_paths(TrainArgs(data="minst")))


@pytest.fixture
def lines(tmp_path: Path) -> Callable[[str, int], Lines]:
    def opened(name: str, count: int) -> Lines:
        (tmp_path / name).write_text("\n" + "".join(f"line {i}\n" for i in range(count)))
        return Lines.open(tmp_path / name)

    return opened


def test_a_tenth_is_for_validation(lines: Callable[[str, int], Lines]) -> None:
    whole = lines("a.txt", 30)
    train, val, faults = split(whole, None, seed=0)
    assert (len(train), len(val)) == (27, 3)
    assert {train.line(i) for i in range(27)}.isdisjoint(val.line(i) for i in range(3))
    assert faults.summary() == ["empty line: 1 (a.txt line 1)"]
    assert split(whole, None, seed=0)[1].line(0) == val.line(0)


@pytest.mark.parametrize("seed", range(3))
def test_the_tenth_of_a_classifier_is_stratified(tmp_path: Path, seed: int) -> None:
    rows = [("rare", i) for i in range(10)] + [("common", i) for i in range(89)] + [("single", 0)]
    table = tmp_path / "reviews.csv"
    table.write_text("text,label\n" + "".join(f"a {label} text {i},{label}\n" for label, i in rows))
    _, objective = build(TrainArgs(task="classify", data=str(table), width=8, depth=1, heads=2, seed=seed))
    val = [objective.val.shown_target(i) for i in range(len(objective.val))]
    assert (val.count("rare"), val.count("common"), val.count("single")) == (1, 9, 0)
    said = "remark: the validation data has no row of single (its only row is used for training)"
    assert any(line.startswith(said) for line in objective.understood)


def test_missing_images_are_not_counted(tmp_path: Path) -> None:
    for i in range(40):
        Image.new("L", (8, 8), 5 * i).save(tmp_path / f"{i}.png")
    gone = "".join(f"gone{i}.png,bright\n" for i in range(4))
    listed = "".join(f"{i}.png,{'dark' if i < 20 else 'bright'}\n" for i in range(40))
    (tmp_path / "labels.csv").write_text("file_name,label\n" + listed + gone)
    _, objective = build(TrainArgs(task="classify", data=str(tmp_path / "labels.csv"), arch="mlp", width=8))
    assert objective.summary() == "36 images of 8 × 8 in 2 classes, 4 for validation"
    assert "classes: bright (18), dark (18)" in objective.understood
    assert objective.faults.summary() == ["missing image: 4 (gone0.png, gone1.png, gone2.png, …)"]


def test_validation_data_that_is_given(lines: Callable[[str, int], Lines]) -> None:
    first, second = lines("a.txt", 5), lines("b.txt", 2)
    train, val, faults = split(first, second, seed=0)
    assert train is first
    assert val is second
    assert faults.summary() == ["empty line: 2 (a.txt line 1, b.txt line 1)"]


def test_the_model_to_fine_tune(tmp_path: Path, refused: Callable[..., None]) -> None:
    folder = str(save(ViT(vit.tiny()), tmp_path / "vit"))
    assert base_model(TrainArgs(), "a ViT", lambda _: True) is None
    assert isinstance(base_model(TrainArgs(from_=folder), "a ViT", lambda _: True), ViT)
    says = f"--from {folder} is a ViT: fine-tune an encoder"
    refused(InputError, says, lambda: base_model(TrainArgs(from_=folder), "an encoder", lambda _: False))


def test_a_test_split_without_labels_is_not_for_validation(tmp_path: Path) -> None:
    """As Kaggle publishes them: test.csv lacks the label, or test/ is a folder of pictures alone."""
    rows = "".join(f"{i},some words,{i % 2}\n" for i in range(8))
    (tmp_path / "train.csv").write_text(f"id,text,target\n{rows}")
    (tmp_path / "test.csv").write_text("id,text\n8,some words\n")
    args = TrainArgs(task="classify", data=str(tmp_path))
    assert data_paths(args) == (tmp_path / "train.csv", None)
    note = "test.csv lacks the column target: 10% of the training data are used for validation"
    assert split_notes(args) == (note,)
    (tmp_path / "test.csv").unlink()
    (tmp_path / "test").mkdir()
    assert data_paths(args) == (tmp_path / "train.csv", None)
    assert split_notes(args)[0].startswith("test/ is not a table like train.csv")

    for name in ("train/cat", "train/dog", "test"):
        (tmp_path / "photos" / name).mkdir(parents=True)
    photos = TrainArgs(task="classify", data=str(tmp_path / "photos"))
    assert data_paths(photos) == (tmp_path / "photos" / "train", None)
    (tmp_path / "photos" / "test" / "cat").mkdir()
    assert data_paths(photos)[1] == tmp_path / "photos" / "test"
    assert split_notes(photos) == ()
