"""H = softargmax_β(Q Kᵀ) V in one kernel that never stores A, and L, from which any part of A can be recomputed.

The kernel returns L_t = log Σ_s exp(S_ts) for each row of scores, so A = exp(S − L) can be computed lazily for only
the requested heads and rows. Dao et al., "FlashAttention", 2022.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from glassformer.core.attention import (
    apply_mask_and_bias,
    attend,
    checked_bias,
    checked_mask,
    default_beta,
    product,
    require_match,
    require_pairs,
    scores,
    softargmax_,
)
from glassformer.core.masks import causal as causal_mask
from glassformer.core.masks import combine
from glassformer.core.memory import MAPPED, room
from glassformer.core.precision import bfloat16_works
from glassformer.core.values import has_values, is_plain
from glassformer.errors import ShapeError

# With fewer keys than fit a vector register, the CPU kernel mistakes a row of NaN for a masked row and returns 0.
FEW_KEYS = 32
LOG2E = math.log2(math.e)
MOST_WEIGHTS = 2**26  # of all heads, above which the backward pass does not keep A in memory

CHUNK = 256  # rows of A that are recomputed at a time
HELD_WEIGHTS = 2**22  # that `attend_in_bfloat16` has in memory at a time


class Fused(NamedTuple):
    """Head outputs H, and the log-sum-exp L of each row of scores if the kernel returns it."""

    H: Float[Tensor, "b h t e"]
    L: Float[Tensor, "b h t"] | None


def additive(mask: Bool[Tensor, "..."], like: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Convert a mask to a bias on the scores: 0 where the mask is True and −∞ where it is False."""
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
    """H as in `attend`, and L; the h query heads share g key/value heads in groups (h must be a multiple of g)."""
    _require_fit(Q, K, V)
    b, h, t, d = Q.shape
    s, e = V.shape[-2:]
    beta = default_beta(Q, beta)
    if beta <= 0:  # the kernel scales after masking, so −∞ · β would no longer be −∞
        Q, beta = Q * beta, 1.0
    if causal and (t != s or mask is not None):  # kernels align causal masks top-left, which is wrong with a cache
        mask = combine(mask, None if t == 1 else causal_mask(t, s, device=Q.device))
        causal = False
    shape = torch.Size((b, h, t, s))
    if mask is not None:
        checked_mask(mask, shape)
    if bias is not None:
        checked_bias(bias, shape)
    few = has_values(Q) and (s < FEW_KEYS or Q.numel() == 0)  # no slower without the kernel
    if few or (bias is not None and bias.requires_grad):  # the kernels do not compute the gradient of a bias
        K, V = repeat_kv(K, h), repeat_kv(V, h)
        return Fused(attend(Q, K, V, beta=beta, mask=mask, bias=bias, causal=causal).H, None)
    if mask is not None:
        bias = additive(mask, Q) if bias is None else bias.masked_fill(~mask, -math.inf)
    if Q.device.type != "cpu":
        if causal and bias is not None:
            bias, causal = bias + additive(causal_mask(t, s, device=Q.device), Q), False
        H = scaled_dot_product_attention(Q, K, V, bias, is_causal=causal, scale=beta, enable_gqa=True)
        return Fused(H, None)
    if d != e:  # the kernel needs equal widths: zeros change neither Q Kᵀ nor the columns of V that are kept
        Q, K, V = (pad(part, (0, max(d, e) - part.shape[-1])) for part in (Q, K, V))
    Q, K, V = (part if part.stride(-1) == 1 else part.contiguous() for part in (Q, K, V))  # it needs contiguous rows
    if bias is not None:
        bias = bias[(None,) * (4 - bias.dim())]
    H, L = _kernel(Q, K, V, bias, causal, beta)
    if H.dtype != L.dtype:  # half precision: the kernel may drop a NaN of A from H, but not from L
        H = H + (0.0 * L).to(H.dtype).unsqueeze(-1)
    return Fused(H[..., :e], L)


def attend_in_bfloat16(
    Q: Float[Tensor, "b h t d"], K: Float[Tensor, "b g s d"], V: Float[Tensor, "b g s e"], *, beta: float
) -> Float[Tensor, "b h t e"]:
    """H by two products of bfloat16 numbers, without mask and bias; A is in memory for some heads at a time."""
    b, h, t, d = Q.shape
    s, e = V.shape[-2:]
    K, V = repeat_kv(K, h), repeat_kv(V, h)
    Q = (Q * beta).bfloat16().reshape(b * h, t, d)
    K, V = K.bfloat16().reshape(b * h, s, d), V.bfloat16().reshape(b * h, s, e)
    each = max(1, HELD_WEIGHTS // (t * s))
    pairs = zip(Q.split(each), K.split(each), V.split(each), strict=True)
    H = [torch.bmm(torch.bmm(q, k.mT).softmax(-1), v) for q, k, v in pairs]
    return (H[0] if len(H) == 1 else torch.cat(H)).view(b, h, t, e).float()


def _kernel(Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, causal: bool, beta: float) -> tuple[Tensor, Tensor]:
    if not has_values(Q) or torch._C._are_functorch_transforms_active() or is_plain(Q, K, V):
        found = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            Q, K, V, 0.0, causal, attn_mask=bias, scale=beta
        )
    else:
        found = _Differentiated.apply(Q, K, V, bias, causal, beta)
    H, L = found
    return H, L


