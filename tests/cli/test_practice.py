from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from glassformer.cli.main import build
from glassformer.errors import InputError
from glassformer.exercises.exercise import load


def test_sheets_keys_and_exercises_in_a_folder(tmp_path: Path) -> None:
    words = ["practice", "--heads", "2", "--seed", "7", "--sheets", "3", "-o", str(tmp_path / "a")]
    assert CliRunner().invoke(build(), words).exit_code == 0
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == [
        *(f"exercise-0{i}.yaml" for i in (1, 2, 3)),
        *(f"key-0{i}.md" for i in (1, 2, 3)),
        *(f"sheet-0{i}.md" for i in (1, 2, 3)),
    ]
    assert len(load(tmp_path / "a" / "exercise-02.yaml").all_heads) == 2
    words[-1] = str(tmp_path / "b")
    CliRunner().invoke(build(), words)
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_without_a_folder_the_sheet_is_printed() -> None:
    done = CliRunner().invoke(build(), ["practice", "--topic", "transport", "--format", "text"])
    assert done.output.startswith("Earth mover’s distance, sheet 1")


def test_mistakes() -> None:
    for words in (["--sheets", "0"], ["--format", "pdf"], ["--tokens", "99"], ["--topic", "poetry"]):
        assert isinstance(CliRunner().invoke(build(), ["practice", *words]).exception, InputError)
