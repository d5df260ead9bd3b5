from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from glassformer.errors import ConfigError, ShapeError
from glassformer.nn import LayerNorm, NormConfig, RMSNorm

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", ["layer", "layer without bias", "rms"])
@pytest.mark.parametrize("eps", [1e-12, 1e-5, 1e-2])
def test_norms_and_their_gradients_are_torchs(kind: str, eps: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    bias = kind == "layer"
    theirs = (nn.RMSNorm(6, eps) if kind == "rms" else nn.LayerNorm(6, eps, bias=bias)).to(dtype)
    for weight in theirs.parameters():
        nn.init.normal_(weight)
    ours = NormConfig(kind="rms" if kind == "rms" else "layer", eps=eps, bias=bias).build(6).to(dtype)
    names = {"weight": "gamma", "bias": "beta"}
    ours.load_state_dict({names[name]: weight for name, weight in theirs.state_dict().items()})
    x = torch.randn(2, 3, 6, dtype=dtype, requires_grad=True)
    found, wanted = ours(x), theirs(x)
    torch.testing.assert_close(found, wanted, rtol=0, atol=TOLERANCE[dtype])
    weights = torch.randn_like(found)
    torch.testing.assert_close(
        torch.autograd.grad((found * weights).sum(), (x, *ours.parameters())),
        torch.autograd.grad((wanted * weights).sum(), (x, *theirs.parameters())),
        rtol=0,
        atol=TOLERANCE[dtype],
    )


@given(st.integers(0, 2**31), st.integers(2, 9), st.floats(0.1, 100), st.floats(-100, 100))
def test_what_a_norm_does_not_see(seed: int, width: int, scale: float, shift: float) -> None:
    x = torch.randn(width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    layer, rms = LayerNorm(width, 0.0).double(), RMSNorm(width, 0.0).double()
    torch.testing.assert_close(layer(scale * x + shift), layer(x), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(rms(scale * x), rms(x))


def test_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    width = "the input has width 3, the norm 4: give it vectors of the model's width"
    for norm in (LayerNorm(4), RMSNorm(4)):
        refused(ShapeError, width, lambda norm=norm: norm(torch.zeros(2, 3)))
    refused(ConfigError, "there is no norm 'batch': choose layer or rms", lambda: NormConfig(kind="batch"))  # type: ignore[arg-type]
    for eps in (-1.0, float("nan")):
        text = f"the norm's eps is {eps}: choose a small number such as 1e-5"
        refused(ConfigError, text, lambda eps=eps: NormConfig(eps=eps))
