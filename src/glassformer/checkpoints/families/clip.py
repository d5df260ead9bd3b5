"""CLIP (Radford 2021): an image tower and a causal text tower with QuickGELU; both together, or either alone."""

from __future__ import annotations

from dataclasses import replace

from glassformer.checkpoints.families.marian import attention_rules
from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.layouts import Reshaped
from glassformer.checkpoints.rules import Rule, linear, norm, same
from glassformer.errors import ConfigError
from glassformer.models.clip import CLIP as Model
from glassformer.models.clip import CLIPConfig
from glassformer.models.vit import ViTConfig
from glassformer.nn import BlockConfig, FeedForwardConfig, Learned, NormConfig, heads
from glassformer.nn.text import TextConfig

LEGACY = 2  # end token in old configs, found in no text: their texts end at the highest token id


def block(f: Fields, usual: int) -> BlockConfig:
    """Return a tower's block config. Defaults: width `usual`, heads 64 wide, a feed-forward net 4 × `usual` wide."""
    width, hidden = f.size("hidden_size", usual), f.size("intermediate_size", 4 * usual)
    count, activation = f.size("num_attention_heads", usual // 64), f.activation("hidden_act", "quick_gelu")
    return BlockConfig(
        attention=heads(width, count, dropout=f.number("attention_dropout", 0.0)),
        ffn=FeedForwardConfig(width=width, hidden=hidden, activation=activation),
        norm=NormConfig(eps=f.number("layer_norm_eps", 1e-5)),
    )


def vision(f: Fields) -> ViTConfig:
    size, patch = f.pair("image_size", 224), f.pair("patch_size", 32)
    if size[0] != size[1] or patch[0] != patch[1]:  # their positions always assume a square
        raise ConfigError(
            f"image_size is {size} and patch_size {patch} in config.json", "only square ones are supported"
        )
    layer, channels, depth = block(f, 768), f.size("num_channels", 3), f.depth("num_hidden_layers", 12)
    plain = ViTConfig(image=size, patch=patch, channels=channels, depth=depth, block=layer, classes=0)
    return replace(plain, first_norm=layer.norm, last_norm=layer.norm, patch_bias=False)


def text(f: Fields) -> TextConfig:
    layer, vocabulary, depth = block(f, 512), f.size("vocab_size", 49408), f.depth("num_hidden_layers", 12)
    positions = Learned(length=f.size("max_position_embeddings", 77))
    return TextConfig(vocabulary=vocabulary, depth=depth, block=layer, positions=positions, last_norm=layer.norm)


def config(f: Fields) -> CLIPConfig:
    """Configure both towers, or the one present. Old files hold a tower's config twice; `…_config_dict` wins."""
    kind = f.raw.get("model_type")
    part = lambda x: f.part(f"{x}_config" if f.raw.get(f"{x}_config_dict") is None else f"{x}_config_dict")
    image = part("vision") if kind == "clip" else f if kind == "clip_vision_model" else None
    text_fields = part("text") if kind == "clip" else f if kind == "clip_text_model" else None
    end = text_fields.token("eos_token_id", 49407) if text_fields is not None else None
    return CLIPConfig(
        vision=vision(image) if image is not None else None,
        text=text(text_fields) if text_fields is not None else None,
        width=f.size("projection_dim", 512) if kind == "clip" or f.architecture.endswith("WithProjection") else 0,
        end=None if end == LEGACY else end,
    )


def rules(ours: str, theirs: str) -> tuple[Rule, ...]:
    return (
        *norm(f"{ours}.attention_residual.norm", f"{theirs}.layer_norm1"),
        *attention_rules(f"{ours}.attention", f"{theirs}.self_attn"),
        *norm(f"{ours}.ffn_residual.norm", f"{theirs}.layer_norm2"),
        *linear(f"{ours}.ffn.W1", f"{theirs}.mlp.fc1"),
        *linear(f"{ours}.ffn.W2", f"{theirs}.mlp.fc2"),
    )


I, T = "vision_model", "text_model"
EMBED = (f"{I}.embeddings", f"{T}.embeddings")
BLOCKS = (("vision.encoder.{i}", f"{I}.encoder.layers.{{i}}"), ("text.{i}", f"{T}.encoder.layers.{{i}}"))
PARTS = (("attention.A", ".self_attn", 1), ("attention.O", ".self_attn", 0), ("ffn.O", ".mlp", 0), ("O", "", 0))


def family(name: str, kind: str, prefix: str, *classes: str) -> Family:
    return Family(
        name=name,
        types=(kind,),
        architectures=classes,
        model=Model,
        config=config,
        rules=(
            same("vision.embed.W.weight", f"{EMBED[0]}.patch_embedding.weight", Reshaped(lambda c: c.vision.kernel)),
            same("vision.prefix", f"{EMBED[0]}.class_embedding", Reshaped(lambda c: (c.vision.width,))),
            same("vision.positions", f"{EMBED[0]}.position_embedding.weight"),
            same("text.embed.table.weight", f"{EMBED[1]}.token_embedding.weight"),
            same("text.embed.positions.table.weight", f"{EMBED[1]}.position_embedding.weight"),
            *norm("vision.first_norm", f"{I}.pre_layrnorm"),
            *(rule for pair in BLOCKS for rule in rules(*pair)),
            *norm("vision.encoder.norm", f"{I}.post_layernorm"),
            *norm("text.norm", f"{T}.final_layer_norm"),
            same("image_projection.weight", "visual_projection.weight"),
            same("text_projection.weight", "text_projection.weight"),
            same("tau", "logit_scale"),
        ),
        prefix=prefix,
        skip=(f"{EMBED[0]}.position_ids", f"{EMBED[1]}.position_ids"),
        quantities=(
            Quantity("vision.X", f"{I}.pre_layrnorm"),
            Quantity("text.embed.X", EMBED[1]),
            *(Quantity(f"{a}.{x}", f"{b}{y}", item) for a, b in BLOCKS for x, y, item in PARTS),
            Quantity("text.norm", f"{T}.final_layer_norm"),
            Quantity("image_projection", "visual_projection"),
            Quantity("text_projection", "text_projection"),
            Quantity("x", "", "pooler_output"),
            Quantity("y", "", "pooler_output"),
            Quantity("S", "", "logits_per_image"),
        ),
    )


CLIP = family("clip", "clip", "", "CLIPModel")
CLIP_VISION = family("clip_vision", f"clip_{I}", f"{I}.", "CLIPVisionModel", "CLIPVisionModelWithProjection")
CLIP_TEXT = family("clip_text", f"clip_{T}", f"{T}.", "CLIPTextModel", "CLIPTextModelWithProjection")
