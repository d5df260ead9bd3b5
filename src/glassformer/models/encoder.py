"""tokens → X: a bidirectional text encoder with a masked-language-modelling head and sentence embeddings.

Devlin et al., "BERT", 2018.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import dropout, normalize

from glassformer.core.values import has_values
from glassformer.errors import ConfigError, InputError, MaskError
from glassformer.models.describe import stack_size
from glassformer.models.protocols import InputKind, Reach, Verb
from glassformer.models.registry import register
from glassformer.nn import BlockConfig, FeedForwardConfig, Learned, Linear, NormConfig, heads
from glassformer.nn.feedforward import ACTIVATIONS, Activation
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import initialise, normal
from glassformer.nn.tap import Tap
from glassformer.nn.text import TextConfig, TextStack, WordHead

Pooling = Literal["first", "mean", "max"]


@dataclass(frozen=True, kw_only=True)
class DenseConfig:
    """Config of a dense layer on top of a sentence embedding: φ(W x + b), without φ if the activation is None."""

    width: int
    activation: Activation | None = "tanh"
    bias: bool = True


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Config of a bidirectional text stack and its heads.

    `tied`: the token head shares the embedding table. `pooler`: classification uses tanh(W x₀) of the first token.
    `per_token`: the classes are those of every token, not of the whole sequence.
    `dense` and `normalise` are applied to sentence embeddings.
    """

    text: TextConfig
    word_head: bool = True
    activation: Activation = "gelu"
    classes: int = 0
    per_token: bool = False
    pooling: Pooling = "mean"
    tied: bool = True
    pooler: bool = False
    dense: DenseConfig | None = None
    normalise: bool = False


def plain(
    vocabulary: int, width: int, depth: int, count: int, length: int, *, hidden: int, dropout: float = 0.0
) -> EncoderConfig:
    """BERT style: post-norm with learned positions."""
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


