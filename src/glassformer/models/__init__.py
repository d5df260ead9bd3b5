"""One file per architecture, its frozen config on top. Sizes are functions of its module: `models.vit.base_16()`."""

from __future__ import annotations

from glassformer.models import decoder, encoder, seq2seq, vit
from glassformer.models.decoder import Decoder, DecoderConfig
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.models.seq2seq import Seq2Seq, Seq2SeqConfig
from glassformer.models.vit import ViT, ViTConfig

__all__ = [
    "Decoder",
    "DecoderConfig",
    "Encoder",
    "EncoderConfig",
    "Seq2Seq",
    "Seq2SeqConfig",
    "ViT",
    "ViTConfig",
    "decoder",
    "encoder",
    "seq2seq",
    "vit",
]
