from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from glassformer.errors import ConfigError, InputError, MaskError, ShapeError
from glassformer.models.ends import Frames, Tokens
from glassformer.models.recurrent import Recurrent, RecurrentConfig, Stack, StackConfig, medium, reverse, tiny

THEIRS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
TOKENS, FRAMES = Tokens(vocabulary=11), Frames(features=3)


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def ids(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(11, shape, generator=torch.Generator().manual_seed(seed))


def pair(config: StackConfig) -> tuple[Stack, nn.RNNBase]:
    """Our stack and torch's, with the same weights: both order them by layer, direction, WX, WH."""
    stack = Stack(config).double()
    theirs = THEIRS[config.cell](
        config.inputs, config.cell_width, config.layers, batch_first=True, bidirectional=config.bidirectional
    ).double()
    cells = [cell for layer in stack.layers for cell in (layer.onward, layer.back) if cell is not None]
    mine = [w for cell in cells for w in (cell.WX.weight, cell.WH.weight, cell.WX.bias, cell.WH.bias)]
    with torch.no_grad():
        for n, (a, b) in enumerate(zip(mine, theirs.parameters(), strict=True)):
            a.copy_(draw(*a.shape, seed=n) / 2)
            b.copy_(a)
    return stack, theirs


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("lengths", [None, [7, 2, 5]])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("cell", THEIRS)
def test_a_stack_equals_torchs(cell, layers, bidirectional, lengths, watched) -> None:
    config = StackConfig(cell=cell, inputs=3, width=6, layers=layers, bidirectional=bidirectional)
    stack, theirs = pair(config)
    if watched:
        for module in stack.modules():
            for symbol in getattr(module, "symbols", ()):
                module.tap(symbol).editors.append(torch.clone)
    x, y = draw(3, 7, 3).requires_grad_(), draw(3, 7, 3).requires_grad_()
    if lengths is None:
        H, states = stack(x)
        H2, last = theirs(y)
    else:
        lengths = torch.tensor(lengths)
        H, states = stack(x, None, lengths)
        packed, last = theirs(pack_padded_sequence(y, lengths, batch_first=True, enforce_sorted=False))
        H2, _ = pad_packed_sequence(packed, batch_first=True)
    torch.testing.assert_close(H, H2, rtol=0, atol=1e-10)
    last = last if isinstance(last, tuple) else (last,)
    for n, state in enumerate(states):
        for s, theirs_all in zip(state, last, strict=True):
            d = config.directions
            torch.testing.assert_close(s, torch.cat([*theirs_all[d * n : d * n + d]], -1), rtol=0, atol=1e-10)
    H.square().sum().backward()
    H2.square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=0, atol=1e-10)
    for layer in range(layers):
        grad = getattr(theirs, f"weight_hh_l{layer}").grad
        torch.testing.assert_close(stack.layers[layer].onward.WH.weight.grad, grad, rtol=0, atol=1e-10)


def test_fp32_equals_torch() -> None:
    stack, theirs = pair(StackConfig(cell="lstm", inputs=3, width=6, layers=2))
    X = draw(4, 30, 3, dtype=torch.float32)
    torch.testing.assert_close(stack.float()(X)[0], theirs.float()(X)[0], rtol=1e-5, atol=1e-5)


def test_reverse_leaves_padding_where_it_is() -> None:
    X = torch.tensor([[1, 2, 3, 0], [1, 2, 3, 4]])[..., None]
    assert reverse(X, torch.tensor([3, 4]))[..., 0].tolist() == [[3, 2, 1, 0], [4, 3, 2, 1]]
    assert reverse(X, None)[..., 0].tolist() == [[0, 3, 2, 1], [4, 3, 2, 1]]


@pytest.mark.parametrize("cell", THEIRS)
@pytest.mark.parametrize("reads", [TOKENS, FRAMES])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_counts_its_parameters(cell, reads, bidirectional) -> None:
    config = RecurrentConfig(
        reads=reads, classes=5, pool="mean", width=6, layers=3, cell=cell, bidirectional=bidirectional
    )
    assert config.parameters == sum(p.numel() for p in Recurrent(config).parameters())


def test_published_size() -> None:
    """About 20 million in the paper; two biases a gate here, as in torch."""
    assert medium().parameters == 19_780_400


@given(
    cuts=st.lists(st.integers(1, 14), max_size=5, unique=True),
    cell=st.sampled_from(sorted(THEIRS)),
    tokens=st.booleans(),
)
def test_streaming_in_any_pieces_equals_the_whole(cuts, cell, tokens) -> None:
    model = Recurrent(tiny(TOKENS if tokens else FRAMES, 5, cell=cell), seed=1).double()
    X = ids(2, 15) if tokens else draw(2, 15, 3)
    states, pieces = None, []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 15], strict=True):
        logits, states = model.stream(X[:, start:end], states)
        pieces.append(logits)
    torch.testing.assert_close(torch.cat(pieces, 1), model(X), rtol=0, atol=1e-10)


