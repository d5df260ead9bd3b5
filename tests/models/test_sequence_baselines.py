"""Convolutional and feed-forward networks over sequences, and the pooling that all sequence models share."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.init import kaiming_uniform_
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core import cost
from glassformer.errors import ConfigError, InputError, MaskError, ShapeError
from glassformer.models.convolutional_sequence import ConvNet1d, ConvNet1dConfig, tcn
from glassformer.models.convolutional_sequence import tiny as convolutional_sequence_tiny
from glassformer.models.mlp import MLP, FrameWindow, ImageInput, MLPConfig, TokenWindow, mnist
from glassformer.models.mlp import tiny as mlp_tiny
from glassformer.models.sequence_io import (
    Frames,
    SequenceHead,
    Tokens,
    check_real,
    he_uniform,
    pooled,
    require_pool,
    require_streamable,
)

CONVOLUTIONAL_SEQUENCE_TOKENS, CONVOLUTIONAL_SEQUENCE_FRAMES = Tokens(vocabulary=11), Frames(features=3)


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def ids(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(11, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("reads", [CONVOLUTIONAL_SEQUENCE_TOKENS, CONVOLUTIONAL_SEQUENCE_FRAMES])
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("make", [convolutional_sequence_tiny, tcn])
def test_convolutional_sequence_counts_its_parameters(reads, kernel, make) -> None:
    base = make(reads, 5)
    config = ConvNet1dConfig(**{name: getattr(base, name) for name in base.__dataclass_fields__} | {"kernel": kernel})
    assert config.parameters == sum(p.numel() for p in ConvNet1d(config).parameters())


@pytest.mark.parametrize("causal", [True, False])
def test_equals_torchs_convolutions(causal) -> None:
    """Written with torch's channels-first functions and their own padding, gradients too."""
    model = ConvNet1d(convolutional_sequence_tiny(CONVOLUTIONAL_SEQUENCE_FRAMES, 5, causal=causal), seed=1).double()
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
        reads=CONVOLUTIONAL_SEQUENCE_FRAMES,
        classes=2,
        pool="none",
        width=8,
        blocks=3,
        cycle=2,
        kernel=kernel,
        causal=causal,
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
    assert tcn(CONVOLUTIONAL_SEQUENCE_TOKENS, 11).receptive_field == 1021


