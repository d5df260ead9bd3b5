from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.cli.output import require_place, write
from glassformer.errors import InputError


def test_a_file_is_whole_or_as_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.txt"
    write("one\n", path)
    write("two\n", path)
    assert path.read_text() == "two\n"
    assert list(tmp_path.iterdir()) == [path]
    write("shown\n", None)
    assert capsys.readouterr().out == "shown\n"


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be written \(Is a directory\)|cannot be written"):
        write("x", tmp_path / "missing" / "out.txt")


def test_a_place_is_looked_at_before_the_work(tmp_path: Path) -> None:
    require_place(None)
    require_place(tmp_path / "new.html", None)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"there is no folder .*missing for out.txt: choose another"):
        require_place(tmp_path / "missing" / "out.txt")
    with pytest.raises(InputError, match="is a folder"):
        require_place(tmp_path)
