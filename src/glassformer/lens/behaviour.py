"""Parse behaviours of a constructed attention layer from text: shift, "3,1,2", "[1,2,1]/4", "8x8"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from glassformer.errors import InputError
from glassformer.lens.kernels import read_kernel
from glassformer.lens.routing import Edges, Routing, convolution, identity, permutation, previous_token, shift

BEHAVIOURS = ("identity", "permutation", "shift", "previous-token", "convolution")


def read_behaviour(
    name: str,
    words: Sequence[str] = (),
    *,
    by: int | None = None,
    channels: int = 1,
    edges: str | None = None,
    seed: int = 0,
) -> Routing:
    """Return a behaviour by name; `words` hold the order of a permutation or the kernel of a convolution."""
    kept = cast("Edges", edges or "zero")  # validated by Routing
    takers = {
        words[0] if words else "": ("permutation", "convolution"),
        f"--by {by}" if by is not None else "": ("shift",),
        f"--edges {edges}" if edges is not None else "": ("shift", "previous-token", "convolution"),
    }
    for option, some in takers.items():
        if option and name in BEHAVIOURS and name not in some:
            raise InputError(f"{name} takes no {option}", "leave it out")
    match name:
        case "identity":
            return identity(channels=channels)
        case "permutation":
            found = re.fullmatch(r"\d+([\s,]+\d+)*", " ".join(words))
            if found is None:
                raise InputError(f"{' '.join(words)!r} is not a permutation", "give the order as 3,1,2")
            return permutation([int(i) for i in re.findall(r"\d+", found[0])], channels=channels)
        case "shift":
            return shift(1 if by is None else by, channels=channels, edges=kept)
        case "previous-token":
            return previous_token(channels=channels, edges=kept)
        case "convolution":
            return convolution(read_kernel(words, channels=channels, seed=seed), channels=channels, edges=kept)
    raise InputError(f"there is no behaviour {name!r}", f"choose one of {', '.join(BEHAVIOURS)}")


def read_size(text: str, routing: Routing) -> int | tuple[int, ...]:
    """Parse a size: "16", or "8x8" for a grid; "" selects the default size of the behaviour."""
    if not text:
        return len(routing.order) if routing.order is not None else (16 if routing.dims == 1 else 8)
    if not re.fullmatch(r"\d+([x×]\d+)?", text):
        raise InputError(f"{text!r} is not a size", "give 16, or 8x8 for a grid")
    sizes = tuple(int(k) for k in re.split("[x×]", text))
    return sizes[0] if len(sizes) == 1 else sizes
