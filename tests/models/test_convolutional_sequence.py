from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core import cost
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.models.convolutional_sequence import ConvNet1d, ConvNet1dConfig, tcn, tiny
from glassformer.models.ends import Frames, Tokens

TOKENS, FRAMES = Tokens(vocabulary=11), Frames(features=3)


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def ids(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(11, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("reads", [TOKENS, FRAMES])
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("make", [tiny, tcn])
def test_counts_its_parameters(reads, kernel, make) -> None:
    base = make(reads, 5)
    config = ConvNet1dConfig(**{name: getattr(base, name) for name in base.__dataclass_fields__} | {"kernel": kernel})
    assert config.parameters == sum(p.numel() for p in ConvNet1d(config).parameters())


@pytest.mark.parametrize("causal", [True, False])
def test_equals_torchs_convolutions(causal) -> None:
    """Written with torch's channels-first functions and their own padding, gradients too."""
    model = ConvNet1d(tiny(FRAMES, 5, causal=causal), seed=1).double()
    X = draw(2, 19, 3)
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()

    def theirs(X: torch.Tensor) -> torch.Tensor:
        X = F.linear(X, model.E.weight, model.E.bias)
        for block, dilation in zip(model.blocks, model.config.dilations, strict=True):
            U = F.layer_norm(X, (8,))
            for conv, activation in ((block.W1.W, F.relu), (block.W2.W, lambda x: x)):
                padding = 2 * dilation if causal else dilation
                U = F.conv1d(U.transpose(1, 2), conv.weight, conv.bias, padding=padding, dilation=dilation)
                U = activation(U[..., : X.shape[1]].transpose(1, 2))  # padded on both sides: the right end falls off
            X = X + U
        return F.linear(F.layer_norm(X, (8,)), model.head.W.weight, model.head.W.bias)

    a, b = model(x), theirs(y)
    torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
    a.square().sum().backward()
    b.square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("causal", "kernel"), [(True, 1), (True, 2), (True, 3), (False, 3), (False, 5)])
def test_receptive_field_by_gradient(causal, kernel) -> None:
    config = ConvNet1dConfig(
        reads=FRAMES, classes=2, pool="none", width=8, blocks=3, cycle=2, kernel=kernel, causal=causal
    )
    assert config.dilations == (1, 2, 1)
    seen = config.receptive_field
    length = 2 * seen + 3
    X = draw(1, length, 3).requires_grad_()
    middle = length // 2
    ConvNet1d(config).double()(X)[0, middle].sum().backward()
    touched = X.grad[0].abs().sum(-1).nonzero().flatten().tolist()
    first = middle - seen + 1 if causal else middle - seen // 2
    assert touched == list(range(first, first + seen))


def test_published_reach() -> None:
    assert tcn(TOKENS, 11).receptive_field == 1021


@given(cuts=st.lists(st.integers(1, 19), max_size=5, unique=True), tokens=st.booleans(), kernel=st.integers(1, 3))
def test_streaming_in_any_pieces_equals_the_whole(cuts, tokens, kernel) -> None:
    config = ConvNet1dConfig(
        reads=TOKENS if tokens else FRAMES, classes=5, pool="none", width=8, blocks=3, cycle=3, kernel=kernel
    )
    model = ConvNet1d(config, seed=1).double()
    X = ids(2, 20) if tokens else draw(2, 20, 3)
    past, pieces = None, []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 20], strict=True):
        logits, past = model.stream(X[:, start:end], past)
        pieces.append(logits)
    torch.testing.assert_close(torch.cat(pieces, 1), model(X), rtol=0, atol=1e-10)
    assert [p.shape[1] for p in past] == list(config.reaches)


def test_streaming_the_last_answers_so_far() -> None:
    model = ConvNet1d(tiny(FRAMES, 5, "last")).double()
    X = draw(2, 9, 3)
    first, past = model.stream(X[:, :4])
    torch.testing.assert_close(first, model(X[:, :4]))
    torch.testing.assert_close(model.stream(X[:, 4:], past).logits, model(X))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("pool", ["none", "mean", "last"])
