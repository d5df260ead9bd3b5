from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.faults import Fault
from glassformer.data.packed import LineIndex, Strings, raw_lines
from glassformer.errors import InputError


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_strings_come_back(strings: list[str]) -> None:
    packed = Strings(strings)
    assert len(packed) == len(strings)
    assert [packed[i] for i in range(len(packed))] == strings
    with pytest.raises(IndexError):
        packed[len(strings)]


def test_names_of_any_bytes_come_back() -> None:
    assert Strings(["\udcff.png"])[0] == "\udcff.png"


@given(st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"").rstrip(b"\r"))), st.booleans(), st.booleans())
def test_lines_and_their_offsets(tmp_path_factory: Any, lines: list[bytes], crlf: bool, bom: bool) -> None:
    end, start = (b"\r\n" if crlf else b"\n"), (b"\xef\xbb\xbf" if bom else b"")
    if not bom and lines and lines[0].startswith(b"\xef\xbb\xbf"):
        return
    path = tmp_path_factory.getbasetemp() / "lines"
    content = start + b"".join(line + end for line in lines)
    path.write_bytes(content)
    found = list(raw_lines(path))
    assert [line for _, _, line in found] == lines
    assert [number for number, _, _ in found] == list(range(1, len(lines) + 1))
    assert all(content[offset : offset + len(line)] == line for _, offset, line in found)


def test_the_last_line_needs_no_end_and_a_long_one_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 100 + b"\nab")
    found = list(raw_lines(path, longest=10))
    assert (found[0][2], found[1]) == (b"x" * 12, (2, 101, b"ab"))


def test_rows_are_read_from_their_places(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes("één\r\n\r\ntwo\r\n".encode())
    rows = LineIndex(path, ((number, at, len(line)) for number, at, line in raw_lines(path) if line))
    rows = pickle.loads(pickle.dumps(rows))
    assert [rows[i] for i in range(len(rows))] == ["één", "two"]
    assert rows.place(1) == "a.tsv line 3"
    with pytest.raises(IndexError):
        rows[2]
    path.write_bytes(b"\xff\xff\xff\xff\xff")
    with pytest.raises(Fault, match="changed since"):
        rows[0]
    path.unlink()
    with pytest.raises(Fault, match=r"changed since.*a\.tsv line 1"):
        rows[0]


def test_what_is_refused(tmp_path: Path, refused: Any) -> None:
    refused(InputError, f"there is no {tmp_path / 'x'}", lambda: list(raw_lines(tmp_path / "x")))
    refused(InputError, f"{tmp_path} cannot be read (Is a directory)", lambda: list(raw_lines(tmp_path)))
