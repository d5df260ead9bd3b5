"""h_t^l = cell(h_t^{l−1}, h_{t−1}^l), logits = W h^L + b: a stack of recurrent layers over a sequence.

Elman 1990; Hochreiter, Schmidhuber 1997 (LSTM); Cho et al. 2014 (GRU); Schuster, Paliwal 1997 (bidirectional).
With an output at each position it is a language model, with a single pooled output a classifier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.core.attention import require_dropout
from glassformer.core.positions import require_choice
from glassformer.errors import ConfigError, InputError, MaskError, ShapeError
from glassformer.models.protocols import InputKind, Reach
from glassformer.models.recurrent_cells import CELLS, CellKind, LSTMCell, RecurrentCell, State
from glassformer.models.registry import register
from glassformer.models.sequence import SequenceNetwork
from glassformer.models.sequence_io import (
    Frames,
    Pool,
    Real,
    Sequence,
    SequenceHead,
    Tokens,
    check_real,
    require_pool,
    require_positive,
    require_streamable,
)
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import Embedding, initialise
from glassformer.nn.tap import Tap

States = tuple[State, ...]  # one per layer


@dataclass(frozen=True, kw_only=True)
class StackConfig:
    """Config of a recurrent stack. If bidirectional, each direction has half the width, so layers are equally wide."""

    cell: CellKind
    inputs: int
    width: int
    layers: int
    bidirectional: bool = False
    dropout: float = 0.0  # between layers

    def __post_init__(self) -> None:
        require_choice("cell", self.cell, tuple(CELLS))
        require_positive(inputs=self.inputs, width=self.width, layers=self.layers)
        require_dropout(self.dropout)
        if self.bidirectional and self.width % 2:
            raise ConfigError(f"width {self.width} does not split into two directions", "choose an even width")

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def cell_width(self) -> int:
        return self.width // self.directions

    @property
    def parameters(self) -> int:
        gates, n = CELLS[self.cell].gates, self.cell_width
        below = (self.inputs, *[self.width] * (self.layers - 1))
        return sum(self.directions * gates * n * (m + n + 2) for m in below)


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    reads: Tokens | Frames
    classes: int
    pool: Pool
    width: int
    layers: int
    cell: CellKind = "lstm"
    bidirectional: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_positive(classes=self.classes)
        require_pool(self.pool)
        _ = self.stack  # validates the rest

    @property
    def stack(self) -> StackConfig:
        return StackConfig(
            cell=self.cell,
            inputs=self.width if isinstance(self.reads, Tokens) else self.reads.features,
            width=self.width,
            layers=self.layers,
            bidirectional=self.bidirectional,
            dropout=self.dropout,
        )

    @property
    def parameters(self) -> int:
        table = self.reads.vocabulary * self.width if isinstance(self.reads, Tokens) else 0
        return table + self.stack.parameters + (self.width + 1) * self.classes


def tiny(reads: Tokens | Frames, classes: int, pool: Pool = "none", *, cell: CellKind = "lstm") -> RecurrentConfig:
    return RecurrentConfig(reads=reads, classes=classes, pool=pool, width=8, layers=2, cell=cell)


def medium(vocabulary: int = 10_000, *, cell: CellKind = "lstm") -> RecurrentConfig:
    """The medium language model of Zaremba, Sutskever, Vinyals 2014: two layers of 650, dropout 0.5."""
    reads = Tokens(vocabulary=vocabulary)
    return RecurrentConfig(reads=reads, classes=vocabulary, pool="none", width=650, layers=2, cell=cell, dropout=0.5)


def lengths_of(real: Tensor, X: Tensor) -> Tensor:
    """Number of real positions of each sequence; they come first."""
    check_real(real, X)
    lengths = real.sum(1)
    early = (real != (torch.arange(real.shape[1], device=real.device) < lengths[:, None])).any(1).nonzero()
    if len(early):
        raise MaskError(f"sequence {int(early[0])} has padding before its end", "put the padding after the sequence")
    return lengths


def reverse(X: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse each sequence in time, leaving its padding in place."""
    if lengths is None:
        return X.flip(1)
    t, n = torch.arange(X.shape[1], device=X.device), lengths[:, None]
    return X.gather(1, torch.where(t < n, n - 1 - t, t)[..., None].expand_as(X))


class RecurrentLayer(nn.Module):
    """H = →cell(X), or [→cell(X), ←cell(X)]."""

    def __init__(self, config: StackConfig, inputs: int) -> None:
        super().__init__()
        make = CELLS[config.cell]
        self.onward = make(inputs, config.cell_width)
        self.back = make(inputs, config.cell_width) if config.bidirectional else None

    def forward(self, X: Tensor, state: State | None, lengths: Tensor | None) -> tuple[Tensor, State]:
        H, last = self.onward(X, state, lengths)
        if self.back is None:
            return H, last
        H_back, first = self.back(reverse(X, lengths), None, lengths)
        ends = tuple(torch.cat(both, -1) for both in zip(last, first, strict=True))
        return torch.cat([H, reverse(H_back, lengths)], -1), ends


