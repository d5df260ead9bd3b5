"""A pile of submissions."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.grade.submissions import grade_all, report_names, submissions, table
from glassformer.exercises.grade.workers import GradingWorker


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
    assert [path.name for path in paths] == ["=broken.yaml", "binary.md", "work.md", "photo.png", "work.md"]
    seen: list[Path] = []
    marked = list(grade_all(library.get("four-tokens"), paths, seen.append))
    assert seen == paths
    assert [item.grade is None for item in marked] == [True, True, False, True, False]
    files = report_names(paths, "html")
    assert len(set(files.values())) == 5
    assert files[paths[2]] == "one-work-md-feedback.html"
    rows = list(csv.DictReader(table(marked, files).splitlines()))
    assert "is not YAML" in rows[0]["error"]
    assert rows[2]["wrong"] == "0"
    assert rows[3]["error"]
    assert rows[4]["wrong"] == "1"
    assert rows[4]["mistakes"] == "one arithmetic mistake in one cell (Q[1,2])"


def test_names_are_no_formulas(tmp_path: Path) -> None:
    path = Path("=broken.yaml")
    text = table(list(grade_all(None, [path])), {path: ""})
    assert text.splitlines()[1].startswith("'=broken.yaml")


def test_nothing_to_mark(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no documents"):
        submissions([tmp_path])
    with pytest.raises(InputError, match="there is no file"):
        submissions([tmp_path / "none.md"])


HOSTILE = {
    "an exponential in a score": "$$s_{11} = e^{50}$$\n",
    "a smaller one": "$$s_{11} = e^{30}$$\n",
    "twenty digits": "$$Q = [[99999999999999999999, 1], [1, 1], [1, 1], [1, 1]]$$\n",
    "a tower": "$$s_{11} = 9^{9^{9^9}}$$ $$q_1 = (1, 2)$$\n",
    "deep brackets": "$$q_1 = " + "(" * 5000 + "1" + ")" * 5000 + "$$\n",
}


@pytest.mark.timeout(120)
def test_hostile_submissions_are_graded_or_refused_and_the_pile_goes_on(tmp_path: Path) -> None:
    paths = []
    for k, text in enumerate((*HOSTILE.values(), "$$q_1 = (1, 2)$$\n")):
        paths.append(tmp_path / f"{k}.md")
        paths[-1].write_text(text, encoding="utf-8")
    graded = list(grade_all(library.get("four-tokens"), paths))
    assert [item.path for item in graded] == paths
    assert all(item.grade is not None or item.error for item in graded)
    assert all(item.grade is not None for item in graded[:3])
    assert graded[-1].grade is not None


@pytest.mark.timeout(120)
def test_a_worker_that_runs_for_too_long_or_aborts_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("$$q_1 = (1, 2)$$\n", encoding="utf-8")
    long = tmp_path / "long.md"
    long.write_text("$$w_{1,1} = 0.1967$$\n\n$$q_1 = (1, 3)$$\n\n" * 300, encoding="utf-8")
    worker = GradingWorker(library.get("four-tokens"), seconds=0.01)
    try:
        made, reason = worker.grade(long)
        assert made is None
        assert "more than 0.01 seconds" in reason
        worker.seconds = 30.0
        made, reason = worker.grade(path)
        assert made is not None
        assert worker.process is not None
        worker.process.kill()
        assert worker.grade(path)[0] is None
        assert worker.grade(path)[0] is not None
    finally:
        worker.close()


def test_a_worker_that_ends_by_itself_is_not_said_to_be_too_slow(tmp_path: Path) -> None:
    """The reason comes from the exit code of the process, not from the signal that cleans up after it."""
    (tmp_path / "work.md").write_text("$$q_1 = (1, 2)$$\n" + " " * 900_000, encoding="utf-8")
    worker = GradingWorker(library.get("four-tokens"), megabytes=1)  # too little to read it
    found, reason = worker.grade(tmp_path / "work.md")
    worker.close()
    assert found is None
    assert "seconds" not in reason


def test_a_broken_link_in_a_folder_has_a_row(tmp_path: Path) -> None:
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere")
    (made,) = grade_all(library.get("one-query"), submissions([tmp_path]))
    assert made.path.name == "gone.md"
    assert "cannot be read" in made.error
