"""ViT (Dosovitskiy 2020) in Hugging Face's layout: pre-norm, learned positions, CLS; classes, or a tanh pooler."""

from __future__ import annotations

from typing import Any, Literal

from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.fields import PUBLISHED_ACTIVATIONS, Fields
from glassformer.checkpoints.layouts import Reshaped
from glassformer.checkpoints.rules import Rule, linear, norm, same
from glassformer.errors import ConfigError
from glassformer.models.vit import ViT, ViTConfig
from glassformer.nn import BlockConfig, FeedForwardConfig, NormConfig, heads

NAMES = {"Q": "attention.query", "K": "attention.key", "V": "attention.value", "O": "output.dense"}  # in files


def image(f: Fields, patch: int) -> dict[str, Any]:
    """Return the image fields of ViT, DeiT and DINOv2: image and patch size in pixels, and number of channels."""
    size, tile = f.pair("image_size", 224), f.pair("patch_size", patch)
    return {"image": size, "patch": tile, "channels": f.size("num_channels", 3)}


def attention_and_norm(f: Fields, eps: float) -> dict[str, Any]:
    """Return the parts of a block that ViT, DeiT and DINOv2 share."""
    attention = heads(
        f.size("hidden_size", 768),
        f.size("num_attention_heads", 12),
        biases="qkvo" if f.flag("qkv_bias", True) else "o",
        dropout=f.number("attention_probs_dropout_prob", 0.0),
    )
    place = NormConfig(eps=f.number("layer_norm_eps", eps))
    return {"attention": attention, "norm": place, "dropout": f.number("hidden_dropout_prob", 0.0)}


def config(f: Fields, *, prefix: int = 1, root: str = "vit.", pool: Literal["first", "mean"] = "first") -> ViTConfig:
    parts = attention_and_norm(f, 1e-12)
    activation = f.activation("hidden_act", "gelu")
    width, hidden = parts["attention"].width, f.size("intermediate_size", 3072)
    pooler = f.shapes.get(f"{root}pooler.dense.weight")
    if pooler:
        f.only("pooler_act", "tanh")
    return ViTConfig(
        **image(f, 16),
        depth=f.depth("num_hidden_layers", 12),
        block=BlockConfig(ffn=FeedForwardConfig(width=width, hidden=hidden, activation=activation), **parts),
        classes=classes(f, "classifier.weight"),
        hidden=pooler[0] if pooler else 0,
        prefix=prefix,
        pool=pool,
        last_norm=parts["norm"],
    )


def describe(c: ViTConfig, name: str = "ViT") -> dict[str, Any]:
    """Return config.json for a ViT of ours."""
    attention, ffn = c.block.attention, c.block.ffn
    return {
        "architectures": [f"{name}ForImageClassification" if c.classes else f"{name}Model"],
        "model_type": name.lower(),
        "image_size": c.image[0] if c.image[0] == c.image[1] else list(c.image),
        "patch_size": c.patch[0] if c.patch[0] == c.patch[1] else list(c.patch),
        "num_channels": c.channels,
        "hidden_size": attention.width,
        "num_hidden_layers": c.depth,
        "num_attention_heads": attention.heads,
        "intermediate_size": ffn.hidden,
        "hidden_act": PUBLISHED_ACTIVATIONS.get(ffn.activation, ffn.activation),
        "hidden_dropout_prob": c.block.dropout,
        "attention_probs_dropout_prob": attention.dropout,
        "layer_norm_eps": c.block.norm.eps,
        "qkv_bias": attention.biases == "qkvo",
    }


def classes(f: Fields, head: str) -> int:
    """Return the number of classes (rows of the head); an image classification model must have its head in the file."""
    rows = f.shapes.get(head)
    if rows is None and "ForImageClassification" in f.architecture:
        raise ConfigError(
            f"config.json describes a {f.architecture}, and {head} is not in the file", "download all files"
        )
    return rows[0] if rows else 0


def stack_rules(root: str) -> tuple[Rule, ...]:
    """Return the rules shared by ViT, DeiT and DINOv2."""
    ours, theirs = "encoder.{i}", f"{root}encoder.layer.{{i}}"
    return (
        *linear("embed.W", f"{root}embeddings.patch_embeddings.projection", Reshaped(lambda c: c.kernel)),
        same("positions", f"{root}embeddings.position_embeddings", Reshaped(lambda c: (1, c.places, c.width))),
        *(rule for x, y in NAMES.items() for rule in linear(f"{ours}.attention.W{x}", f"{theirs}.attention.{y}")),
        *norm("encoder.norm", f"{root}layernorm"),
        *linear("head", "classifier"),
    )


def block_rules(root: str) -> tuple[Rule, ...]:
    """Return the rules shared by ViT and DeiT, but not by DINOv2."""
    ours, theirs = "encoder.{i}", f"{root}encoder.layer.{{i}}"
    return (
        *norm(f"{ours}.attention_residual.norm", f"{theirs}.layernorm_before"),
        *linear(f"{ours}.ffn.W1", f"{theirs}.intermediate.dense"),
        *linear(f"{ours}.ffn.W2", f"{theirs}.output.dense"),
        *norm(f"{ours}.ffn_residual.norm", f"{theirs}.layernorm_after"),
        *linear("head_hidden", f"{root}pooler.dense"),
    )


def quantities(root: str, layers: str) -> tuple[Quantity, ...]:
    ours, theirs = "encoder.{i}", f"{root}{layers}.{{i}}"
    return (
        Quantity("X", f"{root}embeddings"),
        *(Quantity(f"{ours}.attention.W{x}", f"{theirs}.attention.{x.lower()}_proj") for x in "QKVO"),
        Quantity(f"{ours}.attention.A", f"{theirs}.attention", 1),
        Quantity(f"{ours}.ffn.P", f"{theirs}.mlp.fc1"),
        Quantity(f"{ours}.ffn.O", f"{theirs}.mlp"),
        Quantity(f"{ours}.O", theirs),
        Quantity("encoder.norm", f"{root}layernorm"),
        Quantity("head_hidden", f"{root}pooler.dense"),
        Quantity("head", "classifier"),
    )


VIT = Family(
    name="vit",
    types=("vit",),
    architectures=("ViTForImageClassification", "ViTModel"),
    model=ViT,
    config=config,
    describe=describe,
    rules=(
        same("prefix", "vit.embeddings.cls_token", Reshaped(lambda c: (1, 1, c.width))),
        *stack_rules("vit."),
        *block_rules("vit."),
    ),
    prefix="vit.",
    quantities=quantities("vit.", "layers"),
)
