from __future__ import annotations

import pytest
import torch

from glassformer.core.precision import bfloat16_works
from glassformer.errors import InputError
from glassformer.train.device import autocast_of, runs_bfloat16

CPU = torch.device("cpu")


def test_float32_is_no_cast() -> None:
    assert autocast_of("fp32", CPU) is None


def test_auto_is_what_the_machine_has() -> None:
    cast = autocast_of("auto", CPU)
    assert (cast is not None) == runs_bfloat16(CPU)
    assert not runs_bfloat16(CPU) or bfloat16_works()


def test_insisting() -> None:
    if bfloat16_works():
        with autocast_of("bf16", CPU) as _:  # type: ignore[union-attr]
            assert torch.nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16
    else:
        with pytest.raises(InputError, match="use float32"):
            autocast_of("bf16", CPU)


def test_a_device_without_it(refused) -> None:  # type: ignore[no-untyped-def]
    refused(InputError, "--precision bf16 is not supported on meta", lambda: autocast_of("bf16", torch.device("meta")))
    assert autocast_of("auto", torch.device("meta")) is None
