"""Recurrent networks against torch: cells, stacks, streams, attention over an encoder."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core import cost
from glassformer.core.attention import attend
from glassformer.core.precision import bfloat16_works
from glassformer.errors import ConfigError, InputError, MaskError, ShapeError
from glassformer.models.recurrent import Recurrent, RecurrentConfig, RecurrentStack, StackConfig, medium, reverse
from glassformer.models.recurrent import tiny as recurrent_tiny
from glassformer.models.recurrent_cells import CELLS, RecurrentCell
from glassformer.models.recurrent_seq2seq import (
    RecurrentSeq2Seq,
    RecurrentSeq2SeqConfig,
    luong,
    select,
)
from glassformer.models.recurrent_seq2seq import (
    tiny as recurrent_seq2seq_tiny,
)
from glassformer.models.sequence_io import Frames, Tokens

THEIRS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
TOKENS, FRAMES = Tokens(vocabulary=11), Frames(features=3)


def draw_recurrent(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def ids_recurrent(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(11, shape, generator=torch.Generator().manual_seed(seed))


def pair_recurrent(config: StackConfig) -> tuple[RecurrentStack, nn.RNNBase]:
    """Our stack and torch's, with the same weights: both order them by layer, direction, WX, WH."""
    stack = RecurrentStack(config).double()
    theirs = THEIRS[config.cell](
        config.inputs, config.cell_width, config.layers, batch_first=True, bidirectional=config.bidirectional
    ).double()
    cells = [cell for layer in stack.layers for cell in (layer.onward, layer.back) if cell is not None]
    mine = [w for cell in cells for w in (cell.WX.weight, cell.WH.weight, cell.WX.bias, cell.WH.bias)]
    with torch.no_grad():
        for n, (a, b) in enumerate(zip(mine, theirs.parameters(), strict=True)):
            a.copy_(draw_recurrent(*a.shape, seed=n) / 2)
            b.copy_(a)
    return stack, theirs


@pytest.mark.variants(16)
@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("lengths", [None, [7, 2, 5]])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("cell", THEIRS)
def test_a_stack_equals_torchs(cell, layers, bidirectional, lengths, watched) -> None:
    config = StackConfig(cell=cell, inputs=3, width=6, layers=layers, bidirectional=bidirectional)
    stack, theirs = pair_recurrent(config)
    if watched:
        for module in stack.modules():
            for symbol in getattr(module, "symbols", ()):
                module.tap(symbol).editors.append(torch.clone)
    x, y = draw_recurrent(3, 7, 3).requires_grad_(), draw_recurrent(3, 7, 3).requires_grad_()
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
    stack, theirs = pair_recurrent(StackConfig(cell="lstm", inputs=3, width=6, layers=2))
    X = draw_recurrent(4, 30, 3, dtype=torch.float32)
    torch.testing.assert_close(stack.float()(X)[0], theirs.float()(X)[0], rtol=1e-5, atol=1e-5)


def test_reverse_leaves_padding_where_it_is() -> None:
    X = torch.tensor([[1, 2, 3, 0], [1, 2, 3, 4]])[..., None]
    assert reverse(X, torch.tensor([3, 4]))[..., 0].tolist() == [[3, 2, 1, 0], [4, 3, 2, 1]]
    assert reverse(X, None)[..., 0].tolist() == [[0, 3, 2, 1], [4, 3, 2, 1]]


@pytest.mark.parametrize("cell", THEIRS)
@pytest.mark.parametrize("reads", [TOKENS, FRAMES])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_counts_its_parameters(cell, reads, bidirectional) -> None:
    config = RecurrentConfig(
        reads=reads, classes=5, pool="mean", width=6, layers=3, cell=cell, bidirectional=bidirectional
    )
    assert config.parameters == sum(p.numel() for p in Recurrent(config).parameters())


