"""A = softargmax_β(Q Kᵀ), H = A V: scaled dot-product attention, soft and hard, explicit and fused.

Vaswani et al., "Attention Is All You Need", 2017. Axes: t query, s key, d key width, e value width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.core.masks import causal as causal_mask
from glassformer.core.masks import combine, require_rows
from glassformer.core.memory import MAPPED, room
from glassformer.core.values import has_values, is_plain
from glassformer.errors import ConfigError, InputError, MaskError, ShapeError


class Attended(NamedTuple):
    """Scores S, attention weights A and outputs H of an attention head."""

    S: Float[Tensor, "*b t s"]
    A: Float[Tensor, "*b t s"]
    H: Float[Tensor, "*b t e"]


def softargmax(S: Float[Tensor, "*shape"], beta: float = 1.0, dim: int = -1) -> Float[Tensor, "*shape"]:
    """softargmax_β(s)_i = exp(β sᵢ) / Σ_j exp(β s_j). β = ∞ is the argmax, β = 0 uniform over unmasked entries."""
    if beta == 1.0:
        return torch.softmax(S, dim)
    if beta == math.inf:
        return hardargmax(S, dim)
    below = S - S.detach().amax(dim, keepdim=True)  # ≤ 0, so no β overflows
    return torch.softmax((beta * below).masked_fill(torch.isneginf(S), -math.inf), dim)  # 0 · −∞ stays masked


def softargmax_(S: Float[Tensor, "*b s"]) -> Float[Tensor, "*b s"]:
    """softargmax over keys, in place unless a gradient needs the scores; the caller must not use S afterwards."""
    return torch.softmax(S, -1, out=S) if is_plain(S) else softargmax(S)


def hardargmax(S: Float[Tensor, "*shape"], dim: int = -1) -> Float[Tensor, "*shape"]:
    """lim β → ∞ of softargmax_β: 1 at the largest score, shared equally between ties."""
    largest = (S.amax(dim, keepdim=True) == S).to(S.dtype)
    return largest / largest.sum(dim, keepdim=True)


def straight_through(S: Float[Tensor, "*shape"], beta: float = 1.0, dim: int = -1) -> Float[Tensor, "*shape"]:
    """hardargmax in the forward pass, the derivative of softargmax_β in the backward pass (Bengio et al. 2013)."""
    soft = softargmax(S, beta, dim)
    return hardargmax(S, dim) + (soft - soft.detach())


def gumbel_softargmax(
    S: Float[Tensor, "*shape"], beta: float = 1.0, dim: int = -1, *, generator: torch.Generator | None = None
) -> Float[Tensor, "*shape"]:
    """softargmax_β(s + g) with Gumbel noise g: as β → ∞, a one-hot sample with probabilities softargmax_1(s).

    Jang, Gu, Poole 2017; Maddison, Mnih, Teh 2017.
    """
    noise = -torch.empty_like(S, requires_grad=False).exponential_(generator=generator).log()
    return softargmax(S + noise, beta, dim)


def scores(
    Q: Float[Tensor, "*b t d"],
    K: Float[Tensor, "*b s d"],
    *,
    beta: float | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    causal: bool = False,
) -> Float[Tensor, "*b t s"]:
    """S = β Q Kᵀ + bias, −∞ where the mask is False; β defaults to 1/√d."""
    require_match(Q, K)
    S = product(Q * default_beta(Q, beta), K)
    if causal:
        mask = combine(mask, causal_mask(Q.shape[-2], K.shape[-2], device=Q.device))
    return apply_mask_and_bias(S, mask, bias)


def product(Q: Float[Tensor, "*b t d"], K: Float[Tensor, "*b s d"]) -> Float[Tensor, "*b t s"]:
    """Q Kᵀ, written to huge pages if the result is large."""
    if not is_plain(Q, K) or Q.dim() < 3 or Q.shape[:-2] != K.shape[:-2]:  # first: compilers must not read sizes
        return Q @ K.mT
    if Q.shape[:-1].numel() * K.shape[-2] * Q.element_size() <= MAPPED:
        return Q @ K.mT
    out = room((*Q.shape[:-1], K.shape[-2]), Q)
    torch.bmm(Q.flatten(0, -3), K.flatten(0, -3).mT, out=out.flatten(0, -3))
    return out


def apply_mask_and_bias(
    S: Float[Tensor, "*b t s"], mask: Tensor | None, bias: Tensor | None
) -> Float[Tensor, "*b t s"]:
    """S + bias, −∞ where the mask is False; in place unless autograd, a compiler or a transform tracks S."""
    if bias is not None:
        checked_bias(bias, S.shape)
        S = S.add_(bias) if bias.dtype == S.dtype and is_plain(S, bias) else S + bias
    if mask is None:
        return S
    hidden = ~checked_mask(mask, S.shape)
    return S.masked_fill_(hidden, -math.inf) if is_plain(S) else S.masked_fill(hidden, -math.inf)


def attend(
    Q: Float[Tensor, "*b t d"],
    K: Float[Tensor, "*b s d"],
    V: Float[Tensor, "*b s e"],
    *,
    beta: float | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    causal: bool = False,
    normalise: Callable[[Tensor], Tensor] = softargmax,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
) -> Attended:
    """A = softargmax_β(Q Kᵀ), H = A V; β defaults to 1/√d.

    `normalise` maps scores to weights: softargmax, hardargmax, straight_through, or gumbel_softargmax with its
    generator bound. Dropout applies to the weights used for H; the returned A is from before dropout, so its rows still
    sum to 1.
    """
    require_pairs(K, V)
    require_batch(Q, K, V)
    S = scores(Q, K, beta=beta, mask=mask, bias=bias, causal=causal)
    A = normalise(S)
    return Attended(S, A, drop(A, dropout, generator) @ V)


def attend_columns(
    Q: Float[Tensor, "*b d t"],
    K: Float[Tensor, "*b d s"],
    V: Float[Tensor, "*b e s"],
    *,
    beta: float | None = None,
    mask: Bool[Tensor, "..."] | None = None,
) -> Attended:
    """S = β KᵀQ, A = softargmax over each column, H = V A: tokens, weights and mask by column."""
    require_match(Q.mT, K.mT)
    require_pairs(K.mT, V.mT)
    require_batch(Q, K, V)
    S = K.mT @ (Q * default_beta(Q.mT, beta))
    if mask is not None:
        S = S.masked_fill(~checked_mask(mask.mT, S.mT.shape).mT, -math.inf)
    A = softargmax(S, dim=-2)
    return Attended(S, A, V @ A)


def drop(A: Float[Tensor, "*shape"], dropout: float, generator: torch.Generator | None) -> Float[Tensor, "*shape"]:
    """Set each entry to 0 with probability p = `dropout` and scale the rest by 1/(1 − p) to preserve the mean."""
    require_dropout(dropout)
    if dropout == 0.0:
        return A
    kept = torch.empty_like(A, requires_grad=False).bernoulli_(1.0 - dropout, generator=generator)
    return A * kept / (1.0 - dropout)


def require_dropout(dropout: float) -> None:
    if not 0.0 <= dropout < 1.0:
        raise ConfigError(f"dropout is {dropout}", "choose a probability from 0 up to, not including, 1")


def default_beta(Q: Tensor, beta: float | None) -> float:
    return 1.0 / math.sqrt(Q.shape[-1]) if beta is None else beta


def require_match(Q: Tensor, K: Tensor) -> None:
    if not Q.is_floating_point() or Q.dtype != K.dtype:
        q, k = (str(part.dtype).removeprefix("torch.") for part in (Q, K))
        raise InputError(f"queries are {q} and keys {k}", "give both the same floating-point dtype")
    if Q.shape[-1] != K.shape[-1]:
        raise ShapeError(
            f"queries have width {Q.shape[-1]} and keys width {K.shape[-1]}", "project both to the same width"
        )
    if K.shape[-2] == 0:
        raise ShapeError("there are no keys to attend to", "give at least one key")


def require_pairs(K: Tensor, V: Tensor) -> None:
    if K.shape[-2] != V.shape[-2]:
        raise ShapeError(f"there are {K.shape[-2]} keys but {V.shape[-2]} values", "give each key one value")


def require_batch(Q: Tensor, K: Tensor, V: Tensor) -> None:
    """Check that the axes before the last two are equal or broadcast."""
    lead = [part.shape[:-2] for part in (Q, K, V)]
    if lead[0] == lead[1] == lead[2]:
        return  # the first call of torch.broadcast_shapes takes half a second because it imports sympy
    try:
        torch.broadcast_shapes(*lead)
    except RuntimeError:
        q, k, v = map(tuple, lead)
        fact = f"batch and heads are {q} of queries, {k} of keys and {v} of values"
        raise ShapeError(fact, "give all of them the same, or 1") from None


def checked_mask(mask: Tensor, S: torch.Size) -> Tensor:
    """Return the mask if it fits scores of shape S and leaves every query at least one key; raise otherwise."""
    if mask.dtype != torch.bool:
        raise MaskError(
            f"the mask has dtype {str(mask.dtype).removeprefix('torch.')}",
            "give a boolean mask, in which True = may attend",
        )
    if not _fits(mask, S):
        raise MaskError(
            f"a mask of shape {tuple(mask.shape)} does not fit scores of shape {tuple(S)}",
            "make it (…, queries, keys), or 1 where it is the same for all",
        )
    if has_values(mask):
        require_rows(torch.atleast_2d(mask))
    return mask


def checked_bias(bias: Tensor, S: torch.Size) -> Tensor:
    """Return the bias if it fits scores of shape S; raise otherwise."""
    if not _fits(bias, S):
        raise ShapeError(
            f"a bias of shape {tuple(bias.shape)} does not fit scores of shape {tuple(S)}",
            "make it (…, queries, keys), or 1 where it is the same for all",
        )
    return bias


def _fits(part: Tensor, S: torch.Size) -> bool:
    try:
        return torch.broadcast_shapes(part.shape, S) == S
    except RuntimeError:
        return False
