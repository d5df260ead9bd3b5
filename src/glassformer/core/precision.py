"""Check whether a dtype is usable: some processors advertise instructions that they cannot execute.

Where AMX is advertised but not enabled, a bfloat16 matrix product crashes the whole process. It is therefore tried once
in a child process, and only on processors that advertise AMX.
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
    """Return True if bfloat16 matrix products run on this processor."""
    return not advertises_amx() or runs_in_child_process(_TRY)


def require_runnable(dtype: torch.dtype) -> None:
    """Raise an error if the dtype would crash the process."""
    if dtype == torch.bfloat16 and not torch.compiler.is_compiling() and not bfloat16_works():
        raise InputError(
            "this processor advertises bfloat16 matrix products (AMX) and crashes when it runs them",
            "use float32, or start with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment",
        )


def runs_in_child_process(code: str) -> bool:
    """Return True if a child Python process runs the code without failing."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def advertises_amx() -> bool:
    """Return True if the processor advertises AMX, or if this cannot be determined."""
    try:
        return "amx_bf16" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return True
