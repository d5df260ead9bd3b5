"""tiny:decoder and the like: models of every kind with random weights, to see what is where."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from glassformer import models
from glassformer.errors import InputError
from glassformer.models import (
    CLIP,
    CLIPConfig,
    Decoder,
    Encoder,
    Hybrid,
    RecurrentSeq2Seq,
    Seq2Seq,
    Speech,
    Tokens,
    ViT,
    Whisper,
    WhisperConfig,
)

TINY = ("decoder", "encoder", "seq2seq", "vit", "hybrid", "clip", "speech", "whisper", "recurrent")


def tiny_model(name: str, *, seed: int = 0) -> tuple[nn.Module, str]:
    """The model that tiny:decoder and the like name, and what must be said of it."""
    makers: dict[str, Callable[[], nn.Module]] = {
        "decoder": lambda: Decoder(models.decoder.tiny(), seed=seed),
        "encoder": lambda: Encoder(models.encoder.tiny(), seed=seed),
        "seq2seq": lambda: Seq2Seq(models.seq2seq.tiny(), seed=seed),
        "vit": lambda: ViT(models.vit.plain(64, 8, 32, 3, 4, classes=5), seed=seed),
        "hybrid": lambda: Hybrid(models.hybrid.compact(64, (16, 32, 32), 3, 4, classes=5), seed=seed),
        "clip": lambda: CLIP(_tiny_clip(), seed=seed),
        "speech": lambda: Speech(models.speech.tiny(), seed=seed),
        "whisper": lambda: Whisper(_tiny_whisper(), seed=seed),
        "recurrent": lambda: RecurrentSeq2Seq(models.recurrent_seq2seq.tiny(Tokens(vocabulary=50), 50), seed=seed),
    }
    kind = name.removeprefix("tiny:")
    if kind not in makers:
        raise InputError(f"there is no {name}", f"choose tiny: and one of {', '.join(TINY)}")
    model = makers[kind]().eval()
    return model, f"Its weights are random (seed {seed}): it has learned nothing, and shows only what is where."


def _tiny_clip() -> CLIPConfig:
    return models.clip.plain(
        models.vit.plain(64, 8, 32, 3, 4, classes=0), models.clip.words(50, 32, 2, 4, 40), 16, 49
    )


def _tiny_whisper() -> WhisperConfig:
    return models.whisper.plain(20, 32, 2, 4, vocabulary=50, places=50, length=40, start=2, end=1)
