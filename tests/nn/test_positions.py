from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.core import positions as core
from glassformer.core.rotary import LinearScaling, rotary_angles
from glassformer.errors import ConfigError, ShapeError
from glassformer.nn import Alibi, Learned, Relative, Rotary, Sinusoidal, initialise


def table(rows: int, width: int) -> Tensor:
    return torch.arange(rows * width, dtype=torch.float32).unflatten(0, (rows, width))


@pytest.mark.parametrize("offset", [0, 2])
def test_learned_positions_are_rows_of_a_table(offset: int) -> None:
    learned = Learned(length=5, offset=offset).build(3)
    weights = table(5 + offset, 3)
    learned.load_state_dict({"table.weight": weights})
    where = torch.tensor([[0, 4, 1], [2, 2, 3]])
    assert torch.equal(learned(where), weights[where + offset])
    assert learned(where, torch.float64).dtype == torch.float64


def test_a_sequence_longer_than_learned_positions(refused) -> None:  # type: ignore[no-untyped-def]
    learned = Learned(length=5, offset=2).build(3)
    assert learned(torch.arange(5)).shape == (5, 3)
    refused(
        ShapeError,
        "position 5 is beyond the 5 learned positions: shorten the input, or interpolate the table to a longer one",
        lambda: learned(torch.arange(6)),
    )


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("divisor", ["d/2", "d/2-1"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_sinusoids_come_from_their_formula(layout: str, divisor: str, dtype: torch.dtype) -> None:
    module = Sinusoidal(layout=layout, divisor=divisor, offset=1).build(6)  # type: ignore[arg-type]
    where = torch.tensor([[3, 0], [90, 7]])
    found = module(where, dtype)
    wanted = core.sinusoidal(100, 6, layout=layout, divisor=divisor, dtype=dtype)
    assert torch.equal(found, wanted[where + 1])
    assert not module.state_dict()


def test_rotary_angles_of_the_positions_given() -> None:
    rotary = Rotary(width=4, base=100.0, layout="interleaved", scaling=LinearScaling(factor=2.0))
    where = torch.tensor([[0, 3]])
    cos, sin, layout = rotary.turn(where, torch.float64)
    expected = rotary_angles(where, 4, base=100.0, scaling=LinearScaling(factor=2.0), dtype=torch.float64)
    assert torch.equal(cos, expected.cos)
    assert torch.equal(sin, expected.sin)
    assert layout == "interleaved"


@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_bias_is_t5s(bidirectional: bool) -> None:
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(
        d_model=8, num_heads=3, relative_attention_num_buckets=8, relative_attention_max_distance=20,
        is_decoder=not bidirectional,
    )  # fmt: skip
    theirs = T5Attention(config, has_relative_attention_bias=True)
    ours = Relative(heads=3, buckets=8, limit=20, bidirectional=bidirectional).build()
    ours.load_state_dict({"table.weight": theirs.relative_attention_bias.weight})
    assert torch.equal(ours(30, 30), theirs.compute_bias(30, 30)[0])
    assert torch.equal(ours(1, 30), ours(30, 30)[:, -1:])  # the last query of a cache


def test_clipped_distances() -> None:
    relative = Relative(heads=2, kind="clipped", limit=2).build()
    initialise(relative, 0)
    bias = relative(6, 6)
    for i in range(6):
        for j in range(6):
            assert torch.equal(bias[:, i, j], relative.table.weight[max(-2, min(2, j - i)) + 2])


def test_alibi_has_no_weights() -> None:
    alibi = Alibi(heads=4).build()
    assert torch.equal(alibi(3, 5), core.alibi(4, 3, 5))
    assert not alibi.state_dict()


def test_configs_that_describe_no_positions(refused) -> None:  # type: ignore[no-untyped-def]
    refused(ConfigError, "0 learned positions after 0 other rows: choose at least 1", lambda: Learned(length=0))
    refused(ConfigError, "5 learned positions after -1 other rows", lambda: Learned(length=5, offset=-1))
    refused(ConfigError, "layout 'half' is unknown: choose one of", lambda: Sinusoidal(layout="half"))  # type: ignore[arg-type]
    refused(ConfigError, "divisor 'd' is unknown: choose one of", lambda: Sinusoidal(divisor="d"))  # type: ignore[arg-type]
    refused(ConfigError, "layout 'half' is unknown: choose one of", lambda: Rotary(width=4, layout="half"))  # type: ignore[arg-type]
    refused(ConfigError, "3 columns do not split into pairs: rotate an even number", lambda: Rotary(width=3))
    refused(ConfigError, "kind 'T5' is unknown: choose one of clipped, t5", lambda: Relative(heads=2, kind="T5"))  # type: ignore[arg-type]