@pytest.mark.parametrize("left", [True, False])
def test_padding_does_not_matter(causal, pool, left) -> None:
    model = ConvNet1d(tiny(FRAMES, 5, pool, causal=causal)).double()
    X = draw(2, 12, 3)
    mask = torch.ones(2, 12, dtype=torch.bool)
    real = slice(5, 12) if left else slice(0, 7)
    mask[1] = False
    mask[1, real] = True
    padded, alone = model(X, mask)[1:], model(X[1:, real])
    torch.testing.assert_close(padded[:, real] if pool == "none" else padded, alone, rtol=0, atol=1e-12)


def test_the_future_does_not_matter_when_causal() -> None:
    X = draw(1, 12, 3)
    other = X.clone()
    other[:, 6:] += 1
    causal, centred = (ConvNet1d(tiny(FRAMES, 5, causal=c)).double() for c in (True, False))
    assert causal(X)[:, :6].equal(causal(other)[:, :6])
    assert not causal(X)[:, 6].equal(causal(other)[:, 6])
    assert not centred(X)[:, 5].equal(centred(other)[:, 5])


def test_blocks_can_be_watched_and_edited() -> None:
    model, seen = ConvNet1d(tiny(FRAMES, 5)).double(), []
    X = draw(2, 9, 3)
    model.get_submodule("blocks.0.U").watchers.append(seen.append)
    before = model(X)
    assert seen[0].shape == (2, 9, 8)
    model.get_submodule("blocks.0.U").editors.append(torch.zeros_like)
    assert not model(X).equal(before)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "width is 0"),
        ({"cycle": 0}, "cycle is 0"),
        ({"pool": "max"}, "pool 'max' is unknown: choose one of none, mean, last"),
        ({"causal": False, "kernel": 4}, "a kernel of 4 has no centre: choose an odd kernel"),
        ({"dropout": -0.1}, "dropout is -0.1"),
    ],
)
def test_configs_that_describe_no_model(changes, message) -> None:
    fields = {"reads": FRAMES, "classes": 2, "pool": "none", "width": 4, "blocks": 2, "cycle": 2}
    with pytest.raises(ConfigError, match=message):
        ConvNet1dConfig(**(fields | changes))


def test_streams_that_cannot_be() -> None:
    X = draw(2, 4, 3)
    with pytest.raises(ConfigError, match="sees the future: stream a causal one"):
        ConvNet1d(tiny(FRAMES, 5, causal=False)).stream(X)
    with pytest.raises(ConfigError, match="known only at their end"):
        ConvNet1d(tiny(FRAMES, 5, "mean")).stream(X)
    model = ConvNet1d(tiny(FRAMES, 5)).double()
    with pytest.raises(ShapeError, match="1 sequences continue a stream of 2"):
        model.stream(X[:1], model.stream(X).past)
    with pytest.raises(ShapeError, match=r"frames have shape \(2, 4\)"):
        model(X[..., 0])


def test_the_seed_is_the_only_randomness() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (ConvNet1d(tiny(TOKENS, 5), seed=seed) for seed in (1, 1, 2))
    assert torch.random.get_rng_state().equal(before)
    assert all(a.equal(b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not one.E.weight.equal(other.E.weight)


def test_dropout_acts_in_training_alone() -> None:
    model = ConvNet1d(tcn(FRAMES, 5)).double()
    assert isinstance(model.blocks[0].dropout, nn.Dropout)
    X = draw(1, 6, 3)
    torch.manual_seed(0)
    assert not model(X).equal(model(X))
    assert model.eval()(X).equal(model(X))


def test_a_weight_that_is_not_a_number_is_named() -> None:
    model = ConvNet1d(tiny(TOKENS, 5))
    nn.init.constant_(model.blocks[2].W1.W.bias, float("nan"))
    with pytest.raises(InputError, match=r"weight blocks\.2\.W1\.W\.bias holds nan at \[0\]: load it again"):
        model(ids(1, 4))


def test_what_it_costs() -> None:
    config, n = tiny(FRAMES, 5), 12
    expected = cost.linear(n, 3, config.width) + cost.linear(n, config.width, 5)
    for dilation in config.dilations:  # zeros before the first position, not around
        expected += 2 * cost.convolution((n + 2 * dilation,), config.width, config.width, 3, dilation=dilation)
    with FlopCounterMode(display=False) as counter:
        ConvNet1d(config)(torch.zeros(1, n, 3))
    assert counter.get_total_flops() == expected.flops
