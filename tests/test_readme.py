"""Every command that README.md shows is run, and its links lead somewhere."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from fixtures.command_line import Glassformer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line.partition("#")[0].strip()
    for block in re.findall(r"```\n(.*?)```", README, re.S)
    for line in block.splitlines()
    if line.strip()
]
INLINE = [found for found in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", README, flags=re.S)) if " " in found]
COMMANDS += [line for line in INLINE if line.startswith(("glassformer ", "make "))]


def test_there_are_commands() -> None:
    assert {"make run", "make test"} <= set(COMMANDS)
    assert len([line for line in COMMANDS if line.startswith("glassformer")]) >= 5


SLOW = ("glassformer train ", "glassformer bench ", "glassformer lab ")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=[pytest.mark.slow] if line.startswith(SLOW) else [])
        for line in COMMANDS
        if line.startswith("glassformer ")
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_command_runs(
    line: str,
    glassformer: Glassformer,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path_factory.getbasetemp() / "data"))
    before = set(tmp_path.iterdir())
    done = glassformer(*shlex.split(line)[1:])
    assert done.code == 0, done.err
    assert done.out or set(tmp_path.iterdir()) > before


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("make ")])
def test_a_target_exists(line: str) -> None:
    """Not run from within itself: `make -n` says what it would do."""
    done = subprocess.run([*line.split()[:1], "-n", *line.split()[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search("serve|pytest|benchmarks/|glassformer compare", done.stdout)


@pytest.mark.parametrize("line", [line for line in INLINE if line.startswith("python ")])
def test_a_script_exists(line: str) -> None:
    """Scripts that write a table run for minutes to hours; their options are read here."""
    script, *options = line.split()[1:]
    text = (ROOT / script).read_text(encoding="utf-8")
    assert all(f'"{option}"' in text for option in options)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / target).exists(), target


def test_the_table_of_measurements_is_filled_in() -> None:
    table = README.partition("<!-- tracing -->")[2].partition("<!-- /tracing -->")[0]
    assert "plain forward pass | 1.00" in table
