"""Whether a number type can be used here: some processors promise instructions that they do not execute.

Where AMX is advertised but not enabled, a product of bfloat16 matrices ends the whole process. So a child process tries
it first, once, and only on processors that advertise it.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import torch

from glassformer.errors import InputError

_TRY = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); (a @ a).sum().item()"


@cache
def bfloat16_works() -> bool:
    """True if products of bfloat16 matrices run on this processor."""
    return not _advertises_amx() or survives(_TRY)


def require_runnable(dtype: torch.dtype) -> None:
    """An error in place of a crash."""
    if dtype == torch.bfloat16 and not torch.compiler.is_compiling() and not bfloat16_works():
        raise InputError(
            "this processor advertises bfloat16 matrix products (AMX) and dies when it runs them",
            "use float32, or start with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment",
        )


def survives(code: str) -> bool:
    """Whether a Python process lives to the end of the code."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def _advertises_amx() -> bool:
    try:
        return "amx_bf16" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return True  # not to be known without trying
