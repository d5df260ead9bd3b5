"""H = softargmax_β(Q Kᵀ) V in one kernel that never holds A, and L, from which any part of A comes back.

L_t = log Σ_s exp(S_ts) is what the kernel keeps of each row of scores, so A = exp(S − L), late, for just the heads
and rows asked for. Dao et al., "FlashAttention", 2022.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from glassformer.core.attention import (
    attend,
    checked_bias,
    checked_mask,
    default_beta,
    require_match,
    require_pairs,
    scores,
    softargmax,
)
from glassformer.core.masks import causal as causal_mask
from glassformer.core.masks import combine
from glassformer.core.values import has_values
from glassformer.errors import ShapeError

# With fewer keys than a vector register holds, the CPU's kernel takes a row of NaN for a masked one and answers 0.
FEW_KEYS = 32


class Fused(NamedTuple):
    """Head outputs, and the log-sum-exp of each row of scores where the kernel gives it."""

    H: Float[Tensor, "b h t e"]
    L: Float[Tensor, "b h t"] | None


def additive(mask: Bool[Tensor, "..."], like: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """0 where the mask is True and −∞ where it is False: a mask as a bias on the scores."""
    return torch.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(~mask, -math.inf)


def attend_fused(
    Q: Float[Tensor, "b h t d"],
    K: Float[Tensor, "b g s d"],
    V: Float[Tensor, "b g s e"],
    *,
    beta: float | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    causal: bool = False,
) -> Fused:
    """The H of `attend`, and L; heads h in groups that share the g heads of K and V (h a multiple of g)."""
    _require_fit(Q, K, V)
    b, h, t, d = Q.shape
    s, e = V.shape[-2:]
    beta = default_beta(Q, beta)
    if beta <= 0:  # the kernel scales after it has masked, and −∞ · β would no longer be −∞
        Q, beta = Q * beta, 1.0
    if causal and (t != s or mask is not None):  # kernels align a causal mask top-left: wrong with a cache
        mask = combine(mask, None if t == 1 else causal_mask(t, s, device=Q.device))
        causal = False
    shape = torch.Size((b, h, t, s))
    if mask is not None:
        checked_mask(mask, shape)
    if bias is not None:
        checked_bias(bias, shape)
    few = has_values(Q) and (s < FEW_KEYS or Q.numel() == 0)  # which is no slower without the kernel
    if few or (bias is not None and bias.requires_grad):  # no kernel here gives a bias its gradient
        return Fused(attend(Q, spread(K, h), spread(V, h), beta=beta, mask=mask, bias=bias, causal=causal).H, None)
    if mask is not None:
        bias = additive(mask, Q) if bias is None else bias.masked_fill(~mask, -math.inf)
    if Q.device.type != "cpu":
        if causal and bias is not None:
            bias, causal = bias + additive(causal_mask(t, s, device=Q.device), Q), False
        H = scaled_dot_product_attention(Q, K, V, bias, is_causal=causal, scale=beta, enable_gqa=True)
        return Fused(H, None)
    if d != e:  # the kernel wants one width: zeros change neither Q Kᵀ nor the columns of V that are kept
        Q, K, V = (pad(part, (0, max(d, e) - part.shape[-1])) for part in (Q, K, V))
    Q, K, V = (part if part.stride(-1) == 1 else part.contiguous() for part in (Q, K, V))  # it reads rows as blocks
    if bias is not None:
        bias = bias[(None,) * (4 - bias.dim())]
    H, L = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(Q, K, V, 0.0, causal, attn_mask=bias, scale=beta)
    if H.dtype != L.dtype:  # half precision: the kernel may lose a NaN of A on the way to H, but not to L
        H = H + (0.0 * L).to(H.dtype).unsqueeze(-1)
    return Fused(H[..., :e], L)


def _require_fit(Q: Tensor, K: Tensor, V: Tensor) -> None:
    """What the kernel takes for granted: it would read past the end of a tensor that is too small."""
    require_match(Q, K)
    require_pairs(K, V)
    if K.shape[:2] != V.shape[:2] or Q.shape[0] != K.shape[0]:
        raise ShapeError(
            f"batch and heads are {tuple(Q.shape[:2])} of queries, {tuple(K.shape[:2])} of keys and "
            f"{tuple(V.shape[:2])} of values",
            "give all of them one batch, and keys and values one number of heads",
        )
    if Q.shape[1] % K.shape[1]:
        raise ShapeError(
            f"{Q.shape[1]} query heads do not share {K.shape[1]} key/value heads evenly",
            "choose key/value heads that divide them",
        )


def spread(K: Float[Tensor, "b g s d"], heads: int) -> Float[Tensor, "b h s d"]:
    """Each key/value head repeated for the query heads of its group."""
    return K if K.shape[1] == heads else K.repeat_interleave(heads // K.shape[1], dim=1)


class Pattern:
    """The scores S and weights A of one layer's run, made when asked for and only where asked for.

    Holds Q, K and L, n·d numbers a head and not n².
    """

    def __init__(
        self,
        Q: Float[Tensor, "b h t d"],
        K: Float[Tensor, "b g s d"],
        L: Float[Tensor, "b h t"] | None,
        *,
        beta: float,
        mask: Bool[Tensor, "..."] | None = None,
        bias: Float[Tensor, "..."] | None = None,
        causal: bool = False,
    ) -> None:
        self.Q, self.K, self.L = Q, K, L
        self.beta, self.mask, self.bias, self.causal = beta, mask, bias, causal

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (*self.Q.shape[:3], self.K.shape[2])

    def S(self, heads: slice | list[int] = slice(None), rows: slice | list[int] = slice(None)) -> Tensor:
        """S = β Q Kᵀ + bias, −∞ where masked, of the heads and query rows asked for."""
        t, s = self.shape[2:]
        past = None
        if self.causal:  # of the asked rows alone: row i stands on key s − t + i
            here = torch.arange(s - t, s, device=self.Q.device)[rows]
            past = torch.arange(s, device=self.Q.device) <= here[:, None]
        return scores(
            self.Q[:, heads][:, :, rows],
            spread(self.K, self.shape[1])[:, heads],
            beta=self.beta,
            mask=combine(_part(self.mask, heads, rows), past),
            bias=_part(self.bias, heads, rows),
        )

    def A(self, heads: slice | list[int] = slice(None), rows: slice | list[int] = slice(None)) -> Tensor:
        """A = exp(S − L). Where gradients are wanted, softargmax(S): L carries none.

        And where scores are so large (a large β) that the rounding of L would show in their difference.
        """
        S = self.S(heads, rows)
        L = None if self.L is None else self.L[:, heads][:, :, rows].unsqueeze(-1)
        if L is None or S.requires_grad or bool((L.abs() > 32).any()):
            return softargmax(S)
        return S.sub_(L).exp_()


def _part(full: Tensor | None, heads: slice | list[int], rows: slice | list[int]) -> Tensor | None:
    """The heads and rows of something that broadcasts to (b, h, t, s)."""
    if full is None:
        return None
    full = full[(None,) * (4 - full.dim())]
    if full.shape[1] != 1:
        full = full[:, heads]
    return full if full.shape[2] == 1 else full[:, :, rows]
