"""Marian (Junczys-Dowmunt 2018; OPUS-MT): the Transformer of 2017: post-norm, sines in the first half of a position."""

from __future__ import annotations

import math

from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.layouts import Reshaped
from glassformer.checkpoints.rules import Rule, linear, norm, same
from glassformer.models.seq2seq import Seq2Seq, Seq2SeqConfig
from glassformer.nn import BlockConfig, FeedForwardConfig, NormConfig, Sinusoidal, heads
from glassformer.nn.text import TextConfig

SHARED, SOURCE, TARGET = (f"model.{part}.weight" for part in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"))
HEAD = "lm_head.weight"


def config(f: Fields) -> Seq2SeqConfig:
    vocabulary, one = f.size("vocab_size"), f.flag("share_encoder_decoder_embeddings", True)
    shared = one and f.same(SOURCE, TARGET)  # two different tables in the file are not shared
    pad = f.token("pad_token_id", vocabulary - 1)
    return Seq2SeqConfig(
        source=side(f, "encoder", vocabulary),
        target=side(f, "decoder", vocabulary if one else f.size("decoder_vocab_size", vocabulary)),
        start=f.token("decoder_start_token_id", pad),
        end=f.token("eos_token_id", 0),
        pad=pad,
        shared=shared,
        tied=f.tied(HEAD, SHARED if shared else TARGET, default=True),
        head_bias=True,
        length=f.count("max_position_embeddings", 512),
    )


def side(f: Fields, name: str, vocabulary: int) -> TextConfig:
    width, dropout = f.size("d_model"), f.number("dropout", 0.1)
    attention = heads(width, f.size(f"{name}_attention_heads"), dropout=f.number("attention_dropout", 0.0))
    block = BlockConfig(
        attention=attention,
        cross=attention if name == "decoder" else None,
        ffn=FeedForwardConfig(
            width=width,
            hidden=f.size(f"{name}_ffn_dim"),
            activation=f.activation("activation_function", "gelu"),
            dropout=f.number("activation_dropout", 0.0),
        ),
        norm=NormConfig(eps=1e-5),
        place="post",
        dropout=dropout,
    )
    return TextConfig(
        vocabulary=vocabulary,
        depth=f.depth(f"{name}_layers"),
        block=block,
        positions=Sinusoidal(layout="halves"),
        scale=math.sqrt(width) if f.flag("scale_embedding", False) else 1.0,
    )


def attention_rules(ours: str, theirs: str) -> tuple[Rule, ...]:
    names = {"Q": "q_proj", "K": "k_proj", "V": "v_proj", "O": "out_proj"}
    return tuple(rule for x, name in names.items() for rule in linear(f"{ours}.W{x}", f"{theirs}.{name}"))


def side_rules(name: str) -> tuple[Rule, ...]:
    ours, theirs = f"{name}.{{i}}", f"model.{name}.layers.{{i}}"
    return (
        *attention_rules(f"{ours}.attention", f"{theirs}.self_attn"),
        *norm(f"{ours}.attention_residual.norm", f"{theirs}.self_attn_layer_norm"),
        *linear(f"{ours}.ffn.W1", f"{theirs}.fc1"),
        *linear(f"{ours}.ffn.W2", f"{theirs}.fc2"),
        *norm(f"{ours}.ffn_residual.norm", f"{theirs}.final_layer_norm"),
    )


def side_quantities(name: str) -> tuple[Quantity, ...]:
    ours, theirs = f"{name}.{{i}}", f"model.{name}.layers.{{i}}"
    return (
        Quantity(f"{name}.embed.E", f"model.{name}.embed_positions"),
        Quantity(f"{ours}.attention.A", f"{theirs}.self_attn", 1),
        Quantity(f"{ours}.attention.O", f"{theirs}.self_attn.out_proj"),
        Quantity(f"{ours}.ffn.P", f"{theirs}.fc1"),
        Quantity(f"{ours}.ffn.O", f"{theirs}.fc2"),
        Quantity(f"{ours}.O", theirs),
    )


CROSS = "model.decoder.layers.{i}.encoder_attn"

MARIAN = Family(
    name="marian",
    types=("marian",),
    architectures=("MarianMTModel",),
    model=Seq2Seq,
    config=config,
    rules=(
        same("encoder.embed.table.weight", f"{SOURCE}|{SHARED}"),
        same("decoder.embed.table.weight", TARGET),
        *side_rules("encoder"),
        *side_rules("decoder"),
        *attention_rules("decoder.{i}.cross", CROSS),
        *norm("decoder.{i}.cross_residual.norm", f"{CROSS}_layer_norm"),
        same("word_head.W.weight", HEAD),
        same("word_head.bias", "final_logits_bias", Reshaped(lambda c: (1, c.target.vocabulary))),
    ),
    prefix="model.",
    skip=("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"),  # computed by a formula
    copies=((SHARED, SOURCE, TARGET, HEAD),),
    unused=(SHARED,),  # if each side has its own table
    quantities=(
        *side_quantities("encoder"),
        *side_quantities("decoder"),
        Quantity("decoder.{i}.cross.A", CROSS, 1),
        Quantity("decoder.{i}.cross.O", f"{CROSS}.out_proj"),
        Quantity("word_head", "", "logits"),
    ),
)
