"""p(next token | tokens so far): an autoregressive decoder.

Radford et al., "Language Models are Unsupervised Multitask Learners", 2019 (GPT-2); Touvron et al., 2023 (Llama).
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.nn import BlockCache, BlockConfig, FeedForwardConfig, Learned, NormConfig, Rotary, heads
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import initialise, normal
from glassformer.nn.text import TextConfig, TextStack, WordHead


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """A text stack that sees the past; `tied`: the table of the embedding is the head's too."""

    text: TextConfig
    length: int
    tied: bool = True


def plain(
    vocabulary: int, width: int, depth: int, count: int, length: int, *, dropout: float = 0.0
) -> DecoderConfig:
    """Pre-norm, learned positions, GELU by tanh, as GPT-2."""
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
    """Pre-norm by RMS, rotary positions, SwiGLU, grouped heads, no biases, as Llama."""
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
        """`real` is False at padding (on the left, to go on from); with a cache it covers the past too.

        `last`: only what follows the last token, all that speaking needs (a vocabulary is wider than the model).
        """
        X = self.decoder.decode(tokens, real, cache=cache)
        return require_finite(self.word_head(X[:, -1:] if last else X, self.decoder.embed.table.weight), self)

    def cache(self, room: int) -> list[BlockCache]:
        """An empty past with room for `room` tokens: pass it to `forward`, then feed only what is new."""
        return self.decoder.cache(room)
