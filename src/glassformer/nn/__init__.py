"""Neural network modules, written to read like their equations."""

from __future__ import annotations

from glassformer.nn.attention import AttentionConfig, MultiHeadAttention, Turn, View, heads
from glassformer.nn.blocks import Block, BlockCache, BlockConfig, sliding_cache, static_cache
from glassformer.nn.cache import LayerCache, MemoryCache, SlidingCache, StaticCache
from glassformer.nn.embed import PatchEmbedding, TokenEmbedding, patches
from glassformer.nn.feedforward import FeedForward, FeedForwardConfig
from glassformer.nn.finite import require_finite, require_finite_weights
from glassformer.nn.frames import FrameConfig, FrameEmbedding
from glassformer.nn.linear import Embedding, Linear, glorot, initialise, normal
from glassformer.nn.norm import LayerNorm, NormConfig, RMSNorm
from glassformer.nn.positions import Alibi, Learned, Relative, Rotary, Sinusoidal
from glassformer.nn.stack import Stack
from glassformer.nn.streaming import Chunks, StackStream
from glassformer.nn.tap import Tap

__all__ = [
    "Alibi",
    "AttentionConfig",
    "Block",
    "BlockCache",
    "BlockConfig",
    "Chunks",
    "Embedding",
    "FeedForward",
    "FeedForwardConfig",
    "FrameConfig",
    "FrameEmbedding",
    "LayerCache",
    "LayerNorm",
    "Learned",
    "Linear",
    "MemoryCache",
    "MultiHeadAttention",
    "NormConfig",
    "PatchEmbedding",
    "RMSNorm",
    "Relative",
    "Rotary",
    "Sinusoidal",
    "SlidingCache",
    "Stack",
    "StackStream",
    "StaticCache",
    "Tap",
    "TokenEmbedding",
    "Turn",
    "View",
    "glorot",
    "heads",
    "initialise",
    "normal",
    "patches",
    "require_finite",
    "require_finite_weights",
    "sliding_cache",
    "static_cache",
]
