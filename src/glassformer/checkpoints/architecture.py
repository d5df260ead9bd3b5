"""Sizes of a timm ViT, from its architecture name (vit_base_patch16_224) and its weight shapes, without guessing.

The number of heads cannot be inferred from any weight: it comes from config.json (`model_args.num_heads`), or from the
name and width of a published size. An unknown name may stand for a different computation and is rejected.
"""

from __future__ import annotations

import math
import re

from glassformer.checkpoints.fields import Fields
from glassformer.errors import CheckpointError, ConfigError

NAME = re.compile(
    r"(vit|deit3?)_(?P<size>tiny|small|medium|base|large|huge|giant|gigantic)(?P<distilled>_distilled)?_patch\d+"
    r"((_reg\d+)?_dinov2|(?P<clip>_clip)(?P<quick>_quickgelu)?|_gap)?(_\d+)?(_miil)?"
)
HEADS = {("tiny", 192): 3, ("small", 384): 6, ("medium", 512): 8, ("base", 768): 12, ("large", 1024): 16}
HEADS |= {("huge", 1280): 16, ("giant", 1408): 16, ("giant", 1536): 24, ("gigantic", 1664): 16}
# arguments that can be inferred from the weights, or that have no effect here
SHOWN: tuple[str, ...] = ("img_size", "patch_size", "in_chans", "num_classes", "embed_dim", "depth", "num_heads")
SHOWN += ("qkv_bias", "init_values", "class_token", "no_embed_class", "reg_tokens", "pre_norm", "fc_norm")
SHOWN += ("mlp_ratio", "global_pool", "dynamic_img_size")


def parsed(architecture: object) -> re.Match[str]:
    """Parse a name such as `vit_base_patch16_224`, with or without a tag after a dot; unknown names are rejected."""
    found = NAME.fullmatch(str(architecture).partition(".")[0])
    if found is None:
        known = "timm's vit, deit and deit3 (plain, clip, dinov2, gap); a file of another family needs its config.json"
        raise ConfigError(f"the architecture is {str(architecture)[:60]!r}", f"supported: {known}")
    return found


def require_shown(f: Fields) -> None:
    """Reject arguments that would change the computation without being visible in the weights."""
    for spare in sorted(f.part("model_args").raw.keys() - set(SHOWN)):
        raise ConfigError(f"config.json has {spare[:60]!r} in model_args", f"supported: {', '.join(SHOWN)}")


def head_names_of(f: Fields, width: int) -> int:
    args, size = f.part("model_args"), parsed(f.raw.get("architecture"))["size"]
    if "num_heads" in args.raw:
        return args.size("num_heads")
    if (size, width) not in HEADS:
        raise ConfigError(
            f"timm's {size!r} models do not have width {width}", "set model_args.num_heads in config.json"
        )
    return HEADS[size, width]


def shape(f: Fields, name: str, dims: int) -> tuple[int, ...]:
    found = f.shapes.get(name)
    if found is None or len(found) != dims or min(found) < 1:
        fact = f"weight {name} is missing" if found is None else f"weight {name} has the shape {list(found)}"
        raise CheckpointError(fact, f"a ViT of timm has it, with {dims} axes")
    return found


def places(f: Fields, prefix: int, patch: tuple[int, int]) -> tuple[tuple[int, int], bool]:
    """Return the grid the positions were learned for, and whether the prefix tokens have positions too.

    The image size comes from config.json; otherwise the image is square: n and n − prefix are never both squares.
    """
    n, args = shape(f, "pos_embed", 3)[1], f.part("model_args")
    given = f.part("pretrained_cfg").raw.get("input_size")
    size = args.pair("img_size") if "img_size" in args.raw else None
    if size is None and isinstance(given, list | tuple) and len(given) == 3:
        size = Fields({"input_size": list(given[1:])}, f.shapes, f.read).pair("input_size")
    for placed in (True, False):
        cells = n - prefix if placed else n
        side = math.isqrt(max(cells, 0))
        grid = (side, side) if size is None else (size[0] // patch[0], size[1] // patch[1])
        if cells > 0 and grid[0] * grid[1] == cells:
            return grid, placed
    image = "a square image" if size is None else f"images of {size[0]}×{size[1]}"
    raise ConfigError(f"pos_embed has {n} positions, which do not fit {image}", "set model_args.img_size")


def pooling_of(f: Fields, prefix: int) -> str:
    """Return the pooling mode, token or avg, from config.json or from the default of the known architectures."""
    usual = "token" if prefix and not f.has("fc_norm.weight") else "avg"
    how = f.part("model_args").raw.get("global_pool", f.raw.get("global_pool", usual))
    if how not in ("token", "avg"):
        raise ConfigError(f"global_pool is {str(how)[:60]!r} in config.json", "supported: token, avg")
    return str(how)
