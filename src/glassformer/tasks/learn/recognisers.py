"""Recognisers that stream, of one size: a Transformer that sees chunk by chunk, a GRU and a causal convolution."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from glassformer.models import ConvNet1dConfig, RecurrentConfig, Speech, SpeechConfig
from glassformer.models.ends import Frames
from glassformer.models.speech import plain
from glassformer.nn.frames import FrameConfig
from glassformer.nn.linear import Convolution
from glassformer.nn.streaming import Chunks
from glassformer.tasks.symbols import Hearing


def listener(
    hearing: Hearing, *, width: int = 144, depth: int = 6, count: int = 4, chunk: int = 3, drop: float = 0.1
) -> SpeechConfig:
    """Chunks of 120 ms that see 2 s back; convolutions that hear 110 ms ahead: 230 ms from sound to logits at most."""
    config = plain(
        width,
        depth,
        count,
        vocabulary=len(hearing.symbols),
        chunks=Chunks(chunk=chunk, left=48),
        mel=hearing.mel,
    )
    # dropped where blocks add up alone: inside them it would cost a quarter of the time
    block = replace(config.block, dropout=drop)
    embed = FrameConfig(bands=hearing.mel.bands, width=width, kernels=(5, 5, 5), strides=(2, 2, 1), centred=True)
    return replace(config, embed=embed, block=block)


def gru(hearing: Hearing, *, width: int = 324, layers: int = 3, drop: float = 0.1) -> RecurrentConfig:
    return RecurrentConfig(
        reads=Frames(features=hearing.mel.bands * hearing.stack),
        classes=len(hearing.symbols) + 1,
        pool="none",
        width=width,
        layers=layers,
        cell="gru",
        dropout=drop,
    )


def convolution(hearing: Hearing, *, width: int = 200, blocks: int = 7, drop: float = 0.1) -> ConvNet1dConfig:
    """Dilations 1, 2, 4 and again: each row hears the last 2.5 s."""
    return ConvNet1dConfig(
        reads=Frames(features=hearing.mel.bands * hearing.stack),
        classes=len(hearing.symbols) + 1,
        pool="none",
        width=width,
        blocks=blocks,
        cycle=4,
        dropout=drop,
    )


@torch.no_grad()
def steadied(model: Speech, frames: Float[Tensor, "b t bands"]) -> Speech:
    """w ← w/σ, b ← −μ/σ: each channel of each first convolution with mean 0 and deviation 1 on these frames.

    Salimans, Kingma, "Weight Normalization", 2016. Frames vary little and convolutions shrink them further: without
    this the blocks add up ten times what came in, and a network hears nothing for its first thousand steps.
    """
    Y = frames.mT
    for i, convolution in enumerate(model.embed.convolutions):
        assert isinstance(convolution, Convolution)
        Z = convolution(pad(Y, (model.config.embed.before(i), 0)))
        assert convolution.bias is not None
        mean, deviation = Z.mean((0, 2)), Z.std((0, 2)).clamp_min(1e-5)
        convolution.weight /= deviation[:, None, None]
        convolution.bias.copy_((convolution.bias - mean) / deviation)
        Y, _ = model.embed.convolve(i, pad(Y, (model.config.embed.before(i), 0)), end=True)
    return model
