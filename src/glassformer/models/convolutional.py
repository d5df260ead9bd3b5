"""Y = ReLU(X + W₂ ∗ ReLU(W₁ ∗ X)): residual convolutional networks for images.

He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", 2016: the basic block, each convolution followed
by a norm. Away from the border, shifting the image by the product of the strides shifts the features by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

from glassformer.core.positions import require_choice
from glassformer.errors import ConfigError
from glassformer.models.protocols import InputKind, Verb
from glassformer.models.registry import register
from glassformer.models.sequence_io import he_uniform, require_positive
from glassformer.nn.embed import require_images
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import Convolution2d, Linear, initialise
from glassformer.nn.tap import Tap

Stem = Literal["small", "large"]


@dataclass(frozen=True, kw_only=True)
class BatchNorm:
    """Statistics of each channel over the batch; running averages in eval mode (Ioffe, Szegedy 2015)."""

    def build(self, channels: int) -> nn.Module:
        return nn.BatchNorm2d(channels)


@dataclass(frozen=True, kw_only=True)
class GroupNorm:
    """Statistics of each image over groups of channels (Wu, He 2018), independent of the batch."""

    groups: int

    def build(self, channels: int) -> nn.Module:
        return nn.GroupNorm(self.groups, channels)


@dataclass(frozen=True, kw_only=True)
class ConvNet2dConfig:
    """Config of a residual network: stage i has `depths[i]` blocks of `widths[i]` channels.

    Each stage but the first halves the resolution.
    """

    channels: int
    classes: int
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    stem: Stem  # small: 3×3; large: 7×7 with stride 2, then 3×3 max pooling with stride 2
    norm: BatchNorm | GroupNorm = BatchNorm()

    def __post_init__(self) -> None:
        require_positive(channels=self.channels, classes=self.classes)
        require_choice("stem", self.stem, get_args(Stem))
        if not self.widths or min(self.widths) < 1 or len(self.widths) != len(self.depths) or min(self.depths) < 1:
            fact = f"stages are {self.widths} wide and {self.depths} deep"
            raise ConfigError(fact, "give one width and one depth for each stage, all at least 1")
        if isinstance(self.norm, GroupNorm) and (
            self.norm.groups < 1 or any(width % self.norm.groups for width in self.widths)
        ):
            fact = f"{self.norm.groups} groups do not split widths {self.widths}"
            raise ConfigError(fact, "choose groups that divide every width")

    @property
    def stride(self) -> int:
        """Total stride: pixels from one feature to the next."""
        return int(2 ** (len(self.widths) - 1) * (1 if self.stem == "small" else 4))

    @property
    def blocks(self) -> tuple[tuple[int, int, int], ...]:
        """(input channels, output channels, stride) of every block, in order."""
        plan, inputs = [], self.widths[0]
        for stage, (width, depth) in enumerate(zip(self.widths, self.depths, strict=True)):
            for block in range(depth):
                plan.append((inputs, width, 2 if stage and not block else 1))
                inputs = width
        return tuple(plan)

    @property
    def parameters(self) -> int:
        def normed(inputs: int, outputs: int, kernel: int) -> int:
            return inputs * outputs * kernel**2 + 2 * outputs

        total = normed(self.channels, self.widths[0], 3 if self.stem == "small" else 7)
        for inputs, outputs, step in self.blocks:
            total += normed(inputs, outputs, 3) + normed(outputs, outputs, 3)
            if inputs != outputs or step != 1:
                total += normed(inputs, outputs, 1)
        return total + (self.widths[-1] + 1) * self.classes


def tiny(*, channels: int = 3, classes: int = 10) -> ConvNet2dConfig:
    return ConvNet2dConfig(channels=channels, classes=classes, widths=(4, 8), depths=(1, 1), stem="small")


def resnet20(*, channels: int = 3, classes: int = 10) -> ConvNet2dConfig:
    """ResNet-20 for 32×32 images, with projections where blocks change width."""
    return ConvNet2dConfig(channels=channels, classes=classes, widths=(16, 32, 64), depths=(3, 3, 3), stem="small")


def resnet18(*, channels: int = 3, classes: int = 1000) -> ConvNet2dConfig:
    widths = (64, 128, 256, 512)
    return ConvNet2dConfig(channels=channels, classes=classes, widths=widths, depths=(2, 2, 2, 2), stem="large")


def resnet34(*, channels: int = 3, classes: int = 1000) -> ConvNet2dConfig:
    widths = (64, 128, 256, 512)
    return ConvNet2dConfig(channels=channels, classes=classes, widths=widths, depths=(3, 4, 6, 3), stem="large")


class NormedConv(nn.Module):
    """norm(W ∗ X), without a bias, since the norm has one."""

    def __init__(self, inputs: int, outputs: int, norm: BatchNorm | GroupNorm, *, kernel: int, step: int = 1) -> None:
        super().__init__()
        self.W = Convolution2d(inputs, outputs, kernel, stride=step, padding=(kernel - 1) // 2, bias=False)
        self.norm = norm.build(outputs)

    def forward(self, X: Float[Tensor, "b c H W"]) -> Float[Tensor, "b k h w"]:
        return self.norm(self.W(X))


class ResidualBlock(nn.Module):
    """Y = ReLU(X + W₂ ∗ U), U = ReLU(W₁ ∗ X); X passes through a 1×1 convolution where Y has a different shape."""

    def __init__(self, inputs: int, outputs: int, step: int, norm: BatchNorm | GroupNorm) -> None:
        super().__init__()
        self.W1 = NormedConv(inputs, outputs, norm, kernel=3, step=step)
        self.W2 = NormedConv(outputs, outputs, norm, kernel=3)
        same = inputs == outputs and step == 1
        self.WX = None if same else NormedConv(inputs, outputs, norm, kernel=1, step=step)
        self.U, self.Y = Tap(), Tap()

    def forward(self, X: Float[Tensor, "b c H W"]) -> Float[Tensor, "b k h w"]:
        U = self.U(relu(self.W1(X)))
        return self.Y(relu((X if self.WX is None else self.WX(X)) + self.W2(U)))


@register
class ConvNet2d(nn.Module):
    """A residual network that maps images (b, channels, H, W) of any size to logits (b, classes)."""

    def __init__(self, config: ConvNet2dConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        kernel, step = (3, 1) if config.stem == "small" else (7, 2)
        self.stem = NormedConv(config.channels, config.widths[0], config.norm, kernel=kernel, step=step)
        self.blocks = nn.ModuleList(ResidualBlock(*plan, config.norm) for plan in config.blocks)
        self.W = Linear(config.widths[-1], config.classes)
        self.X, self.H, self.logits = Tap(), Tap(), Tap()
        initialise(self, seed, he_uniform)

    def features(self, X: Float[Tensor, "b c H W"]) -> Float[Tensor, "b k h w"]:
        """Feature maps (b, widths[-1], ⌈H/stride⌉, ⌈W/stride⌉)."""
        require_images(X, self.config.channels)
        X = relu(self.stem(X))
        X = self.X(max_pool2d(X, 3, stride=2, padding=1) if self.config.stem == "large" else X)
        for block in self.blocks:
            X = block(X)
        return X

    def forward(self, X: Float[Tensor, "b c H W"]) -> Float[Tensor, "b classes"]:
        H = self.H(self.features(X).mean((2, 3)))
        return require_finite(self.logits(self.W(H)), self)

    # ---- capabilities ----

    inputs: tuple[InputKind, ...] = ("image",)
    verbs: tuple[Verb, ...] = ("classify",)
    head_names = ("W",)
    image_size: tuple[int, int] | None = None  # any size

    @property
    def classes(self) -> int:
        return self.config.classes

    @property
    def channels(self) -> int:
        return self.config.channels

    def class_logits(self, X: Tensor, real: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        return self(X)

    def with_classes(self, classes: int, *, image_size: tuple[int, int] | None = None, seed: int = 0) -> ConvNet2d:
        return ConvNet2d(replace(self.config, classes=classes), seed=seed)

    def sizes(self) -> dict[str, str]:
        c = self.config
        stages = " + ".join(f"{depth} × {width}" for depth, width in zip(c.depths, c.widths, strict=True))
        return {"blocks": stages, "image": f"any size, {c.channels} channels", "classes": str(c.classes)}
