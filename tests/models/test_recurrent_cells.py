"""The equations and the kernel against torch.nn.RNN, LSTM and GRU: outputs, states and every gradient."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core import cost
from glassformer.models.recurrent_cells import CELLS, Cell

THEIRS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
PRECISIONS = [(torch.float64, 1e-10), (torch.float32, 1e-5)]


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def pair(kind: str, inputs: int = 5, width: int = 4, dtype: torch.dtype = torch.float64) -> tuple[Cell, nn.RNNBase]:
    """Our cell and torch's, with the same weights."""
    cell, theirs = CELLS[kind](inputs, width).to(dtype), THEIRS[kind](inputs, width, batch_first=True).to(dtype)
    mine = (cell.WX.weight, cell.WH.weight, cell.WX.bias, cell.WH.bias)
    with torch.no_grad():
        for n, (a, b) in enumerate(zip(mine, theirs.parameters(), strict=True)):
            a.copy_(draw(*a.shape, seed=n, dtype=dtype) / 2)
            b.copy_(a)
    return cell, theirs


def as_tuple(state: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return state if isinstance(state, tuple) else (state,)


def gradients(cell: Cell) -> list[torch.Tensor]:
    return [cell.WX.weight.grad, cell.WH.weight.grad, cell.WX.bias.grad, cell.WH.bias.grad]


@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize(("batch", "steps"), [(1, 1), (3, 7), (2, 20)])
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("kind", CELLS)
def test_equals_torch(kind, dtype, tolerance, batch, steps, path) -> None:
    cell, theirs = pair(kind, dtype=dtype)
    X, seeds = draw(batch, steps, 5, dtype=dtype), (7, 8) if kind == "lstm" else (7,)
    h = [draw(batch, 4, seed=n, dtype=dtype) for n in seeds]
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
    cell, theirs = pair(kind)
    X, lengths = draw(3, 6, 5), torch.tensor(lengths)
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
    cell, _ = pair(kind)
    X = draw(2, 6, 5)
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
    cell, _ = pair("lstm")
    seen: list[torch.Tensor] = []
    cell.tap("h").watchers.append(seen.append)
    cell.explicit = None  # would fail if called
    assert cell(draw(1, 3, 5))[0] is seen[0]


def test_lstm_gates_obey_their_equations() -> None:
    cell, _ = pair("lstm")
    X = draw(2, 6, 5)
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
    cell, theirs = pair("lstm")
    X = draw(1, 5, 5)

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
    cell, _ = pair(kind)
    X = draw(1, 5, 5)
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
