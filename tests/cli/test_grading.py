"""The check command."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.cli.main import build_app
from glassformer.errors import GlassError

SAMPLES = Path(__file__).parents[1] / "exercises" / "samples"


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(build_app("check"), ["check", *arguments])
    if isinstance(result.exception, GlassError):
        assert code == 2
        return str(result.exception)
    assert result.exit_code == code, result.output
    return result.stdout


def test_text() -> None:
    text = run("four-tokens", str(SAMPLES / "four-tokens.md"))
    assert text.startswith("Four tokens: four-tokens.md\n")
    assert "0.1967~" in text


@pytest.mark.variants(1)
@pytest.mark.parametrize(("form", "start"), [("markdown", "# Two heads"), ("html", "<!doctype html>")])
def test_formats(form: str, start: str) -> None:
    assert run("two-heads", str(SAMPLES / "two-heads.md"), "--format", form).startswith(start)


def test_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert run("two-heads", str(SAMPLES / "two-heads.md"), "-f", "json", "-o", str(path)) == ""
    assert json.loads(path.read_text(encoding="utf-8"))["score"] > 0.9


def test_a_document_alone() -> None:
    assert "does not hold: it is 96" in run(str(SAMPLES / "two-heads.md"))


def test_documents_alone_are_a_pile() -> None:
    rows = run(*(str(SAMPLES / name) for name in ("four-tokens.md", "two-heads.md"))).splitlines()
    assert len(rows) == 3


def test_an_exercise_file(tmp_path: Path) -> None:
    path = tmp_path / "exercise.yaml"
    path.write_text("Q: [[1, 1]]\nK: [[1, 0], [1, 1]]\nV: [[1, 0], [0, 1]]\nscale: none\n", encoding="utf-8")
    answers = tmp_path / "answers.yaml"
    answers.write_text("S: [[1, 2]]\n", encoding="utf-8")
    data = json.loads(run(str(path), str(answers), "-f", "json"))
    assert [c["verdict"] for c in data["cells"] if c["symbol"] == "S"] == ["right", "right"]


def test_a_folder(tmp_path: Path) -> None:
    pile, out = tmp_path / "pile", tmp_path / "out"
    pile.mkdir()
    (pile / "one.md").write_text("$$q_1 = (1, 2)$$", encoding="utf-8")
    (pile / "two.yaml").write_text("Q: [[1", encoding="utf-8")
    run("four-tokens", str(pile), "-o", str(out), "-f", "markdown", code=0)
    names = ["class-summary.md", "one-feedback.md", "overrides.csv", "results.csv", "two-feedback.md"]
    assert sorted(path.name for path in out.iterdir()) == names
    rows = (out / "results.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 3
    assert "is not YAML" in rows[2]
    (pile / "two.yaml").unlink()
    assert run("four-tokens", str(pile)).startswith("submission,score,")


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [
        (["two-heads"], "", "is an exercise without answers"),
        (["two-heads", "DOC", "-f", "pdf"], "$1$", "there is no format 'pdf'"),
        (["none.yaml", "DOC"], "$1$", "there is no file 'none.yaml'"),
        (["two-heads", "DOC"], "Just words.", "contains no mathematics"),
        (["two-heads", "DOC"], "$$Q = 9**9**9$$", "no number in doc.md can be read"),
        (["two-heads", "DOC"], "$$Q = \\begin{bmatrix} 1 & 2$$", "no number in doc.md can be read"),
        (["two-heads", "DOC"], "1" * 10_000_000, "is 10.0 MB"),
        (["two-heads", "DOC"], "\0", "is not text"),
    ],
    ids=lambda value: str(value)[:30],
)
@pytest.mark.timeout(60)
def test_mistakes_are_one_line(tmp_path: Path, arguments: list[str], text: str, said: str) -> None:
    path = tmp_path / "doc.md"
    path.write_text(text, encoding="utf-8")
    error = run(*(str(path) if a == "DOC" else a for a in arguments), code=2)
    assert said in error
    assert "\n" not in error


def test_from_the_shell() -> None:
    """Exit code 0 although answers are wrong; nothing but the report on standard output."""
    command = "import sys; from glassformer.cli.main import main; sys.argv = ['glassformer', *sys.argv[1:]]; main()"
    arguments = ["check", "two-heads", str(SAMPLES / "two-heads.md"), "-f", "json"]
    done = subprocess.run([sys.executable, "-c", command, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stderr == ""
    assert json.loads(done.stdout)["mistakes"]


def test_the_example_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
    block = page.split("```")[1].strip("\n")
    document, _, said = block.partition("$ glassformer check root-three answers.md\n")
    monkeypatch.chdir(tmp_path)
    Path("answers.md").write_text(document.partition("\n")[2], encoding="utf-8")
    assert run("root-three", "answers.md").rstrip() == said.rstrip()


def test_decimal_commas_are_read_if_asked_for(tmp_path: Path) -> None:
    """In a list a comma may be either; the option decides, for one file and for a folder."""
    answers = tmp_path / "pile" / "answers.md"
    answers.parent.mkdir()
    answers.write_text("q_{1,1} = 1,0 and q_{1,2} = 2,0\n", encoding="utf-8")
    assert "2 of the 2 you wrote are right" in run("four-tokens", str(answers), "--decimal-comma")
    assert "answers.md,0.0312,3.12,100,,2,0,0,0,62" in run("four-tokens", str(answers.parent), "--decimal-comma")
    assert "--decimal-comma" in run("four-tokens", str(answers), code=2)


@pytest.mark.slow
def test_overrides_survive_a_new_exercise_and_a_new_rubric(tmp_path: Path) -> None:
    """The teacher's file is made once, then only read; the totals stay when the answer key or the rubric changes."""
    work, out, rubric = tmp_path / "work", tmp_path / "out", tmp_path / "rubric.yaml"
    work.mkdir()
    (work / "ada.md").write_text("$$q_1 = (1, 2)$$", encoding="utf-8")
    (work / "ben.md").write_text("$$q_1 = (1, 3)$$", encoding="utf-8")
    rubric.write_text("steps: {Q: 4}\n", encoding="utf-8")
    first = run("four-tokens", str(work), "-o", str(out), "--rubric", str(rubric))
    assert "Points of 4:" in first
    overrides = out / "overrides.csv"
    assert overrides.read_text(encoding="utf-8") == "submission,step,points,comment\n"
    with overrides.open("a", encoding="utf-8") as file:
        file.write("ben.md,total,3.5,explained it\nold.md,total,1,\n")
    kept = overrides.read_bytes()
    rubric.write_text("steps: {Q: 2, S: 6}\n", encoding="utf-8")
    key = tmp_path / "key.yaml"
    key.write_text("X: [[1, 3]]\nheads: [{WQ: [[1, 0], [0, 1]], WK: [[1, 0], [0, 1]], WV: [[1, 0], [0, 1]]}]\n")
    second = run(str(key), str(work), "-o", str(out), "--rubric", str(rubric))
    assert "explained it" in second
    assert "line 3 (old.md, total): there is no such submission" in second
    with (out / "results.csv").open(encoding="utf-8", newline="") as results:
        rows = list(csv.DictReader(results))
    assert (rows[1]["points"], rows[1]["max_points"]) == ("3.5", "8")
    assert "explained it" in rows[1]["overridden"]
    assert "explained it" in (out / "ben-feedback.txt").read_text(encoding="utf-8")
    assert overrides.read_bytes() == kept


