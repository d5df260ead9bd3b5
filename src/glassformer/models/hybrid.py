"""image → class: convolutions extract local features, whose grid becomes the tokens of a Transformer.

Hassani et al., "Escaping the Big Data Paradigm with Compact Transformers", 2021 (the compact convolutional
transformer): 3×3 convolutions and pooling instead of a patch projection, attention pooling over the sequence instead of
a CLS token. Neighbouring tokens see overlapping pixels, so that a few thousand images suffice to learn locality.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, pad, relu

from glassformer.core.positions import interpolate_2d, require_choice
from glassformer.errors import ConfigError
from glassformer.models.convolutional import BatchNorm, GroupNorm
from glassformer.models.describe import describe_image
from glassformer.models.protocols import InputKind, Verb
from glassformer.models.registry import register
from glassformer.models.sequence_io import require_positive
from glassformer.nn import BlockConfig, FeedForwardConfig, Linear, NormConfig, Stack, heads
from glassformer.nn.attention import MultiHeadAttention, View
from glassformer.nn.embed import require_images
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import Convolution2d, initialise, normal
from glassformer.nn.tap import Tap

Pooling = Literal["attention", "mean"]
KERNEL = 3
REACH = 4  # cells beyond which all offsets in one direction have the same score


@dataclass(frozen=True, kw_only=True)
class StemConfig:
    """Config of the stem: convolution i has `widths[i]` channels and halves the resolution if `halves[i]`.

    The last of `widths` is the model's width. `residual`: a convolution that changes neither width nor size adds its
    output to its input. The last `attending` of them have attention over the whole grid in place of the convolution
    (Srinivas et al., "Bottleneck Transformers", 2021): one head per cell of a 3×3 kernel, which share keys and values.
    """

    widths: tuple[int, ...]
    halves: tuple[bool, ...]
    norm: BatchNorm | GroupNorm | None = None
    residual: bool = False
    attending: int = 0
    key_width: int = 32

    def __post_init__(self) -> None:
        if not self.widths or min(self.widths) < 1 or len(self.widths) != len(self.halves):
            fact = f"convolutions are {self.widths} wide and halve the image {self.halves}"
            raise ConfigError(fact, "give one width of at least 1 and one True or False for each")
        if isinstance(self.norm, GroupNorm) and any(width % max(self.norm.groups, 1) for width in self.widths):
            fact = f"{self.norm.groups} groups do not split widths {self.widths}"
            raise ConfigError(fact, "choose groups that divide every width")
        if not 0 <= self.attending < len(self.widths):
            fact = f"{self.attending} of {len(self.widths)} convolutions have attention in their place"
            raise ConfigError(fact, f"choose 0 to {len(self.widths) - 1}")
        if self.attending and len(set(self.widths[-self.attending - 1 :])) > 1:
            raise ConfigError(
                f"attention cannot replace convolutions of different widths {self.widths}", "give them one width"
            )

    @property
    def stride(self) -> int:
        """Total stride: pixels from one token to the next."""
        return int(2 ** sum(self.halves))

    def grid(self, image: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of tokens; each halving rounds up."""
        return -(-image[0] // self.stride), -(-image[1] // self.stride)


@dataclass(frozen=True, kw_only=True)
class HybridConfig:
    image: tuple[int, int]
    channels: int
    stem: StemConfig
    depth: int
    block: BlockConfig
    classes: int
    pool: Pooling = "attention"
    last_norm: NormConfig | None = NormConfig(eps=1e-6)

    def __post_init__(self) -> None:
        require_positive(rows=self.image[0], columns=self.image[1], channels=self.channels, classes=self.classes)
        require_choice("pool", self.pool, get_args(Pooling))
        if self.stem.widths[-1] != self.width:
            fact = f"the stem gives {self.stem.widths[-1]} channels to blocks that are {self.width} wide"
            raise ConfigError(fact, "end the stem with the model's width")

    @property
    def grid(self) -> tuple[int, int]:
        return self.stem.grid(self.image)

    @property
    def patch(self) -> tuple[int, int]:
        """Pixels per token; the receptive field of a token is larger."""
        return self.stem.stride, self.stem.stride

    @property
    def width(self) -> int:
        return self.block.attention.width


def compact(
    size: int, stem: tuple[int, ...], depth: int, count: int, *, classes: int, channels: int = 3, hidden: int = 2
) -> HybridConfig:
    """Every convolution halves the resolution; pre-norm, GELU, feed-forward layers of `hidden` times the width."""
    width = stem[-1] if stem else 0
    block = BlockConfig(
        attention=heads(width, count),
        ffn=FeedForwardConfig(width=width, hidden=hidden * width),
        norm=NormConfig(eps=1e-6),
    )
    return HybridConfig(
        image=(size, size),
        channels=channels,
        stem=StemConfig(widths=stem, halves=(True,) * len(stem)),
        depth=depth,
        block=block,
        classes=classes,
    )


def tiny(*, classes: int = 5, channels: int = 3) -> HybridConfig:
    return compact(8, (8, 16), 2, 2, classes=classes, channels=channels)


def cct_2(classes: int = 10) -> HybridConfig:
    """CCT-2/3×2 for 32×32 images: 64 tokens, 0.28 million parameters."""
    return compact(32, (64, 128), 2, 2, classes=classes, hidden=1)


def cct_7(classes: int = 10) -> HybridConfig:
    """CCT-7/3×1 for 32×32 images: 256 tokens, 3.76 million parameters."""
    return compact(32, (256,), 7, 4, classes=classes)


class Convolve(nn.Module):
    """C = ReLU(norm(W ∗ X)), then 3×3 max pooling with stride 2 where resolution is halved; C = X + … if residual."""

    def __init__(self, inputs: int, outputs: int, halve: bool, stem: StemConfig) -> None:
        super().__init__()
        self.W = Convolution2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = stem.norm.build(outputs) if stem.norm is not None else None
        self.halve, self.adds = halve, stem.residual and inputs == outputs and not halve
        self.C = Tap()

    def forward(self, X: Float[Tensor, "b c H W"]) -> Float[Tensor, "b k h w"]:
        Y = self.W(X)
        Y = relu(Y if self.norm is None else self.norm(Y))
        Y = max_pool2d(Y, 3, stride=2, padding=1) if self.halve else Y
        return self.C(X + Y if self.adds else Y)


class Attend(nn.Module):
    """As `Convolve`, with attention to every cell of the grid and to a ring of zeros around it.

    Head i can be a kernel at offset i: it attends to that offset, its W_O is the kernel's matrix there, and
    the ring is the convolution's padding (Cordonnier et al., "On the relationship between self-attention and
    convolutional layers", 2020). `positions` is a learned score per head and offset, clipped at REACH cells.
    """

    def __init__(self, halve: bool, stem: StemConfig) -> None:
        super().__init__()
        width = stem.widths[-1]
        self.grid = MultiHeadAttention(
            heads(width, KERNEL**2, kv_heads=1, key_width=stem.key_width, value_width=width, biases="q")
        )
        self.positions = nn.Parameter(torch.zeros(KERNEL**2, (2 * REACH + 1) ** 2))
        self.norm = stem.norm.build(width) if stem.norm is not None else None
        self.halve, self.adds = halve, stem.residual and not halve
        self.C = Tap()

    def forward(self, X: Float[Tensor, "b c H W"]) -> Float[Tensor, "b c h w"]:
        rows, columns = X.shape[2:]
        ring = pad(X, (1, 1, 1, 1)).flatten(2).mT
        view = View(bias=self.bias(rows, columns).to(X))
        Y = self.grid(X.flatten(2).mT, ring, view).mT.unflatten(2, (rows, columns))
        Y = relu(Y if self.norm is None else self.norm(Y))
        Y = max_pool2d(Y, 3, stride=2, padding=1) if self.halve else Y
        return self.C(X + Y if self.adds else Y)

    def bias(self, rows: int, columns: int) -> Float[Tensor, "h t s"]:
        """The score of every cell and every cell of the grid with its ring, by the offset between them."""
        return self.positions[:, offsets(rows, columns).to(self.positions.device)]


def offsets(rows: int, columns: int) -> Int[Tensor, "t s"]:
    """Return the index of the clipped offset from each cell to each cell of the grid with its ring."""
    down = torch.arange(-1, rows + 1)[None] - torch.arange(rows)[:, None]
    right = torch.arange(-1, columns + 1)[None] - torch.arange(columns)[:, None]
    down, right = (some.clamp(-REACH, REACH) + REACH for some in (down, right))
    both = (2 * REACH + 1) * down[:, None, :, None] + right[None, :, None, :]
    return both.reshape(rows * columns, (rows + 2) * (columns + 2))


class SequencePool(nn.Module):
    """x = aᵀ X, a = softargmax(X w): attention pooling with a learned query that is the same for every image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.W = Linear(width, 1)
        self.a = Tap()

    def forward(self, X: Float[Tensor, "b n m"]) -> Float[Tensor, "b m"]:
        return (self.a(self.weights(X))[:, None] @ X)[:, 0]

    def weights(self, X: Float[Tensor, "b n m"]) -> Float[Tensor, "b n"]:
        """Compute a without passing through its tap."""
        return self.W(X)[..., 0].softmax(-1)


class MeanPool(nn.Module):
    """x = mean X."""

    def forward(self, X: Float[Tensor, "b n m"]) -> Float[Tensor, "b m"]:
        return X.mean(1)


@register
class Hybrid(nn.Module):
    """X = stem(image) + E; logits = head(pool(norm(blocks(X))))."""

    def __init__(self, config: HybridConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = c = config
        inputs = (c.channels, *c.stem.widths[:-1])
        plan = zip(inputs, c.stem.widths, c.stem.halves, strict=True)
        convolved = len(c.stem.widths) - c.stem.attending
        self.stem = nn.ModuleList(
            Convolve(m, n, halve, c.stem) if i < convolved else Attend(halve, c.stem)
            for i, (m, n, halve) in enumerate(plan)
        )
        self.positions = nn.Parameter(torch.zeros(c.grid[0] * c.grid[1], c.width))
        self.E, self.X = Tap(), Tap()
        self.encoder = Stack(c.block, c.depth, last_norm=c.last_norm)
        self.pool = SequencePool(c.width) if c.pool == "attention" else MeanPool()
        self.head, self.logits = Linear(c.width, c.classes), Tap()
        initialise(self, seed, _start)

    def tokens(self, image: Float[Tensor, "b c H W"]) -> Float[Tensor, "b n m"]:
        """X = [stem(image) at (0, 0), (0, 1), …] + E; E interpolated if the image has another size."""
        require_images(image, self.config.channels)
        X = image.contiguous(memory_format=torch.channels_last)  # a third faster, and tokens need no transposition
        for layer in self.stem:
            X = layer(X)
        rows, columns = X.shape[2:]
        return self.X(X.flatten(2).mT + self.E(self.table((rows, columns))))

    def table(self, grid: tuple[int, int]) -> Float[Tensor, "n m"]:
        """The learned positions, interpolated to another grid."""
        return interpolate_2d(self.positions, self.config.grid, grid)

    def features(self, image: Float[Tensor, "b c H W"]) -> Float[Tensor, "b n m"]:
        """Every token after the last norm, in row-major order."""
        return require_finite(self.encoder(self.tokens(image)), self)

    def forward(self, image: Float[Tensor, "b c H W"]) -> Float[Tensor, "b classes"]:
        return require_finite(self.logits(self.head(self.pool(self.features(image)))), self)

    # ---- capabilities ----

    inputs: tuple[InputKind, ...] = ("image",)
    verbs: tuple[Verb, ...] = ("classify",)
    prefix_names: tuple[str, ...] = ()
    head_names = ("head",)

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

    def patch_grid(self, size: tuple[int, int]) -> tuple[int, int]:
        return self.config.stem.grid(size)

    def cell_grids(self, size: tuple[int, int]) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for i, layer in enumerate(self.stem):
            if isinstance(layer, Attend):
                stride = 2 ** sum(self.config.stem.halves[:i])
                found[f"stem.{i}.grid"] = -(-size[0] // stride), -(-size[1] // stride)
        return found

    def position_table(self, grid: tuple[int, int]) -> Float[Tensor, "n m"]:
        return self.table(grid)

    @torch.no_grad()
    def pool_weights(self, image: Float[Tensor, "b c H W"]) -> Float[Tensor, "b n"]:
        if isinstance(self.pool, SequencePool):
            return self.pool.weights(self.features(image))
        rows, columns = self.patch_grid((image.shape[2], image.shape[3]))
        return torch.full((len(image), rows * columns), 1 / (rows * columns), device=image.device)

    def class_logits(self, X: Tensor, real: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        return self(X)

    def with_classes(self, classes: int, *, image_size: tuple[int, int] | None = None, seed: int = 0) -> Hybrid:
        return Hybrid(replace(self.config, classes=classes, image=image_size or self.config.image), seed=seed)

    def sizes(self) -> dict[str, str]:
        return describe_image(self.config) | {"classes": str(self.config.classes)}


def _start(weight: Tensor, generator: torch.Generator) -> None:
    """Initialise convolutions as in He et al. 2015, for the ReLU after them, and the rest as in ViT."""
    if weight.dim() == 4:
        weight.normal_(0.0, (2 / weight[0].numel()) ** 0.5, generator=generator)
    else:
        normal(0.02)(weight, generator)
