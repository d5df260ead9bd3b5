"""Names of quantities: `encoder.3.attention.A`, with wildcards, the names that TransformerLens uses, and axes."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterator

from torch import nn

from glassformer.errors import InputError
from glassformer.nn import MultiHeadAttention, Tap

# The legend of axes: b batch, h head, g key/value head, t query, s key, d key width, e value width, m model width,
# f feed-forward width. An attention layer's own letters come first; elsewhere X, R and O are tokens.
AXES = {
    "Q": "b h t d",
    "K": "b g s d",
    "V": "b g s e",
    "S": "b h t s",
    "A": "b h t s",
    "H": "b h t e",
    "O": "b t m",
    "X": "b t m",
    "R": "b t m",
    "P": "b t f",
    "F": "b t f",
}

_ALIASES = {
    r"attn\.hook_q": "attention.Q",
    r"attn\.hook_k": "attention.K",
    r"attn\.hook_v": "attention.V",
    r"attn\.hook_attn_scores": "attention.S",
    r"attn\.hook_pattern": "attention.A",
    r"attn\.hook_z": "attention.H",
    r"hook_attn_out": "attention.O",
    r"mlp\.hook_pre": "ffn.P",
    r"mlp\.hook_post": "ffn.F",
    r"hook_mlp_out": "ffn.O",
    r"hook_resid_pre": "X",
    r"hook_resid_mid": "R",
    r"hook_resid_post": "O",
}
_EMBEDDING = {"hook_embed": "embed.X", "hook_pos_embed": "embed.E"}


def taps(model: nn.Module) -> dict[str, Tap]:
    """Every tap of the model by its path."""
    modules = model.named_modules() if isinstance(model, nn.Module) else ()
    found = {path: module for path, module in modules if isinstance(module, Tap)}
    if not found:
        raise InputError(f"{type(model).__name__} has no taps", "take a model made of glassformer's modules")
    return found


def layers(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """Every attention layer of the model by its path, in the order in which they run."""
    return {path: module for path, module in model.named_modules() if isinstance(module, MultiHeadAttention)}


def match(patterns: tuple[str, ...], known: list[str]) -> list[str]:
    """The known paths that the patterns name, in the model's order. A pattern that names none is an error."""
    found: set[str] = set()
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise InputError(f"a path cannot be {pattern!r}", 'give a text: "decoder.0.attention.A"')
        names = {name for spelled in spellings(pattern, known) for name in fnmatch.filter(known, spelled)}
        if not names:
            near = difflib.get_close_matches(pattern, known, n=3, cutoff=0.0)
            raise InputError(f"no quantity is called {pattern!r}", f"the nearest are {', '.join(near)}")
        found |= names
    return [name for name in known if name in found]


def spellings(pattern: str, known: list[str]) -> Iterator[str]:
    """The pattern itself, and what it means if it is a name that TransformerLens uses."""
    yield pattern
    stacks = [stack for stack in ("decoder", "encoder") if any(name.startswith(stack + ".") for name in known)]
    for alias, ours in _EMBEDDING.items():
        if pattern == alias:
            yield from (f"{stack}.{ours}" for stack in stacks[:1])
    parts = re.fullmatch(r"(blocks|encoder|decoder)\.([\d*]+)\.(cross_)?(.+)", pattern)
    if parts is None:
        return
    stack, layer, cross, rest = parts.groups()
    for alias, ours in _ALIASES.items():
        if re.fullmatch(alias, rest):
            named = ours.replace("attention", "cross") if cross else ours
            yield from (f"{s}.{layer}.{named}" for s in (stacks[:1] if stack == "blocks" else [stack]))


def axes_of(path: str) -> list[str]:
    """The axes of a quantity, those of a stack named after it: `encoder.t`; those of cross-attention's keys, memory."""
    *_, place, symbol = ["", "", *path.split(".")]
    stack = path.split(".")[0]
    return [_scoped(axis, stack, place) for axis in AXES.get(symbol, "").split()]


def _scoped(axis: str, stack: str, place: str) -> str:
    if axis == "b":
        return axis
    if axis == "t" or (axis == "s" and place != "cross"):
        return f"{stack}.{axis}"
    return "memory" if axis == "s" else f"{stack}.{place}.{axis}"
