"""H_t = Σ_{t−w < s ≤ t} A_ts V_s: causal attention to the last w keys, in chunks of w queries.

Each chunk of w queries attends to the w keys of its chunk and those of the one before, so n queries cost 2·w·n products
instead of the n² of a mask over the whole square. Beltagy, Peters, Cohan, "Longformer", 2020.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from glassformer.core.fused import Fused, attend_fused
from glassformer.core.masks import window
from glassformer.errors import ConfigError, ShapeError


def attend_window(
    Q: Float[Tensor, "b h n d"],
    K: Float[Tensor, "b g n d"],
    V: Float[Tensor, "b g n e"],
    *,
    width: int,
    beta: float | None = None,
) -> Fused:
    """H and L as in `attend_fused` with the mask `window(n, n, width=width, causal=True)`.

    `Pattern(Q, K, L, beta=beta, causal=True, window=width)` recomputes A for the requested heads and rows.
    """
    if width < 1:
        raise ConfigError(f"width={width} leaves no key to attend to", "choose a window of at least 1")
    b, n = len(Q), Q.shape[2]
    if K.shape[2] != n:
        raise ShapeError(
            f"there are {n} queries and {K.shape[2]} keys", "give as many keys as queries, without a cache"
        )
    if n <= 2 * width:
        mask = window(n, n, width=width, causal=True, device=Q.device)
        return attend_fused(Q, K, V, beta=beta, mask=mask)
    first = attend_fused(Q[:, :, :width], K[:, :, :width], V[:, :, :width], beta=beta, causal=True)
    chunks = -(-n // width) - 1  # after the first, which has no chunk before it
    extra = (chunks + 1) * width - n
    queries = pad(Q[:, :, width:], (0, 0, 0, extra)).unflatten(2, (chunks, width))
    # chunk i: the keys of chunks i − 1 and i
    pairs = [pad(part, (0, 0, 0, extra)).unfold(2, 2 * width, width).mT for part in (K, V)]
    batched = [part.transpose(1, 2).flatten(0, 1) for part in (queries, *pairs)]
    mask = window(width, 2 * width, width=width, causal=True, device=Q.device)
    rest = attend_fused(*batched, beta=beta, mask=mask)
    H = rest.H.unflatten(0, (b, chunks)).transpose(1, 2).flatten(2, 3)[:, :, : n - width]
    if first.L is None or rest.L is None:
        return Fused(torch.cat([first.H, H], 2), None)
    L = rest.L.unflatten(0, (b, chunks)).transpose(1, 2).flatten(2, 3)[:, :, : n - width]
    return Fused(torch.cat([first.H, H], 2), torch.cat([first.L, L], 2))
