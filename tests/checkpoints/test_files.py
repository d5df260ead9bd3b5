"""Small JSON files: read, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.checkpoints.files import LARGEST, inside, read_json, read_object
from glassformer.errors import CheckpointError


def test_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"é": [1]}', encoding="utf-8")
    assert read_object(tmp_path / "a.json") == {"é": [1]}
    (tmp_path / "b.json").write_text("[1]")
    assert read_json(tmp_path / "b.json") == [1]
    with pytest.raises(CheckpointError, match="holds a list"):
        read_object(tmp_path / "b.json")


@pytest.mark.parametrize("data", [b"{", b"\xff\xff", b"[" * 100_000, b"9" * 5000])
def test_not_json(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(CheckpointError, match="is not JSON"):
        read_json(tmp_path / "a.json")


def test_missing_or_huge(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no"):
        read_json(tmp_path / "a.json")
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(CheckpointError, match=str(LARGEST + 1)):
        read_json(tmp_path / "a.json")


def test_inside(tmp_path: Path) -> None:
    assert inside(tmp_path, "") == tmp_path
    assert inside(tmp_path, "1_Pooling") == tmp_path / "1_Pooling"
    for name in ("..", "../x", "/etc", "a/b", 3, None):
        with pytest.raises(CheckpointError, match="points to"):
            inside(tmp_path, name)