class RecurrentStack(nn.Module):
    """Stacked layers: (b, t, inputs) to (b, t, width) and the last state of every layer."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.config = config
        below = (config.inputs, *[config.width] * (config.layers - 1))
        self.layers = nn.ModuleList(RecurrentLayer(config, m) for m in below)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        X: Float[Tensor, "b t k"],
        states: States | None = None,
        lengths: Int[Tensor, "b"] | None = None,  # noqa: F821
    ) -> tuple[Float[Tensor, "b t m"], States]:
        if states is not None:
            self._check(states, len(X))
        ends: list[State] = []
        for n, layer in enumerate(self.layers):
            X, end = layer(self.dropout(X) if n else X, None if states is None else states[n], lengths)
            ends.append(end)
        return X, tuple(ends)

    def _check(self, states: States, batch: int) -> None:
        if self.config.bidirectional:
            raise ConfigError("the backward direction starts at the end of the sequence", "continue one direction only")
        if len(states) != len(self.layers) or any(s.shape != (batch, self.config.width) for st in states for s in st):
            shapes = [tuple(tuple(s.shape) for s in st) for st in states]
            remedy = f"give {len(self.layers)} layers of ({batch}, {self.config.width}), or none to start"
            raise ShapeError(f"the states have shapes {shapes}", remedy)


@torch.no_grad()
def initialise_recurrent(model: nn.Module, seed: int) -> None:
    """Initialise WX by Glorot and WH orthogonally, both per gate; biases are 0, but 1 for the forget gates of an LSTM.

    Glorot, Bengio 2010; Saxe, McClelland, Ganguli 2014 (orthogonal); Jozefowicz, Zaremba, Sutskever 2015 (the bias).
    An orthogonal WH and an open forget gate let gradients flow through time from the first step.
    """
    initialise(model, seed)
    random = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if not isinstance(module, RecurrentCell) or module.WH.weight.is_meta:
            continue
        for gate in range(module.gates):
            rows = slice(gate * module.width, (gate + 1) * module.width)
            nn.init.xavier_uniform_(module.WX.weight[rows], generator=random)
            nn.init.orthogonal_(module.WH.weight[rows], generator=random)
        if isinstance(module, LSTMCell):
            module.WX.bias[module.width : 2 * module.width] = 1.0


class RecurrentOutput(NamedTuple):
    logits: Float[Tensor, "..."]
    states: States


@register
class Recurrent(SequenceNetwork):
    """Token ids (b, t) or frames (b, t, features) to logits (b, t, classes), or pooled to (b, classes)."""

    def __init__(self, config: RecurrentConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.E = Embedding(config.reads.vocabulary, config.width) if isinstance(config.reads, Tokens) else None
        self.stack = RecurrentStack(config.stack)
        self.dropout = nn.Dropout(config.dropout)
        self.head = SequenceHead(config.width, config.classes, config.pool)
        self.X, self.logits = Tap(), Tap()
        initialise_recurrent(self, seed)

    def forward(self, X: Sequence, real: Real | None = None) -> Float[Tensor, "..."]:
        """Compute the logits. Padding, where `real` is False, must follow the sequence."""
        self.config.reads.check(X)
        return self._run(X, real, None).logits

    def stream(self, X: Sequence, states: States | None = None) -> RecurrentOutput:
        """Process the next positions; chunks of any length give the outputs of the whole. Pass `states` back in."""
        if self.config.bidirectional:
            raise ConfigError("the backward direction starts at the end of the sequence", "stream one direction only")
        require_streamable(self.config.pool)
        self.config.reads.check(X)
        return self._run(X, None, states)

    def _run(self, X: Tensor, real: Tensor | None, states: States | None) -> RecurrentOutput:
        lengths = None if real is None else lengths_of(real, X)
        X = self.X(X if self.E is None else self.E(X))
        H, states = self.stack(self.dropout(X) if self.E is not None else X, states, lengths)
        if self.config.pool == "last":  # the final state of each direction, which is not at a single position
            H, real = states[-1][0][:, None], None
        logits = self.logits(self.head(self.dropout(H), real))
        return RecurrentOutput(require_finite(logits, self), states)

    # ---- capabilities ----

    pooled_input: InputKind = "image"  # a sequence of rows

    @property
    def causal(self) -> bool:
        return not self.config.bidirectional

    @property
    def reach(self) -> Reach:
        return Reach(lookahead=None if self.config.bidirectional else 0)

    image_size: tuple[int, int] | None = None  # any number of rows

    @property
    def channels(self) -> int:
        return 0  # channels times columns are the features; only the model's folder defines the channels

    def class_logits(self, X: Tensor, real: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """Logits of images (b, channels, rows, columns), read as a sequence of rows."""
        rows = X.transpose(1, 2).flatten(2)
        reads = self.config.reads
        if isinstance(reads, Frames) and rows.shape[2] != reads.features:
            fact = f"rows of {X.shape[1]} × {X.shape[3]} numbers for a network that reads {reads.features}"
            raise ShapeError(fact, "scale the image to the size it was trained on")
        return self(rows)

    def with_classes(self, classes: int, *, image_size: tuple[int, int] | None = None, seed: int = 0) -> Recurrent:
        reads = self.config.reads
        if image_size is not None and (not isinstance(reads, Frames) or reads.features % image_size[1]):
            raise InputError(
                "a Recurrent takes images of one width only", "keep that width, or fine-tune a ViT or a hybrid"
            )
        return Recurrent(replace(self.config, classes=classes), seed=seed)

    def sizes(self) -> dict[str, str]:
        c = self.config
        ways = ", both directions" if c.bidirectional else ""
        return {"layers": f"{c.layers} × {c.width}, {c.cell}{ways}", "classes": str(c.classes)}