@register
class Encoder(nn.Module):
    """X = encoder(tokens); words(X) are logits for each position, sentences(X) one vector for each sequence."""

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
            self.class_head, self.logits = Linear(width, config.classes), Tap()
        initialise(self, seed, normal(0.02))

    def forward(
        self,
        tokens: Int[Tensor, "b t"],
        real: Bool[Tensor, "b t"] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Encode the tokens. `real` is False at padding; if omitted, all tokens are real."""
        return require_finite(self.encoder.encode(tokens, real, segments), self)

    def words(self, X: Float[Tensor, "*b m"]) -> Float[Tensor, "*b v"]:
        """logits = table · norm(φ(W x)) + b: token predictions for each position."""
        if not self.config.word_head:
            raise ConfigError("this encoder has no masked-language-modelling head", "build it with word_head=True")
        activation = ACTIVATIONS[self.config.activation]
        X = self.transform_norm(activation(self.transform(X)))
        return require_finite(self.word_head(X, self.encoder.embed.table.weight), self)

    def sentences(
        self, X: Float[Tensor, "b t m"], real: Bool[Tensor, "b t"] | None = None, pooling: Pooling | None = None
    ) -> Float[Tensor, "b n"]:
        """Embed each sequence: its first token, or the mean or maximum over real tokens.

        Then φ(W x + b) if the config has `dense`, and normalised to length 1 if it has `normalise`.
        """
        x = pool(X, real, pooling or self.config.pooling)
        if self.config.dense is not None:
            activation = self.config.dense.activation
            x = self.dense(x) if activation is None else ACTIVATIONS[activation](self.dense(x))
        return require_finite(normalize(x, dim=-1) if self.config.normalise else x, self)

    def pooled(self, X: Float[Tensor, "b t m"], real: Bool[Tensor, "b t"] | None = None) -> Float[Tensor, "b m"]:
        """tanh(W x₀ + b) of the first token: the input of BERT's classification head."""
        if not self.config.pooler:
            raise ConfigError("this encoder has no pooler", "build it with pooler=True, or use sentences")
        return require_finite(torch.tanh(self.pooler(pool(X, real, "first"))), self)

    def classify(
        self,
        tokens: Int[Tensor, "b t"],
        real: Bool[Tensor, "b t"] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b *t classes"]:
        """Logits of each sequence, or of each token if the config says `per_token`."""
        if not self.config.classes:
            raise ConfigError("this encoder has no classes", "build it with classes=… of at least 2")
        X = self(tokens, real, segments)
        if self.config.per_token:
            x: Tensor = X
        else:
            x = self.pooled(X, real) if self.config.pooler else pool(X, real, self.config.pooling)
        x = dropout(x, self.config.text.block.dropout, self.training)
        return require_finite(self.logits(self.class_head(x)), self)

    # ---- capabilities ----

    inputs: tuple[InputKind, ...] = ("text",)
    head_names = ("class_head",)
    step_seconds: float | None = None

    @property
    def verbs(self) -> tuple[Verb, ...]:
        return ("embed", "classify") if self.config.classes else ("embed",)

    @property
    def classes(self) -> int:
        return self.config.classes

    @property
    def vocabulary(self) -> int:
        return self.config.text.vocabulary

    @property
    def context_length(self) -> int | None:
        positions = self.config.text.positions
        return positions.length if isinstance(positions, Learned) else None

    @property
    def predicts_tokens(self) -> bool:
        return self.config.word_head

    def token_logits(self, output: Tensor) -> Tensor:
        return self.words(output)

    def class_logits(self, X: Tensor, real: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        return self.classify(X, real, segments if self.config.text.segments > 1 else None)

    def with_classes(self, classes: int, *, image_size: tuple[int, int] | None = None, seed: int = 0) -> Encoder:
        if image_size is not None:
            raise InputError(f"image_size={image_size} does not apply to a text encoder", "leave it out")
        return Encoder(replace(self.config, classes=classes), seed=seed)

    @property
    def per_token(self) -> bool:
        return self.config.per_token

    def with_text_head(self, classes: int, *, per_token: bool, pooler: bool, seed: int = 0) -> Encoder:
        pooler = (pooler or self.config.pooler) and not per_token
        bare = replace(self.config, word_head=False, dense=None, normalise=False)
        return Encoder(replace(bare, classes=classes, per_token=per_token, pooler=pooler), seed=seed)

    def embeddings(self, tokens: Int[Tensor, "b t"], real: Bool[Tensor, "b t"] | None = None) -> Float[Tensor, "b n"]:
        return self.sentences(self(tokens, real), real)

    def sizes(self) -> dict[str, str]:
        c, length = self.config, self.context_length
        after = [f"{c.pooling} pooling", *(["dense"] if c.dense else []), *(["normalised"] if c.normalise else [])]
        sizes = {"layers": stack_size(c.text), "vocabulary": f"{c.text.vocabulary:,}"}
        sizes["context"] = f"{length:,} tokens" if length else "any"
        return sizes | ({"classes": str(c.classes)} if c.classes else {"vectors": ", ".join(after)})

    @property
    def reach(self) -> Reach:
        return Reach(lookahead=None)

    def example(self, length: int | None, generator: torch.Generator) -> Tensor:
        return torch.randint(self.vocabulary, (2, length or 16), generator=generator)

    def respond(self, X: Tensor) -> Tensor:
        return self(X)

    def respond_in_chunks(self, pieces: Iterable[Tensor]) -> None:
        return None


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
        raise InputError(f"sequence {empty} contains only padding", "leave empty sequences out")
    weight = real.unsqueeze(-1).to(X.dtype)
    match how:
        case "first":
            return X[torch.arange(X.shape[0], device=X.device), real.long().argmax(1)]
        case "mean":
            return (X * weight).sum(1) / weight.sum(1)
        case "max":
            return X.masked_fill(~real.unsqueeze(-1), -torch.inf).amax(1)
    raise ConfigError(f"there is no pooling {how!r}", "choose first, mean or max")
