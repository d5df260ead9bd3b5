from __future__ import annotations

import mmap
from pathlib import Path

import pytest
import torch

from glassformer.core import memory
from glassformer.core.memory import MAPPED, room


@pytest.mark.parametrize("size", [3, MAPPED // 4, MAPPED // 4 + 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_room_is_a_tensor_like_any_other(size: int, dtype: torch.dtype) -> None:
    found = room((1, size), torch.zeros(2, dtype=dtype))
    assert found.shape == (1, size)
    assert found.dtype == dtype
    assert found.fill_(1).sum(dtype=torch.float64) == size


def test_on_the_meta_device_nothing_is_asked_for() -> None:
    assert room((4096, 4096), torch.zeros(1, device="meta")).is_meta


def test_without_large_pages_it_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LARGE_PAGES", False)
    assert room((MAPPED,), torch.zeros(1, dtype=torch.uint8)).zero_().sum() == 0


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="the system has no large pages")
def test_the_system_was_asked() -> None:
    """smaps shows what memory was advised: hg, in the region that holds the tensor."""
    large = room((2 * MAPPED,), torch.zeros(1, dtype=torch.uint8))
    inside = large.data_ptr() + MAPPED
    region = ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split()[0]
        if "-" in head:
            low, high = (int(part, 16) for part in head.split("-"))
            region = "mine" if low <= inside < high else ""
        if region and line.startswith("VmFlags"):
            assert "hg" in line.split()
            return
    pytest.fail("no region holds the tensor")