@given(cuts=st.lists(st.integers(1, 19), max_size=5, unique=True), tokens=st.booleans(), kernel=st.integers(1, 3))
def test_streaming_in_any_pieces_equals_the_whole(cuts, tokens, kernel) -> None:
    config = ConvNet1dConfig(
        reads=CONVOLUTIONAL_SEQUENCE_TOKENS if tokens else CONVOLUTIONAL_SEQUENCE_FRAMES,
        classes=5,
        pool="none",
        width=8,
        blocks=3,
        cycle=3,
        kernel=kernel,
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
    model = ConvNet1d(convolutional_sequence_tiny(CONVOLUTIONAL_SEQUENCE_FRAMES, 5, "last")).double()
    X = draw(2, 9, 3)
    first, past = model.stream(X[:, :4])
    torch.testing.assert_close(first, model(X[:, :4]))
    torch.testing.assert_close(model.stream(X[:, 4:], past).logits, model(X))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("pool", ["none", "mean", "last"])
@pytest.mark.parametrize("left", [True, False])
def test_padding_does_not_matter(causal, pool, left) -> None:
    model = ConvNet1d(convolutional_sequence_tiny(CONVOLUTIONAL_SEQUENCE_FRAMES, 5, pool, causal=causal)).double()
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
    causal, centred = (
        ConvNet1d(convolutional_sequence_tiny(CONVOLUTIONAL_SEQUENCE_FRAMES, 5, causal=c)).double()
        for c in (True, False)
    )
    assert causal(X)[:, :6].equal(causal(other)[:, :6])
    assert not causal(X)[:, 6].equal(causal(other)[:, 6])
    assert not centred(X)[:, 5].equal(centred(other)[:, 5])


def test_blocks_can_be_watched_and_edited() -> None:
    model, seen = ConvNet1d(convolutional_sequence_tiny(CONVOLUTIONAL_SEQUENCE_FRAMES, 5)).double(), []
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
    fields = {"reads": CONVOLUTIONAL_SEQUENCE_FRAMES, "classes": 2, "pool": "none", "width": 4, "blocks": 2, "cycle": 2}
    with pytest.raises(ConfigError, match=message):
        ConvNet1dConfig(**(fields | changes))


def test_streams_that_cannot_be() -> None:
    X = draw(2, 4, 3)
    with pytest.raises(ConfigError, match="sees the future: stream a causal one"):
        ConvNet1d(convolutional_sequence_tiny(CONVOLUTIONAL_SEQUENCE_FRAMES, 5, causal=False)).stream(X)
    with pytest.raises(ConfigError, match="needs the whole sequence"):
        ConvNet1d(convolutional_sequence_tiny(CONVOLUTIONAL_SEQUENCE_FRAMES, 5, "mean")).stream(X)
    model = ConvNet1d(convolutional_sequence_tiny(CONVOLUTIONAL_SEQUENCE_FRAMES, 5)).double()
    with pytest.raises(ShapeError, match="1 sequences continue a stream of 2"):
        model.stream(X[:1], model.stream(X).past)
    with pytest.raises(ShapeError, match=r"frames have shape \(2, 4\)"):
        model(X[..., 0])


def test_convolutional_sequence_the_seed_is_the_only_randomness() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (
        ConvNet1d(convolutional_sequence_tiny(CONVOLUTIONAL_SEQUENCE_TOKENS, 5), seed=seed) for seed in (1, 1, 2)
    )
    assert torch.random.get_rng_state().equal(before)
    assert all(a.equal(b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not one.E.weight.equal(other.E.weight)


def test_convolutional_sequence_dropout_acts_in_training_alone() -> None:
    model = ConvNet1d(tcn(CONVOLUTIONAL_SEQUENCE_FRAMES, 5)).double()
    assert isinstance(model.blocks[0].dropout, nn.Dropout)
    X = draw(1, 6, 3)
    torch.manual_seed(0)
    assert not model(X).equal(model(X))
    assert model.eval()(X).equal(model(X))


def test_a_weight_that_is_not_a_number_is_named() -> None:
    model = ConvNet1d(convolutional_sequence_tiny(CONVOLUTIONAL_SEQUENCE_TOKENS, 5))
    nn.init.constant_(model.blocks[2].W1.W.bias, float("nan"))
    with pytest.raises(InputError, match=r"weight blocks\.2\.W1\.W\.bias is nan at \[0\]: load the weights again"):
        model(ids(1, 4))


def test_what_it_costs() -> None:
    config, n = convolutional_sequence_tiny(CONVOLUTIONAL_SEQUENCE_FRAMES, 5), 12
    expected = cost.linear(n, 3, config.width) + cost.linear(n, config.width, 5)
    for dilation in config.dilations:  # zeros before the first position, not around
        expected += 2 * cost.convolution((n + 2 * dilation,), config.width, config.width, 3, dilation=dilation)
    with FlopCounterMode(display=False) as counter:
        ConvNet1d(config)(torch.zeros(1, n, 3))
    assert counter.get_total_flops() == expected.flops


IMAGE = ImageInput(channels=3, height=4, width=5)
MLP_TOKENS = TokenWindow(vocabulary=11, length=6, width=3)
MLP_FRAMES = FrameWindow(features=4, length=6)

INPUTS = {
    "image": (IMAGE, torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))),
    "tokens": (MLP_TOKENS, torch.randint(11, (2, 6), generator=torch.Generator().manual_seed(0))),
    "frames": (MLP_FRAMES, torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))),
}


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("widths", [(), (7,), (7, 5, 9)])
def test_mlp_counts_its_parameters(kind, widths) -> None:
    reads, X = INPUTS[kind]
    config = MLPConfig(reads=reads, widths=widths, classes=10)
    model = MLP(config)
    assert config.parameters == sum(p.numel() for p in model.parameters())
    assert model(X).shape == (2, 10)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_equals_torchs_own_layers(dtype, tolerance) -> None:
    model = MLP(mlp_tiny(MLP_TOKENS, 5), seed=1).to(dtype)
    theirs = nn.Sequential(
        nn.Embedding(11, 3), nn.Flatten(), nn.Linear(18, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 5)
    ).to(dtype)
    theirs.load_state_dict(dict(zip(theirs.state_dict(), model.state_dict().values(), strict=True)))
    X = INPUTS["tokens"][1]
    ours, expected = model(X), theirs(X)
    torch.testing.assert_close(ours, expected, rtol=0, atol=tolerance)
    ours.square().sum().backward()
    expected.square().sum().backward()
    for a, b in zip(model.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=tolerance)


def test_mlp_the_seed_is_the_only_randomness() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (MLP(mlp_tiny(IMAGE, 5), seed=seed) for seed in (1, 1, 2))
    assert torch.random.get_rng_state().equal(before)
    assert one.W.weight.equal(same.W.weight)
    assert not one.W.weight.equal(other.W.weight)


def test_published_size() -> None:
    assert mnist().parameters == 784 * 800 + 800 + 800 * 800 + 800 + 8000 + 10


def test_layers_can_be_watched_and_edited() -> None:
    model = MLP(mlp_tiny(IMAGE, 5))
    seen: list[torch.Tensor] = []
    model.get_submodule("layers.0.F").watchers.append(seen.append)
    model(INPUTS["image"][1])
    assert seen[0].shape == (2, 16)
    assert (seen[0] >= 0).all()
    model.get_submodule("layers.1.F").editors.append(torch.zeros_like)
    torch.testing.assert_close(model(INPUTS["image"][1]), model.W.bias.expand(2, 5))


