from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core import cost
from glassformer.core.cost import Cost
from glassformer.errors import ConfigError, ShapeError

sizes = st.integers(1, 9)


def counted(function: Callable[..., object], *inputs: Tensor, **options: object) -> int:
    """Multiplications that torch counts: half its flops.

    On a CPU the counter is blind to the fused attention kernel and to the fused LSTM, so attention runs on the kernel
    that is made of matrix products, and an LSTM is counted cell by cell.
    """
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        function(*inputs, **options)
    flops = counter.get_total_flops()
    assert flops % 2 == 0
    return flops // 2


def parameters(module: nn.Module) -> int:
    return sum(weights.numel() for weights in module.parameters())


def agree(found: Cost, module: nn.Module, *inputs: Tensor, **options: object) -> None:
    assert found.multiplications == counted(module, *inputs, **options)
    assert found.parameters == parameters(module)


@given(sizes, sizes, sizes)
def test_the_formula_of_self_attention(N: int, d: int, heads: int) -> None:
    D = d * heads
    found = cost.self_attention(N, D, heads)
    assert found.multiplications == 4 * N * D**2 + 2 * N**2 * D
    assert found.parameters == 4 * D**2 + 4 * D
    assert found.activations == 5 * N * D + heads * N**2  # Q, K, V, H, O and the weights
    fused = cost.self_attention(N, D, heads, fused=True)
    assert found.activations - fused.activations == heads * N**2 - heads * N
    assert fused.multiplications == found.multiplications


def test_half_of_it_is_projections_at_twice_the_width() -> None:
    D = 64
    projections = 4 * cost.linear(2 * D, D, D).multiplications
    assert cost.self_attention(2 * D, D).multiplications == 2 * projections


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias: bool) -> None:
    agree(cost.linear(7, 5, 3, bias=bias), nn.Linear(5, 3, bias=bias), torch.randn(7, 5))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_multi_head_attention(bias: bool, need_weights: bool) -> None:
    X, Z = torch.randn(1, 5, 12), torch.randn(1, 7, 12)
    module = nn.MultiheadAttention(12, 3, bias=bias, batch_first=True)
    agree(cost.self_attention(5, 12, 3, bias=bias), module, X, X, X, need_weights=need_weights)
    agree(cost.attention(5, 7, 12, 3, bias=bias), module, X, Z, Z, need_weights=need_weights)


def test_a_memory_of_another_width() -> None:
    X, Z = torch.randn(1, 5, 12), torch.randn(1, 7, 10)
    module = nn.MultiheadAttention(12, 3, kdim=10, vdim=10, batch_first=True)
    agree(cost.attention(5, 7, 12, 3, memory_width=10), module, X, Z, Z)


@given(sizes, sizes, st.integers(1, 3), st.integers(1, 3), sizes, sizes, sizes)
def test_grouped_heads_of_any_width(N: int, M: int, g: int, share: int, d: int, d_v: int, D: int) -> None:
    h = g * share

    def attention(X: Tensor, Z: Tensor) -> Tensor:
        Q = (X @ torch.zeros(D, h * d)).view(N, h, d).transpose(0, 1)
        K = (Z @ torch.zeros(D, g * d)).view(M, g, d).transpose(0, 1).repeat_interleave(share, 0)
        V = (Z @ torch.zeros(D, g * d_v)).view(M, g, d_v).transpose(0, 1).repeat_interleave(share, 0)
        H = scaled_dot_product_attention(Q, K, V)
        return H.transpose(0, 1).reshape(N, h * d_v) @ torch.zeros(h * d_v, D)

    found = cost.attention(N, M, D, h, kv_heads=g, d=d, d_v=d_v, bias=False)
    assert found.multiplications == counted(attention, torch.zeros(N, D), torch.zeros(M, D))
    assert found.parameters == D * (h * d + g * d + g * d_v + h * d_v)


def test_feed_forward() -> None:
    X = torch.randn(5, 4)
    agree(cost.feed_forward(5, 4, 9), nn.Sequential(nn.Linear(4, 9), nn.GELU(), nn.Linear(9, 4)), X)
    gated = nn.ModuleList([nn.Linear(4, 9, bias=False), nn.Linear(4, 9, bias=False), nn.Linear(9, 4, bias=False)])
    found = cost.feed_forward(5, 4, 9, gated=True, bias=False)
    assert found.multiplications == counted(lambda X: gated[2](nn.functional.silu(gated[0](X)) * gated[1](X)), X)
    assert found.parameters == parameters(gated)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("kind", "whole", "cell"),
    [("rnn", nn.RNN, nn.RNNCell), ("gru", nn.GRU, nn.GRUCell), ("lstm", nn.LSTM, nn.LSTMCell)],
)
def test_recurrent(kind: str, whole: type[nn.RNNBase], cell: type[nn.RNNCellBase], bias: bool) -> None:
    steps = cell(7, 4, bias=bias)

    def unrolled(X: Tensor) -> None:
        state = None
        for x in X:
            state = steps(x[None], state)

    found = cost.recurrent(5, 7, 4, kind=kind, bias=bias)
    assert found.multiplications == counted(unrolled, torch.randn(5, 7))
    assert found.parameters == parameters(steps) == parameters(whole(7, 4, bias=bias))
    if kind != "lstm":
        assert found.multiplications == counted(whole(7, 4, bias=bias), torch.randn(5, 7))


