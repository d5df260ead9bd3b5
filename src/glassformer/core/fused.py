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

from glassformer.core.attention import attend, checked_mask, default_beta, scores, softargmax
from glassformer.core.masks import causal as causal_mask
from glassformer.core.masks import combine


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
    t, s = Q.shape[-2], K.shape[-2]
    beta = default_beta(Q, beta)
    if beta <= 0:  # the kernel scales after it has masked, and −∞ · β would no longer be −∞
        Q, beta = Q * beta, 1.0
    if causal and (t != s or mask is not None):  # kernels align a causal mask top-left: wrong with a cache
        mask = combine(mask, None if t == 1 else causal_mask(t, s, device=Q.device))
        causal = False
    if mask is not None:
        checked_mask(mask, Q[..., :1].expand(*Q.shape[:-1], s))
    if bias is not None and bias.requires_grad:  # no kernel here gives a bias its gradient
        K, V = spread(K, Q.shape[1]), spread(V, Q.shape[1])
        S, _, H = attend(Q, K, V, beta=beta, mask=mask, bias=bias, causal=causal)
        return Fused(H, torch.logsumexp(S, -1))
    if mask is not None:
        bias = additive(mask, Q) if bias is None else bias.masked_fill(~mask, -math.inf)
    if Q.device.type != "cpu":
        if causal and bias is not None:
            bias, causal = bias + additive(causal_mask(t, s, device=Q.device), Q), False
        H = scaled_dot_product_attention(Q, K, V, bias, is_causal=causal, scale=beta, enable_gqa=True)
        return Fused(H, None)
    d, e = Q.shape[-1], V.shape[-1]
    if d != e:  # the kernel wants one width: zeros change neither Q Kᵀ nor the columns of V that are kept
        Q, K, V = (pad(part, (0, max(d, e) - part.shape[-1])) for part in (Q, K, V))
    while bias is not None and bias.dim() < 4:
        bias = bias.unsqueeze(0)
    H, L = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(Q, K, V, 0.0, causal, attn_mask=bias, scale=beta)
    return Fused(H[..., :e], L)


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
        mask = combine(self.mask, causal_mask(*self.shape[2:], device=self.Q.device) if self.causal else None)
        return scores(
            self.Q[:, heads][:, :, rows],
            spread(self.K, self.shape[1])[:, heads],
            beta=self.beta,
            mask=_part(mask, heads, rows),
            bias=_part(self.bias, heads, rows),
        )

    def A(self, heads: slice | list[int] = slice(None), rows: slice | list[int] = slice(None)) -> Tensor:
        """A = exp(S − L). Where gradients are wanted, softargmax(S): L carries none."""
        S = self.S(heads, rows)
        if self.L is None or S.requires_grad:
            return softargmax(S)
        return S.sub_(self.L[:, heads][:, :, rows].unsqueeze(-1)).exp_()


def _part(full: Tensor | None, heads: slice | list[int], rows: slice | list[int]) -> Tensor | None:
    """The heads and rows of something that broadcasts to (b, h, t, s)."""
    if full is None:
        return None
    full = full[(None,) * (4 - full.dim())]
    if full.shape[1] != 1:
        full = full[:, heads]
    return full if full.shape[2] == 1 else full[:, :, rows]
