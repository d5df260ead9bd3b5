"""Streaming speech recognisers: a chunked Transformer, a GRU and a causal convolutional network."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from glassformer.models import ConvNet1dConfig, RecurrentConfig, Speech, SpeechConfig
from glassformer.models.sequence_io import Frames
from glassformer.models.speech import plain
from glassformer.nn.frames import FrameConfig
from glassformer.nn.linear import Convolution
from glassformer.nn.streaming import Chunks
from glassformer.pipelines.speech.charset import RecognizerConfig


def transformer(
    recognizer: RecognizerConfig, *, width: int = 144, depth: int = 6, count: int = 4, chunk: int = 3, drop: float = 0.1
) -> SpeechConfig:
    """Return a config with 120 ms chunks, 2 s of left context and 110 ms of lookahead: latency to logits ≤ 230 ms."""
    config = plain(
        width,
        depth,
        count,
        vocabulary=len(recognizer.charset),
        chunks=Chunks(chunk=chunk, left=48),
        mel=recognizer.mel,
    )
    # dropout on the residual only: inside the blocks it would take a quarter of the time
    block = replace(config.block, dropout=drop)
    embed = FrameConfig(bands=recognizer.mel.bands, width=width, kernels=(5, 5, 5), strides=(2, 2, 1), centred=True)
    return replace(config, embed=embed, block=block)


def gru(recognizer: RecognizerConfig, *, width: int = 324, layers: int = 3) -> RecurrentConfig:
    return RecurrentConfig(
        reads=Frames(features=recognizer.mel.bands * recognizer.stack),
        classes=len(recognizer.charset) + 1,
        pool="none",
        width=width,
        layers=layers,
        cell="gru",
        dropout=0.1,
    )


def convolution(
    recognizer: RecognizerConfig, *, width: int = 200, blocks: int = 7, drop: float = 0.1
) -> ConvNet1dConfig:
    """Return a config with repeated dilations 1, 2, 4, 8, for a receptive field of the last 2.5 s."""
    return ConvNet1dConfig(
        reads=Frames(features=recognizer.mel.bands * recognizer.stack),
        classes=len(recognizer.charset) + 1,
        pool="none",
        width=width,
        blocks=blocks,
        cycle=4,
        dropout=drop,
    )


@torch.no_grad()
def normalise_stem(model: Speech, frames: Float[Tensor, "b t bands"]) -> Speech:
    """w ← w/σ, b ← −μ/σ: every channel of the convolutional stem has mean 0 and standard deviation 1 on these frames.

    Data-dependent initialisation: Salimans, Kingma, "Weight Normalization", 2016. Without it the stem's output is ten
    times smaller than the output of the blocks, and the loss does not fall for a thousand steps.
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
