"""The Llama family (Touvron 2023; Mistral, Qwen 2, SmolLM): RMSNorm, rotary positions, grouped queries, SwiGLU."""

from __future__ import annotations

from typing import Any

from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.rules import linear, norm, same
from glassformer.core.rotary import LinearScaling, Llama3Scaling
from glassformer.errors import ConfigError
from glassformer.models.decoder import Decoder, DecoderConfig
from glassformer.nn import BlockConfig, FeedForwardConfig, NormConfig, Rotary, heads
from glassformer.nn.text import TextConfig

OURS, THEIRS = "decoder.{i}", "model.layers.{i}"
LENGTHS = {"llama": 2048, "mistral": 131072, "qwen2": 32768}  # Hugging Face's defaults if absent from config.json
TABLE, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def config(f: Fields) -> DecoderConfig:
    kind = str(f.raw.get("model_type"))
    width, count = f.size("hidden_size"), f.size("num_attention_heads")
    length = f.count("max_position_embeddings", LENGTHS.get(kind, 2048))
    each = f.size("head_dim", max(1, width // count))
    groups = 8 if kind == "mistral" and _absent(f, "num_key_value_heads") else count
    eps = NormConfig(kind="rms", eps=f.number("rms_norm_eps", 1e-6))
    found = "".join(letter for letter in "qkvo" if f.has(f"model.layers.0.self_attn.{letter}_proj.bias"))
    block = BlockConfig(
        attention=heads(
            width,
            count,
            kv_heads=f.size("num_key_value_heads", groups),
            key_width=each,
            biases="qkvo" if f.flag("attention_bias", False) else found,
            dropout=f.number("attention_dropout", 0.0),
        ),
        ffn=FeedForwardConfig(
            width=width,
            hidden=f.size("intermediate_size"),
            activation=f.activation("hidden_act", "silu"),
            gated=True,
            bias=f.flag("mlp_bias", False),
        ),
        norm=eps,
    )
    text = TextConfig(
        vocabulary=f.size("vocab_size"),
        depth=f.depth("num_hidden_layers"),
        block=block,
        relative=rotary(f, each, length),
        last_norm=eps,
        window=sliding_window(f, kind),
    )
    return DecoderConfig(text=text, length=length, tied=f.tied(HEAD, TABLE, default=False))


def describe(c: DecoderConfig) -> dict[str, Any]:
    """Return config.json for a decoder of ours."""
    attention, ffn = c.text.block.attention, c.text.block.ffn
    base = c.text.relative.base if isinstance(c.text.relative, Rotary) else 10000.0
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": c.text.vocabulary,
        "hidden_size": attention.width,
        "num_hidden_layers": c.text.depth,
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.kv_heads,
        "head_dim": attention.key_width,
        "intermediate_size": ffn.hidden,
        "hidden_act": ffn.activation,
        "rms_norm_eps": c.text.block.norm.eps,
        "attention_bias": attention.biases == "qkvo",
        "attention_dropout": attention.dropout,
        "mlp_bias": ffn.bias,
        "max_position_embeddings": c.length,
        "rope_parameters": {"rope_type": "default", "rope_theta": base},
        "tie_word_embeddings": c.tied,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }


def _absent(f: Fields, name: str) -> bool:
    """Return whether a field is missing; null has a different meaning."""
    return name not in f.raw


def sliding_window(f: Fields, kind: str) -> int | None:
    """Return the sliding window: 4,096 by default for Mistral, where null disables it."""
    if kind == "mistral":
        return 4096 if _absent(f, "sliding_window") else f.optional_count("sliding_window")
    f.only("use_sliding_window" if kind == "qwen2" else "sliding_window", False)
    return None


def rotary(f: Fields, width: int, length: int) -> Rotary:
    """Read the rotary angles from rope_parameters, or from rope_theta and rope_scaling in files from before 2026."""
    new, old = f.raw.get("rope_parameters") or {}, f.raw.get("rope_scaling") or {}
    if not isinstance(new, dict) or not isinstance(old, dict):
        raise ConfigError("rope_parameters in config.json is not an object", "download config.json again")
    raw: dict[str, Any] = {"rope_theta": f.raw.get("rope_theta"), **old, **new}
    part = Fields(raw, f.shapes, f.read)
    scaling: LinearScaling | Llama3Scaling | None
    match raw.get("rope_type", raw.get("type", "default")):
        case "default":
            scaling = None
        case "linear":
            scaling = LinearScaling(factor=part.number("factor"))
        case "llama3":
            scaling = Llama3Scaling(
                factor=part.number("factor"),
                low=part.number("low_freq_factor"),
                high=part.number("high_freq_factor"),
                trained=part.count("original_max_position_embeddings", length),
            )
        case other:
            raise ConfigError(f"rope_type is {str(other)[:40]!r} in config.json", "supported: default, linear, llama3")
    part.only("partial_rotary_factor", 1, 1.0)
    base = part.number("rope_theta", 10000.0)
    if base <= 0:
        raise ConfigError(f"rope_theta is {base:g} in config.json", "it must be above 0")
    return Rotary(width=width, base=base, scaling=scaling)


LLAMA = Family(
    name="llama",
    types=("llama", "mistral", "qwen2"),
    architectures=("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"),
    model=Decoder,
    config=config,
    describe=describe,
    rules=(
        same("decoder.embed.table.weight", TABLE),
        *norm(f"{OURS}.attention_residual.norm", f"{THEIRS}.input_layernorm"),
        *linear(f"{OURS}.attention.WQ", f"{THEIRS}.self_attn.q_proj"),
        *linear(f"{OURS}.attention.WK", f"{THEIRS}.self_attn.k_proj"),
        *linear(f"{OURS}.attention.WV", f"{THEIRS}.self_attn.v_proj"),
        *linear(f"{OURS}.attention.WO", f"{THEIRS}.self_attn.o_proj"),
        *norm(f"{OURS}.ffn_residual.norm", f"{THEIRS}.post_attention_layernorm"),
        *linear(f"{OURS}.ffn.W1", f"{THEIRS}.mlp.gate_proj"),
        *linear(f"{OURS}.ffn.W3", f"{THEIRS}.mlp.up_proj"),
        *linear(f"{OURS}.ffn.W2", f"{THEIRS}.mlp.down_proj"),
        *norm("decoder.norm", "model.norm"),
        same("word_head.W.weight", HEAD),
    ),
    prefix="model.",
    skip=(f"{THEIRS}.self_attn.rotary_emb.inv_freq",),
    copies=((TABLE, HEAD),),
    quantities=(
        Quantity("decoder.embed.X", "model.embed_tokens"),
        Quantity(f"{OURS}.attention.A", f"{THEIRS}.self_attn", 1),
        Quantity(f"{OURS}.attention.O", f"{THEIRS}.self_attn.o_proj"),
        Quantity(f"{OURS}.ffn.P", f"{THEIRS}.mlp.gate_proj"),
        Quantity(f"{OURS}.ffn.O", f"{THEIRS}.mlp.down_proj"),
        Quantity(f"{OURS}.O", THEIRS),
        Quantity("decoder.norm", "model.norm"),
        Quantity("word_head", "lm_head"),
    ),
)
