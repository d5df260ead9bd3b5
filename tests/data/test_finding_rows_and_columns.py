"""Datasets in folders, aligned files, archives and Python objects."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from glassformer.data import Images, Lines, Pairs, Text
from glassformer.data.archives import unpacked
from glassformer.data.columns import choose
from glassformer.data.python import reader_of
from glassformer.data.remarks import duplicate_files
from glassformer.data.rows import find_split, open_rows, split_of
from glassformer.errors import InputError


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "cache"))


def test_a_folder_written_by_save_to_disk(tmp_path: Path) -> None:
    """The layout of `datasets`: an Arrow stream, state.json, and the names of the classes in dataset_info.json."""
    table = pa.table({"sentence": ["a", "b"], "label": [1, 0]})
    for split in ("train", "test"):
        folder = tmp_path / "saved" / split
        folder.mkdir(parents=True)
        with (
            pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as file,
            pa.ipc.new_stream(file, table.schema) as w,
        ):
            w.write_table(table)
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
        features = {"label": {"names": ["no", "yes"], "_type": "ClassLabel"}}
        (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    train = find_split(tmp_path / "saved", "train")
    assert train == tmp_path / "saved" / "train"
    assert train is not None
    rows = open_rows(train, ("text", "label"))
    assert [rows[i] for i in range(2)] == [{"text": "a", "label": "yes"}, {"text": "b", "label": "no"}]


def test_splits_by_name(tmp_path: Path) -> None:
    for name in ("train.csv", "dev.csv", "test.csv"):
        (tmp_path / name).write_text("text,label\n")
    assert [find_split(tmp_path, split) for split in ("train", "validation", "test")] == [
        tmp_path / name for name in ("train.csv", "dev.csv", "test.csv")
    ]
    for language in ("en", "fr"):
        (tmp_path / "pairs").mkdir(exist_ok=True)
        (tmp_path / "pairs" / f"train.{language}").write_text(f"{language} 1\n{language} 2\n")
    found = find_split(tmp_path / "pairs", "train")
    assert found == (tmp_path / "pairs/train.en", tmp_path / "pairs/train.fr")
    assert find_split(tmp_path / "pairs", "test") is None


def test_the_split_of_a_table() -> None:
    names = {"a/train.csv": "train", "trainLabels.csv": "train", "labels_test.tsv": "test", "val.jsonl": "validation"}
    assert {name: split_of(name) for name in names} == names
    assert not any(map(split_of, ("labels.csv", "train_val.csv", "a/test", "the data", "trained.csv")))


def test_two_aligned_files(tmp_path: Path, refused: Any) -> None:
    (tmp_path / "c.en").write_text("yes\nno\n\n")
    (tmp_path / "c.fr").write_text("oui\nnon\nrien\n")
    for source in (tmp_path, f"{tmp_path}/c.en,{tmp_path}/c.fr"):
        pairs = Pairs.open(source)
        assert [pairs.pair(i) for i in range(len(pairs))] == [("yes", "oui"), ("no", "non")]
        assert pairs.faults.summary() == ["empty sentence: 1 (c.en line 3)"]
    turned = Pairs.open(tmp_path, {"source": "fr", "target": "en"})
    assert turned.pair(0) == ("oui", "yes")
    (tmp_path / "c.fr").write_text("oui\n")
    refused(InputError, "c.en has 3 lines and c.fr 1: give two files whose lines", lambda: Pairs.open(tmp_path))


def test_images_of_kaggle_and_of_imagefolder(tmp_path: Path) -> None:
    for i in range(4):
        for folder in ("train", "flat"):
            (tmp_path / folder).mkdir(exist_ok=True)
            Image.new("L", (3, 3), 10 * i).save(tmp_path / folder / f"p{i}.png")
    (tmp_path / "train.csv").write_text("id,label\np0,a\np1,b\np2,a\np3,b\n")
    (tmp_path / "flat" / "metadata.jsonl").write_text(
        "".join(json.dumps({"file_name": f"p{i}.png", "breed": "xy"[i % 2]}) + "\n" for i in range(4))
    )
    for source, labels in ((tmp_path / "train.csv", ("a", "b")), (tmp_path / "flat", ("x", "y"))):
        images = Images.open(source)
        assert images.labels == labels
        assert [int(images.image(i)[0, 0, 0]) for i in range(4)] == [0, 10, 20, 30]


def packed(path: Path, files: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    else:
        with tarfile.open(path, "w:gz") as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("name", ["d.zip", "d.tar.gz"])
def test_archives(tmp_path: Path, name: str) -> None:
    files = {"set/train.tsv": b"a\tb\n", "set/test.tsv": b"c\td\n", "__MACOSX/set/._x": b"", "set/.DS_Store": b""}
    folder = unpacked(packed(tmp_path / name, files))
    assert sorted(path.name for path in folder.iterdir()) == ["test.tsv", "train.tsv"]
    assert unpacked(tmp_path / name) == folder, "unpacked once"
    assert Pairs.open(find_split(folder, "train") or "").pair(0) == ("a", "b")


@pytest.mark.parametrize("name", ["d.zip", "d.tar.gz"])
@pytest.mark.parametrize("bad", ["../evil.txt", "/etc/evil.txt", "a/../../evil.txt", "C:/evil.txt"])
def test_archives_stay_in_their_folder(tmp_path: Path, name: str, bad: str, refused: Any) -> None:
    path = packed(tmp_path / name, {"fine.txt": b"x", bad: b"y"})
    refused(InputError, f"{path} contains {bad!r}, a path outside the archive", lambda: unpacked(path))
    assert not list(tmp_path.rglob("evil.txt"))


def test_archives_have_limits(tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.data.archives.MAX_BYTES", 1000)
    bomb = packed(tmp_path / "bomb.zip", {"a.txt": b"0" * 2000})
    refused(InputError, f"{bomb} contains more than", lambda: unpacked(bomb))
    (tmp_path / "broken.zip").write_bytes(b"PK no zip")
    refused(InputError, f"{tmp_path / 'broken.zip'} cannot be unpacked", lambda: unpacked(tmp_path / "broken.zip"))
    with tarfile.open(tmp_path / "link.tar", "w") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    refused(
        InputError,
        f"{tmp_path / 'link.tar'} contains link, which is not a file",
        lambda: unpacked(tmp_path / "link.tar"),
    )


class Squares(Dataset[tuple[torch.Tensor, int]]):
    classes = ("dark", "light")

    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        if i == 5:
            raise OSError("gone")
        return torch.full((1, 4, 4), i % 2 / 2), i % 2


class Stream(IterableDataset[tuple[str, str]]):
    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter([("yes", "oui"), ("no", "non")])


def test_python_datasets(refused: Any) -> None:
    for data in (Squares(), DataLoader(Squares(), batch_size=2)):
        images = Images.open(reader_of(data))
        assert (len(images), images.labels, images.shape) == (5, ("dark", "light"), (1, 4, 4))
        assert [int(images.image(i)[0, 0, 0]) for i in range(5)] == [0, 128, 0, 128, 0]
        assert images.faults.summary() == ["example that raises OSError (gone): 1 (example 5)"]
    arrays = [(np.full((4, 5, 3), 7 * i, dtype=np.uint8), "ab"[i % 2]) for i in range(4)]
    assert int(Images.open(reader_of(arrays)).image(3)[0, 0, 0]) == 21
    tensors = TensorDataset(torch.zeros(4, 3, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]))
    assert Images.open(reader_of(tensors)).labels == ("0", "1")
    for pairs in (Stream(), DataLoader(Stream(), batch_size=2), iter([("yes", "oui"), ("no", "non")])):
        assert Pairs.open(reader_of(pairs)).pair(1) == ("no", "non")
    assert Lines.open(reader_of(["one", "two"])).line(1) == "two"
    refused(InputError, "the data has 0 examples: give examples such as", lambda: reader_of([]))
    refused(InputError, "the data is a int: give examples such as", lambda: reader_of(3))
    normalised = [(torch.full((1, 2, 2), -1.5), "a"), (torch.full((1, 2, 2), 2.0), "b")]
    with pytest.raises(InputError, match="give it without normalisation: 2"):
        Images.open(reader_of(normalised))


def test_text_in_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "one\\ntwo"}\n{"text": "three"}\n{"text": ""}\n')
    text = Text.open(tmp_path / "t.jsonl")
    assert list(text.pieces()) == ["one\ntwo\n", "three\n"]
    assert text.bytes == len("one\ntwo\nthree\n")
    assert text.faults.summary() == ["empty line: 1 (t.jsonl line 3)"]


def test_a_table_beside_its_folder_of_images(tmp_path: Path) -> None:
    """A table of any name describes images/, which is no class."""
    (tmp_path / "images").mkdir()
    for i in range(4):
        Image.new("L", (4, 4), 50 * i).save(tmp_path / "images" / f"{i}.png")
    rows = "".join(f"images/{i}.png,{'ab'[i % 2]}\n" for i in range(4))
    (tmp_path / "annotated.csv").write_text(f"file_name,label\n{rows}")
    assert Images.open(tmp_path).labels == ("a", "b")
    (tmp_path / "other.jsonl").write_text('{"file_name": "images/0.png", "label": "a"}\n')
    with pytest.raises(InputError, match=r"tables of several formats \(annotated.csv, other.jsonl\): name one of them"):
        Images.open(tmp_path)


def test_files_in_other_encodings(tmp_path: Path) -> None:
    rows = "text,label\n" + "".join(f"caffè {i},{'ab'[i % 2]}\n" for i in range(6))
    (tmp_path / "wide.csv").write_text(rows, encoding="utf-16")
    with pytest.raises(InputError, match=r"wide.csv is UTF-16: save it as UTF-8"):
        open_rows(tmp_path / "wide.csv", ("text", "label"))
    (tmp_path / "latin.csv").write_text(rows, encoding="cp1252")
    with pytest.raises(InputError, match=r"not UTF-8: 6 .*: save the data as UTF-8"):
        open_rows(tmp_path / "latin.csv", ("text", "label"))


def test_a_file_whose_first_lines_are_not_utf8_is_not_called_empty(tmp_path: Path) -> None:
    rows = "".join(f"caffè {i};{'ab'[i % 2]}\n" for i in range(200))
    (tmp_path / "latin.csv").write_text(rows, encoding="cp1252")
    with pytest.raises(InputError, match=r"latin.csv is not UTF-8: save it as UTF-8$"):
        open_rows(tmp_path / "latin.csv", ("text", "label"))


def test_a_text_file_that_is_neither_a_table_nor_conll(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("".join(f"__label__a text number {i}\n" for i in range(200)))
    with pytest.raises(InputError, match=r"neither a table nor CoNLL, .*: give a \.csv"):
        open_rows(tmp_path / "list.txt", ("tokens", "tags"))


def test_the_error_about_columns_suggests_those_that_are_left(tmp_path: Path) -> None:
    rows = "".join(f"{i},a few words {i},{i % 2},{i % 3 % 2}\n" for i in range(12))
    (tmp_path / "comments.csv").write_text(f"id,comment_text,toxic,rude\n{rows}")
    with pytest.raises(InputError, match=r"as in text=comment_text,label=toxic"):
        open_rows(tmp_path / "comments.csv", ("text", "label"))


def test_the_error_about_columns_suggests_columns_of_labels(tmp_path: Path) -> None:
    (tmp_path / "toxic.csv").write_text("id,comment,toxic,rude,votes\n" + "".join(
        f"{i},you are number {i},{i % 2},{i // 2 % 2},{i}\n" for i in range(8)
    ))  # fmt: skip
    with pytest.raises(InputError, match=r"no column for label.* as in text=comment,label=toxic\+rude$"):
        open_rows(tmp_path / "toxic.csv", ("text", "label"))


def test_the_suggested_columns_can_be_pasted_into_a_shell() -> None:
    with pytest.raises(InputError, match=r"as in 'text=Customer said,label=Verdict'$"):
        choose(["Customer said", "Verdict", "When"], ["text", "label"])


def test_one_column_where_two_are_needed(tmp_path: Path) -> None:
    (tmp_path / "corpus.en").write_text("".join(f"sentence number {i}\n" for i in range(12)))
    with pytest.raises(InputError, match=r"columns source and target, or two files .* as corpus.en,corpus.fr$"):
        open_rows(tmp_path / "corpus.en", ("source", "target"))


def test_files_inside_a_table_are_compared_too(tmp_path: Path) -> None:
    """A Parquet file of the Hub holds the bytes of its images."""
    file = io.BytesIO()
    Image.new("L", (4, 4), 90).save(file, "PNG")
    for name, data in (("train", b"other"), ("test", file.getvalue())):
        images = [{"bytes": one, "path": f"{i}.png"} for i, one in enumerate((file.getvalue(), data))]
        pq.write_table(pa.table({"image": images, "label": ["a", "b"]}), tmp_path / f"{name}.parquet")
    train, val = (Images.open(tmp_path / f"{name}.parquet") for name in ("train", "test"))
    remark, example = duplicate_files(train, val, "images")
    assert remark.startswith("remark: 2 of 2 validation images also occur in the training data: the metrics")
    assert example == "example (in both): 0.png"
