"""Names of quantities: paths such as `encoder.3.attention.A`, wildcards, TransformerLens names, and axes."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from torch import nn

from glassformer.errors import InputError
from glassformer.nn import Block, LayerNorm, MultiHeadAttention, Stack, Tap
from glassformer.nn.text import TextStack

# Axes: b batch, h head, g key/value head, t query, s key, d key width, e value width, m model width, f feed-forward
# width, v vocabulary or classes. Outside attention layers X, R and O are tokens.
AXES = {
    "Q0": "b h t d",
    "K0": "b g s d",
    "Q": "b h t d",
    "K": "b g s d",
    "V": "b g s e",
    "S": "b h t s",
    "A": "b h t s",
    "H": "b h t e",
    "HO": "b h t m",
    "O": "b t m",
    "X": "b t m",
    "R": "b t m",
    "T": "b t m",
    "Y": "b t m",
    "sigma": "b t 1",
    "P": "b t f",
    "G": "b t f",
    "F": "b t f",
    "logits": "b t v",
}
BY_POSITION = (0, 2, 1, 3)  # TransformerLens uses (batch, position, head, width)


class QuantityName(NamedTuple):
    """The path of a quantity, and the axis order of the name that was requested."""

    path: str
    order: tuple[int, ...] | None = None


def taps(model: nn.Module) -> dict[str, Tap]:
    """Return every tap of the model by path."""
    modules = model.named_modules() if isinstance(model, nn.Module) else ()
    found = {path: module for path, module in modules if isinstance(module, Tap)}
    if not found:
        raise InputError(
            f"{type(model).__name__} has no quantities to trace", "give a model built from glassformer's modules"
        )
    return found


def attention_layers(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """Return every attention layer of the model by path, in the order of execution."""
    return {path: module for path, module in model.named_modules() if isinstance(module, MultiHeadAttention)}


def within_sequence(layer: str) -> bool:
    """Whether an attention layer is self-attention over a sequence, not over a memory or a grid with its border."""
    return layer.rpartition(".")[2] not in ("cross", "grid")


class Names:
    """Everything that a pattern can match: paths of taps, and TransformerLens aliases.

    An alias stands for a path and its axis order, or for the reason why the model has no such quantity.
    """

    def __init__(self, paths: Sequence[str], aliases: Mapping[str, QuantityName | str] | None = None) -> None:
        self.paths, self.aliases = list(paths), dict(aliases or {})

    @classmethod
    def of(cls, model: nn.Module) -> Names:
        return cls(list(taps(model)), transformer_lens_names(model))

    def only(self, paths: Sequence[str]) -> Names:
        """Return the names restricted to these paths and their aliases."""
        kept = {alias: to for alias, to in self.aliases.items() if isinstance(to, str) or to.path in paths}
        return Names(paths, kept)

    def find(self, *patterns: str) -> list[QuantityName]:
        """Return the quantities that match the patterns, in model order. A pattern without a match is an error."""
        found: dict[str, QuantityName] = {}
        for pattern in patterns:
            for name in self._find(pattern):
                found.setdefault(name.path, name)
        return [found[path] for path in self.paths if path in found]

    def _find(self, pattern: str) -> list[QuantityName]:
        if not isinstance(pattern, str):
            raise InputError(f"a path cannot be {pattern!r}", 'give a string: "decoder.0.attention.A"')
        found = [QuantityName(path) for path in fnmatch.filter(self.paths, pattern)]
        if found:
            return found
        named = [self.aliases[alias] for alias in fnmatch.filter(self.aliases, pattern)]
        found = [name for name in named if isinstance(name, QuantityName)]
        if named and not found:
            raise InputError(f"{pattern!r} does not match anything in this model", str(named[0]))
        if not found:
            near = difflib.get_close_matches(pattern, self.paths, n=3, cutoff=0.0)
            raise InputError(f"no quantity is called {pattern!r}", f"the nearest are {', '.join(near)}")
        return found


def match(patterns: tuple[str, ...], known: list[str]) -> list[str]:
    """Return the known paths that match the patterns, in model order."""
    return [name.path for name in Names(known).find(*patterns)]


def transformer_lens_names(model: nn.Module) -> dict[str, QuantityName | str]:
    """Map TransformerLens names to paths with their axis order, or to the reason why the model has no such quantity.

    Blocks are `blocks.0` in a model with one stack, and `encoder.0` and `decoder.0` in a model with two.
    """
    found: dict[str, QuantityName | str] = {}
    modules = model.named_modules() if isinstance(model, nn.Module) else ()
    stacks = {path: module for path, module in modules if isinstance(module, Stack)}
    one = len(stacks) == 1
    for path, stack in stacks.items():
        for i, block in enumerate(stack.blocks()):
            of_block = _block_names(block, f"{path}.{i}", stack.rotary is not None)
            place = f"blocks.{i}" if one else f"{path}.{i}"
            found |= {f"{place}.{alias}": name for alias, name in of_block}
        if one and stack.norm is not None:
            found |= {f"ln_final.{alias}": name for alias, name in _norm_names(stack.norm, f"{path}.norm")}
        if one and isinstance(stack, TextStack):
            scaled = f'its tokens are scaled here: use "{path}.embed.T"'
            found["hook_embed"] = QuantityName(f"{path}.embed.T") if stack.config.scale == 1.0 else scaled
            added = stack.config.positions is not None
            shared = f'positions are not repeated over the batch here: use "{path}.embed.E"'
            found["hook_pos_embed"] = shared if added else "no positions are added to its tokens"
    return found


def _block_names(block: Block, path: str, rotary: bool) -> Iterator[tuple[str, QuantityName | str]]:
    cross, post = block.config.cross is not None, block.config.place == "post"
    norms = ["attention_residual", *(["cross_residual"] if cross else []), "ffn_residual"]
    for i, residual in enumerate(norms, 1):
        for alias, name in _norm_names(block.get_submodule(f"{residual}.norm"), f"{path}.{residual}.norm"):
            yield f"ln{i}.{alias}", name
    for alias, ours in {"attn": "attention", **({"cross_attn": "cross"} if cross else {})}.items():
        for hook, symbol in {"q": "Q0", "k": "K0", "v": "V", "z": "H", "result": "HO"}.items():
            yield f"{alias}.hook_{hook}", QuantityName(f"{path}.{ours}.{symbol}", BY_POSITION)
        for hook, symbol in {"rot_q": "Q", "rot_k": "K"}.items():
            rotated = rotary and ours == "attention"
            name = QuantityName(f"{path}.{ours}.{symbol}", BY_POSITION)
            yield f"{alias}.hook_{hook}", name if rotated else "this layer has no rotary positions"
        yield f"{alias}.hook_attn_scores", QuantityName(f"{path}.{ours}.S")
        yield f"{alias}.hook_pattern", QuantityName(f"{path}.{ours}.A")
        yield f"hook_{alias}_out", QuantityName(f"{path}.{ours}.O")
    yield "mlp.hook_pre", QuantityName(f"{path}.ffn.P")
    yield "mlp.hook_pre_linear", QuantityName(f"{path}.ffn.G") if block.ffn.G is not None else "this layer is not gated"
    yield "mlp.hook_post", QuantityName(f"{path}.ffn.F")
    yield "hook_mlp_out", QuantityName(f"{path}.ffn.O")
    yield "hook_resid_pre", QuantityName(f"{path}.X")
    middle = f'"{path}.R" is after {"the norm of attention" if post else "cross-attention"} here'
    yield "hook_resid_mid", middle if post or cross else QuantityName(f"{path}.R")
    yield "hook_resid_mid_cross", QuantityName(f"{path}.R") if cross and not post else middle
    yield "hook_resid_post", f'"{path}.O" is after the last norm here' if post else QuantityName(f"{path}.O")
    if post:
        yield "hook_normalized_resid_post", QuantityName(f"{path}.O")


def _norm_names(norm: nn.Module, path: str) -> Iterator[tuple[str, QuantityName | str]]:
    yield "hook_scale", QuantityName(f"{path}.sigma")
    gained = f'TransformerLens has it before the gain γ: use "{path}.Y", which is after it'
    yield "hook_normalized", QuantityName(f"{path}.Y") if isinstance(norm, LayerNorm) else gained


def axes_of(path: str) -> list[str]:
    """Return the axes of a quantity, each prefixed by its scope, as in `encoder.t`; cross-attention keys are `memory`.

    Each layer of a stem has its own grid: `stem.4.t`.
    """
    *_, place, symbol = ["", "", *path.split(".")]
    parts = path.split(".")
    stack = ".".join(parts[: 2 if parts[0] == "stem" else 1])
    return [_scoped(axis, stack, place) for axis in AXES.get(symbol, "").split()]


def _scoped(axis: str, stack: str, place: str) -> str:
    if axis == "s" and place == "cross":
        return "memory"
    return f"{stack}.{axis}" if axis in "bts" else f"{stack}.{place}.{axis}"
