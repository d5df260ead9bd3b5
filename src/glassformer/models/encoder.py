"""tokens → X: an encoder of text, with a head that fills in masked words and vectors for whole sentences.

Devlin et al., "BERT", 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize

from glassformer.core.values import has_values
from glassformer.errors import ConfigError, InputError, MaskError
from glassformer.nn import BlockConfig, FeedForwardConfig, Learned, Linear, NormConfig, heads
from glassformer.nn.feedforward import ACTIVATIONS, Activation
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import initialise, normal
from glassformer.nn.text import TextConfig, TextStack, WordHead

Pooling = Literal["first", "mean", "max"]


@dataclass(frozen=True, kw_only=True)
class DenseConfig:
    """A layer on top of a sentence's vector: φ(W x + b), without φ if the activation is None."""

    width: int
    activation: Activation | None = "tanh"
    bias: bool = True


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """A text stack that sees both ways, and which heads it carries.

    `tied`: the word head's matrix is the embedding's table. `pooler`: classes are told from tanh(W x₀) of the first
    token. `dense` and `normalise` finish the vectors of sentences.
    """

    text: TextConfig
    word_head: bool = True
    activation: Activation = "gelu"
    classes: int = 0
    pooling: Pooling = "mean"
    tied: bool = True
    pooler: bool = False
    dense: DenseConfig | None = None
    normalise: bool = False


def plain(
    vocabulary: int, width: int, depth: int, count: int, length: int, *, hidden: int, dropout: float = 0.0
) -> EncoderConfig:
    """Post-norm with learned positions, as BERT."""
    norm = NormConfig(eps=1e-12)
    block = BlockConfig(
        attention=heads(width, count, dropout=dropout),
        ffn=FeedForwardConfig(width=width, hidden=hidden, dropout=dropout),
        norm=norm,
        place="post",
        dropout=dropout,
    )
    text = TextConfig(
        vocabulary=vocabulary,
        depth=depth,
        block=block,
        positions=Learned(length=length),
        segments=2,
        first_norm=norm,
    )
    return EncoderConfig(text=text)


def tiny() -> EncoderConfig:
    return plain(vocabulary=50, width=16, depth=2, count=2, length=32, hidden=32)


def bert_base() -> EncoderConfig:
    """110 million parameters: 12 × 768, 12 heads."""
    return plain(vocabulary=30522, width=768, depth=12, count=12, length=512, hidden=3072, dropout=0.1)


class Encoder(nn.Module):
    """X = encoder(tokens); words(X) are logits for each position, sentences(X) one vector each."""

    def __init__(self, config: EncoderConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        width = config.text.width
        self.encoder = TextStack(config.text)
        if config.word_head:
            self.transform = Linear(width, width)
            self.transform_norm = config.text.block.norm.build(width)
            self.word_head = WordHead(config.text.vocabulary, width, tied=config.tied, bias=True)
        if config.dense is not None:
            self.dense = Linear(width, config.dense.width, bias=config.dense.bias)
        if config.pooler:
            self.pooler = Linear(width, width)
        if config.classes:
            self.class_head = Linear(width, config.classes)
        initialise(self, seed, normal(0.02))

    def forward(
        self,
        tokens: Int[Tensor, "b t"],
        real: Bool[Tensor, "b t"] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b t m"]:
        """`real` is False at padding; without it every token is real."""
        return require_finite(self.encoder.encode(tokens, real, segments), self)

    def words(self, X: Float[Tensor, "*b m"]) -> Float[Tensor, "*b v"]:
        """logits = table · norm(φ(W x)) + b: what stands at each position."""
        if not self.config.word_head:
            raise ConfigError("this encoder has no head for masked words", "build it with word_head=True")
        activation = ACTIVATIONS[self.config.activation]
        X = self.transform_norm(activation(self.transform(X)))
        return require_finite(self.word_head(X, self.encoder.embed.table.weight), self)

    def sentences(
        self, X: Float[Tensor, "b t m"], real: Bool[Tensor, "b t"] | None = None, pooling: Pooling | None = None
    ) -> Float[Tensor, "b n"]:
        """One vector for each sequence: its first token's, or the mean or maximum over real tokens.

        Then φ(W x + b) if the config has `dense`, and length 1 if it has `normalise`.
        """
        x = pool(X, real, pooling or self.config.pooling)
        if self.config.dense is not None:
            activation = self.config.dense.activation
            x = self.dense(x) if activation is None else ACTIVATIONS[activation](self.dense(x))
        return require_finite(normalize(x, dim=-1) if self.config.normalise else x, self)

    def pooled(self, X: Float[Tensor, "b t m"], real: Bool[Tensor, "b t"] | None = None) -> Float[Tensor, "b m"]:
        """tanh(W x₀ + b) of the first token: what BERT's classes are told from."""
        if not self.config.pooler:
            raise ConfigError("this encoder has no pooler", "build it with pooler=True, or use sentences")
        return require_finite(torch.tanh(self.pooler(pool(X, real, "first"))), self)

    def classify(
        self,
        tokens: Int[Tensor, "b t"],
        real: Bool[Tensor, "b t"] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b classes"]:
        if not self.config.classes:
            raise ConfigError("this encoder has no classes", "build it with classes=… of at least 2")
        X = self(tokens, real, segments)
        x = self.pooled(X, real) if self.config.pooler else pool(X, real, self.config.pooling)
        return require_finite(self.class_head(x), self)


def pool(X: Float[Tensor, "b t m"], real: Bool[Tensor, "b t"] | None, how: Pooling) -> Float[Tensor, "b m"]:
    """x₀, Σ x / n, or max x over the real positions."""
    if real is None:
        real = torch.ones(X.shape[:2], dtype=torch.bool, device=X.device)
    if real.dtype != torch.bool or real.shape != X.shape[:2]:
        kind = str(real.dtype).removeprefix("torch.")
        fact = f"real is {kind} of {tuple(real.shape)} for vectors of {tuple(X.shape[:2])}"
        raise MaskError(fact, "give a boolean for each token, True where it is real")
    if has_values(real) and not real.any(1).all():
        empty = int((~real.any(1)).nonzero()[0])
        raise InputError(f"sequence {empty} has no real token", "leave empty sequences out")
    weight = real.unsqueeze(-1).to(X.dtype)
    match how:
        case "first":
            return X[torch.arange(X.shape[0], device=X.device), real.long().argmax(1)]
        case "mean":
            return (X * weight).sum(1) / weight.sum(1)
        case "max":
            return X.masked_fill(~real.unsqueeze(-1), -torch.inf).amax(1)
    raise ConfigError(f"there is no pooling {how!r}", "choose first, mean or max")
