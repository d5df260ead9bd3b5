"""h_t = decoder(y_{t−1}, h_{t−1}), h₀ = the encoder's last state; logits = W O_t + b with O_t = h_t, or with attention:

S = (h_t WQᵀ) Zᵀ, A = softargmax(S), H = A Z, O_t = tanh(WO [H, h_t]), over the encoder's states Z.

Sutskever, Vinyals, Le 2014 (without); Bahdanau, Cho, Bengio 2015 and Luong, Pham, Manning 2015 (with: Luong's
"general" scores, unscaled). The decoder's states do not depend on A, so a whole target is one pass in training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.core.attention import scores, softargmax
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.models.protocols import InputKind, Verb
from glassformer.models.recurrent import RecurrentStack, StackConfig, States, initialise_recurrent, lengths_of
from glassformer.models.recurrent_cells import CellKind
from glassformer.models.registry import register
from glassformer.models.sequence_io import Frames, Real, Sequence, Tokens, require_positive
from glassformer.models.sessions import RecurrentMemorySession, require_prompt
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import Embedding, Linear
from glassformer.nn.tap import Tap


@dataclass(frozen=True, kw_only=True)
class RecurrentSeq2SeqConfig:
    reads: Tokens | Frames
    vocabulary: int  # of the target
    width: int
    layers: int
    attention: bool
    cell: CellKind = "lstm"
    bidirectional: bool = False  # encoder only; the decoder is always unidirectional
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_positive(vocabulary=self.vocabulary)
        _ = self.encoder  # validates the rest

    @property
    def writes(self) -> Tokens:
        return Tokens(vocabulary=self.vocabulary)

    @property
    def encoder(self) -> StackConfig:
        return StackConfig(
            cell=self.cell,
            inputs=self.width if isinstance(self.reads, Tokens) else self.reads.features,
            width=self.width,
            layers=self.layers,
            bidirectional=self.bidirectional,
            dropout=self.dropout,
        )

    @property
    def decoder(self) -> StackConfig:
        return StackConfig(
            cell=self.cell, inputs=self.width, width=self.width, layers=self.layers, dropout=self.dropout
        )

    @property
    def parameters(self) -> int:
        m = self.width
        tables = self.vocabulary * m + (self.reads.vocabulary * m if isinstance(self.reads, Tokens) else 0)
        attention = m * m + 2 * m * m if self.attention else 0
        return tables + self.encoder.parameters + self.decoder.parameters + attention + (m + 1) * self.vocabulary


def tiny(
    reads: Tokens | Frames, vocabulary: int, *, attention: bool = True, cell: CellKind = "lstm"
) -> RecurrentSeq2SeqConfig:
    return RecurrentSeq2SeqConfig(
        reads=reads, vocabulary=vocabulary, width=8, layers=2, attention=attention, cell=cell
    )


def luong(source: int = 50_000, target: int = 50_000) -> RecurrentSeq2SeqConfig:
    """Luong, Pham, Manning 2015: four LSTM layers of 1000, dropout 0.2."""
    reads = Tokens(vocabulary=source)
    return RecurrentSeq2SeqConfig(
        reads=reads, vocabulary=target, width=1000, layers=4, attention=True, dropout=0.2
    )


class RecurrentMemory(NamedTuple):
    """Output of the encoder: its states (Z in the equations), their padding mask, and the last state of every layer."""

    X: Float[Tensor, "b s m"]
    real: Bool[Tensor, "b s"] | None
    states: States

    def select(self, rows: Tensor) -> RecurrentMemory:
        """Select these rows of the batch, in this order, with repeats allowed, as needed for beam search."""
        return RecurrentMemory(self.X[rows], None if self.real is None else self.real[rows], select(self.states, rows))


def select(states: States, rows: Tensor) -> States:
    """Select the states of these rows of the batch, in this order, with repeats allowed."""
    return tuple(tuple(s[rows] for s in state) for state in states)


class Decoded(NamedTuple):
    logits: Float[Tensor, "b t v"]
    states: States


class StateAttention(nn.Module):
    """S = (h WQᵀ) Zᵀ, A = softargmax(S), H = A Z, O = tanh(WO [H, h])."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.WQ = Linear(width, width, bias=False)
        self.WO = Linear(2 * width, width, bias=False)
        self.Q, self.S, self.A, self.H, self.O = Tap(), Tap(), Tap(), Tap(), Tap()

    def forward(
        self, h: Float[Tensor, "b t m"], Z: Float[Tensor, "b s m"], real: Bool[Tensor, "b s"] | None
    ) -> Float[Tensor, "b t m"]:
        Q = self.Q(self.WQ(h))
        Z = Z.to(Q.dtype)  # under autocast, products are bfloat16 but the states of padded sequences float32
        S = self.S(scores(Q, Z, beta=1.0, mask=None if real is None else real[:, None]))
        A = self.A(softargmax(S))
        H = self.H(A @ Z)
        return self.O(torch.tanh(self.WO(torch.cat([H, h], -1))))