class _Differentiated(torch.autograd.Function):
    """The kernel with derivatives of any order: it provides only the first; higher ones use the explicit H."""

    @staticmethod
    def forward(ctx: Any, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, causal: bool, beta: float) -> Any:
        H, L = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            Q, K, V, 0.0, causal, attn_mask=bias, scale=beta
        )
        ctx.save_for_backward(Q, K, V, bias, H, L)
        ctx.mark_non_differentiable(L)
        ctx.seen = causal, beta
        return H, L

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        Q, K, V, bias, H, L = ctx.saved_tensors
        causal, beta = ctx.seen
        if not torch.is_grad_enabled():
            if not causal and _prefers_products(Q, K):
                return *_gradients(gradients[0], Q, K, V, bias, beta), None, None, None
            found = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                gradients[0], Q, K, V, H, L, 0.0, causal, attn_mask=bias, scale=beta
            )
            return *found, None, None, None
        parts = [part for part in (Q, K, V) if part.requires_grad]
        h = Q.shape[1]
        again = attend(Q, repeat_kv(K, h), repeat_kv(V, h), beta=beta, bias=bias, causal=causal).H
        back = iter(torch.autograd.grad(again, parts, gradients[0], create_graph=True))
        return *(next(back) if part.requires_grad else None for part in (Q, K, V)), None, None, None


def _prefers_products(Q: Tensor, K: Tensor) -> bool:
    """Return whether products with all of A in memory are faster than the backward kernel, as they are in bfloat16."""
    small = Q.shape[:3].numel() * K.shape[2] <= MOST_WEIGHTS
    return Q.dtype == torch.bfloat16 and Q.shape[1] == K.shape[1] and small and bfloat16_works()


def _gradients(
    G: Tensor, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, beta: float
) -> tuple[Tensor, Tensor, Tensor]:
    """∂/∂Q = β ∂S K, ∂/∂K = ∂Sᵀ β Q and ∂/∂V = Aᵀ G, where ∂S is the gradient of A = softargmax(S) for ∂A = G Vᵀ."""
    Q = Q * beta
    S = Q @ K.mT
    if bias is not None:
        S += bias
    A = S.softmax(-1)
    if bias is not None:
        A.masked_fill_(S.amax(-1, keepdim=True) == -math.inf, 0.0)  # rows without a key
    dS = torch.ops.aten._softmax_backward_data(G @ V.mT, A, -1, A.dtype)
    return (dS @ K).mul_(beta), dS.mT @ Q, A.mT @ G


def _require_fit(Q: Tensor, K: Tensor, V: Tensor) -> None:
    """Check the shapes, which the kernel does not: it would read out of bounds if a tensor were too small."""
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
            f"{Q.shape[1]} query heads cannot share {K.shape[1]} key/value heads evenly",
            "choose key/value heads that divide them",
        )


