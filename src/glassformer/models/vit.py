"""image → class: a Transformer over patches, with a CLS token or mean pooling and learned positions.

Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.core.positions import interpolate_2d
from glassformer.errors import ConfigError, ShapeError
from glassformer.models.describe import describe_image
from glassformer.models.protocols import InputKind, Verb
from glassformer.models.registry import register
from glassformer.nn import BlockConfig, FeedForwardConfig, Linear, NormConfig, PatchEmbedding, Stack, heads
from glassformer.nn.embed import require_images
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import initialise, normal
from glassformer.nn.tap import Tap


@dataclass(frozen=True, kw_only=True)
class Resize:
    """How learned positions are interpolated to another grid, which differs between published model families."""

    mode: Literal["bicubic", "bilinear"] = "bicubic"
    antialias: bool = False
    align_corners: bool = False


@dataclass(frozen=True, kw_only=True)
class ViTConfig:
    """Config of a Vision Transformer with `prefix` learned tokens before the patches (CLS first).

    `registers` are added after the positions. `pool` selects the input of the head: the first token, the mean over
    patches, or both concatenated (DINOv2); `pool_norm` follows pooling, `last_norm` precedes it. `hidden` > 0 gives the
    two-layer head used in pre-training, 0 the linear one used in fine-tuning. `teacher`: a second head takes the second
    token, and the two are averaged (DeiT). `prefix_positions` of False leaves the prefix without positions (DeiT III).
    `masked`: adds a learned mask vector that can replace hidden patches.
    """

    image: tuple[int, int]
    patch: tuple[int, int]
    channels: int
    depth: int
    block: BlockConfig
    classes: int
    prefix: int = 1
    registers: int = 0
    pool: Literal["first", "mean", "both"] = "first"
    hidden: int = 0
    resize: Resize = Resize()
    first_norm: NormConfig | None = None
    last_norm: NormConfig | None = NormConfig(eps=1e-6)
    pool_norm: NormConfig | None = None
    patch_bias: bool = True
    prefix_positions: bool = True
    teacher: bool = False
    masked: bool = False

    def __post_init__(self) -> None:
        (H, W), (h, w) = self.image, self.patch
        if min(H, W, h, w) < 1 or H % h or W % w:
            raise ConfigError(
                f"an image of {H}×{W} is not tiled by patches of {h}×{w}", "choose an image size that the patch divides"
            )
        if self.pool not in ("first", "mean", "both"):
            remedy = "choose first (CLS), mean (of the patches) or both"
            raise ConfigError(f"there is no pooling {self.pool!r}", remedy)
        if self.pool != "mean" and self.prefix < 1:
            raise ConfigError(f"pool={self.pool!r} needs a CLS token and prefix is 0", "choose prefix=1 or pool='mean'")
        if self.teacher and (self.prefix < 2 or self.pool != "first" or not self.classes or self.hidden):
            fact = f"the teacher's head has prefix={self.prefix}, pool={self.pool!r} and classes={self.classes}"
            raise ConfigError(fact, "choose prefix=2, pool='first', hidden=0 and at least one class")

    @property
    def grid(self) -> tuple[int, int]:
        return self.image[0] // self.patch[0], self.image[1] // self.patch[1]

    @property
    def width(self) -> int:
        return self.block.attention.width

    @property
    def kernel(self) -> tuple[int, int, int, int]:
        """Shape of the patch embedding as a convolution: width, channels, rows, columns."""
        return self.width, self.channels, *self.patch

    @property
    def placed(self) -> int:
        """Number of prefix tokens that have positions."""
        return self.prefix if self.prefix_positions else 0

    @property
    def places(self) -> int:
        """Number of learned positions."""
        return self.placed + self.grid[0] * self.grid[1]


def plain(size: int, patch: int, width: int, depth: int, count: int, *, classes: int, channels: int = 3) -> ViTConfig:
    """Pre-norm, GELU, feed-forward layers of four times the width, CLS token."""
    block = BlockConfig(
        attention=heads(width, count),
        ffn=FeedForwardConfig(width=width, hidden=4 * width),
        norm=NormConfig(eps=1e-6),
    )
    return ViTConfig(
        image=(size, size), patch=(patch, patch), channels=channels, depth=depth, block=block, classes=classes
    )


def tiny() -> ViTConfig:
    return plain(8, 4, 16, 2, 2, classes=5)


def tiny_16(classes: int = 1000) -> ViTConfig:
    """ViT-Ti/16: 5.7 million parameters."""
    return plain(224, 16, 192, 12, 3, classes=classes)


def tiny_32(classes: int = 1000) -> ViTConfig:
    return plain(224, 32, 192, 12, 3, classes=classes)


def small_16(classes: int = 1000) -> ViTConfig:
    """ViT-S/16: 22 million parameters."""
    return plain(224, 16, 384, 12, 6, classes=classes)


def small_32(classes: int = 1000) -> ViTConfig:
    return plain(224, 32, 384, 12, 6, classes=classes)


def base_16(classes: int = 1000) -> ViTConfig:
    """ViT-B/16: 86 million parameters."""
    return plain(224, 16, 768, 12, 12, classes=classes)


def base_32(classes: int = 1000) -> ViTConfig:
    return plain(224, 32, 768, 12, 12, classes=classes)


def large_16(classes: int = 1000) -> ViTConfig:
    """ViT-L/16: 304 million parameters."""
    return plain(224, 16, 1024, 24, 16, classes=classes)


def large_32(classes: int = 1000) -> ViTConfig:
    return plain(224, 32, 1024, 24, 16, classes=classes)


@register
class ViT(nn.Module):
    """X = [CLS, patches] + E; logits = head(pool(norm(blocks(X))))."""

    def __init__(self, config: ViTConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = c = config
        self.embed = PatchEmbedding(c.patch, c.channels, c.width, bias=c.patch_bias)
        self.prefix = nn.Parameter(torch.zeros(c.prefix, c.width)) if c.prefix else None
        self.registers = nn.Parameter(torch.zeros(c.registers, c.width)) if c.registers else None
        self.positions = nn.Parameter(torch.zeros(c.places, c.width))
        self.mask = nn.Parameter(torch.zeros(c.width)) if c.masked else None
        self.first_norm = c.first_norm.build(c.width) if c.first_norm is not None else None
        self.E, self.X, self.logits = Tap(), Tap(), Tap()
        self.encoder = Stack(c.block, c.depth, last_norm=c.last_norm)
        pooled = 2 * c.width if c.pool == "both" else c.width
        self.pool_norm = c.pool_norm.build(pooled) if c.pool_norm is not None else None
        self.head_hidden = Linear(pooled, c.hidden) if c.hidden else None
        self.head = Linear(c.hidden or pooled, c.classes) if c.classes else None
        self.teacher_head = Linear(c.width, c.classes) if c.teacher else None
        initialise(self, seed, normal(0.02))

    def tokens(self, image: Float[Tensor, "b c H W"], hidden: Bool[Tensor, "b p"] | None = None) -> Tensor:
        """X = [CLS …, W patch₁, W patch₂, …] + E, then registers; E is interpolated if the image has another size.

        Patches marked in `hidden` are replaced by the learned mask vector.
        """
        c = self.config
        X = self.embed(image)
        if hidden is not None:
            X = torch.where(hidden[..., None], self._mask(hidden, X), X)
        grid = image.shape[2] // c.patch[0], image.shape[3] // c.patch[1]
        E, k = self.E(self.table(grid)), c.placed
        front = []
        if self.prefix is not None:
            front.append(self.prefix + E[:k] if k else self.prefix)
        if self.registers is not None:
            front.append(self.registers)
        X = torch.cat([*(tokens.expand(X.shape[0], -1, -1) for tokens in front), X + E[k:]], 1)
        return self.X(X if self.first_norm is None else self.first_norm(X))

    def table(self, grid: tuple[int, int]) -> Float[Tensor, "n m"]:
        """The learned positions, interpolated to another grid."""
        c = self.config
        how = c.resize
        return interpolate_2d(
            self.positions,
            c.grid,
            grid,
            prefix=c.placed,
            mode=how.mode,
            antialias=how.antialias,
            align_corners=how.align_corners,
        )

    def _mask(self, hidden: Bool[Tensor, "b p"], X: Float[Tensor, "b p m"]) -> Float[Tensor, " m"]:
        if self.mask is None:
            raise ConfigError(
                "hidden patches were given, but this model has no mask vector", "build it with masked=True"
            )
        if hidden.shape != X.shape[:2]:
            fact = f"hidden is {tuple(hidden.shape)} for {X.shape[0]} images of {X.shape[1]} patches"
            raise ShapeError(fact, "give one for each patch")
        return self.mask

    def features(
        self, image: Float[Tensor, "b c H W"], hidden: Bool[Tensor, "b p"] | None = None
    ) -> Float[Tensor, "b n m"]:
        """Every token after the last norm: prefix, registers, patches in row-major order."""
        require_images(image, self.config.channels)
        return require_finite(self.encoder(self.tokens(image, hidden)), self)

    def pool(self, X: Float[Tensor, "b n m"]) -> Float[Tensor, "b k"]:
        """x₀, the mean of the patches, or [x₀, mean]; then the norm, if there is one."""
        how, first = self.config.pool, X[:, 0]
        if how != "first":
            mean = X[:, self.config.prefix + self.config.registers :].mean(1)
            first = mean if how == "mean" else torch.cat([first, mean], -1)
        return first if self.pool_norm is None else self.pool_norm(first)

    def forward(self, image: Float[Tensor, "b c H W"]) -> Float[Tensor, "b classes"]:
        """Compute the logits; without classes, the pooled vector itself."""
        X = self.features(image)
        x = self.pool(X)
        if self.head_hidden is not None:
            x = torch.tanh(self.head_hidden(x))
        y = x if self.head is None else self.head(x)
        if self.teacher_head is not None:
            y = (y + self.teacher_head(X[:, 1])) / 2
        return require_finite(self.logits(y), self)

    # ---- capabilities ----

    inputs: tuple[InputKind, ...] = ("image",)

    @property
    def verbs(self) -> tuple[Verb, ...]:
        return ("classify",) if self.config.classes else ()

    @property
    def classes(self) -> int:
        return self.config.classes

    @property
    def channels(self) -> int:
        return self.config.channels

    @property
    def image_size(self) -> tuple[int, int]:
        return self.config.image

    @property
    def patch_size(self) -> tuple[int, int]:
        return self.config.patch

    @property
    def prefix_names(self) -> tuple[str, ...]:
        c = self.config
        names = [*(["CLS"] if c.prefix else []), *(f"prefix {i}" for i in range(1, c.prefix))]
        return (*names, *(f"register {i}" for i in range(c.registers)))

    def patch_grid(self, size: tuple[int, int]) -> tuple[int, int]:
        return size[0] // self.config.patch[0], size[1] // self.config.patch[1]

    def position_table(self, grid: tuple[int, int]) -> Float[Tensor, "n m"]:
        return self.table(grid)

    def pool_weights(self, image: Float[Tensor, "b c H W"]) -> Float[Tensor, "b n"]:
        rows, columns = self.patch_grid((image.shape[2], image.shape[3]))
        before = len(self.prefix_names)
        first, mean = torch.zeros(2, before + rows * columns, device=image.device)
        first[0], mean[before:] = 1.0, 1 / (rows * columns)
        how = {"first": first, "mean": mean, "both": (first + mean) / 2}
        return how[self.config.pool].expand(len(image), -1)

    def class_logits(self, X: Tensor, real: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        return self(X)

    @property
    def head_names(self) -> tuple[str, ...]:
        return ("head", "teacher_head") if self.config.teacher else ("head",)

    def with_classes(self, classes: int, *, image_size: tuple[int, int] | None = None, seed: int = 0) -> ViT:
        return ViT(replace(self.config, classes=classes, image=image_size or self.config.image), seed=seed)

    def sizes(self) -> dict[str, str]:
        return describe_image(self.config) | {"classes": str(self.config.classes)}
