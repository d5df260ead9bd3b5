"""GPT-2 (Radford 2019): pre-norm, learned positions, matrices stored as [in, out], q|k|v in one matrix."""

from __future__ import annotations

from typing import Any

from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.fields import PUBLISHED_ACTIVATIONS, Fields
from glassformer.checkpoints.layouts import Joined, Transposed
from glassformer.checkpoints.rules import Rule, linear, norm, same
from glassformer.models.decoder import Decoder, DecoderConfig
from glassformer.nn import BlockConfig, FeedForwardConfig, Learned, NormConfig, heads
from glassformer.nn.text import TextConfig

OURS, THEIRS = "decoder.{i}", "transformer.h.{i}"
TABLE, HEAD = "transformer.wte.weight", "lm_head.weight"


def config(f: Fields) -> DecoderConfig:
    f.only("scale_attn_by_inverse_layer_idx", False)
    f.only("add_cross_attention", False)
    width, length = f.size("n_embd"), f.size("n_positions", 1024)
    eps = NormConfig(eps=f.number("layer_norm_epsilon", 1e-5))
    scale = {} if f.flag("scale_attn_weights", True) else {"beta": 1.0}
    block = BlockConfig(
        attention=heads(width, f.size("n_head"), dropout=f.number("attn_pdrop", 0.1), **scale),
        ffn=FeedForwardConfig(
            width=width, hidden=f.size("n_inner", 4 * width), activation=f.activation("activation_function", "gelu_new")
        ),
        norm=eps,
        dropout=f.number("resid_pdrop", 0.1),
    )
    text = TextConfig(
        vocabulary=f.size("vocab_size"),
        depth=f.depth("n_layer"),
        block=block,
        positions=Learned(length=length),
        last_norm=eps,
    )
    return DecoderConfig(text=text, length=length, tied=f.tied(HEAD, TABLE, default=True))


def describe(c: DecoderConfig) -> dict[str, Any]:
    """Return config.json for a decoder of ours."""
    attention, ffn = c.text.block.attention, c.text.block.ffn
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": c.text.vocabulary,
        "n_positions": c.length,
        "n_embd": attention.width,
        "n_layer": c.text.depth,
        "n_head": attention.heads,
        "n_inner": ffn.hidden,
        "activation_function": PUBLISHED_ACTIVATIONS.get(ffn.activation, ffn.activation),
        "layer_norm_epsilon": c.text.block.norm.eps,
        "attn_pdrop": attention.dropout,
        "resid_pdrop": c.text.block.dropout,
        "embd_pdrop": c.text.block.dropout,
        "tie_word_embeddings": c.tied,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def conv1d(ours: str, theirs: str) -> tuple[Rule, ...]:
    return linear(ours, theirs, Transposed())


def qkv(part: str, *, transposed: bool) -> Rule:
    ours = tuple(f"{OURS}.attention.W{letter}.{part}" for letter in "QKV")
    return Rule(ours, (f"{THEIRS}.attn.c_attn.{part}",), Joined(transposed))


GPT2 = Family(
    name="gpt2",
    types=("gpt2",),
    architectures=("GPT2LMHeadModel", "GPT2Model"),
    model=Decoder,
    config=config,
    describe=describe,
    rules=(
        same("decoder.embed.table.weight", TABLE),
        same("decoder.embed.positions.table.weight", "transformer.wpe.weight"),
        *norm(f"{OURS}.attention_residual.norm", f"{THEIRS}.ln_1"),
        qkv("weight", transposed=True),
        qkv("bias", transposed=False),
        *conv1d(f"{OURS}.attention.WO", f"{THEIRS}.attn.c_proj"),
        *norm(f"{OURS}.ffn_residual.norm", f"{THEIRS}.ln_2"),
        *conv1d(f"{OURS}.ffn.W1", f"{THEIRS}.mlp.c_fc"),
        *conv1d(f"{OURS}.ffn.W2", f"{THEIRS}.mlp.c_proj"),
        *norm("decoder.norm", "transformer.ln_f"),
        same("word_head.W.weight", HEAD),
    ),
    prefix="transformer.",
    skip=(f"{THEIRS}.attn.bias", f"{THEIRS}.attn.masked_bias"),
    copies=((TABLE, HEAD),),
    quantities=(
        Quantity("decoder.embed.X", "transformer.drop"),
        Quantity(f"{OURS}.attention.A", f"{THEIRS}.attn", 1),
        Quantity(f"{OURS}.attention.O", f"{THEIRS}.attn.c_proj"),
        Quantity(f"{OURS}.ffn.P", f"{THEIRS}.mlp.c_fc"),
        Quantity(f"{OURS}.ffn.O", f"{THEIRS}.mlp.c_proj"),
        Quantity(f"{OURS}.O", THEIRS),
        Quantity("decoder.norm", "transformer.ln_f"),
        Quantity("word_head", "lm_head"),
    ),
)
