"""T5 (Raffel 2019) and v1.1: RMSNorm, no 1/√d, one relative position bias shared by all blocks of a side, no biases."""

from __future__ import annotations

from dataclasses import replace

from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.rules import Rule, linear, norm, same
from glassformer.errors import ConfigError
from glassformer.models.seq2seq import Seq2Seq, Seq2SeqConfig
from glassformer.nn import BlockConfig, FeedForwardConfig, NormConfig, Relative, heads
from glassformer.nn.text import TextConfig

TABLE, HEAD = "shared.weight", "lm_head.weight"


def config(f: Fields) -> Seq2SeqConfig:
    width, count, dropout = f.size("d_model"), f.size("num_heads"), f.number("dropout_rate", 0.1)
    eps = NormConfig(kind="rms", eps=f.number("layer_norm_epsilon", 1e-6))
    attention = heads(width, count, key_width=f.size("d_kv", 64), beta=1.0, biases="", dropout=dropout)
    ffn = feed_forward_of(f, width, dropout)

    def side(depth: int, *, encodes: bool) -> TextConfig:
        cross = None if encodes else attention
        relative = Relative(
            heads=count,
            buckets=f.size("relative_attention_num_buckets", 32),
            limit=f.count("relative_attention_max_distance", 128),
            bidirectional=encodes,
        )
        block = BlockConfig(attention=attention, cross=cross, ffn=ffn, norm=eps, dropout=dropout)
        vocabulary = f.size("vocab_size")
        return TextConfig(vocabulary=vocabulary, depth=depth, block=block, relative=relative, last_norm=eps)

    # The original T5 scales the input of its tied head; v1.1 does not, which only tie_word_embeddings indicates.
    scaled = f.flag("scale_decoder_outputs", f.flag("tie_word_embeddings", True))
    pad = f.token("pad_token_id", 0)
    return Seq2SeqConfig(
        source=side(f.depth("num_layers"), encodes=True),
        target=side(f.depth("num_decoder_layers", f.depth("num_layers")), encodes=False),
        start=f.token("decoder_start_token_id", pad),
        end=f.token("eos_token_id", 1),
        pad=pad,
        tied=f.same(HEAD, TABLE),  # v1.1 has a separate head
        head_scale=width**-0.5 if scaled else 1.0,
        length=f.count("n_positions", 512),
    )


def feed_forward_of(f: Fields, width: int, dropout: float) -> FeedForwardConfig:
    """Parse feed_forward_proj: `relu`, or `gated-gelu`, which uses the tanh approximation of GELU."""
    words = str(f.raw.get("feed_forward_proj", "relu")).split("-")
    if len(words) > 2 or (len(words) == 2 and words[0] != "gated"):
        raise ConfigError(
            f"feed_forward_proj is {'-'.join(words)[:40]!r} in config.json", "supported: relu, gated-gelu"
        )
    name = "gelu_new" if words == ["gated", "gelu"] else words[-1]
    activation = Fields({"feed_forward_proj": name}, {}, f.read).activation("feed_forward_proj", "relu")
    ffn = FeedForwardConfig(width=width, hidden=f.size("d_ff"), activation=activation, bias=False, dropout=dropout)
    return replace(ffn, gated=len(words) == 2)


def attention_rules(ours: str, theirs: str) -> tuple[Rule, ...]:
    return tuple(rule for x in "QKVO" for rule in linear(f"{ours}.W{x}", f"{theirs}.{x.lower()}"))


def side_rules(side: str, ffn: int) -> tuple[Rule, ...]:
    """Return one side's rules. Sublayers are numbered: 0 self-attention, 1 cross-attention (decoder), `ffn` last."""
    ours, theirs = f"{side}.{{i}}", f"{side}.block.{{i}}.layer"
    dense = f"{theirs}.{ffn}.DenseReluDense"
    return (
        same(f"{side}.relative.table.weight", f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
        *norm(f"{ours}.attention_residual.norm", f"{theirs}.0.layer_norm"),
        *attention_rules(f"{ours}.attention", f"{theirs}.0.SelfAttention"),
        *norm(f"{ours}.ffn_residual.norm", f"{theirs}.{ffn}.layer_norm"),
        *linear(f"{ours}.ffn.W1", f"{dense}.wi_0|{dense}.wi"),
        *linear(f"{ours}.ffn.W3", f"{dense}.wi_1"),
        *linear(f"{ours}.ffn.W2", f"{dense}.wo"),
        *norm(f"{side}.norm", f"{side}.final_layer_norm"),
    )


def side_quantities(side: str, ffn: int) -> tuple[Quantity, ...]:
    ours, theirs = f"{side}.{{i}}", f"{side}.block.{{i}}.layer"
    return (
        Quantity(f"{side}.embed.X", f"{side}.dropout"),
        Quantity(f"{ours}.attention.A", f"{theirs}.0.SelfAttention", 2),
        Quantity(f"{ours}.attention.O", f"{theirs}.0.SelfAttention.o"),
        Quantity(f"{ours}.ffn.O", f"{theirs}.{ffn}.DenseReluDense.wo"),
        Quantity(f"{ours}.O", f"{side}.block.{{i}}"),
        Quantity(f"{side}.norm", f"{side}.final_layer_norm"),
    )


CROSS = "decoder.block.{i}.layer.1"

T5 = Family(
    name="t5",
    types=("t5",),
    architectures=("T5ForConditionalGeneration", "T5WithLMHeadModel"),
    model=Seq2Seq,
    config=config,
    rules=(
        same("encoder.embed.table.weight", TABLE),
        *side_rules("encoder", 1),
        *side_rules("decoder", 2),
        *norm("decoder.{i}.cross_residual.norm", f"{CROSS}.layer_norm"),
        *attention_rules("decoder.{i}.cross", f"{CROSS}.EncDecAttention"),
        same("word_head.W.weight", HEAD),
    ),
    skip=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),  # in early files, unused
    copies=((TABLE, "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", HEAD),),
    quantities=(
        *side_quantities("encoder", 1),
        *side_quantities("decoder", 2),
        Quantity("decoder.{i}.cross.A", f"{CROSS}.EncDecAttention", 2),
        Quantity("decoder.{i}.cross.O", f"{CROSS}.EncDecAttention.o"),
        Quantity("word_head", "lm_head"),
    ),
)