def test_recurrent_published_size() -> None:
    """About 20 million in the paper; two biases a gate here, as in torch."""
    assert medium().parameters == 19_780_400


@given(
    cuts=st.lists(st.integers(1, 14), max_size=5, unique=True),
    cell=st.sampled_from(sorted(THEIRS)),
    tokens=st.booleans(),
)
def test_streaming_in_any_pieces_equals_the_whole(cuts, cell, tokens) -> None:
    model = Recurrent(recurrent_tiny(TOKENS if tokens else FRAMES, 5, cell=cell), seed=1).double()
    X = ids_recurrent(2, 15) if tokens else draw_recurrent(2, 15, 3)
    states, pieces = None, []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 15], strict=True):
        logits, states = model.stream(X[:, start:end], states)
        pieces.append(logits)
    torch.testing.assert_close(torch.cat(pieces, 1), model(X), rtol=0, atol=1e-10)


def test_frame_by_frame_equals_the_whole_in_float32() -> None:
    model = Recurrent(recurrent_tiny(FRAMES, 5, "last"), seed=1).eval()
    X, states = draw_recurrent(2, 40, 3, dtype=torch.float32), None
    for frame in X.unbind(1):
        logits, states = model.stream(frame[:, None], states)
    torch.testing.assert_close(logits, model(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("pool", ["none", "mean", "last"])
def test_padding_does_not_matter(pool, bidirectional) -> None:
    config = RecurrentConfig(reads=TOKENS, classes=5, pool=pool, width=8, layers=2, bidirectional=bidirectional)
    model = Recurrent(config).double()
    X = ids_recurrent(2, 9)
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    padded, alone = model(X, mask)[1:], model(X[1:, :4])
    torch.testing.assert_close(padded[:, :4] if pool == "none" else padded, alone, rtol=0, atol=1e-12)
    torch.testing.assert_close(model(X, mask)[:1], model(X[:1]), rtol=0, atol=1e-12)


def test_last_has_read_everything_in_both_directions() -> None:
    """So the answer depends on the first token through the backward direction too."""
    config = RecurrentConfig(reads=FRAMES, classes=5, pool="last", width=8, layers=1, bidirectional=True)
    model = Recurrent(config).double()
    H, _ = model.stack(X := draw_recurrent(1, 6, 3))
    expected = model.head.W(torch.cat([H[:, -1, :4], H[:, 0, 4:]], -1))
    torch.testing.assert_close(model(X), expected)


def test_learns_to_remember() -> None:
    """The first of eight tokens, told at the end."""
    X = ids_recurrent(64, 8) % 4
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
    one, same, other = (Recurrent(recurrent_tiny(TOKENS, 5), seed=seed) for seed in (1, 1, 2))
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
    model, seen = Recurrent(recurrent_tiny(TOKENS, 5)), []
    model.get_submodule("stack.layers.1.onward.f").watchers.append(seen.append)
    model(ids_recurrent(2, 7))
    assert seen[0].shape == (2, 7, 8)
    assert ((seen[0] > 0) & (seen[0] < 1)).all()


def test_dropout_acts_in_training_alone() -> None:
    config = RecurrentConfig(reads=TOKENS, classes=5, pool="none", width=32, layers=2, dropout=0.5)
    model, X = Recurrent(config), ids_recurrent(1, 6)
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
    model = Recurrent(recurrent_tiny(FRAMES, 5)).double()
    X = draw_recurrent(2, 4, 3)
    with pytest.raises(ShapeError, match=r"frames have shape \(2, 4, 2\): give \(batch, frames, 3\)"):
        model(X[..., :2])
    with pytest.raises(MaskError, match="sequence 1 has padding before its end: put the padding after"):
        model(X, torch.tensor([[True] * 4, [False, True, True, True]]))
    with pytest.raises(MaskError, match="sequence 0 contains only padding"):
        model(X, torch.zeros(2, 4, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"give 2 layers of \(1, 8\), or none to start"):
        model.stream(X[:1], model.stream(X).states)
    with pytest.raises(InputError, match="token id 12"):
        Recurrent(recurrent_tiny(TOKENS, 5))(torch.full((1, 3), 12))
    nn.init.constant_(model.stack.layers[1].onward.WH.weight, float("nan"))
    with pytest.raises(InputError, match=r"stack\.layers\.1\.onward\.WH\.weight is nan"):
        model(X)


def test_streams_that_cannot_be() -> None:
    both = RecurrentConfig(reads=FRAMES, classes=2, pool="none", width=4, layers=2, bidirectional=True)
    with pytest.raises(ConfigError, match="stream one direction only"):
        Recurrent(both).stream(draw_recurrent(1, 2, 3))
    with pytest.raises(ConfigError, match="needs the whole sequence"):
        Recurrent(recurrent_tiny(FRAMES, 5, "mean")).stream(draw_recurrent(1, 2, 3))
    state = ((torch.zeros(1, 4), torch.zeros(1, 4)),) * 2
    with pytest.raises(ConfigError, match="continue one direction only"):
        RecurrentStack(both.stack)(draw_recurrent(1, 2, 3), state)


# The equations and the kernel against torch.nn.RNN, LSTM and GRU: outputs, states and every gradient.


PRECISIONS = [(torch.float64, 1e-10), (torch.float32, 1e-5)]


def draw_recurrent_cells(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def pair_recurrent_cells(
    kind: str, inputs: int = 5, width: int = 4, dtype: torch.dtype = torch.float64
) -> tuple[RecurrentCell, nn.RNNBase]:
    """Our cell and torch's, with the same weights."""
    cell, theirs = CELLS[kind](inputs, width).to(dtype), THEIRS[kind](inputs, width, batch_first=True).to(dtype)
    mine = (cell.WX.weight, cell.WH.weight, cell.WX.bias, cell.WH.bias)
    with torch.no_grad():
        for n, (a, b) in enumerate(zip(mine, theirs.parameters(), strict=True)):
            a.copy_(draw_recurrent_cells(*a.shape, seed=n, dtype=dtype) / 2)
            b.copy_(a)
    return cell, theirs


def as_tuple(state: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return state if isinstance(state, tuple) else (state,)


def gradients(cell: RecurrentCell) -> list[torch.Tensor]:
    return [cell.WX.weight.grad, cell.WH.weight.grad, cell.WX.bias.grad, cell.WH.bias.grad]


@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize(("batch", "steps"), [(1, 1), (3, 7), (2, 20)])
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("kind", CELLS)
def test_equals_torch(kind, dtype, tolerance, batch, steps, path) -> None:
    cell, theirs = pair_recurrent_cells(kind, dtype=dtype)
    X, seeds = draw_recurrent_cells(batch, steps, 5, dtype=dtype), (7, 8) if kind == "lstm" else (7,)
    h = [draw_recurrent_cells(batch, 4, seed=n, dtype=dtype) for n in seeds]
    ours_in = [x.clone().requires_grad_() for x in (X, *h)]
    their_in = [x.clone().requires_grad_() for x in (X, *h)]
    H, state = getattr(cell, path)(ours_in[0], tuple(ours_in[1:]))
    layered = tuple(x[None] for x in their_in[1:])
    H2, last = theirs(their_in[0], layered if len(layered) > 1 else layered[0])
    close = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(H, H2, **close)
    for a, b in zip(state, as_tuple(last), strict=True):
        torch.testing.assert_close(a, b[0], **close)
    sum((x * x).sum() for x in (H, *state)).backward()
    sum((x * x).sum() for x in (H2, *as_tuple(last))).backward()
    for a, b in zip(gradients(cell), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b.grad, **close)
    for a, b in zip(ours_in, their_in, strict=True):
        torch.testing.assert_close(a.grad, b.grad, **close)


@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize("lengths", [[3, 6, 1], [6, 6, 6], [2, 2, 4]])
@pytest.mark.parametrize("kind", CELLS)
def test_unequal_lengths_equal_torchs_packed_sequences(kind, lengths, path) -> None:
    cell, theirs = pair_recurrent_cells(kind)
    X, lengths = draw_recurrent_cells(3, 6, 5), torch.tensor(lengths)
    H, state = getattr(cell, path)(X, cell.start(3), lengths)
    packed, last = theirs(pack_padded_sequence(X, lengths, batch_first=True, enforce_sorted=False))
    H2, _ = pad_packed_sequence(packed, batch_first=True, total_length=6)
    torch.testing.assert_close(H, H2, rtol=0, atol=1e-10)
    for a, b in zip(state, as_tuple(last), strict=True):
        torch.testing.assert_close(a, b[0], rtol=0, atol=1e-10)
    sum((x * x).sum() for x in (H, *state)).backward()
    sum((x * x).sum() for x in (H2, *as_tuple(last))).backward()
    for a, b in zip(gradients(cell), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b.grad, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", CELLS)
def test_watching_changes_nothing_and_shows_every_quantity(kind) -> None:
    cell, _ = pair_recurrent_cells(kind)
    X = draw_recurrent_cells(2, 6, 5)
    unwatched, end = cell(X)
    seen: dict[str, torch.Tensor] = {}
    for symbol in cell.symbols:
        cell.tap(symbol).watchers.append(lambda x, symbol=symbol: seen.update({symbol: x}))
    H, state = cell(X)
    torch.testing.assert_close(H, unwatched, rtol=0, atol=1e-12)
    for a, b in zip(state, end, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)
    assert seen.keys() == set(cell.symbols)
    assert all(x.shape == (2, 6, 4) for x in seen.values())
    assert seen["h"].equal(H)


def test_watching_h_alone_stays_fused() -> None:
    cell, _ = pair_recurrent_cells("lstm")
    seen: list[torch.Tensor] = []
    cell.tap("h").watchers.append(seen.append)
    cell.explicit = None  # would fail if called
    assert cell(draw_recurrent_cells(1, 3, 5))[0] is seen[0]


def test_lstm_gates_obey_their_equations() -> None:
    cell, _ = pair_recurrent_cells("lstm")
    X = draw_recurrent_cells(2, 6, 5)
    seen: dict[str, torch.Tensor] = {}
    for symbol in cell.symbols:
        cell.tap(symbol).watchers.append(lambda x, symbol=symbol: seen.update({symbol: x}))
    cell(X)
    i, f, g, o, c, h = (seen[symbol] for symbol in "ifgoch")
    before = torch.cat([torch.zeros(2, 1, 4, dtype=torch.float64), c[:, :-1]], 1)
    torch.testing.assert_close(c, f * before + i * g)
    torch.testing.assert_close(h, o * c.tanh())


def test_an_edit_acts_on_all_later_steps() -> None:
    """Closing the input gate at step 2 leaves the cell as the forget gate leaves it, and step 3 goes on from there."""
    cell, theirs = pair_recurrent_cells("lstm")
    X = draw_recurrent_cells(1, 5, 5)

    def close_at_2(i: torch.Tensor) -> torch.Tensor:
        assert i.shape == (1, 5, 4)
        i = i.clone()
        i[:, 2] = 0
        return i

    unedited, _ = cell(X)
    cell.tap("i").editors.append(close_at_2)
    H, _ = cell(X)
    torch.testing.assert_close(H[:, :2], unedited[:, :2], rtol=0, atol=1e-12)
    h, c = theirs(X[:, :2])[1]
    gates = cell.WX(X[:, 2]) + cell.WH(h[0])
    _, f, _, o = gates.chunk(4, -1)
    c = f.sigmoid() * c
    h = o.sigmoid() * c.tanh()
    torch.testing.assert_close(H[:, 2], h[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(H[:, 3:], theirs(X[:, 3:], (h, c))[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", CELLS)
def test_an_edited_h_is_what_the_next_step_sees(kind) -> None:
    cell, _ = pair_recurrent_cells(kind)
    X = draw_recurrent_cells(1, 5, 5)
    cell.tap("h").editors.append(torch.zeros_like)
    seen: list[torch.Tensor] = []
    cell.tap("h").watchers.append(seen.append)
    H, _ = cell(X)
    assert not H.any()
    assert seen[0].equal(H)
    if kind == "rnn":
        return
    gate = cell.tap(cell.symbols[0])
    gate.watchers.append(seen.append)
    cell(X)
    torch.testing.assert_close(seen[-2], cell.WX(X)[..., :4].add(cell.WH.bias[:4]).sigmoid(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", CELLS)
def test_what_it_costs(kind) -> None:
    """Step by step: the counter is blind to the kernel that is one piece."""
    cell, X = CELLS[kind](5, 4), torch.zeros(1, 7, 5)
    expected = cost.recurrent(7, 5, 4, kind=kind)
    with FlopCounterMode(display=False) as counter:
        cell.explicit(X, cell.start(1))
    assert counter.get_total_flops() == expected.flops
    assert sum(weight.numel() for weight in cell.parameters()) == expected.parameters


def draw_recurrent_seq2seq(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ids_recurrent_seq2seq(*shape: int, below: int = 11, seed: int = 0) -> torch.Tensor:
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))


def build(*, seed: int = 1, **changes: object) -> RecurrentSeq2Seq:
    fields = {"reads": TOKENS, "vocabulary": 9, "width": 8, "layers": 2, "attention": True}
    return RecurrentSeq2Seq(RecurrentSeq2SeqConfig(**(fields | changes)), seed=seed).double()


@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("reads", [TOKENS, FRAMES])
def test_recurrent_seq2seq_counts_its_parameters(reads, cell, bidirectional, attention) -> None:
    model = build(reads=reads, cell=cell, bidirectional=bidirectional, attention=attention)
    assert model.config.parameters == sum(p.numel() for p in model.parameters())
    X = ids_recurrent_seq2seq(2, 5) if reads is TOKENS else draw_recurrent_seq2seq(2, 5, 3)
    assert model(X, ids_recurrent_seq2seq(2, 4, below=9)).shape == (2, 4, 9)


def test_recurrent_seq2seq_published_size() -> None:
    with torch.device("meta"):
        real = sum(p.numel() for p in RecurrentSeq2Seq(luong()).parameters())
    assert luong().parameters == real


@pytest.mark.parametrize("attention", [False, True])
def test_equals_torchs_lstm_and_attention(attention) -> None:
    """Both stacks as nn.LSTM, attention as torch's fused kernel on projected queries; gradients too."""
    model = build(attention=attention)
    stacks = []
    for stack in (model.encoder, model.decoder):
        theirs = nn.LSTM(8, 8, 2, batch_first=True).double()
        cells = [layer.onward for layer in stack.layers]
        weights = [w for cell in cells for w in (cell.WX.weight, cell.WH.weight, cell.WX.bias, cell.WH.bias)]
        with torch.no_grad():
            for a, b in zip(weights, theirs.parameters(), strict=True):
                b.copy_(a)
        stacks.append(theirs)
    encoder, decoder = stacks
    X, Y = ids_recurrent_seq2seq(3, 7), ids_recurrent_seq2seq(3, 5, below=9)
    Z, last = encoder(F.embedding(X, model.E_source.weight))
    h, _ = decoder(F.embedding(Y, model.E_target.weight), last)
    if attention:
        H = F.scaled_dot_product_attention(F.linear(h, model.attention.WQ.weight), Z, Z, scale=1.0)
        h = torch.tanh(F.linear(torch.cat([H, h], -1), model.attention.WO.weight))
    expected = F.linear(h, model.W.weight, model.W.bias)
    logits = model(X, Y)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-10)
    names = ["E_source.weight", "E_target.weight"] + ["attention.WQ.weight", "attention.WO.weight"] * attention
    parameters = [model.get_parameter(name) for name in names]
    ours = torch.autograd.grad(logits.square().sum(), parameters)
    for a, b in zip(ours, torch.autograd.grad(expected.square().sum(), parameters), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_token_by_token_equals_the_whole_target(cell, attention, bidirectional) -> None:
    model = build(cell=cell, attention=attention, bidirectional=bidirectional)
    X, Y = ids_recurrent_seq2seq(2, 6), ids_recurrent_seq2seq(2, 5, below=9)
    mask = torch.arange(6) < torch.tensor([[6], [3]])
    memory, states, steps = model.encode(X, mask), None, []
    for y in Y.unbind(1):
        logits, states = model.decode(y[:, None], memory, states)
        steps.append(logits)
    torch.testing.assert_close(torch.cat(steps, 1), model(X, Y, mask), rtol=0, atol=1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("attention", [False, True])
def test_padding_of_the_source_does_not_matter(attention, bidirectional) -> None:
    model = build(attention=attention, bidirectional=bidirectional)
    X, Y = ids_recurrent_seq2seq(2, 6), ids_recurrent_seq2seq(2, 5, below=9)
    mask = torch.arange(6) < torch.tensor([[6], [3]])
    torch.testing.assert_close(model(X, Y, mask)[1:], model(X[1:, :3], Y[1:]), rtol=0, atol=1e-12)


def test_attention_is_seen_by_its_names() -> None:
    model = build()
    seen: dict[str, torch.Tensor] = {}
    for symbol in "QSAHO":
        tap = model.get_submodule(f"attention.{symbol}")
        tap.watchers.append(lambda x, symbol=symbol: seen.update({symbol: x}))
    X, mask = ids_recurrent_seq2seq(2, 6), torch.arange(6) < torch.tensor([[6], [3]])
    memory = model.encode(X, mask)
    model.decode(ids_recurrent_seq2seq(2, 4, below=9), memory)
    expected = attend(seen["Q"], memory.X, memory.X, beta=1.0, mask=mask[:, None])
    for symbol in "SAH":
        torch.testing.assert_close(seen[symbol], getattr(expected, symbol))
    assert not seen["A"][1, :, 3:].any()
    torch.testing.assert_close(seen["A"].sum(-1), torch.ones(2, 4, dtype=torch.float64))


def test_editing_the_weights_changes_what_is_gathered() -> None:
    model = build()
    X, Y = ids_recurrent_seq2seq(1, 6), ids_recurrent_seq2seq(1, 4, below=9)
    gathered: list[torch.Tensor] = []
    model.get_submodule("attention.A").editors.append(lambda A: torch.eye(6).double()[2].expand_as(A))
    model.get_submodule("attention.H").watchers.append(gathered.append)
    model(X, Y)
    torch.testing.assert_close(gathered[0], model.encode(X).X[:, 2:3].expand(1, 4, 8))


def test_selecting_rows_is_decoding_those_rows() -> None:
    """What beam search does: repeat a source, drop another, reorder."""
    model = build()
    X, Y = ids_recurrent_seq2seq(3, 6), ids_recurrent_seq2seq(3, 4, below=9)
    mask = torch.arange(6) < torch.tensor([[6], [3], [5]])
    memory = model.encode(X, mask)
    states = model.decode(Y[:, :2], memory).states
    rows = torch.tensor([2, 0, 0])
    logits = model.decode(Y[rows, 2:], memory.select(rows), select(states, rows)).logits
    torch.testing.assert_close(logits, model(X, Y, mask)[rows, 2:], rtol=0, atol=1e-12)
    bare = model.encode(X).select(rows)
    assert bare.real is None
    assert bare.X.shape == (3, 6, 8)


def test_without_attention_only_the_last_state_is_seen() -> None:
    model = build(attention=False)
    memory = model.encode(ids_recurrent_seq2seq(2, 6))
    Y = ids_recurrent_seq2seq(2, 4, below=9)
    blind = memory._replace(X=torch.zeros_like(memory.X))
    assert model.decode(Y, memory).logits.equal(model.decode(Y, blind).logits)
    with_attention = build()
    memory = with_attention.encode(ids_recurrent_seq2seq(2, 6))
    blind = memory._replace(X=torch.zeros_like(memory.X))
    assert not with_attention.decode(Y, memory).logits.equal(with_attention.decode(Y, blind).logits)


def test_learns_to_copy_backwards() -> None:
    X = 1 + ids_recurrent_seq2seq(64, 4, below=3)
    Y = X.flip(1)
    inputs = F.pad(Y[:, :-1], (1, 0))
    model = RecurrentSeq2Seq(
        RecurrentSeq2SeqConfig(
            reads=Tokens(vocabulary=4), vocabulary=4, width=24, layers=1, attention=True, cell="gru", bidirectional=True
        )
    )
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(80):
        optimiser.zero_grad()
        F.cross_entropy(model(X, inputs).mT, Y).backward()
        optimiser.step()
    assert (model(X, inputs).argmax(-1) == Y).float().mean() > 0.9


def test_the_seed_is_the_only_randomness() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (RecurrentSeq2Seq(recurrent_seq2seq_tiny(TOKENS, 9), seed=seed) for seed in (1, 1, 2))
    assert torch.random.get_rng_state().equal(before)
    assert all(a.equal(b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not one.W.weight.equal(other.W.weight)


def test_mistakes() -> None:
    with pytest.raises(ConfigError, match="vocabulary is 0"):
        build(vocabulary=0)
    with pytest.raises(ConfigError, match="width 7 does not split into two directions"):
        build(width=7, bidirectional=True)
    model = build()
    X, Y = ids_recurrent_seq2seq(2, 6), ids_recurrent_seq2seq(2, 4, below=9)
    with pytest.raises(ShapeError, match="there are 3 targets for 2 sources: give one each"):
        model.decode(ids_recurrent_seq2seq(3, 4, below=9), model.encode(X))
    with pytest.raises(InputError, match="token id 9 is outside the vocabulary of 9"):
        model(X, torch.full((2, 4), 9))
    with pytest.raises(ShapeError, match=r"token ids have shape \(6,\)"):
        model(X[0], Y)
    with pytest.raises(MaskError, match="sequence 1 has padding before its end"):
        model(X, Y, torch.tensor([[True] * 6, [False] + [True] * 5]))
    with pytest.raises(ShapeError, match="the states have shapes"):
        model.decode(Y, model.encode(X), model.encode(X[:1]).states)
    nn.init.constant_(model.decoder.layers[0].onward.WX.weight, float("nan"))
    with pytest.raises(InputError, match=r"weight decoder\.layers\.0\.onward\.WX\.weight is nan"):
        model(X, Y)


@pytest.mark.skipif(not bfloat16_works(), reason="bfloat16 does not run here")
@pytest.mark.parametrize("padded", [False, True])
def test_products_in_bfloat16(padded: bool) -> None:
    """As a training with mixed precision runs it, with sources of one length and of several."""
    model = build(bidirectional=True).float().eval()
    source, target = ids_recurrent_seq2seq(2, 6), ids_recurrent_seq2seq(2, 4, below=9)
    real = torch.tensor([[True] * 6, [True] * 4 + [False] * 2]) if padded else None
    with torch.no_grad():
        exact = model(source, target, real)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            close = model(source, target, real)
    torch.testing.assert_close(close.float(), exact, rtol=0.05, atol=0.05)
