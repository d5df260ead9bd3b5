"""Whisper (Radford 2022): pre-norm, keys without bias, sinusoidal positions in halves for audio, learned ones for text.

Other transcription settings (languages, tasks, suppressed tokens) are in `origin.generation`, or in `origin.raw` for
older folders.
"""

from __future__ import annotations

from glassformer.checkpoints.families.marian import CROSS, attention_rules, side_quantities, side_rules
from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.rules import linear, norm, same
from glassformer.models.whisper import Whisper, WhisperConfig
from glassformer.nn import BlockConfig, FeedForwardConfig, Learned, NormConfig, heads
from glassformer.nn.frames import whisper
from glassformer.nn.text import TextConfig

TABLE, HEAD = "model.decoder.embed_tokens.weight", "proj_out.weight"
NORM = NormConfig(eps=1e-5)


def config(f: Fields) -> WhisperConfig:
    return WhisperConfig(
        embed=whisper(f.size("num_mel_bins", 80), f.size("d_model", 384)),
        block=block(f, "encoder"),
        depth=f.depth("encoder_layers", 4),
        places=f.size("max_source_positions", 1500),
        target=TextConfig(
            vocabulary=f.size("vocab_size", 51865),
            depth=f.depth("decoder_layers", 4),
            block=block(f, "decoder"),
            positions=Learned(length=f.size("max_target_positions", 448)),
            last_norm=NORM,
        ),
        start=f.token("decoder_start_token_id", 50257),
        end=f.token("eos_token_id", 50256),
        last_norm=NORM,
        tied=f.tied(HEAD, TABLE, default=True),
    )


def block(f: Fields, side: str) -> BlockConfig:
    width = f.size("d_model", 384)
    dropout = f.number("attention_dropout", 0.0)
    attention = heads(width, f.size(f"{side}_attention_heads", 6), biases="qvo", dropout=dropout)
    return BlockConfig(
        attention=attention,
        cross=attention if side == "decoder" else None,
        ffn=FeedForwardConfig(
            width=width,
            hidden=f.size(f"{side}_ffn_dim", 1536),
            activation=f.activation("activation_function", "gelu"),
            dropout=f.number("activation_dropout", 0.0),
        ),
        norm=NORM,
        dropout=f.number("dropout", 0.0),
    )


WHISPER = Family(
    name="whisper",
    types=("whisper",),
    architectures=("WhisperForConditionalGeneration", "WhisperModel"),
    model=Whisper,
    config=config,
    rules=(
        *linear("embed.convolutions.0", "model.encoder.conv1"),
        *linear("embed.convolutions.1", "model.encoder.conv2"),
        same("positions", "model.encoder.embed_positions.weight"),
        same("decoder.embed.table.weight", TABLE),
        same("decoder.embed.positions.table.weight", "model.decoder.embed_positions.weight"),
        *side_rules("encoder"),
        *side_rules("decoder"),
        *attention_rules("decoder.{i}.cross", CROSS),
        *norm("decoder.{i}.cross_residual.norm", f"{CROSS}_layer_norm"),
        *norm("encoder.norm", "model.encoder.layer_norm"),
        *norm("decoder.norm", "model.decoder.layer_norm"),
        same("word_head.W.weight", HEAD),
    ),
    prefix="model.",
    copies=((TABLE, HEAD),),
    quantities=(
        Quantity("embed.convolutions.0", "model.encoder.conv1"),
        Quantity("embed.convolutions.1", "model.encoder.conv2"),
        *side_quantities("encoder")[1:],  # without the position embeddings: theirs cover every row
        Quantity("encoder.norm", "model.encoder.layer_norm"),
        *side_quantities("decoder")[1:],
        Quantity("decoder.{i}.cross.A", CROSS, 1),
        Quantity("decoder.{i}.cross.O", f"{CROSS}.out_proj"),
        Quantity("decoder.norm", "model.decoder.layer_norm"),
        Quantity("word_head", "proj_out"),
    ),
)