@given(
    st.integers(8, 20), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(1, 2), st.integers(1, 2)
)
def test_convolution_1d(n: int, kernel: int, stride: int, padding: int, dilation: int, groups: int) -> None:
    kind = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    module = nn.Conv1d(4, 6, kernel, **kind)
    agree(cost.convolution((n,), 4, 6, kernel, **kind), module, torch.randn(1, 4, n))
    assert cost.convolution((n,), 4, 6, kernel, **kind).activations == module(torch.randn(1, 4, n)).numel()


def test_convolution_2d() -> None:
    X = torch.randn(1, 3, 32, 24)
    patches = cost.convolution((32, 24), 3, 8, 4, stride=4)
    agree(patches, nn.Conv2d(3, 8, 4, stride=4), X)
    assert patches == cost.linear(8 * 6, 3 * 4 * 4, 8)  # a patch embedding is a linear layer
    oblong = {"stride": (2, 1), "padding": (1, 0)}
    agree(cost.convolution((32, 24), 3, 8, (3, 1), **oblong), nn.Conv2d(3, 8, (3, 1), **oblong), X)


def test_embedding_and_norms() -> None:
    agree(cost.embedding(5, 100, 8), nn.Embedding(100, 8), torch.zeros(5, dtype=torch.long))
    agree(cost.norm(5, 8), nn.LayerNorm(8), torch.randn(5, 8))
    agree(cost.norm(5, 8, bias=False), nn.RMSNorm(8), torch.randn(5, 8))


def test_whole_layers() -> None:
    X, Z = torch.randn(1, 5, 12), torch.randn(1, 7, 12)
    encoder = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True)
    agree(cost.encoder_layer(5, 12, 3, 20), encoder, X)
    decoder = nn.TransformerDecoderLayer(12, 3, 20, batch_first=True)
    agree(cost.decoder_layer(5, 7, 12, 3, 20), decoder, X, Z)
    stack = nn.TransformerEncoder(encoder, 4, enable_nested_tensor=False)
    agree(4 * cost.encoder_layer(5, 12, 3, 20), stack, X)


def test_the_base_model_of_2017_has_44_million_parameters_in_its_layers() -> None:
    layers = 6 * cost.encoder_layer(1, 512, 8, 2048) + 6 * cost.decoder_layer(1, 1, 512, 8, 2048)
    theirs = nn.Transformer(512, 8, 6, 6, 2048, batch_first=True, device="meta")
    assert layers.parameters + 2 * cost.norm(1, 512).parameters == parameters(theirs) == 44_140_544


def test_costs_add_up() -> None:
    one = Cost(1, 2, 3)
    assert one + one == 2 * one == one * 2 == Cost(2, 4, 6)
    assert sum([one, one], Cost()) == 2 * one
    assert one.flops == 2
    assert one.memory() == 20
    assert one.memory(2) == 10


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cost.self_attention(4, 128, 3), ShapeError, "width 128 does not split into 3 heads: choose heads"),
        (
            lambda: cost.self_attention(4, 128, 4, kv_heads=3),
            ShapeError,
            "4 query heads cannot share 3 key/value heads",
        ),
        (lambda: cost.linear(0, 1, 1), ShapeError, "N must be at least 1, got 0"),
        (lambda: cost.attention(1, 1, 4, 2, d_v=0), ShapeError, "d_v must be at least 1, got 0"),
        (lambda: cost.recurrent(1, 1, 1, kind="mgu"), ConfigError, "called 'mgu': choose one of rnn, gru, lstm"),
        (lambda: cost.convolution((4,), 3, 4, 1, groups=2), ShapeError, "3 → 4 channels do not split into 2 groups"),
        (lambda: cost.convolution((4,), 1, 1, 5), ShapeError, r"a kernel of \(5,\) does not fit an input of \(4,\)"),
        (lambda: cost.convolution((4, 4), 1, 1, (2,)), ShapeError, r"\(2,\) does not give each axis of \(4, 4\)"),
    ],
)
def test_invalid_layers_are_errors(call, error: type[Exception], message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        call()