def test_a_rubric_for_one_document_and_faulty_ones(tmp_path: Path) -> None:
    rubric, answers = tmp_path / "rubric.yaml", tmp_path / "a.md"
    answers.write_text("$$q_1 = (1, 2)$$", encoding="utf-8")
    rubric.write_text("steps: {Q: 4}\n", encoding="utf-8")
    assert "1 of 4 points: Q 1 of 4." in run("four-tokens", str(answers), "--rubric", str(rubric))
    assert "a rubric needs an exercise" in run(str(answers), "--rubric", str(rubric), code=2)
    rubric.write_text("steps: {B: 4}\n", encoding="utf-8")
    assert "the exercise has no step 'B'" in run("four-tokens", str(answers), "--rubric", str(rubric), code=2)
    assert "cannot be read" in run("four-tokens", str(answers), "--rubric", str(tmp_path / "none.yaml"), code=2)
    assert "cannot be read" in run("four-tokens", str(answers), "--overrides", str(tmp_path / "none.csv"), code=2)


def test_gradescope(tmp_path: Path) -> None:
    answers, archive = tmp_path / "a.md", tmp_path / "autograder.zip"
    answers.write_text("$$q_1 = (1, 2)$$", encoding="utf-8")
    found = json.loads(run("four-tokens", str(answers), "--format", "gradescope"))
    assert found["score"] == 3.125  # 2 of 64 numbers
    assert "of 100 points" in run("four-tokens", "-f", "gradescope", "-o", str(archive))
    assert archive.read_bytes().startswith(b"PK")
    assert "an autograder is a zip file" in run("four-tokens", "-f", "gradescope", code=2)
    said = run("four-tokens", str(answers), "-f", "gradescope", "--overrides", "o.csv", code=2)
    assert "--overrides has no effect on --format gradescope" in said


@pytest.mark.slow
def test_the_example_of_the_page_for_teachers(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    block = (root / "docs" / "classroom.md").read_text(encoding="utf-8").split("```")[1]
    rubric, _, said = block.partition("$ glassformer check four-tokens examples/submissions")
    written = (root / "examples" / "rubric.yaml").read_text(encoding="utf-8")
    assert rubric.partition("\n")[2].partition("\n")[2].strip() == written.partition("\n")[2].strip()
    arguments = ["--rubric", str(root / "examples" / "rubric.yaml"), "-o", str(tmp_path)]
    found = run("four-tokens", str(root / "examples" / "submissions"), *arguments)
    assert found.startswith(said.partition("\n")[2].partition("…")[0])


def test_a_named_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "answers.md")
    assert "answers.md is not a regular file" in run("four-tokens", str(tmp_path / "answers.md"), code=2)
