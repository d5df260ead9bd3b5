"""Commands for learners: solve, practice, drill, tour."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fixtures.command_line import Glassformer
from glassformer.cli.drill import drill
from glassformer.cli.exercise import find_exercise
from glassformer.cli.main import build_app
from glassformer.cli.tour import SENTENCE, shaded, tour, traced
from glassformer.errors import InputError
from glassformer.exercises import library
from glassformer.exercises.exercise import load_exercise

SHEET = """
title: Two tokens
X: [[1, 0], [0, 1]]
heads:
  - {WQ: [[1, 0], [0, 1]], WK: [[1, 0], [0, 1]], WV: [[1, 2], [3, 4]]}
"""


def test_a_file_and_standard_input(tmp_path: Path, glassformer: Glassformer) -> None:
    path = tmp_path / "sheet.yaml"
    path.write_text(SHEET)
    from_file = glassformer("solve", str(path))
    assert from_file.code == 0
    assert from_file.out.startswith("Two tokens\n==========")
    assert glassformer("solve", "-", stdin=SHEET).out == from_file.out


def test_json_has_values_and_steps(tmp_path: Path, glassformer: Glassformer) -> None:
    out = tmp_path / "out.json"
    assert glassformer("solve", "four-tokens", "--format", "json", "-o", str(out)).code == 0
    data = json.loads(out.read_text())
    assert data["values"]["O"][0][1] == pytest.approx(0.66217, abs=5e-6)
    assert set("QKVSAHO") <= set(data["values"])
    exact = next(step["exact"] for step in data["steps"] if step["symbol"] == "A")
    assert exact[0][1] == "e^2/(e^2 + 2*e + 1)"


def test_the_list_names_every_exercise(glassformer: Glassformer) -> None:
    lines = glassformer("solve", "--list").out.splitlines()
    assert len(lines) >= 12
    assert any(line.startswith("four-tokens") for line in lines)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("no-such",), "there is no file 'no-such'"),
        (("four-tokens", "--step", "Y"), "this exercise has no step 'Y'"),
        (("four-tokens", "--format", "pdf"), "there is no format 'pdf'"),
        (("four-tokens", "-o", "/no/such/folder/x"), "cannot be written"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(words: tuple[str, ...], says: str, glassformer: Glassformer) -> None:
    done = glassformer("solve", *words)
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""


def test_sheets_keys_and_exercises_in_a_folder(tmp_path: Path) -> None:
    words = ["practice", "--heads", "2", "--seed", "7", "--sheets", "3", "-o", str(tmp_path / "a")]
    assert CliRunner().invoke(build_app("practice"), words).exit_code == 0
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == [
        *(f"exercise-0{i}.yaml" for i in (1, 2, 3)),
        *(f"key-0{i}.md" for i in (1, 2, 3)),
        *(f"sheet-0{i}.md" for i in (1, 2, 3)),
    ]
    assert len(load_exercise(tmp_path / "a" / "exercise-02.yaml").all_heads) == 2
    words[-1] = str(tmp_path / "b")
    CliRunner().invoke(build_app("practice"), words)
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_without_a_folder_the_sheet_is_printed() -> None:
    done = CliRunner().invoke(build_app("practice"), ["practice", "--topic", "transport", "--format", "text"])
    assert done.output.startswith("Earth mover’s distance, sheet 1")


def test_mistakes() -> None:
    for words in (["--sheets", "0"], ["--format", "pdf"], ["--tokens", "99"], ["--topic", "poetry"]):
        assert isinstance(CliRunner().invoke(build_app("practice"), ["practice", *words]).exception, InputError)


def played(*answers: str) -> list[str]:
    lines: list[str] = []
    script: Iterator[str] = iter(answers)

    def ask(prompt: str) -> str:
        lines.append(prompt)
        try:
            return next(script)
        except StopIteration:
            raise EOFError from None

    drill([library.get("four-tokens")], ask, lines.append)
    return lines


def test_a_whole_session() -> None:
    said = played("hint", "", "help", "1 2; 2 0; 0 1; 1 1", "show", "nonsense $", "quit")
    assert "Q = X·WQ" in said
    assert "Right." in said
    assert said.count("K (4 × 2) = ") == 1
    assert said[-1] == "\nGood-bye."


def test_steps_that_were_shown_do_not_count_as_done() -> None:
    assert played(*["show"] * 6)[-1] == "Done: 0 steps answered, 6 steps shown.\n"


def test_end_of_input_is_good_bye() -> None:
    assert played()[-1] == "\nGood-bye."


def test_by_name_and_by_file(tmp_path: Path) -> None:
    assert find_exercise("four-tokens").title == "Four tokens"
    sheet = tmp_path / "four-tokens.yaml"
    sheet.write_text("title: mine\nQ: [[1]]\nK: [[1]]\nV: [[2]]\n")
    assert find_exercise(str(sheet)).title == "mine"


def test_what_is_neither_is_an_error_that_lists_the_names() -> None:
    with pytest.raises(InputError, match="there is no file 'nothing': give a YAML file, or one of the embedded"):
        find_exercise("nothing")


def test_it_shows_an_exercise_and_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    tour()
    shown = capsys.readouterr().out
    assert "0.6622" in shown  # the first output of the four tokens
    assert "decoder.1.attention.A" in shown
    assert "because" in shown


def test_the_traced_run_is_a_real_one() -> None:
    A = traced()["decoder.0.attention.A"]
    assert A.shape == (1, 2, len(SENTENCE), len(SENTENCE))
    assert float(A.sum(-1).min()) == pytest.approx(1.0, abs=1e-5)
    assert float(A.triu(1).max()) == 0.0


def test_shades() -> None:
    assert shaded([[0.0, 1.0], [0.5, 0.5]], ["a", "bc"]) == " a   ██\nbc ▒▒▒▒"


def test_questions_for_learning_management_systems(tmp_path: Path) -> None:
    for form, names in (
        ("moodle", ["exercise-01.yaml", "exercise-02.yaml", "key-01.html", "key-02.html", "questions.xml"]),
        ("qti", ["exercise-01.yaml", "exercise-02.yaml", "key-01.html", "key-02.html", "quiz-01.zip", "quiz-02.zip"]),
    ):
        words = ["practice", "--topic", "patches", "--sheets", "2", "-f", form, "-o", str(tmp_path / form)]
        assert CliRunner().invoke(build_app(), words).exit_code == 0
        assert sorted(path.name for path in (tmp_path / form).iterdir()) == names
    printed = CliRunner().invoke(build_app(), ["practice", "-f", "moodle", "--tolerance", "0.01"]).output
    assert printed.count(":0.01}") == 4 * 6 + 3 * 9  # Q, K, V and H; QKᵀ, S and A
    for faulty in (["-f", "qti"], ["-f", "text", "--tolerance", "0.1"], ["-f", "moodle", "--tolerance", "2"]):
        assert isinstance(CliRunner().invoke(build_app(), ["practice", *faulty]).exception, InputError)
