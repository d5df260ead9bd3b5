"""p(target | source): the encoder-decoder Transformer of 2017, and its modern variant by config.

Vaswani et al., "Attention Is All You Need", 2017. Post-norm, as in the paper, unlike many reimplementations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.errors import ConfigError
from glassformer.models.describe import stack_size
from glassformer.models.protocols import InputKind, Verb
from glassformer.models.registry import register
from glassformer.models.sessions import MemorySession, require_prompt
from glassformer.nn import (
    BlockCache,
    BlockConfig,
    FeedForwardConfig,
    NormConfig,
    Relative,
    Rotary,
    Sinusoidal,
    View,
    heads,
)
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import initialise
from glassformer.nn.tap import Tap
from glassformer.nn.text import TextConfig, TextStack, WordHead


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig:
    """Config of encoder and decoder. `shared`: one token table for both; `tied`: the head uses the target's table."""

    source: TextConfig
    target: TextConfig
    start: int
    end: int
    pad: int
    shared: bool = True
    tied: bool = True
    head_bias: bool = False
    head_scale: float = 1.0
    length: int = 512

    def __post_init__(self) -> None:
        source, target = (f"{side.vocabulary} tokens × {side.width}" for side in (self.source, self.target))
        if self.shared and source != target:
            raise ConfigError(
                f"one table is shared by sides of {source} and {target}",
                "give both sides one vocabulary and one width, or shared=False",
            )
        require_memory(self.target, self.source.width)


def require_memory(target: TextConfig, width: int) -> None:
    """Require that the decoder attends to a memory of the encoder's width."""
    cross = target.block.cross
    if cross is None or cross.memory_width != width:
        raise ConfigError(
            f"the decoder's cross-attention does not take a memory of width {width}",
            "give its block cross=heads(…, memory_width=…) of the encoder's width",
        )


class Memory(NamedTuple):
    """Output of the encoder and its padding mask."""

    X: Float[Tensor, "b s m"]
    real: Bool[Tensor, "b s"] | None

    def select(self, rows: Tensor) -> Memory:
        """Select these rows of the batch, in this order, with repeats allowed."""
        return Memory(self.X[rows], None if self.real is None else self.real[rows])


def vaswani(
    vocabulary: int, width: int, depth: int, count: int, hidden: int, *, dropout: float = 0.0
) -> Seq2SeqConfig:
    """As in the paper: post-norm, ReLU, sinusoidal positions, embeddings scaled by √width, all tables tied."""
    attention = heads(width, count, dropout=dropout)
    ffn = FeedForwardConfig(width=width, hidden=hidden, activation="relu", dropout=dropout)
    encoder = BlockConfig(attention=attention, ffn=ffn, place="post", dropout=dropout)
    decoder = BlockConfig(attention=attention, cross=attention, ffn=ffn, place="post", dropout=dropout)

    def side(block: BlockConfig) -> TextConfig:
        return TextConfig(
            vocabulary=vocabulary, depth=depth, block=block, positions=Sinusoidal(), scale=math.sqrt(width)
        )

    return Seq2SeqConfig(source=side(encoder), target=side(decoder), start=1, end=2, pad=0)


def modern(vocabulary: int, width: int, depth: int, count: int, hidden: int) -> Seq2SeqConfig:
    """Pre-norm with RMSNorm, SwiGLU, rotary positions in the decoder, relative buckets in the encoder, no biases."""
    norm = NormConfig(kind="rms", eps=1e-6)
    attention = heads(width, count, biases="")
    ffn = FeedForwardConfig(width=width, hidden=hidden, activation="silu", gated=True, bias=False)
    encoder = BlockConfig(attention=attention, ffn=ffn, norm=norm)
    decoder = BlockConfig(attention=attention, cross=attention, ffn=ffn, norm=norm)
    source = TextConfig(
        vocabulary=vocabulary, depth=depth, block=encoder, relative=Relative(heads=count), last_norm=norm
    )
    target = TextConfig(
        vocabulary=vocabulary, depth=depth, block=decoder, relative=Rotary(width=width // count), last_norm=norm
    )
    return Seq2SeqConfig(source=source, target=target, start=1, end=2, pad=0)


def tiny() -> Seq2SeqConfig:
    return vaswani(vocabulary=40, width=16, depth=2, count=2, hidden=32)


def tiny_modern() -> Seq2SeqConfig:
    return modern(vocabulary=40, width=16, depth=2, count=2, hidden=24)


def transformer_base() -> Seq2SeqConfig:
    """63 million parameters (65 in the paper's table): 6 + 6 layers of 512, 8 heads, 37,000 tokens."""
    return vaswani(vocabulary=37000, width=512, depth=6, count=8, hidden=2048, dropout=0.1)


class EncoderDecoder(nn.Module):
    """logits[t] = head(decoder(target ≤ t, memory)), where `memory` is what a subclass encodes."""

    decoder: TextStack
    word_head: WordHead

    def decode(
        self,
        target: Int[Tensor, "b t"],
        memory: Memory,
        real: Bool[Tensor, "b n"] | None = None,
        *,
        cache: list[BlockCache] | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Return the logits after each target token; with a cache, `target` contains only new tokens."""
        view = View(mask=None if memory.real is None else memory.real[:, None, None, :])
        X = self.decoder.decode(target, real, memory=memory.X, memory_view=view, cache=cache)
        return require_finite(self.word_head(X, self.decoder.embed.table.weight), self)

    def cache(self, room: int) -> list[BlockCache]:
        """Create an empty cache for up to `room` target tokens: pass it to `decode`, then feed only new tokens."""
        return self.decoder.cache(room)


@register
class Seq2Seq(EncoderDecoder):
    """memory = encoder(source); logits[t] = head(decoder(target ≤ t, memory))."""

    def __init__(self, config: Seq2SeqConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.encoder = TextStack(config.source)
        self.decoder = TextStack(config.target)
        if config.shared:
            self.decoder.embed.table = self.encoder.embed.table
        self.word_head = WordHead(
            config.target.vocabulary,
            config.target.width,
            tied=config.tied,
            bias=config.head_bias,
            scale=config.head_scale,
        )
        initialise(self, seed)

    def encode(self, source: Int[Tensor, "b s"], real: Bool[Tensor, "b s"] | None = None) -> Memory:
        return Memory(require_finite(self.encoder.encode(source, real), self), real)

    def forward(
        self,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        source_real: Bool[Tensor, "b s"] | None = None,
        target_real: Bool[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b t v"]:
        return self.decode(target, self.encode(source, source_real), target_real)

    # ---- capabilities ----

    inputs: tuple[InputKind, ...] = ("text", "text")
    verbs: tuple[Verb, ...] = ("translate", "generate")

    @property
    def vocabulary(self) -> int:
        return min(self.config.source.vocabulary, self.config.target.vocabulary)

    @property
    def context_length(self) -> int:
        return self.config.length

    @property
    def start_token(self) -> int:
        return self.config.start

    def session(
        self, *, start: tuple[int, ...] = (), ends: tuple[int, ...] = (), cached: bool = True
    ) -> MemorySession:
        check = lambda prompt: require_prompt(prompt, self.config.length, "source")
        return MemorySession(self, start=start, ends=ends, check=check, cached=cached)

    def cross_attentions(self) -> list[Tap]:
        return [block.cross.A for block in self.decoder.blocks()]

    def sizes(self) -> dict[str, str]:
        c = self.config
        sides = f"{stack_size(c.source)} + {stack_size(c.target)}"
        return {"layers": sides, "vocabulary": f"{c.target.vocabulary:,}", "context": f"{c.length:,} tokens"}
