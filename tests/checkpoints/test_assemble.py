"""A model without memory, filled piece by piece."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from glassformer.checkpoints.assemble import assign, empty, require_numbers, restore_buffers
from glassformer.errors import CheckpointError, ConfigError
from glassformer.models import Seq2Seq, seq2seq


def test_empty_has_shapes_and_no_numbers() -> None:
    model = empty(Seq2Seq, seq2seq.transformer_base())
    assert all(weight.is_meta for weight in model.parameters())


def test_a_model_beyond_every_machine() -> None:
    with pytest.raises(ConfigError, match="of which no model can be made"):
        empty(lambda width: nn.Linear(width, width), 2**40)
    with pytest.raises(ConfigError, match="probabilities"):
        empty(nn.Dropout, 7.0)
    with pytest.raises(ConfigError, match="a stack of 0 blocks"):
        empty(Seq2Seq, replace(seq2seq.tiny(), source=replace(seq2seq.tiny().source, depth=0)))


def test_assign_keeps_the_memory_and_the_tie() -> None:
    model = empty(Seq2Seq, seq2seq.tiny())
    table = torch.randn(40, 16)
    assign(model, "encoder.embed.table.weight", table)
    assert model.decoder.embed.table.weight.data_ptr() == table.data_ptr()
    assert model.decoder.embed.table.weight.requires_grad


class Filters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bank", torch.arange(3.0), persistent=False)

    def fill_buffers(self, dtype: torch.dtype) -> None:
        self.register_buffer("bank", torch.arange(3, dtype=dtype), persistent=False)


class Forgetful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bank", torch.arange(3.0), persistent=False)


def test_buffers_come_back() -> None:
    with torch.device("meta"):
        model = nn.Sequential(Filters(), Seq2Seq(seq2seq.tiny()))
    restore_buffers(model, torch.float64)
    assert model[0].bank.tolist() == [0, 1, 2]
    assert all(buffer.dtype == torch.float64 and not buffer.is_meta for buffer in model.buffers())
    with torch.device("meta"):
        forgetful = Forgetful()
    with pytest.raises(TypeError, match=r"Forgetful\.bank"):
        restore_buffers(forgetful, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_what_is_not_a_number_is_named(dtype: torch.dtype) -> None:
    weight = torch.full((3, 4), torch.finfo(dtype).max, dtype=dtype)  # the largest number is one
    require_numbers("w", weight)
    require_numbers("steps", torch.tensor(3))
    require_numbers("nothing", torch.empty(0, 3, dtype=dtype))
    for value in (float("nan"), float("inf")):
        wrong = weight.clone()
        wrong[1, 2] = value
        with pytest.raises(CheckpointError, match=f"weight w holds {value} at place 6"):
            require_numbers("w", wrong)
