"""Small models of every architecture with random weights, for inspection: tiny:decoder, tiny:vit, …"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from glassformer import models
from glassformer.errors import InputError

MAKERS: dict[str, Callable[[int], nn.Module]] = {
    "decoder": lambda seed: models.Decoder(models.decoder.tiny(), seed=seed),
    "encoder": lambda seed: models.Encoder(models.encoder.tiny(), seed=seed),
    "seq2seq": lambda seed: models.Seq2Seq(models.seq2seq.tiny(), seed=seed),
    "vit": lambda seed: models.ViT(models.vit.plain(64, 8, 32, 3, 4, classes=5), seed=seed),
    "hybrid": lambda seed: models.Hybrid(models.hybrid.compact(64, (16, 32, 32), 3, 4, classes=5), seed=seed),
    "clip": lambda seed: models.CLIP(
        models.clip.plain(models.vit.plain(64, 8, 32, 3, 4, classes=0), models.clip.words(50, 32, 2, 4, 40), 16, 49),
        seed=seed,
    ),
    "speech": lambda seed: models.Speech(models.speech.tiny(), seed=seed),
    "whisper": lambda seed: models.Whisper(
        models.whisper.plain(20, 32, 2, 4, vocabulary=50, places=50, length=40, start=2, end=1), seed=seed
    ),
    "convolution": lambda seed: models.ConvNet1d(
        models.convolutional_sequence.tiny(models.Frames(features=8), 4), seed=seed
    ),
    "recurrent": lambda seed: models.Recurrent(models.recurrent.tiny(models.Frames(features=8), 4), seed=seed),
    "recurrent-seq2seq": lambda seed: models.RecurrentSeq2Seq(
        models.recurrent_seq2seq.tiny(models.Tokens(vocabulary=50), 50), seed=seed
    ),
}


def tiny_model(kind: str, *, seed: int = 0) -> nn.Module:
    """Create a small untrained model of one architecture, in eval mode; `kind` is "vit" or "tiny:vit", for example."""
    name = kind.removeprefix("tiny:")
    if name not in MAKERS:
        raise InputError(f"there is no tiny:{name}", f"choose tiny: and one of {', '.join(MAKERS)}")
    return MAKERS[name](seed).eval()
