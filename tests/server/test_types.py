"""The JSDoc types of the workbench's scripts, where a TypeScript compiler is to be had."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALLED = Path(sys.prefix) / "typescript" / "node_modules" / ".bin" / "tsc"
TSC = str(INSTALLED) if INSTALLED.exists() else shutil.which("tsc")


@pytest.mark.slow
@pytest.mark.skipif(TSC is None, reason="no TypeScript compiler: make types-js installs one where there is npm")
def test_scripts_agree_with_their_types() -> None:
    done = subprocess.run([str(TSC), "-p", str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[:3000]
