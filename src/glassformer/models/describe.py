"""Human-readable sizes of configs, for `info`."""

from __future__ import annotations

from typing import Any


def stack_size(text: Any) -> str:
    """Depth × width and number of heads of a config with `depth`, `width` and `block`."""
    attention = text.block.attention
    shared = f" ({attention.kv_heads} for keys)" if attention.kv_heads != attention.heads else ""
    return f"{text.depth} × {text.width}, {attention.heads} heads{shared}"


def describe_image(config: Any) -> dict[str, str]:
    """Layers and image size of a config with `image` and `patch`."""
    (rows, columns), (h, w) = config.image, config.patch
    return {"layers": stack_size(config), "image": f"{rows}×{columns} pixels in patches of {h}×{w}"}
