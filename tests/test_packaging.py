"""An installed package has every file that it reads."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "glassformer"


def test_every_data_file_is_package_data() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    included = {path for pattern in settings["package-data"]["glassformer"] for path in PACKAGE.glob(pattern)}
    there = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert there - included == set()


def test_every_folder_of_code_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_the_package_runs_as_a_module() -> None:
    found = subprocess.run([sys.executable, "-m", "glassformer", "solve", "--list"], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "four-tokens" in found.stdout
