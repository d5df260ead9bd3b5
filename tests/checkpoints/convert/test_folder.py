from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoints.convert.folder import Converted, new_folder, optional, write_folder
from glassformer.errors import GlassError, InputError


def test_all_or_nothing(tmp_path: Path) -> None:
    def broken_off() -> None:
        with new_folder(tmp_path / "a" / "new") as part:
            (part / "file").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken_off()
    assert list((tmp_path / "a").iterdir()) == []
    with new_folder(tmp_path / "a" / "new") as part:
        (part / "file").write_text("whole")
        assert not (tmp_path / "a" / "new").exists()
    assert (tmp_path / "a" / "new" / "file").read_text() == "whole"


def test_nothing_is_overwritten(tmp_path: Path, refused: Any) -> None:
    (tmp_path / "new").mkdir()
    with new_folder(tmp_path / "new") as part:  # an empty folder is fine
        (part / "file").write_text("")

    def again() -> None:
        with new_folder(tmp_path / "new"):
            raise AssertionError

    refused(InputError, f"{tmp_path / 'new'} is there already", again)


def test_what_does_not_load_is_not_left_behind(tmp_path: Path, refused: Any) -> None:
    wrong = Converted(tensors={}, texts={"config.json": {"model_type": "gpt2"}})
    with pytest.raises(GlassError):
        write_folder(wrong, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_says_how_to_get_it(refused: Any) -> None:
    text = "X needs the package no_such_library, which is not installed: pip install no_such_library"
    refused(InputError, text, lambda: optional("no_such_library", "X"))