@register
class RecurrentSeq2Seq(nn.Module):
    """Source token ids (b, s) or frames (b, s, features) and target ids (b, t) to logits (b, t, vocabulary)."""

    def __init__(self, config: RecurrentSeq2SeqConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        reads, m = config.reads, config.width
        self.E_source = Embedding(reads.vocabulary, m) if isinstance(reads, Tokens) else None
        self.E_target = Embedding(config.vocabulary, m)
        self.encoder = RecurrentStack(config.encoder)
        self.decoder = RecurrentStack(config.decoder)
        self.attention = StateAttention(m) if config.attention else None
        self.dropout = nn.Dropout(config.dropout)
        self.W = Linear(m, config.vocabulary)
        self.Z, self.logits = Tap(), Tap()
        initialise_recurrent(self, seed)

    def encode(self, source: Sequence, real: Real | None = None) -> RecurrentMemory:
        """Encode the source. Padding, where `real` is False, must follow the sequence."""
        self.config.reads.check(source)
        lengths = None if real is None else lengths_of(real, source)
        X = source if self.E_source is None else self.dropout(self.E_source(source))
        Z, states = self.encoder(X, None, lengths)
        return RecurrentMemory(self.Z(Z), real, states)

    def decode(self, target: Int[Tensor, "b t"], memory: RecurrentMemory, states: States | None = None) -> Decoded:
        """Return the logits after each target token and the states to continue from; `states` of None starts anew."""
        self.config.writes.check(target)
        if len(target) != len(memory.X):
            fact = f"there are {len(target)} targets for {len(memory.X)} sources"
            raise ShapeError(fact, "give one each; memory.select repeats them")
        h, states = self.decoder(self.dropout(self.E_target(target)), memory.states if states is None else states)
        O = h if self.attention is None else self.attention(h, memory.X, memory.real)
        return Decoded(require_finite(self.logits(self.W(self.dropout(O))), self), states)

    def forward(
        self, source: Sequence, target: Int[Tensor, "b t"], source_real: Real | None = None
    ) -> Float[Tensor, "b t v"]:
        """Teacher forcing: position t predicts what follows target[:, : t + 1]; padding after it has no effect."""
        return self.decode(target, self.encode(source, source_real)).logits

    # ---- capabilities ----

    context_length: int | None = None
    start_token: int | None = None  # defined in the model's folder

    @property
    def vocabulary(self) -> int:
        reads = self.config.reads
        return min(reads.vocabulary, self.config.vocabulary) if isinstance(reads, Tokens) else self.config.vocabulary

    @property
    def inputs(self) -> tuple[InputKind, ...]:
        return ("text" if isinstance(self.config.reads, Tokens) else "frames", "text")

    @property
    def verbs(self) -> tuple[Verb, ...]:
        return ("translate", "generate") if isinstance(self.config.reads, Tokens) else ()

    def session(self, *, start: tuple[int, ...] = (), ends: tuple[int, ...] = ()) -> RecurrentMemorySession:
        if len(start) != 1 or not ends:
            fact = f"a RecurrentSeq2Seq decodes from start={start} to ends={ends}"
            raise ConfigError(fact, "give session() one start token and the end tokens: its config has none")
        return RecurrentMemorySession(
            self, vocabulary=self.config.vocabulary, start=start[0], ends=ends, check=self._check_source
        )

    def _check_source(self, source: Tensor) -> None:
        if isinstance(self.config.reads, Tokens):
            require_prompt(source, None, "source")
        elif source.dim() != 2 or not len(source):
            raise InputError(f"a source of frames has shape {tuple(source.shape)}", "give (frames, features)")

    def cross_attentions(self) -> list[Tap]:
        return [] if self.attention is None else [self.attention.A]

    def sizes(self) -> dict[str, str]:
        c = self.config
        how = "with attention" if c.attention else "without attention"
        return {"layers": f"{c.layers} × {c.width}, {c.cell}, {how}", "vocabulary": f"{c.vocabulary:,}"}
