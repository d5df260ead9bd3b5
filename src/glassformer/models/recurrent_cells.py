"""h_t = f(x_t, h_{t−1}): the tanh RNN, the LSTM and the GRU, as explicit equations and as a fused kernel.

The input's contribution to each step, P = X WXᵀ + b, is one product for the whole sequence; only WH h is sequential.
Cells stay inspectable: where a gate is watched or anything is edited, the equations run; elsewhere the fused kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from glassformer.nn.linear import Linear
from glassformer.nn.tap import Tap, active

CellKind = Literal["rnn", "lstm", "gru"]
State = tuple[Tensor, ...]  # (h,), or (h, c) for the LSTM, each (b, n)
Note = Callable[[str, Tensor], Tensor]  # takes a symbol and its value, returns the (possibly edited) value


class RecurrentCell(nn.Module):
    """One layer in one direction: (b, t, m) to H (b, t, n) and the last state."""

    gates: ClassVar[int]
    symbols: ClassVar[tuple[str, ...]]  # the quantities a step computes; the state is (h,), or (h, c) if there is a c
    kernel: ClassVar[Callable[..., tuple[Tensor, ...]]]  # torch's fused loop over time

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.WX = Linear(inputs, self.gates * width)
        self.WH = Linear(width, self.gates * width)
        for symbol in self.symbols:
            self.add_module(symbol, Tap())

    def step(self, p: Tensor, state: State, note: Note) -> State:
        """Compute the next state from p = WX x_t + b. `note` records each intermediate quantity by name."""
        raise NotImplementedError

    def start(self, batch: int) -> State:
        zeros = self.WH.weight.new_zeros(batch, self.width)
        return (zeros, zeros) if "c" in self.symbols else (zeros,)

    def tap(self, symbol: str) -> Tap:
        tap = self.get_submodule(symbol)
        assert isinstance(tap, Tap)
        return tap

    def forward(self, X: Tensor, state: State | None = None, lengths: Tensor | None = None) -> tuple[Tensor, State]:
        """Compute H, which is 0 beyond a sequence's length, and the state at its length."""
        state = self.start(len(X)) if state is None else state
        taps = {symbol: self.tap(symbol) for symbol in self.symbols}
        if any(tap.edited or (tap.watched and symbol != "h") for symbol, tap in taps.items()):
            return self.explicit(X, state, lengths)
        H, state = self.fused(X, state, lengths)
        return taps["h"](H), state

    def explicit(self, X: Tensor, state: State, lengths: Tensor | None = None) -> tuple[Tensor, State]:
        """Evaluate the equations step by step. Watchers receive (b, t, n) at the end.

        Edits at t affect t + 1, so editors run at each step, on a tensor (b, t, n) that is zero at all other positions:
        an edit by position works as in any other network.
        """
        steps = X.shape[1]
        places = torch.arange(steps, device=X.device)
        noted: dict[str, list[Tensor]] = {symbol: [] for symbol in self.symbols}

        def note(symbol: str, x: Tensor) -> Tensor:
            t = len(noted[symbol])
            if self.tap(symbol).edited:
                whole = x.new_zeros(len(x), steps, self.width).index_copy(1, places[t : t + 1], x[:, None])
                for edit in active(self.tap(symbol).editors):
                    whole = edit(whole)
                x = whole[:, t]
            noted[symbol].append(x)
            return x

        for t, p in enumerate(self.WX(X).unbind(1)):
            after = self.step(p, state, note)
            if lengths is not None:
                real = (t < lengths)[:, None]
                after = tuple(torch.where(real, new, old) for new, old in zip(after, state, strict=True))
            state = after
        for symbol, values in noted.items():
            for watch in active(self.tap(symbol).watchers):
                watch(torch.stack(values, 1))
        H = torch.stack(noted["h"], 1)
        return (H if lengths is None else H * (lengths[:, None] > places)[..., None]), state

    def fused(self, X: Tensor, state: State, lengths: Tensor | None = None) -> tuple[Tensor, State]:
        """Compute the same values with torch's kernel, which does not expose the gates."""
        weights = [self.WX.weight, self.WH.weight, self.WX.bias, self.WH.bias]
        options = (weights, True, 1, 0.0, self.training, False)
        if lengths is None:
            H, *last = self.kernel(X, _kernel_state(state), *options, True)
            return H, tuple(s[0] for s in last)
        packed = pack_padded_sequence(X, lengths.cpu(), batch_first=True, enforce_sorted=False)
        order, back = packed.sorted_indices, packed.unsorted_indices
        assert order is not None  # enforce_sorted=False makes both
        assert back is not None
        state = tuple(s[order] for s in state)
        data, *last = self.kernel(packed.data, packed.batch_sizes, _kernel_state(state), *options)
        H, _ = pad_packed_sequence(
            PackedSequence(data, packed.batch_sizes, order, back), batch_first=True, total_length=X.shape[1]
        )
        return H, tuple(s[0][back] for s in last)


