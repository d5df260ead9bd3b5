"""A model for images of a given shape: a Transformer, a hybrid, and the networks it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

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

Shape = tuple[int, int, int]  # channels, rows, columns
DEEPEST = 3  # layers of an MLP: more of them make it worse
POSITIONS = 0.5  # how large positions start: about as large as the tokens that they are added to


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large: the width of a token (or of the widest layer), how many layers, how many heads."""

    width: int = 64
    depth: int = 6
    heads: int = 4


SMALL = Size()


def vit_config(shape: Shape, classes: int, size: Size, *, patch: int) -> ViTConfig:
    """The mean of the patches instead of CLS, and a feed-forward net of twice the width: small data needs no more."""
    channels, rows, columns = shape
    config = plain(patch, patch, size.width, size.depth, size.heads, classes=classes, channels=channels)
    block = replace(config.block, ffn=replace(config.block.ffn, hidden=2 * size.width))
    return replace(config, image=(rows, columns), prefix=0, pool="mean", block=block)


def hybrid_config(shape: Shape, classes: int, size: Size, *, stem: tuple[int, ...]) -> HybridConfig:
    """`stem` are the convolutions' widths before the last; each of them halves the image, the last does not."""
    channels, rows, columns = shape
    widths = (*stem, size.width)
    config = compact(rows, widths, size.depth, size.heads, classes=classes, channels=channels)
    halves = (*(True for _ in stem), False)
    return replace(config, image=(rows, columns), stem=StemConfig(widths=widths, halves=halves, norm=BatchNorm()))


@torch.no_grad()
def start(model: ViT | Hybrid, seed: int) -> None:
    """Matrices by Glorot, positions as sines of row and column: neighbours are alike from the first step on.

    The deviation of 0.02 with which large models start leaves one of this width nearly without attention for hundreds
    of steps. Positions: Beyer, Zhai, Kolesnikov, "Better plain ViT baselines for ImageNet-1k", 2022; learned on.
    """
    initialise(model.encoder, seed, glorot)
    if isinstance(model, ViT):
        initialise(model.embed, seed, glorot)
    if model.config.width % 4 == 0:  # else no sines of two coordinates fit
        table = POSITIONS * sincos_2d(*model.config.grid, model.config.width)
        model.positions[len(model.positions) - len(table) :].copy_(table)


def build(kind: str, shape: Shape, classes: int, size: Size = SMALL, *, patch: int = 4, seed: int = 0) -> nn.Module:
    """vit, hybrid, cnn, mlp or rnn (over rows), for images of this shape."""
    makers: dict[str, Callable[[], nn.Module]] = {
        "vit": lambda: ViT(vit_config(shape, classes, size, patch=patch), seed=seed),
        "hybrid": lambda: Hybrid(hybrid_config(shape, classes, size, stem=(size.width // 2, size.width)), seed=seed),
        "cnn": lambda: ConvNet2d(cnn_config(shape, classes, size.width), seed=seed),
        "mlp": lambda: MLP(mlp_config(shape, classes, size), seed=seed),
        "rnn": lambda: Recurrent(rnn_config(shape, classes, size.width), seed=seed),
    }
    if kind not in makers:
        raise ConfigError(f"there is no model of the kind {kind!r} for images", f"choose {', '.join(makers)}")
    model = makers[kind]()
    if isinstance(model, ViT | Hybrid):
        start(model, seed)
    return model


def cnn_config(shape: Shape, classes: int, width: int) -> ConvNet2dConfig:
    """Three stages of one residual block, each twice as wide as the one before."""
    widths = (max(1, width // 4), max(1, width // 2), width)
    return ConvNet2dConfig(channels=shape[0], classes=classes, widths=widths, depths=(1, 1, 1), stem="small")


def mlp_config(shape: Shape, classes: int, size: Size) -> MLPConfig:
    reads = ImageInput(channels=shape[0], height=shape[1], width=shape[2])
    return MLPConfig(reads=reads, widths=(size.width,) * min(size.depth, DEEPEST), classes=classes)


def rnn_config(shape: Shape, classes: int, width: int) -> RecurrentConfig:
    """Two layers of LSTM over the rows, from the top and from the bottom."""
    reads = Frames(features=shape[0] * shape[2])
    return RecurrentConfig(reads=reads, classes=classes, pool="mean", width=width, layers=2, bidirectional=True)


def fit(parameters: int, config: Callable[[int], ConvNet2dConfig | MLPConfig | RecurrentConfig]) -> int:
    """The width (a multiple of 4) whose model has the number of parameters that is nearest to this one."""
    return min(range(4, 4096, 4), key=lambda width: abs(config(width).parameters - parameters))
