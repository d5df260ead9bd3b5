"""Model architectures: one file each, with its frozen config. Sizes are module functions, as `models.vit.base_16()`."""

from __future__ import annotations

from glassformer.models import (
    clip,
    convolutional,
    convolutional_sequence,
    decoder,
    encoder,
    hybrid,
    mlp,
    protocols,
    recurrent,
    recurrent_seq2seq,
    seq2seq,
    speech,
    vit,
    whisper,
)
from glassformer.models.clip import CLIP, CLIPConfig
from glassformer.models.convolutional import ConvNet2d, ConvNet2dConfig
from glassformer.models.convolutional_sequence import ConvNet1d, ConvNet1dConfig
from glassformer.models.decoder import Decoder, DecoderConfig
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.models.hybrid import Hybrid, HybridConfig, StemConfig
from glassformer.models.mlp import MLP, FrameWindow, ImageInput, MLPConfig, TokenWindow
from glassformer.models.recurrent import Recurrent, RecurrentConfig
from glassformer.models.recurrent_seq2seq import RecurrentSeq2Seq, RecurrentSeq2SeqConfig
from glassformer.models.registry import register
from glassformer.models.seq2seq import Seq2Seq, Seq2SeqConfig
from glassformer.models.sequence_io import Frames, Tokens
from glassformer.models.speech import Latency, Speech, SpeechConfig, SpeechStream
from glassformer.models.vit import ViT, ViTConfig
from glassformer.models.whisper import Whisper, WhisperConfig

__all__ = [
    "CLIP",
    "MLP",
    "CLIPConfig",
    "ConvNet1d",
    "ConvNet1dConfig",
    "ConvNet2d",
    "ConvNet2dConfig",
    "Decoder",
    "DecoderConfig",
    "Encoder",
    "EncoderConfig",
    "FrameWindow",
    "Frames",
    "Hybrid",
    "HybridConfig",
    "ImageInput",
    "Latency",
    "MLPConfig",
    "Recurrent",
    "RecurrentConfig",
    "RecurrentSeq2Seq",
    "RecurrentSeq2SeqConfig",
    "Seq2Seq",
    "Seq2SeqConfig",
    "Speech",
    "SpeechConfig",
    "SpeechStream",
    "StemConfig",
    "TokenWindow",
    "Tokens",
    "ViT",
    "ViTConfig",
    "Whisper",
    "WhisperConfig",
    "clip",
    "convolutional",
    "convolutional_sequence",
    "decoder",
    "encoder",
    "hybrid",
    "mlp",
    "protocols",
    "recurrent",
    "recurrent_seq2seq",
    "register",
    "seq2seq",
    "speech",
    "vit",
    "whisper",
]