def _kernel_state(state: State) -> Tensor | list[Tensor]:
    """Add the layer axis that torch's kernels expect, and return a list if the state is more than h."""
    layered = [s[None].contiguous() for s in state]
    return layered if len(layered) > 1 else layered[0]


def _in_float32(values: Sequence[Any]) -> list[Any]:
    """Convert the floating-point tensors in nested lists."""
    found: list[Any] = []
    for value in values:
        if isinstance(value, list | tuple):
            found.append(_in_float32(value))
        else:
            found.append(value.float() if isinstance(value, Tensor) and value.is_floating_point() else value)
    return found


class RNNCell(RecurrentCell):
    """h = tanh(WX x + WH h + b). Elman 1990."""

    gates = 1
    symbols = ("h",)
    kernel = staticmethod(torch.rnn_tanh)

    def step(self, p: Tensor, state: State, note: Note) -> State:
        (h,) = state
        return (note("h", torch.tanh(p + self.WH(h))),)


class LSTMCell(RecurrentCell):
    """i, f, o = σ(WX x + WH h + b), g = tanh(…); c = f ⊙ c + i ⊙ g; h = o ⊙ tanh(c).

    Hochreiter, Schmidhuber 1997, with the forget gate of Gers, Schmidhuber, Cummins 2000. Gates in the order i f g o.
    """

    gates = 4
    symbols = ("i", "f", "g", "o", "c", "h")

    @staticmethod
    def kernel(X: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
        """Run torch's kernel; in float32 where autocast asks for bfloat16 and oneDNN has no LSTM in it here."""
        emulated = X.device.type == "cpu" and torch.is_autocast_enabled("cpu")
        if emulated and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            with torch.autocast("cpu", enabled=False):
                return torch.lstm(X.float(), *_in_float32(arguments))
        return torch.lstm(X, *arguments)

    def step(self, p: Tensor, state: State, note: Note) -> State:
        h, c = state
        i, f, g, o = (p + self.WH(h)).chunk(4, -1)
        i, f, o = note("i", i.sigmoid()), note("f", f.sigmoid()), note("o", o.sigmoid())
        g = note("g", g.tanh())
        c = note("c", f * c + i * g)
        return note("h", o * c.tanh()), c


class GRUCell(RecurrentCell):
    """r, z = σ(WX x + WH h + b), n = tanh(WX x + r ⊙ (WH h + b)); h = (1 − z) ⊙ n + z ⊙ h.

    Cho et al. 2014; r after the product, as the fast kernels have it. Gates in the order r z n.
    """

    gates = 3
    symbols = ("r", "z", "n", "h")
    kernel = staticmethod(torch.gru)

    def step(self, p: Tensor, state: State, note: Note) -> State:
        (h,) = state
        xr, xz, xn = p.chunk(3, -1)
        hr, hz, hn = self.WH(h).chunk(3, -1)
        r, z = note("r", (xr + hr).sigmoid()), note("z", (xz + hz).sigmoid())
        n = note("n", (xn + r * hn).tanh())
        return (note("h", (1 - z) * n + z * h),)


CELLS: dict[CellKind, type[RecurrentCell]] = {"rnn": RNNCell, "lstm": LSTMCell, "gru": GRUCell}
