"""A small model of every architecture, and a call of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from glassformer.models import (
    Tokens,
    clip,
    convolutional,
    convolutional_sequence,
    decoder,
    encoder,
    hybrid,
    mlp,
    recurrent,
    recurrent_seq2seq,
    seq2seq,
    speech,
    vit,
    whisper,
)

TOKENS = torch.randint(4, 40, (2, 12), generator=torch.Generator().manual_seed(0))
IMAGES = torch.randn(2, 1, 28, 28, generator=torch.Generator().manual_seed(1))


def pixels(config: vit.ViTConfig | hybrid.HybridConfig) -> Tensor:
    return torch.randn(2, config.channels, *config.image, generator=torch.Generator().manual_seed(1))


def frames(count: int, bands: int) -> Tensor:
    return torch.randn(2, count, bands, generator=torch.Generator().manual_seed(2))


def make(kind: str) -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    """A small model with random weights, and a call of it."""
    match kind:
        case "decoder":
            return decoder.Decoder(decoder.plain(50, 64, 2, 4, 48)), lambda m: m(TOKENS)
        case "llama":
            config = decoder.modern(50, 64, 2, 4, 48, kv_heads=2, hidden=128)
            return decoder.Decoder(config), lambda m: m(TOKENS)
        case "encoder":
            return encoder.Encoder(encoder.plain(50, 64, 2, 4, 48, hidden=128)), lambda m: m(TOKENS)
        case "seq2seq":
            return seq2seq.Seq2Seq(seq2seq.vaswani(50, 64, 2, 4, 128)), lambda m: m(TOKENS, TOKENS[:, :7])
        case "t5":  # a relative bias on the scores
            return seq2seq.Seq2Seq(seq2seq.modern(50, 64, 2, 4, 128)), lambda m: m(TOKENS, TOKENS[:, :7])
        case "recurrent-seq2seq":
            c_q = recurrent_seq2seq.tiny(Tokens(vocabulary=50), 60)
            return recurrent_seq2seq.RecurrentSeq2Seq(c_q), lambda m: m(TOKENS, TOKENS[:, :7])
        case "convnet1d":
            c_1 = convolutional_sequence.tiny(Tokens(vocabulary=50), 5)
            return convolutional_sequence.ConvNet1d(c_1), lambda m: m(TOKENS)
        case "convnet2d":
            return convolutional.ConvNet2d(convolutional.tiny(channels=1)), lambda m: m(IMAGES)
        case "dinov2":  # LayerScale on every branch
            config_d = replace(vit.tiny(), block=replace(vit.tiny().block, gain=0.5))
            return vit.ViT(config_d), lambda m: m(pixels(config_d))
        case "vit":
            config_v = vit.tiny()
            return vit.ViT(config_v), lambda m: m(pixels(config_v))
        case "hybrid":
            config_h = hybrid.tiny()
            return hybrid.Hybrid(config_h), lambda m: m(pixels(config_h))
        case "whisper":
            c = whisper.tiny()
            return whisper.Whisper(c), lambda m: m(frames(c.frames, c.embed.bands), TOKENS[:, :5] % 20)
        case "speech":
            c_s = speech.tiny()
            return speech.Speech(c_s), lambda m: m(frames(64, c_s.embed.bands))
        case "clip":
            c_c = clip.tiny()
            return clip.CLIP(c_c), lambda m: m.images(pixels(c_c.vision))  # type: ignore[operator]
        case "clip-text":
            texts = (TOKENS[:, :8] % 20).index_fill(1, torch.tensor([7]), 29)  # 29 is the end token
            return clip.CLIP(clip.tiny()), lambda m: m.texts(texts)  # type: ignore[operator]
        case "recurrent":
            return recurrent.Recurrent(recurrent.tiny(Tokens(vocabulary=10), 5)), lambda m: m(TOKENS % 10)
        case "mlp":
            return mlp.MLP(mlp.mnist()), lambda m: m(IMAGES)
    raise ValueError(kind)


def tensor_of(output: object) -> Tensor:
    while isinstance(output, tuple):
        output = output[0]
    assert isinstance(output, Tensor)
    return output


KINDS = ("decoder", "llama", "encoder", "seq2seq", "t5", "vit", "dinov2", "hybrid", "whisper", "speech", "clip",
         "clip-text", "recurrent", "recurrent-seq2seq", "convnet1d", "convnet2d", "mlp")  # fmt: skip
WITHOUT_BLOCKS = ("recurrent", "recurrent-seq2seq", "convnet1d", "convnet2d", "mlp")