def test_mlp_dropout_acts_in_training_alone() -> None:
    model = MLP(MLPConfig(reads=IMAGE, widths=(50,), classes=5, dropout=0.5))
    X = INPUTS["image"][1]
    torch.manual_seed(0)
    assert not model(X).equal(model(X))
    assert model.eval()(X).equal(model(X))


@pytest.mark.parametrize(
    ("reads", "X", "message"),
    [
        (IMAGE, torch.zeros(2, 3, 5, 5), r"\(2, 3, 5, 5\): give \(batch, 3, 4, 5\), or build an MLP"),
        (MLP_TOKENS, torch.zeros(2, 7, dtype=torch.long), r"\(2, 7\): cut windows of 6 tokens"),
        (MLP_FRAMES, torch.zeros(2, 5, 4), r"\(2, 5, 4\): cut windows \(batch, 6, 4\)"),
    ],
)
def test_another_length_is_an_error(reads, X, message) -> None:
    with pytest.raises(ShapeError, match=message):
        MLP(mlp_tiny(reads, 5))(X)


def test_other_mistakes() -> None:
    with pytest.raises(InputError, match="token id 11"):
        MLP(mlp_tiny(MLP_TOKENS, 5))(torch.full((1, 6), 11))
    with pytest.raises(ConfigError, match=r"hidden widths are \(4, 0\)"):
        MLPConfig(reads=IMAGE, widths=(4, 0), classes=2)
    with pytest.raises(ConfigError, match="length is 0"):
        FrameWindow(features=2, length=0)
    model = MLP(mlp_tiny(IMAGE, 5))
    nn.init.constant_(model.layers[0].W.bias, float("nan"))
    with pytest.raises(InputError, match=r"weight layers\.0\.W\.bias is nan"):
        model(INPUTS["image"][1])


def test_pooling_is_of_the_real_positions() -> None:
    X = torch.arange(12.0).reshape(2, 3, 2)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    assert pooled(X, "none", mask) is X
    assert pooled(X, "mean", mask).tolist() == [[1, 2], [8, 9]]
    assert pooled(X, "last", mask).tolist() == [[2, 3], [10, 11]]
    everything = torch.ones(2, 3, dtype=torch.bool)
    for pool in ("mean", "last"):
        assert pooled(X, pool, None).equal(pooled(X, pool, everything))


def test_last_is_the_last_real_position_wherever_padding_stands() -> None:
    X = torch.arange(4.0).reshape(1, 4, 1)
    assert pooled(X, "last", torch.tensor([[False, True, False, False]])).item() == 1
    assert pooled(X, "last", torch.tensor([[True, False, False, False]])).item() == 0


def test_what_padding_holds_does_not_matter() -> None:
    X = torch.tensor([[[1.0], [float("nan")]]])
    assert pooled(X, "mean", torch.tensor([[True, False]])).item() == 1


def test_head_shapes() -> None:
    X = torch.zeros(2, 3, 4)
    assert SequenceHead(4, 5, "none")(X).shape == (2, 3, 5)
    assert SequenceHead(4, 5, "mean")(X).shape == (2, 5)


def test_he_is_torchs() -> None:
    ours, theirs = torch.empty(7, 5, 3), torch.empty(7, 5, 3)
    he_uniform(ours, torch.Generator().manual_seed(3))
    kaiming_uniform_(theirs, nonlinearity="relu", generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Tokens(vocabulary=0), ConfigError, "vocabulary is 0: choose at least 1"),
        (lambda: Frames(features=-2), ConfigError, "features is -2: choose at least 1"),
        (lambda: require_pool("max"), ConfigError, "pool 'max' is unknown: choose one of none, mean, last"),
        (lambda: require_streamable("mean"), ConfigError, "needs the whole sequence"),
        (lambda: Tokens(vocabulary=5).check(torch.zeros(3, dtype=torch.long)), ShapeError, r"shape \(3,\)"),
        (lambda: Tokens(vocabulary=5).check(torch.zeros(3, 0, dtype=torch.long)), ShapeError, "at least one position"),
        (lambda: Tokens(vocabulary=5).check(torch.tensor([[1, 5]])), InputError, "token id 5 .*: use 0 to 4"),
        (lambda: Tokens(vocabulary=5).check(torch.tensor([[1, -1]])), InputError, "token id -1"),
        (lambda: Tokens(vocabulary=5).check(torch.zeros(1, 2)), InputError, "token ids have dtype float32: give int64"),
        (lambda: Frames(features=4).check(torch.zeros(1, 2, 3)), ShapeError, r"\(1, 2, 3\): give \(batch, frames, 4\)"),
        (lambda: check_real(torch.ones(1, 2), torch.zeros(1, 2)), MaskError, "has dtype float32: give booleans"),
        (lambda: check_real(torch.ones(1, 3).bool(), torch.zeros(1, 2)), MaskError, r"\(1, 3\) does not fit"),
        (
            lambda: check_real(torch.tensor([[True], [False]]), torch.zeros(2, 1)),
            MaskError,
            "sequence 1 contains only padding",
        ),
    ],
)
def test_mistakes(make, kind, message) -> None:
    with pytest.raises(kind, match=message):
        make()
