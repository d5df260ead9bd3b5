from __future__ import annotations

import pytest
import torch

from glassformer.core import precision
from glassformer.errors import InputError
from glassformer.nn import Linear


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