def test_frame_by_frame_equals_the_whole_in_float32() -> None:
    model = Recurrent(tiny(FRAMES, 5, "last"), seed=1).eval()
    X, states = draw(2, 40, 3, dtype=torch.float32), None
    for frame in X.unbind(1):
        logits, states = model.stream(frame[:, None], states)
    torch.testing.assert_close(logits, model(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("pool", ["none", "mean", "last"])
def test_padding_does_not_matter(pool, bidirectional) -> None:
    config = RecurrentConfig(reads=TOKENS, classes=5, pool=pool, width=8, layers=2, bidirectional=bidirectional)
    model = Recurrent(config).double()
    X = ids(2, 9)
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    padded, alone = model(X, mask)[1:], model(X[1:, :4])
    torch.testing.assert_close(padded[:, :4] if pool == "none" else padded, alone, rtol=0, atol=1e-12)
    torch.testing.assert_close(model(X, mask)[:1], model(X[:1]), rtol=0, atol=1e-12)


def test_last_has_read_everything_in_both_directions() -> None:
    """So the answer depends on the first token through the backward direction too."""
    config = RecurrentConfig(reads=FRAMES, classes=5, pool="last", width=8, layers=1, bidirectional=True)
    model = Recurrent(config).double()
    H, _ = model.stack(X := draw(1, 6, 3))
    expected = model.head.W(torch.cat([H[:, -1, :4], H[:, 0, 4:]], -1))
    torch.testing.assert_close(model(X), expected)


def test_learns_to_remember() -> None:
    """The first of eight tokens, told at the end."""
    X = ids(64, 8) % 4
    model = Recurrent(
        RecurrentConfig(reads=Tokens(vocabulary=4), classes=4, pool="last", width=16, layers=1, cell="gru")
    )
    optimiser = torch.optim.Adam(model.parameters(), 0.03)
    for _ in range(60):
        optimiser.zero_grad()
        F.cross_entropy(model(X), X[:, 0]).backward()
        optimiser.step()
    assert (model(X).argmax(1) == X[:, 0]).float().mean() > 0.9


def test_starts_as_documented() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (Recurrent(tiny(TOKENS, 5), seed=seed) for seed in (1, 1, 2))
    assert torch.random.get_rng_state().equal(before)
    assert all(a.equal(b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not one.E.weight.equal(other.E.weight)
    for layer in one.stack.layers:
        assert layer.onward.WX.bias.reshape(4, 8).sum(1).tolist() == [0, 8, 0, 0]  # i f g o
        for gate in layer.onward.WH.weight.chunk(4):
            torch.testing.assert_close(gate @ gate.T, torch.eye(8), rtol=0, atol=1e-5)


def test_an_lstm_learns_to_recall_over_sixteen_tokens() -> None:
    """Uniform recurrent weights on ±1/√n do not get there in as many steps."""
    random = torch.Generator().manual_seed(0)
    config = RecurrentConfig(reads=Tokens(vocabulary=8), classes=4, pool="last", width=24, layers=1)
    model = Recurrent(config, seed=0)
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(250):
        X = torch.cat([torch.randint(4, (32, 1), generator=random), torch.randint(4, 8, (32, 16), generator=random)], 1)
        optimiser.zero_grad()
        F.cross_entropy(model(X), X[:, 0]).backward()
        optimiser.step()
    assert (model(X).argmax(1) == X[:, 0]).float().mean() > 0.9


def test_quantities_have_paths() -> None:
    model, seen = Recurrent(tiny(TOKENS, 5)), []
    model.get_submodule("stack.layers.1.onward.f").watchers.append(seen.append)
    model(ids(2, 7))
    assert seen[0].shape == (2, 7, 8)
    assert ((seen[0] > 0) & (seen[0] < 1)).all()


def test_dropout_acts_in_training_alone() -> None:
    config = RecurrentConfig(reads=TOKENS, classes=5, pool="none", width=32, layers=2, dropout=0.5)
    model, X = Recurrent(config), ids(1, 6)
    torch.manual_seed(0)
    assert not model(X).equal(model(X))
    assert model.eval()(X).equal(model(X))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": "ltsm"}, "cell 'ltsm' is unknown: choose one of rnn, lstm, gru"),
        ({"layers": 0}, "layers is 0: choose at least 1"),
        ({"classes": 0}, "classes is 0"),
        ({"pool": "max"}, "pool 'max' is unknown"),
        ({"dropout": 1.5}, "dropout is 1.5"),
        ({"bidirectional": True, "width": 7}, "width 7 does not split into two directions: choose an even width"),
    ],
)
def test_configs_that_describe_no_model(changes, message) -> None:
    fields = {"reads": FRAMES, "classes": 2, "pool": "none", "width": 4, "layers": 2}
    with pytest.raises(ConfigError, match=message):
        RecurrentConfig(**(fields | changes))


def test_inputs_that_do_not_fit() -> None:
    model = Recurrent(tiny(FRAMES, 5)).double()
    X = draw(2, 4, 3)
    with pytest.raises(ShapeError, match=r"frames have shape \(2, 4, 2\): give \(batch, frames, 3\)"):
        model(X[..., :2])
    with pytest.raises(MaskError, match="sequence 1 has padding before its end: put the padding after"):
        model(X, torch.tensor([[True] * 4, [False, True, True, True]]))
    with pytest.raises(MaskError, match="sequence 0 has no real position"):
        model(X, torch.zeros(2, 4, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"give 2 layers of \(1, 8\), or none to start"):
        model.stream(X[:1], model.stream(X).states)
    with pytest.raises(InputError, match="token id 12"):
        Recurrent(tiny(TOKENS, 5))(torch.full((1, 3), 12))
    nn.init.constant_(model.stack.layers[1].onward.WH.weight, float("nan"))
    with pytest.raises(InputError, match=r"stack\.layers\.1\.onward\.WH\.weight holds nan"):
        model(X)


def test_streams_that_cannot_be() -> None:
    both = RecurrentConfig(reads=FRAMES, classes=2, pool="none", width=4, layers=2, bidirectional=True)
    with pytest.raises(ConfigError, match="stream one direction only"):
        Recurrent(both).stream(draw(1, 2, 3))
    with pytest.raises(ConfigError, match="known only at their end"):
        Recurrent(tiny(FRAMES, 5, "mean")).stream(draw(1, 2, 3))
    state = ((torch.zeros(1, 4), torch.zeros(1, 4)),) * 2
    with pytest.raises(ConfigError, match="continue one direction only"):
        Stack(both.stack)(draw(1, 2, 3), state)
