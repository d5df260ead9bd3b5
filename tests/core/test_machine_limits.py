"""What depends on the machine: large buffers, usable data types, tensors without values."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from glassformer.core import memory, precision
from glassformer.core.memory import MAPPED, room
from glassformer.core.values import has_values, is_plain
from glassformer.errors import InputError
from glassformer.nn import Linear


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


@pytest.fixture(autouse=True)
def _anew() -> None:
    precision.bfloat16_works.cache_clear()


def test_a_process_that_dies_does_not_take_us_along() -> None:
    assert precision.runs_in_child_process("pass")
    assert not precision.runs_in_child_process("import os, signal; os.kill(os.getpid(), signal.SIGILL)")


def test_the_exit_code_of_the_child_process_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that advertises AMX, and whose child dies: an error, no crash."""
    monkeypatch.setattr(precision, "advertises_amx", lambda: True)
    monkeypatch.setattr(precision, "_TRY", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    layer = Linear(4, 4).bfloat16()
    with pytest.raises(InputError, match="crashes when it runs them: use float32, or start with ONEDNN_MAX_CPU_ISA"):
        layer(torch.ones(2, 4, dtype=torch.bfloat16))
    assert Linear(4, 4)(torch.ones(2, 4)).shape == (2, 4)  # float32 is not asked about


def test_where_nothing_is_advertised_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "advertises_amx", lambda: False)
    monkeypatch.setattr(precision, "runs_in_child_process", lambda code: pytest.fail("a child was started"))
    assert precision.bfloat16_works()


def test_a_tensor_of_numbers_has_values() -> None:
    assert has_values(torch.zeros(2))
    assert not has_values(torch.zeros(2, device="meta"))


def test_a_traced_tensor_has_none() -> None:
    seen = []

    class Looks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(has_values(x))
            return x + 1

    torch.export.export(Looks(), (torch.zeros(2),), strict=False)
    assert seen
    assert not any(seen)


def test_numbers_that_nothing_follows_are_plain() -> None:
    x, graded = torch.zeros(2), torch.zeros(2, requires_grad=True)
    assert is_plain(x)
    assert not is_plain(x, graded)
    assert not is_plain(x.to("meta"))
    with torch.no_grad():
        assert is_plain(x, graded)
    followed: list[bool] = []
    torch.func.vmap(lambda row: (followed.append(is_plain(row)), row)[1])(x)
    assert followed == [False]
