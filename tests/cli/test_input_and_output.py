"""How commands read items and write files."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from glassformer.cli.items import Failures, Line, each, progress, read_items, read_lines
from glassformer.cli.output import require_writable, write
from glassformer.errors import InputError


def test_lines_of_files_and_standard_input(tmp_path: Path, monkeypatch: Any, refused: Any) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\n\n  \ntwo\xff\n")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"three\r\nfour")))
    lines = read_lines([tmp_path / "a.txt", Path("-")])
    assert [line.where for line in lines] == [
        f"{tmp_path / 'a.txt'}:1",
        f"{tmp_path / 'a.txt'}:4",
        "standard input:1",
        "standard input:2",
    ]
    assert [lines[0].text, lines[2].text] == ["one", "three"]
    refused(InputError, "byte 3 is not UTF-8", lambda: lines[1].text)
    whole = read_lines([tmp_path / "a.txt"], empty=True)
    assert [line.data for line in whole] == [b"one", b"", b"  ", b"two\xff"]
    refused(InputError, f"{tmp_path} cannot be read", lambda: read_lines([tmp_path]))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"\n")))
    refused(InputError, "the input is empty", lambda: read_lines([]))


def test_a_bad_item_is_reported_and_the_others_are_processed(capsys: pytest.CaptureFixture[str]) -> None:
    def halve(x: int) -> int:
        if x % 2:
            raise InputError(f"{x} is odd", "give even numbers")
        return x // 2

    failures = Failures()
    assert list(each([2, 3, 4], lambda x: f"item {x}", halve, failures)) == [(2, 1), (4, 2)]
    assert capsys.readouterr() == ("", "glassformer: item 3: 3 is odd: give even numbers\n")
    with pytest.raises(typer.Exit) as left:
        failures.exit_if_any()
    assert left.value.exit_code == 2
    Failures().exit_if_any()


def test_the_place_of_an_error_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    Failures().report("a.png", InputError("a.png cannot be read (not an image)", "give an image"))
    assert capsys.readouterr().err == "glassformer: a.png cannot be read (not an image): give an image\n"


def test_a_bar_shows_on_a_terminal_only(monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress([1, 2, 3])) == [1, 2, 3]
    assert capsys.readouterr() == ("", "")
    error = io.StringIO()
    monkeypatch.setattr(error, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr", error)
    assert list(progress([1, 2, 3])) == [1, 2, 3]
    assert "Working" in error.getvalue()


def test_a_line_is_its_text() -> None:
    assert Line("here", "é".encode()).text == "é"


def test_an_argument_is_a_file_or_a_text(tmp_path: Path, monkeypatch: Any, refused: Any) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\n")
    found = read_items([str(tmp_path / "a.txt"), "a text. Of two sentences", "x" * 5000])
    assert [line.text for line in found] == ["one", "two", "a text. Of two sentences", "x" * 5000]
    assert found[2].where == "text 2"
    refused(InputError, "there is no file lines.txt: give an existing file", lambda: read_items(["lines.txt"]))
    assert [line.text for line in read_items(["a", "", "b"], empty=True)] == ["a", "", "b"]
    (reviews := tmp_path / "reviews.csv").write_text("text,label\ngood,1\n")
    refused(InputError, f"{reviews} is a table, and its header", lambda: read_items([str(reviews)]))
    refused(InputError, "the input is empty", lambda: read_items([" "]))
    refused(InputError, "the input is empty", lambda: read_items([" "], empty=True))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"three\n")))
    assert [line.text for line in read_items([])] == ["three"]


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
    require_writable(None)
    require_writable(tmp_path / "new.html", None)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"there is no folder .*missing for out.txt: choose another"):
        require_writable(tmp_path / "missing" / "out.txt")
    with pytest.raises(InputError, match="is a folder"):
        require_writable(tmp_path)
