"""p(next token | tokens so far): an autoregressive decoder.

Radford et al., "Language Models are Unsupervised Multitask Learners", 2019 (GPT-2); Touvron et al., 2023 (Llama).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.errors import ConfigError
from glassformer.models.describe import stack_size
from glassformer.models.protocols import InputKind, Reach, Verb
from glassformer.models.registry import register
from glassformer.models.sessions import CachedSession
from glassformer.nn import BlockCache, BlockConfig, FeedForwardConfig, Learned, NormConfig, Rotary, heads
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import initialise, normal
from glassformer.nn.text import TextConfig, TextStack, WordHead


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """Config of a causal text stack. `tied`: the head shares the embedding table."""

    text: TextConfig
    length: int
    tied: bool = True


def plain(
    vocabulary: int, width: int, depth: int, count: int, length: int, *, dropout: float = 0.0
) -> DecoderConfig:
    """GPT-2 style: pre-norm, learned positions, tanh-approximated GELU."""
    norm = NormConfig(eps=1e-5)
    block = BlockConfig(
        attention=heads(width, count, dropout=dropout),
        ffn=FeedForwardConfig(width=width, hidden=4 * width, activation="gelu_tanh", dropout=dropout),
        norm=norm,
        dropout=dropout,
    )
    text = TextConfig(
        vocabulary=vocabulary, depth=depth, block=block, positions=Learned(length=length), last_norm=norm
    )
    return DecoderConfig(text=text, length=length)


def modern(
    vocabulary: int, width: int, depth: int, count: int, length: int, *, kv_heads: int, hidden: int
) -> DecoderConfig:
    """Llama style: pre-norm with RMSNorm, rotary positions, SwiGLU, grouped-query attention, no biases."""
    norm = NormConfig(kind="rms", eps=1e-5)
    block = BlockConfig(
        attention=heads(width, count, kv_heads=kv_heads, biases=""),
        ffn=FeedForwardConfig(width=width, hidden=hidden, activation="silu", gated=True, bias=False),
        norm=norm,
    )
    text = TextConfig(
        vocabulary=vocabulary, depth=depth, block=block, relative=Rotary(width=width // count), last_norm=norm
    )
    return DecoderConfig(text=text, length=length)


def tiny() -> DecoderConfig:
    return plain(vocabulary=50, width=16, depth=2, count=2, length=48)


def tiny_modern() -> DecoderConfig:
    return modern(vocabulary=50, width=16, depth=2, count=4, length=48, kv_heads=2, hidden=24)


def gpt2_small() -> DecoderConfig:
    """124 million parameters: 12 × 768, 12 heads, 1,024 positions."""
    return plain(vocabulary=50257, width=768, depth=12, count=12, length=1024, dropout=0.1)


@register
class Decoder(nn.Module):
    """logits[t] = W norm(blocks(embed(tokens ≤ t)))."""

    def __init__(self, config: DecoderConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.decoder = TextStack(config.text)
        self.word_head = WordHead(config.text.vocabulary, config.text.width, tied=config.tied)
        initialise(self, seed, normal(0.02))

    def forward(
        self,
        tokens: Int[Tensor, "b t"],
        real: Bool[Tensor, "b s"] | None = None,
        *,
        cache: list[BlockCache] | None = None,
        last: bool = False,
    ) -> Float[Tensor, "b n v"]:
        """Return the logits after each token.

        `real` is False at padding (on the left, for generation); with a cache it covers cached tokens too. `last`:
        compute logits for the last position only, which is all that generation needs (the vocabulary is wider than the
        model).
        """
        X = self.decoder.decode(tokens, real, cache=cache)
        return require_finite(self.word_head(X[:, -1:] if last else X, self.decoder.embed.table.weight), self)

    def cache(self, room: int) -> list[BlockCache]:
        """Create an empty cache with capacity for `room` tokens: pass it to `forward`, then feed only new tokens."""
        return self.decoder.cache(room)

    # ---- capabilities ----

    inputs: tuple[InputKind, ...] = ("text",)
    verbs: tuple[Verb, ...] = ("generate",)
    predicts_tokens = True
    step_seconds: float | None = None

    @property
    def vocabulary(self) -> int:
        return self.config.text.vocabulary

    @property
    def context_length(self) -> int:
        return self.config.length

    def token_logits(self, output: Tensor) -> Tensor:
        return output

    def session(
        self, *, start: tuple[int, ...] = (), ends: tuple[int, ...] = (), cached: bool = True
    ) -> CachedSession:
        if start:
            raise ConfigError(f"start tokens {start} for a decoder-only model", "put them at the front of the prompt")
        return CachedSession(self, vocabulary=self.vocabulary, context=self.context_length, ends=ends, cached=cached)

    def sizes(self) -> dict[str, str]:
        text = self.config.text
        context = f"{self.config.length:,} tokens"
        return {"layers": stack_size(text), "vocabulary": f"{text.vocabulary:,}", "context": context}

    @property
    def reach(self) -> Reach:
        window = self.config.text.window
        return Reach(lookahead=0, left=None if window is None else (window - 1) * self.config.text.depth)

    def example(self, length: int | None, generator: torch.Generator) -> Tensor:
        t = length or min(48, self.config.length)
        return torch.randint(self.vocabulary, (2, t), generator=generator)

    def respond(self, X: Tensor) -> Tensor:
        return self(X)

    def respond_in_chunks(self, pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        cache = self.cache(self.config.length)
        for piece in pieces:
            yield self(piece, cache=cache)
