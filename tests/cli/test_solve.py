from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SHEET = """
title: Two tokens
X: [[1, 0], [0, 1]]
heads:
  - {WQ: [[1, 0], [0, 1]], WK: [[1, 0], [0, 1]], WV: [[1, 2], [3, 4]]}
"""


def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    code = "from glassformer.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", code, *words], input=stdin, capture_output=True, text=True)


def test_a_file_and_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "sheet.yaml"
    path.write_text(SHEET)
    from_file = run("solve", str(path))
    assert from_file.returncode == 0
    assert from_file.stdout.startswith("Two tokens\n==========")
    assert run("solve", "-", stdin=SHEET).stdout == from_file.stdout


def test_json_has_values_and_steps(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert run("solve", "four-tokens", "--format", "json", "-o", str(out)).returncode == 0
    data = json.loads(out.read_text())
    assert data["values"]["O"][0][1] == pytest.approx(0.66217, abs=5e-6)
    assert set("QKVSAHO") <= set(data["values"])
    exact = next(step["exact"] for step in data["steps"] if step["symbol"] == "A")
    assert exact[0][1] == "e^2/(e^2 + 2*e + 1)"


def test_the_list_names_every_exercise() -> None:
    lines = run("solve", "--list").stdout.splitlines()
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
def test_mistakes_are_one_line_and_exit_2(words: tuple[str, ...], says: str) -> None:
    done = run("solve", *words)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
