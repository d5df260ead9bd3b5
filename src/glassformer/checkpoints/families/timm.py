"""timm's ViT and DeiT: joint q, k, v, eps 1e-6, positions resized with antialiasing; sizes read from the weights."""

from __future__ import annotations

from dataclasses import replace

from glassformer.checkpoints.architecture import head_names_of, parsed, places, pooling_of, require_shown, shape
from glassformer.checkpoints.family import Family
from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.layouts import Joined, Reshaped, RowRange
from glassformer.checkpoints.rules import Rule, layer_index, linear, norm, same
from glassformer.errors import CheckpointError
from glassformer.models.vit import Resize, ViT, ViTConfig
from glassformer.nn import BlockConfig, FeedForwardConfig, NormConfig, heads
from glassformer.nn.feedforward import Activation


def config(f: Fields) -> ViTConfig:
    name = parsed(f.raw.get("architecture"))
    require_shown(f)
    width, channels, *patch = shape(f, "patch_embed.proj.weight", 4)
    tile = (patch[0], patch[1])
    eps = NormConfig(eps=1e-5 if name["clip"] else 1e-6)
    hidden = shape(f, "blocks.0.mlp.fc2.weight", 2)[1]
    gated = shape(f, "blocks.0.mlp.fc1.weight", 2)[0] == 2 * hidden
    activation: Activation = "silu" if gated else "quick_gelu" if name["quick"] else "gelu"
    block = BlockConfig(
        attention=heads(width, head_names_of(f, width), biases="qkvo" if f.has("blocks.0.attn.qkv.bias") else "o"),
        ffn=FeedForwardConfig(width=width, hidden=hidden, activation=activation, gated=gated),
        norm=eps,
        gain=1e-5 if f.has("blocks.0.ls1.gamma") else None,
    )
    prefix = 2 if name["distilled"] else int(f.has("cls_token"))
    grid, placed = places(f, prefix, tile)
    head = f.shapes.get("head.weight")
    if head is None and f.raw.get("num_classes"):
        raise CheckpointError("head.weight is missing, and config.json has num_classes", "download all files")
    blocks = sum(layer_index("blocks.{i}.norm1.weight", one) is not None for one in f.shapes)
    return ViTConfig(
        image=(grid[0] * tile[0], grid[1] * tile[1]),
        patch=tile,
        channels=channels,
        depth=replace(f, raw={"depth": blocks}).depth("depth"),
        block=block,
        classes=head[0] if head else 0,
        prefix=prefix,
        registers=shape(f, "reg_token", 3)[1] if f.has("reg_token") else 0,
        pool="mean" if pooling_of(f, prefix) == "avg" else "first",
        resize=Resize(antialias=True),
        first_norm=eps if f.has("norm_pre.weight") else None,
        last_norm=eps if f.has("norm.weight") else None,
        pool_norm=eps if f.has("fc_norm.weight") else None,
        patch_bias=f.has("patch_embed.proj.bias"),
        prefix_positions=placed,
        teacher=name["distilled"] is not None,
    )


def rules(prefix: Rule) -> tuple[Rule, ...]:
    ours, theirs = "encoder.{i}", "blocks.{i}"
    joined = {"attn.qkv": [f"{ours}.attention.W{x}" for x in "QKV"], "mlp.fc1": [f"{ours}.ffn.W1", f"{ours}.ffn.W3"]}
    return (
        prefix,
        *linear("embed.W", "patch_embed.proj", Reshaped(lambda c: c.kernel)),
        same("positions", "pos_embed", Reshaped(lambda c: (1, c.places, c.width))),
        same("registers", "reg_token", Reshaped(lambda c: (1, c.registers, c.width))),
        *(  # for SwiGLU: the gate, then the gated values
            Rule(tuple(f"{one}.{part}" for one in parts), (f"{theirs}.{name}.{part}",), Joined())
            for name, parts in joined.items()
            for part in ("weight", "bias")
        ),
        *linear(f"{ours}.attention.WO", f"{theirs}.attn.proj"),
        *linear(f"{ours}.ffn.W1", f"{theirs}.mlp.fc1"),
        *linear(f"{ours}.ffn.W2", f"{theirs}.mlp.fc2"),
        *norm(f"{ours}.attention_residual.norm", f"{theirs}.norm1"),
        *norm(f"{ours}.ffn_residual.norm", f"{theirs}.norm2"),
        same(f"{ours}.attention_residual.gain.lam", f"{theirs}.ls1.gamma"),
        same(f"{ours}.ffn_residual.gain.lam", f"{theirs}.ls2.gamma"),
        *norm("first_norm", "norm_pre"),
        *norm("encoder.norm", "norm"),
        *norm("pool_norm", "fc_norm"),
        *linear("head", "head"),
        *linear("teacher_head", "head_dist"),
    )


ONE = same("prefix", "cls_token", Reshaped(lambda c: (1, 1, c.width)))
TWO = Rule(("prefix",), ("cls_token", "dist_token"), RowRange(lambda c: (1, 1, c.width)))
TIMM = Family(name="timm", types=("timm",), architectures=(), model=ViT, config=config, rules=rules(ONE))
TIMM_DISTILLED = Family(
    name="timm_distilled", types=("timm_distilled",), architectures=(), model=ViT, config=config, rules=rules(TWO)
)
