"""What a wish refuses, and where it finds its data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.errors import ConfigError, InputError
from glassformer.tasks.learn.wish import Wish


def test_parts_of_a_folder(tmp_path: Path) -> None:
    for name in ("train.tsv", "test.tsv"):
        (tmp_path / name).write_text("a\tb\n")
    whole = str(tmp_path)
    assert Wish(data=whole).parts(".tsv") == (tmp_path / "train.tsv", tmp_path / "test.tsv")
    (tmp_path / "valid.tsv").write_text("a\tb\n")
    assert Wish(data=whole).parts(".tsv")[1] == tmp_path / "valid.tsv"  # the test part stays unseen if it can
    one = str(tmp_path / "test.tsv")
    assert Wish(data=one).parts(".tsv") == (tmp_path / "test.tsv", None)
    assert Wish(data=one, held=whole).parts(".tsv") == (tmp_path / "test.tsv", tmp_path)


def test_a_dataset_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    first, held = Wish(data="uci-digits").parts()
    assert first.name == "train"
    assert held is not None
    assert held.name == "test"


def test_mistakes(refused: Callable[..., None], tmp_path: Path) -> None:
    refused(ConfigError, "width is 0: choose at least 1", lambda: Wish(data="x", width=0))
    refused(ConfigError, "a low-rank change of rank 4 of nothing", lambda: Wish(data="x", rank=4))
    refused(ConfigError, "width 64 for a model that is there", lambda: Wish(data="x", base="digits", width=64))
    wish = Wish(data="x", kind="mlp", image=8)
    refused(ConfigError, "there is no 'mlp' for this task: choose vit, cnn", lambda: wish.kinds("vit", "cnn"))
    refused(ConfigError, "image 8 means nothing to text", lambda: wish.leave("text", "image", "augment"))
    refused(InputError, "there is no nowhere: give a folder", lambda: Wish(data="nowhere").parts())
    refused(InputError, "there is no gone: hold out", lambda: Wish(data=str(tmp_path), held="gone").parts())
