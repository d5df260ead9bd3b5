"""A pile of submissions."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from glassformer.errors import InputError
from glassformer.worked import library
from glassformer.worked.check.folder import mark_all, names, submissions, table


def pile(folder: Path) -> Path:
    (folder / "one").mkdir()
    (folder / "two").mkdir()
    (folder / "one" / "work.md").write_text("$$q_1 = (1, 2)$$", encoding="utf-8")
    (folder / "two" / "work.md").write_text("$$q_1 = (1, 3)$$", encoding="utf-8")
    (folder / "=broken.yaml").write_text("Q: [[1", encoding="utf-8")
    (folder / "binary.md").write_bytes(b"\xff\x00\xfe")
    (folder / ".hidden.md").write_text("$1$", encoding="utf-8")
    (folder / "results.csv").write_text("old", encoding="utf-8")
    (folder / "binary-feedback.md").write_text("old", encoding="utf-8")
    (folder / "photo.png").write_bytes(b"\x89PNG")
    return folder


def test_one_broken_submission_never_stops_the_rest(tmp_path: Path) -> None:
    paths = submissions([pile(tmp_path)])
    assert [path.name for path in paths] == ["=broken.yaml", "binary.md", "work.md", "work.md"]
    seen: list[Path] = []
    marked = list(mark_all(library.get("four-tokens"), paths, seen.append))
    assert seen == paths
    assert [item.report is None for item in marked] == [True, True, False, False]
    files = names(paths, "html")
    assert len(set(files.values())) == 4
    assert files[paths[2]] == "one-work-md-feedback.html"
    rows = list(csv.DictReader(table(marked, files).splitlines()))
    assert "is not YAML" in rows[0]["error"]
    assert rows[2]["wrong"] == "0"
    assert rows[3]["wrong"] == "1"
    assert rows[3]["slips"] == "one arithmetic slip in one cell (Q[1,2])"


def test_names_are_no_formulas(tmp_path: Path) -> None:
    path = Path("=broken.yaml")
    text = table(list(mark_all(None, [path])), {path: ""})
    assert text.splitlines()[1].startswith("'=broken.yaml")


def test_nothing_to_mark(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no documents"):
        submissions([tmp_path])
    with pytest.raises(InputError, match="there is no file"):
        submissions([tmp_path / "none.md"])