def repeat_kv(K: Float[Tensor, "b g s d"], heads: int) -> Float[Tensor, "b h s d"]:
    """Repeat each key/value head for the query heads of its group."""
    return K if K.shape[1] == heads else K.repeat_interleave(heads // K.shape[1], dim=1)


class Pattern:
    """The scores S and weights A of one forward pass of a layer, computed lazily for the requested heads and rows.

    Stores Q, K and L, which is n·d values per head instead of n². With a `window`, a query attends to the last `window`
    keys only. If autograd recorded the forward pass, `held` has the
    S and A that were used, so that gradients with respect to them are available.
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
        window: int | None = None,
    ) -> None:
        self.Q, self.K, self.L = Q, K, L
        self.beta, self.mask, self.bias, self.causal, self.window = beta, mask, bias, causal, window
        self.held: dict[str, Tensor] = {}

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (*self.Q.shape[:3], self.K.shape[2])

    def S(self, heads: slice | list[int] = slice(None), rows: slice | list[int] = slice(None)) -> Tensor:
        """S = β Q Kᵀ + bias, −∞ where masked, for the requested heads and query rows."""
        if "S" in self.held:
            return _rows_of(self.held["S"], heads, rows)
        Q, K = self._rows(heads, rows)
        bias = _part(self.bias, heads, rows)
        return scores(Q, K, beta=self.beta, mask=self._mask(heads, rows), bias=bias)

    def A(self, heads: slice | list[int] = slice(None), rows: slice | list[int] = slice(None)) -> Tensor:
        """A = exp(S − L), or softargmax(S) if gradients are needed, since L carries none.

        softargmax(S) is also used if scores are so large (large β) that the rounding error of L would show in S − L.
        """
        if "A" in self.held:
            return _rows_of(self.held["A"], heads, rows)
        L = None if self.L is None else self.L[:, heads][:, :, rows].unsqueeze(-1)
        if L is None or not self._is_plain() or bool((L.abs() > 32).any()):
            return softargmax_(self.S(heads, rows))
        Q, K = self._rows(heads, rows)
        if Q.dtype != L.dtype:  # half precision would round L as well
            return self.S(heads, rows).sub_(L).exp_()
        # One product computes S − L: an extra coordinate multiplies −L of each query by 1 of each key. Powers of 2 are
        # faster: exp(S − L) = 2^((S − L) log₂ e).
        Q, K = torch.cat((Q * (self.beta * LOG2E), L * -LOG2E), -1), torch.cat((K, torch.ones_like(K[..., :1])), -1)
        bias = _part(self.bias, heads, rows)
        bias = None if bias is None else bias * LOG2E
        mask = self._mask(heads, rows)
        if mask is None and bias is None and Q.device.type == "cpu":
            return _exp2_of_product(Q, K)
        return apply_mask_and_bias(product(Q, K), mask, bias).exp2_()

    def allowed(self, rows: slice | list[int] = slice(None)) -> Bool[Tensor, "b g t s"]:
        """Return the effective mask of the requested query rows (True = may attend); g is 1 if all heads share it."""
        if self.bias is not None:  # which may itself contain −∞
            return ~torch.isneginf(self.S(rows=rows).detach())
        mask = self._mask(slice(None), rows)
        every = torch.ones_like(self.Q[:, :1, rows, :1], dtype=torch.bool).expand(-1, -1, -1, self.shape[-1])
        return every if mask is None else every & mask

    def _rows(self, heads: slice | list[int], rows: slice | list[int]) -> tuple[Tensor, Tensor]:
        return self.Q[:, heads][:, :, rows], repeat_kv(self.K, self.shape[1])[:, heads]

    def _mask(self, heads: slice | list[int], rows: slice | list[int]) -> Tensor | None:
        """Return the mask of the requested rows only; row i of a causal layer is at key position s − t + i."""
        t, s = self.shape[2:]
        here = torch.arange(s - t, s, device=self.Q.device)[rows]
        keys = torch.arange(s, device=self.Q.device)
        past = keys <= here[:, None] if self.causal else None
        if self.window is not None:
            past = combine(past, keys > here[:, None] - self.window)
        return combine(_part(self.mask, heads, rows), past)

    def _is_plain(self) -> bool:
        return is_plain(self.Q, self.K, *(() if self.bias is None else (self.bias,)))


def _exp2_of_product(Q: Float[Tensor, "b h t d"], K: Float[Tensor, "b h s d"]) -> Float[Tensor, "b h t s"]:
    """2^(Q Kᵀ). Large results are computed in chunks of rows, which are still in the caches when they are raised."""
    size = Q.shape[:-1].numel() * K.shape[2] * Q.element_size()
    if size <= MAPPED:
        return product(Q, K).exp2_()
    A = room((*Q.shape[:-1], K.shape[2]), Q)
    one_dnn = torch.backends.mkldnn.is_available() and Q.dtype == torch.float32
    for q, k, a in zip(Q.flatten(0, 1), K.flatten(0, 1), A.flatten(0, 1), strict=True):
        if one_dnn:
            k = torch.ops.mkldnn._reorder_linear_weight(k.contiguous(), CHUNK)
        for part, to in zip(q.split(CHUNK), a.split(CHUNK), strict=True):
            if one_dnn:
                torch.exp2(torch.ops.mkldnn._linear_pointwise(part, k, None, "none", [], ""), out=to)
            else:
                torch.mm(part, k.T, out=to).exp2_()
    return A


def _rows_of(full: Tensor, heads: slice | list[int], rows: slice | list[int]) -> Tensor:
    return full if heads == rows == slice(None) else full[:, heads][:, :, rows]


def _part(full: Tensor | None, heads: slice | list[int], rows: slice | list[int]) -> Tensor | None:
    """Select heads and rows of a tensor that broadcasts to (b, h, t, s)."""
    if full is None:
        return None
    full = full[(None,) * (4 - full.dim())]
    if full.shape[1] != 1:
        full = full[:, heads]
    return full if full.shape[2] == 1 else full[:, :, rows]
