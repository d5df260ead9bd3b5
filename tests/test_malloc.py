"""The allocator's settings are made where they exist, and a user's own ones win."""

from __future__ import annotations

import os
import subprocess
import sys
from unittest import mock

import pytest

import glassformer as gf

CODE = """
import ctypes
from glassformer.malloc import keep_freed_memory
class Counters(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]
libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Counters
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
done = keep_freed_memory()
before = libc.mallinfo2().hblkhd
block = libc.malloc(100 << 20)
print(done, libc.mallinfo2().hblkhd - before > 100 << 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="settings of glibc")
@pytest.mark.parametrize(
    ("own", "expected"), [({}, "True False"), ({"MALLOC_MMAP_THRESHOLD_": "131072"}, "False True")]
)
def test_large_blocks_come_from_the_heap_unless_the_user_decides(own: dict[str, str], expected: str) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | own
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=variables, check=True)
    assert done.stdout.strip() == expected


def test_loading_a_model_keeps_freed_memory() -> None:
    with mock.patch("glassformer.pipelines.loading.keep_freed_memory") as kept:
        gf.load("tiny:decoder")
    assert kept.called
