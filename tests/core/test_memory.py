from __future__ import annotations

import mmap
from pathlib import Path

import pytest
import torch

from glassformer.core import memory
from glassformer.core.memory import MAPPED, MOST, again, room


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


BYTE = torch.zeros(1, dtype=torch.uint8)
LARGE = (2 * MAPPED,)


@pytest.mark.skipif(not memory.LARGE_PAGES, reason="the system has no large pages")
def test_what_nobody_holds_is_given_again_and_what_a_view_holds_is_not() -> None:
    with again([]):
        first = room(LARGE, BYTE).fill_(1)
        place, seen = first.data_ptr(), first[5:9]
        del first
        second = room(LARGE, BYTE).fill_(2)
        assert second.data_ptr() != place
        assert seen.tolist() == [1, 1, 1, 1]
        del seen
        assert room(LARGE, BYTE).data_ptr() == place


def test_no_more_than_two_blocks_stay_mapped_and_only_while_it_is_open() -> None:
    blocks: list[mmap.mmap] = []
    with again(blocks):
        held = [room(LARGE, BYTE).fill_(i) for i in range(MOST + 2)]
        assert len(blocks) <= MOST
        room((MAPPED * 3,), BYTE)
        assert len({len(block) for block in blocks}) <= 1  # another size: the old ones are not coming back
    assert [int(part[-1]) for part in held] == list(range(MOST + 2))
    before = list(map(len, blocks))
    room(LARGE, BYTE)
    assert list(map(len, blocks)) == before
