"""DINOv2 (Oquab 2023), with or without registers (Darcet 2023): layer scale, SwiGLU in giant, classes from both."""

from __future__ import annotations

from glassformer.checkpoints.families import vit
from glassformer.checkpoints.family import Family
from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.layouts import Joined, Reshaped
from glassformer.checkpoints.rules import Rule, linear, norm, same
from glassformer.errors import ConfigError
from glassformer.models.vit import Resize, ViT, ViTConfig
from glassformer.nn import BlockConfig, FeedForwardConfig


def config(
    f: Fields, *, root: str = "dinov2.", registers: int = 0, patch: int = 14, resize: Resize = Resize()
) -> ViTConfig:
    image = vit.image(f, patch)
    if image["image"][0] != image["image"][1]:  # their positions always assume a square
        raise ConfigError(f"image_size is {image['image']} in config.json", "only square ones are supported")
    parts = vit.attention_and_norm(f, 1e-6)
    classes = vit.classes(f, "classifier.weight")
    return ViTConfig(
        **image,
        depth=f.depth("num_hidden_layers", 12),
        block=BlockConfig(ffn=hidden_width(f), gain=f.number("layerscale_value", 1.0), **parts),
        classes=classes,
        registers=registers,
        masked=f.has(f"{root}embeddings.mask_token"),
        pool="both" if classes else "first",
        resize=resize,
        last_norm=parts["norm"],
    )


def with_registers(f: Fields) -> ViTConfig:
    """Return the config with registers; positions are resized with antialiasing, unlike those of plain DINOv2."""
    count, root = f.count("num_register_tokens", 4), "dinov2_with_registers."
    return config(f, root=root, registers=count, patch=16, resize=Resize(antialias=True))


def hidden_width(f: Fields) -> FeedForwardConfig:
    """hidden = mlp_ratio · width; if gated, two thirds of that, rounded up to a multiple of 8."""
    width = f.size("hidden_size", 768)
    hidden = int(width * f.number("mlp_ratio", 4))
    if f.flag("use_swiglu_ffn", False):
        hidden = (int(hidden * 2 / 3) + 7) // 8 * 8
        return FeedForwardConfig(width=width, hidden=hidden, activation="silu", gated=True)
    return FeedForwardConfig(width=width, hidden=hidden, activation=f.activation("hidden_act", "gelu"))


def rules(root: str) -> tuple[Rule, ...]:
    ours, theirs = "encoder.{i}", f"{root}encoder.layer.{{i}}"
    gates = (f"{ours}.ffn.W1", f"{ours}.ffn.W3")  # the gate, then the gated values
    return (
        same("prefix", f"{root}embeddings.cls_token", Reshaped(lambda c: (1, 1, c.width))),
        same("registers", f"{root}embeddings.register_tokens", Reshaped(lambda c: (1, c.registers, c.width))),
        same("mask", f"{root}embeddings.mask_token", Reshaped(lambda c: (1, c.width))),
        *vit.stack_rules(root),
        *norm(f"{ours}.attention_residual.norm", f"{theirs}.norm1"),
        same(f"{ours}.attention_residual.gain.lam", f"{theirs}.layer_scale1.lambda1"),
        *norm(f"{ours}.ffn_residual.norm", f"{theirs}.norm2"),
        same(f"{ours}.ffn_residual.gain.lam", f"{theirs}.layer_scale2.lambda1"),
        *(
            Rule(tuple(f"{gate}.{part}" for gate in gates), (f"{theirs}.mlp.weights_in.{part}",), Joined())
            for part in ("weight", "bias")
        ),
        *linear(f"{ours}.ffn.W1", f"{theirs}.mlp.fc1"),
        *linear(f"{ours}.ffn.W2", f"{theirs}.mlp.fc2|{theirs}.mlp.weights_out"),
    )


DINOV2 = Family(
    name="dinov2",
    types=("dinov2",),
    architectures=("Dinov2Model", "Dinov2ForImageClassification"),
    model=ViT,
    config=config,
    rules=rules("dinov2."),
    prefix="dinov2.",
    quantities=vit.quantities("dinov2.", "encoder.layer"),
)

DINOV2_REGISTERS = Family(
    name="dinov2_with_registers",
    types=("dinov2_with_registers",),
    architectures=("Dinov2WithRegistersModel", "Dinov2WithRegistersForImageClassification"),
    model=ViT,
    config=with_registers,
    rules=rules("dinov2_with_registers."),
    prefix="dinov2_with_registers.",
    quantities=vit.quantities("dinov2_with_registers.", "encoder.layer"),
)
