"""X = scale · table[token] + E[position] (+ segment), and X = W patch + b: token and patch embeddings."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import conv2d

from glassformer.core.values import has_values
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.nn.linear import Dropout, Embedding, Linear
from glassformer.nn.norm import NormConfig
from glassformer.nn.positions import Added
from glassformer.nn.tap import Tap


class TokenEmbedding(nn.Module):
    """X = norm(scale · table[token] + E[position] + segment[kind]); parts that are not configured are omitted."""

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        scale: float = 1.0,
        positions: Added | None = None,
        segments: int = 0,
        norm: NormConfig | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if vocabulary < 1 or width < 1:
            raise ConfigError(
                f"the embedding has {vocabulary} tokens and width {width}", "choose at least one of each"
            )
        self.scale = scale
        self.table = Embedding(vocabulary, width)
        self.positions = positions.build(width) if positions is not None else None
        self.segments = Embedding(segments, width) if segments else None
        self.norm = norm.build(width) if norm is not None else None
        self.dropout = Dropout(dropout)
        self.T, self.E, self.X = Tap(), Tap(), Tap()

    def forward(
        self,
        tokens: Int[Tensor, "b t"],
        positions: Int[Tensor, "..."] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Embed tokens. Positions default to counting from 0, and segments default to 0."""
        _require_known("token", tokens, self.table)
        X = self.table(tokens)
        X = self.T(X if self.scale == 1.0 else X * self.scale)
        if self.segments is not None:
            X = X + self.segments(self._kinds(tokens, segments))
        elif segments is not None:
            fact = "segments were given to a model without segment embeddings"
            raise ConfigError(fact, "leave them out, or set segments in its config")
        if self.positions is not None:
            where = torch.arange(tokens.shape[1], device=tokens.device) if positions is None else positions
            X = X + self.E(self.positions(where, X.dtype))
        return self.X(self.dropout(X if self.norm is None else self.norm(X)))

    def _kinds(self, tokens: Tensor, segments: Tensor | None) -> Tensor:
        if segments is None:
            return torch.zeros_like(tokens)
        if segments.shape != tokens.shape:
            raise ShapeError(
                f"segment ids have shape {tuple(segments.shape)}, token ids {tuple(tokens.shape)}",
                "give one segment id per token",
            )
        assert self.segments is not None
        _require_known("segment", segments, self.segments)
        return segments


def _require_known(what: str, tokens: Tensor, table: Embedding) -> None:
    if tokens.dim() != 2:
        raise ShapeError(f"{what}s have shape {tuple(tokens.shape)}", "give (batch, tokens)")
    require_ids(what, tokens, table.num_embeddings)


def require_ids(what: str, ids: Tensor, count: int) -> None:
    """Check that ids are integers from 0 up to, not including, `count`."""
    if ids.dtype not in (torch.int32, torch.int64):
        raise InputError(f"{what}s have dtype {str(ids.dtype).removeprefix('torch.')}", "give int64 or int32")
    if has_values(ids) and ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= count):
        outside = int(ids[(ids < 0) | (ids >= count)][0])
        raise InputError(f"{what} {outside} is outside the vocabulary of {count}", f"use 0 to {count - 1}")


def require_images(images: Tensor, channels: int) -> None:
    """Check that images are floating-point tensors (batch, channels, height, width)."""
    if images.dim() != 4 or 0 in images.shape[2:]:
        raise ShapeError(f"images have shape {tuple(images.shape)}", f"give (batch, {channels}, height, width)")
    if images.shape[1] != channels:
        raise ShapeError(
            f"the image has {images.shape[1]} channels, the model expects {channels}",
            "convert it (grey is 1 channel, RGB is 3)",
        )
    if not images.is_floating_point():
        kind = str(images.dtype).removeprefix("torch.")
        raise InputError(f"images have dtype {kind}", "give floating-point pixels, scaled as in training")


def patches(image: Float[Tensor, "b c H W"], size: tuple[int, int]) -> Float[Tensor, "b n k"]:
    """Split images into patches row by row, each flattened as (channel, row, column): n = H/size · W/size."""
    *_, H, W = image.shape
    h, w = size
    if H % h or W % w:
        raise ShapeError(
            f"an image of {H}×{W} is not tiled by patches of {h}×{w}",
            f"resize it to {max(1, round(H / h)) * h}×{max(1, round(W / w)) * w}, or choose another patch",
        )
    cut = image.unflatten(2, (H // h, h)).unflatten(4, (W // w, w))  # b c i h j w
    return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


class PatchEmbedding(nn.Module):
    """X_p = W patch_p + b (Dosovitskiy 2021): equivalent to a convolution with kernel and stride of the patch size."""

    def __init__(self, size: tuple[int, int], channels: int, width: int, *, bias: bool = True) -> None:
        super().__init__()
        if min(*size, channels, width) < 1:
            raise ConfigError(
                f"the embedding has {size[0]}×{size[1]} patches, {channels} channels and width {width}",
                "choose sizes of at least 1",
            )
        self.size, self.channels = size, channels
        self.W = Linear(channels * size[0] * size[1], width, bias=bias)

    def forward(self, image: Float[Tensor, "b c H W"]) -> Float[Tensor, "b n m"]:
        require_images(image, self.channels)
        return self.W(patches(image, self.size))

    def convolution(self, image: Float[Tensor, "b c H W"]) -> Float[Tensor, "b n m"]:
        """Compute the same embedding with PyTorch's convolution."""
        kernel = self.W.weight.unflatten(1, (self.channels, *self.size))
        return conv2d(image, kernel, self.W.bias, stride=self.size).flatten(2).mT
