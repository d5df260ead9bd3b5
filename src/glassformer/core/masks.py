"""Boolean attention masks over (t query, s key), in which True = may attend.

Queries are at positions offset … offset+t−1, keys at 0 … s−1. By default the last query is aligned with the last key,
so masks are correct with a cache of earlier keys (s ≥ t) and square without one.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from glassformer.core.positions import relative_distance
from glassformer.errors import MaskError, ShapeError

Device = torch.device | str | None


def causal(t: int, s: int | None = None, *, offset: int | None = None, device: Device = None) -> Bool[Tensor, "t s"]:
    """M[p, j] = (j ≤ p): each query attends to itself and earlier positions."""
    return relative_distance(t, s, offset=offset, device=device) <= 0


def window(
    t: int,
    s: int | None = None,
    *,
    width: int,
    causal: bool,
    offset: int | None = None,
    device: Device = None,
) -> Bool[Tensor, "t s"]:
    """M[p, j] = (p − width < j ≤ p) if causal, else (|j − p| ≤ (width − 1)/2): a sliding window of `width` keys."""
    if width < 1:
        raise MaskError(f"window width must be at least 1, got {width}", "choose a width of at least 1")
    if not causal and width % 2 == 0:
        fact = f"a window of width {width} has no centre"
        raise MaskError(fact, f"choose an odd width ({width - 1} or {width + 1}), or a causal window")
    distance = relative_distance(t, s, offset=offset, device=device)
    return (distance <= 0) & (distance > -width) if causal else distance.abs() <= width // 2


def chunked(
    t: int,
    s: int | None = None,
    *,
    chunk: int,
    left: int | None = None,
    right: int = 0,
    offset: int | None = None,
    start: int = 0,
    device: Device = None,
) -> Bool[Tensor, "t s"]:
    """M[p, j] = (c − left ≤ j < c + chunk + right), where c = chunk·⌊p / chunk⌋ is the first frame of p's chunk.

    The streaming mask: a query attends to its whole chunk, `left` frames before the chunk (all of them if None) and
    `right` frames after it. All three count FRAMES at the rate of this layer's input, never chunks, and are measured
    from the chunk's borders, so every frame of a chunk attends to the same keys. Look-ahead accumulates over layers: a
    frame that attends to the next chunk depends on everything that chunk attended to, so L layers look
    right + (L − 1)·⌈right / chunk⌉·chunk frames ahead.

    While streaming, only the rows of the new frames are computed, and `offset` is the number of frames before them. If
    old keys were dropped, `start` is the position of the first remaining key; positions always count from the start of
    the stream.
    """
    if chunk < 1 or right < 0 or (left is not None and left < 0):
        fact = f"chunk {chunk}, left {left}, right {right} are not a valid window"
        raise MaskError(fact, "count frames: a chunk of at least 1, left and right of 0 or more")
    within = None if offset is None else offset - start
    distance = relative_distance(t, s, offset=within, device=device)
    keys = distance.shape[1]
    first = start + (keys - t if within is None else within)
    p = torch.arange(first, first + t, device=device)[:, None]
    ahead = p % chunk + distance  # key position minus the first frame of the query's chunk
    mask = ahead < chunk + right
    return mask if left is None else mask & (ahead >= -left)


def padding(lengths: Int[Tensor, " b"], s: int, *, left: bool = False) -> Bool[Tensor, "b 1 1 {s}"]:
    """M[b, j] = (j < length_b), or (j ≥ s − length_b) when padded on the left; broadcasts over heads and queries."""
    wrong = ((lengths < 0) | (lengths > s)).nonzero().flatten().tolist()
    if wrong:
        fact = f"sequence {wrong[0]} of length {int(lengths[wrong[0]])} does not fit {s} keys"
        raise ShapeError(fact, f"give lengths from 0 to {s}")
    j = torch.arange(s, device=lengths.device)
    real = j >= s - lengths[:, None] if left else j < lengths[:, None]
    return real[:, None, None, :]


def combine(*masks: Shaped[Tensor, "..."] | None) -> Bool[Tensor, "..."] | None:
    """M = M₁ ∧ M₂ ∧ … with broadcasting; None allows everything."""
    out: Tensor | None = None
    for mask in masks:
        if mask is None:
            continue
        if mask.dtype != torch.bool:
            fact = f"a mask of {str(mask.dtype).removeprefix('torch.')} is not boolean"
            raise MaskError(fact, "give a boolean mask in which True = may attend")
        try:
            out = mask if out is None else out & mask
        except RuntimeError:
            assert out is not None
            fact = f"masks of {tuple(out.shape)} and {tuple(mask.shape)} do not broadcast"
            raise MaskError(fact, "give masks over (t, s), (b, 1, 1, s) or (b, h, t, s)") from None
    return out


def fill_empty_rows(mask: Bool[Tensor, "*b t s"], *, offset: int | None = None) -> Bool[Tensor, "*b t s"]:
    """Let queries that may attend to nothing attend to their own position; all other rows are unchanged.

    This is for padding queries, whose output is not used: left padding under a causal mask leaves them without a key.
    """
    own = relative_distance(*mask.shape[-2:], offset=offset, device=mask.device) == 0
    return mask | (~mask.any(-1, keepdim=True) & own)


def require_rows(mask: Bool[Tensor, "*b t s"], where: str = "") -> Bool[Tensor, "*b t s"]:
    """Return the mask if every row contains a True; otherwise raise an error that names the first row without one.

    The softargmax of a row of only −∞ is undefined: depending on the kernel, the result is NaN or 0.
    """
    blind = (~mask.any(-1)).nonzero()
    if not len(blind):
        return mask
    *lead, row = blind[0].tolist()
    sizes = mask.shape[:-2]
    query = f"query {row}" if mask.shape[-2] != 1 else "every query"
    names = dict(enumerate(("batch", "head"))) if len(sizes) < 3 else {}
    of = ", ".join(f"{names.get(k, f'axis {k}')} {i}" for k, i in enumerate(lead) if sizes[k] != 1 or k == 0)
    more = f" (and {len(blind) - 1} more rows)" if len(blind) > 1 else ""
    place = f" in {where}" if where else ""
    fact = f"{query}{f' of {of}' if of else ''} may attend to nothing{more}{place}"
    raise MaskError(fact, "allow each query at least one key, or remove the query")
