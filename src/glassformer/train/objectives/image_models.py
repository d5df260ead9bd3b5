"""Image classifiers for a given image shape: ViT, hybrid, CNN, MLP and RNN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import nn

from glassformer.core.positions import sincos_2d
from glassformer.errors import ConfigError
from glassformer.models import (
    MLP,
    ConvNet2d,
    ConvNet2dConfig,
    Frames,
    Hybrid,
    HybridConfig,
    ImageInput,
    MLPConfig,
    Recurrent,
    RecurrentConfig,
    StemConfig,
    ViT,
    ViTConfig,
)
from glassformer.models.convolutional import BatchNorm
from glassformer.models.hybrid import compact
from glassformer.models.vit import plain
from glassformer.nn.linear import glorot, initialise

P = TypeVar("P", ViT, Hybrid)
Shape = tuple[int, int, int]  # channels, rows, columns
DEEPEST = 3  # maximum number of layers of an MLP; more layers reduce accuracy
POSITIONS = 0.5  # initial scale of the positions, similar to that of the tokens they are added to


@dataclass(frozen=True, kw_only=True)
class Size:
    """Model size: width (of the tokens or the widest layer), layers and attention heads."""

    width: int = 64
    depth: int = 6
    heads: int = 4


SMALL = Size()


def vit_config(shape: Shape, classes: int, size: Size, *, patch: int) -> ViTConfig:
    """Return a ViT config for small datasets: mean pooling instead of CLS, and a feed-forward net twice as wide."""
    channels, rows, columns = shape
    config = plain(patch, patch, size.width, size.depth, size.heads, classes=classes, channels=channels)
    block = replace(config.block, ffn=replace(config.block.ffn, hidden=2 * size.width))
    return replace(config, image=(rows, columns), prefix=0, pool="mean", block=block)


def hybrid_config(shape: Shape, classes: int, size: Size) -> HybridConfig:
    """Return a hybrid config: five 3×3 convolutions, two of them residual, then layers.

    They halve the image twice, or once if that would leave fewer than 4 × 4 tokens.
    """
    channels, rows, columns = shape
    widths = (max(1, size.width // 2), *(size.width,) * 4)
    tiny = min(rows, columns) < 16
    stem = StemConfig(widths=widths, halves=(not tiny, False, False, True, False), norm=BatchNorm(), residual=True)
    config = compact(rows, widths, size.depth, size.heads, classes=classes, channels=channels)
    return replace(config, image=(rows, columns), stem=stem)


@torch.no_grad()
def initialise_small(model: P, seed: int) -> P:
    """Apply Glorot initialisation, and initialise learned positions as 2-D sinusoids.

    The usual standard deviation of 0.02 leaves a model of this width nearly without attention for hundreds of steps.
    Positions: Beyer, Zhai, Kolesnikov, "Better plain ViT baselines for ImageNet-1k", 2022.
    """
    initialise(model.encoder, seed, glorot)
    if "embed" in dict(model.named_children()):  # patches; the convolutions of a hybrid keep their own initialisation
        initialise(model.get_submodule("embed"), seed, glorot)
    if model.config.width % 4 == 0:  # otherwise 2-D sinusoids do not fit
        table = POSITIONS * sincos_2d(*model.config.grid, model.config.width)
        model.positions[len(model.positions) - len(table) :].copy_(table)
    return model


def build_image_model(
    arch: str, shape: Shape, classes: int, size: Size = SMALL, *, patch: int = 4, seed: int = 0
) -> nn.Module:
    """Build a vit, hybrid, cnn, mlp or rnn (over rows of pixels) for images of this shape."""
    makers: dict[str, Callable[[], nn.Module]] = {
        "vit": lambda: initialise_small(ViT(vit_config(shape, classes, size, patch=patch), seed=seed), seed),
        "hybrid": lambda: initialise_small(Hybrid(hybrid_config(shape, classes, size), seed=seed), seed),
        "cnn": lambda: ConvNet2d(cnn_config(shape, classes, size.width), seed=seed),
        "mlp": lambda: MLP(mlp_config(shape, classes, size), seed=seed),
        "rnn": lambda: Recurrent(rnn_config(shape, classes, size.width), seed=seed),
    }
    if arch not in makers:
        raise ConfigError(f"the architecture {arch!r} is unknown", f"choose {', '.join(makers)}")
    return makers[arch]()


def cnn_config(shape: Shape, classes: int, width: int) -> ConvNet2dConfig:
    """Return a CNN config: three stages of one residual block, each twice as wide as the previous one."""
    widths = (max(1, width // 4), max(1, width // 2), width)
    return ConvNet2dConfig(channels=shape[0], classes=classes, widths=widths, depths=(1, 1, 1), stem="small")


def mlp_config(shape: Shape, classes: int, size: Size) -> MLPConfig:
    reads = ImageInput(channels=shape[0], height=shape[1], width=shape[2])
    return MLPConfig(reads=reads, widths=(size.width,) * min(size.depth, DEEPEST), classes=classes)


def rnn_config(shape: Shape, classes: int, width: int) -> RecurrentConfig:
    """Return the config of a two-layer bidirectional LSTM over the rows of pixels."""
    reads = Frames(features=shape[0] * shape[2])
    return RecurrentConfig(reads=reads, classes=classes, pool="mean", width=width, layers=2, bidirectional=True)
