from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers.activations import ACT2FN

from glassformer.core import cost
from glassformer.errors import ConfigError, ShapeError
from glassformer.nn import FeedForward, FeedForwardConfig, initialise
from glassformer.nn.feedforward import ACTIVATIONS

PUBLISHED = {"gelu_tanh": "gelu_new", "tanh": "tanh"}  # what Hugging Face calls them, where it differs


def build(**options: object) -> FeedForward:
    module = FeedForward(FeedForwardConfig(width=6, hidden=10, **options)).double()  # type: ignore[arg-type]
    initialise(module, 0)
    for weight in module.parameters():
        nn.init.normal_(weight, generator=torch.Generator().manual_seed(weight.numel()))
    return module


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_the_published_ones(name: str) -> None:
    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    torch.testing.assert_close(ACTIVATIONS[name](x), ACT2FN[PUBLISHED.get(name, name)](x), rtol=0, atol=1e-10)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("bias", [True, False])
def test_the_net_is_torchs(activation: str, bias: bool) -> None:
    ours = build(activation=activation, bias=bias)
    layers = nn.Linear(6, 10, bias=bias), nn.Linear(10, 6, bias=bias)
    theirs = nn.Sequential(layers[0], {"relu": nn.ReLU(), "gelu": nn.GELU()}[activation], layers[1]).double()
    for mine, layer in zip((ours.W1, ours.W2), layers, strict=True):
        layer.load_state_dict(mine.state_dict())
    X = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(ours(X), theirs(X), rtol=0, atol=1e-10)
    found = torch.autograd.grad(ours(X).square().sum(), (X, *ours.parameters()))
    torch.testing.assert_close(found, torch.autograd.grad(theirs(X).square().sum(), (X, *theirs.parameters())))


def test_swiglu_is_llamas() -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaMLP

    ours = build(activation="silu", gated=True, bias=False)
    theirs = LlamaMLP(LlamaConfig(hidden_size=6, intermediate_size=10, num_attention_heads=2)).double()
    names = {"gate_proj": "W1", "up_proj": "W3", "down_proj": "W2"}
    theirs.load_state_dict({f"{n}.weight": ours.state_dict()[f"{w}.weight"] for n, w in names.items()})
    X = torch.randn(2, 3, 6, dtype=torch.float64)
    torch.testing.assert_close(ours(X), theirs(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("gated", [False, True])
def test_taps_pass_what_the_equation_names(gated: bool) -> None:
    net, seen = build(activation="silu", gated=gated), {}
    for name in "PFO":
        getattr(net, name).watchers.append(lambda x, name=name: seen.update({name: x}))
    X = torch.randn(2, 3, 6, dtype=torch.float64)
    O = net(X)
    torch.testing.assert_close(seen["P"], net.W1(X))
    F: Tensor = nn.functional.silu(net.W1(X)) * (net.W3(X) if net.W3 is not None else 1)
    torch.testing.assert_close(seen["F"], F)
    assert seen["O"] is O
    torch.testing.assert_close(O, net.W2(F))


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_what_it_costs(gated: bool, bias: bool) -> None:
    net = build(gated=gated, bias=bias)
    expected = cost.feed_forward(5, 6, 10, gated=gated, bias=bias)
    with FlopCounterMode(display=False) as counter:
        net(torch.zeros(1, 5, 6, dtype=torch.float64))
    assert counter.get_total_flops() == expected.flops
    assert sum(weight.numel() for weight in net.parameters()) == expected.parameters


def test_dropout_is_on_while_training_only() -> None:
    net, X = build(dropout=0.5), torch.randn(2, 3, 6, dtype=torch.float64)
    torch.manual_seed(0)
    assert not torch.equal(net(X), net(X))
    net.eval()
    assert torch.equal(net(X), net(X))


def test_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    config = FeedForwardConfig
    activation = "there is no activation 'mish': choose one of relu, gelu, gelu_tanh, quick_gelu, silu, tanh"
    refused(ConfigError, activation, lambda: config(width=1, hidden=1, activation="mish"))  # type: ignore[arg-type]
    size = "a feed-forward net of 4 × 0: choose widths of at least 1"
    refused(ConfigError, size, lambda: config(width=4, hidden=0))
    dropout = "dropout is 1.5: choose a probability from 0 up to, not including, 1"
    refused(ConfigError, dropout, lambda: config(width=4, hidden=4, dropout=1.5))
    width = "vectors are 5 wide, the layer 6: feed it its own width"
    refused(ShapeError, width, lambda: build()(torch.zeros(2, 5, dtype=torch.float64)))
