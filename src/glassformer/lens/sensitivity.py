"""J = diag(A) − A Aᵀ, ∂A/∂q = β J K, ∂H/∂k_i = β A_i (v_i − H) qᵀ: the Jacobians of attention in closed form.

A_j = softargmax(β q_j Kᵀ + bias) for each query j; all heads at once. Axes: t query, s key, d key width, e value width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.core import Attended, Pattern, attend
from glassformer.core.fused import repeat_kv
from glassformer.core.masks import causal as causal_mask
from glassformer.core.masks import combine
from glassformer.errors import InputError
from glassformer.lens.trace import Run


class Layer(NamedTuple):
    """S = β Q Kᵀ + bias, −∞ where not M: queries, keys and values of one layer, with its β, mask and bias."""

    Q: Float[Tensor, "*b t d"]
    K: Float[Tensor, "*b s d"]
    V: Float[Tensor, "*b s e"]
    beta: float
    mask: Bool[Tensor, "..."] | None = None
    bias: Float[Tensor, "..."] | None = None

    def attend(self) -> Attended:
        return attend(self.Q, self.K, self.V, beta=self.beta, mask=self.mask, bias=self.bias)

    def rows(self, rows: slice | list[int]) -> Layer:
        """Select query rows: the Jacobians of all queries have t · s² · d elements."""
        return self._replace(Q=self.Q[..., rows, :], mask=_rows(self.mask, rows), bias=_rows(self.bias, rows))

    def head(self, batch: int, head: int) -> Layer:
        """Select one head of one input from a layer (b, h, …)."""
        for name, index, size in (("input", batch, self.Q.shape[0]), ("head", head, self.Q.shape[1])):
            if not 0 <= index < size:
                raise InputError(f"there is no {name} {index}", f"they are 0 to {size - 1}")
        Q, K, V = (part[batch, head] for part in (self.Q, self.K, self.V))
        return Layer(Q, K, V, self.beta, _head(self.mask, batch, head), _head(self.bias, batch, head))


def _rows(part: Tensor | None, rows: slice | list[int]) -> Tensor | None:
    return part if part is None or part.dim() < 2 or part.shape[-2] == 1 else part[..., rows, :]


def _head(part: Tensor | None, batch: int, head: int) -> Tensor | None:
    if part is None:
        return None
    part = part[(None,) * (4 - part.dim())]
    return part[batch if len(part) > 1 else 0][head if part.shape[1] > 1 else 0]


def layer_at(run: Run, path: str) -> Layer:
    """Return a layer whose A and V were traced, shared keys expanded: `layer_at(run, "encoder.3.attention")`."""
    layer = scores_at(run, path)
    return layer._replace(V=repeat_kv(run[f"{path}.V"], layer.Q.shape[1]))


def scores_at(run: Run, path: str) -> Layer:
    """Return a layer of a run that traced its A or S, with values of width 0, for uses that need only the weights."""
    found = [run.passes(f"{path}.{symbol}")[-1] for symbol in "AS" if f"{path}.{symbol}" in run]
    kept = next((part for part in found if isinstance(part, Pattern)), None)
    if not found:
        near = sorted({name.rpartition(".")[0] for name in run if name.endswith((".A", ".S"))})
        remedy = f"choose one of {', '.join(near)}" if near else f'trace "{path}.A"'
        raise InputError(f"the run has no attention weights of {path!r}", remedy)
    if kept is None:
        raise InputError(
            f"{path} ran with edited scores or with dropout", "trace the model without edits, in eval mode"
        )
    K = repeat_kv(kept.K, kept.shape[1])
    mask = combine(kept.mask, causal_mask(*kept.shape[2:], device=K.device) if kept.causal else None)
    return Layer(kept.Q, K, K[..., :0], kept.beta, mask, kept.bias)


class Jacobians(NamedTuple):
    """Derivatives of A_j and H_j with respect to the query q_j, any key k_i, any value v_i, and β.

    ∂H_j/∂v_i = A_ji I: only the factor A_ji is kept.
    """

    A: Float[Tensor, "*b t s"]
    H: Float[Tensor, "*b t e"]
    A_q: Float[Tensor, "*b t s d"]
    A_k: Float[Tensor, "*b t s s d"]
    A_beta: Float[Tensor, "*b t s"]
    H_q: Float[Tensor, "*b t e d"]
    H_k: Float[Tensor, "*b t e s d"]
    H_v: Float[Tensor, "*b t s"]
    H_beta: Float[Tensor, "*b t e"]


def jacobians(layer: Layer) -> Jacobians:
    """∂A/∂q = β J K, ∂A/∂k_i = β J_i qᵀ, ∂A/∂β = J K q; ∂H/∂… = Vᵀ ∂A/∂…, ∂H/∂v_i = A_i I."""
    Q, K, V, beta = layer[:4]
    _, A, H = layer.attend()
    A_q = by_query(A, K, beta)
    A_beta = centred(A, (Q @ K.mT).unsqueeze(-1)).squeeze(-1)
    q = Q[..., :, None, None, :]
    A_k = beta * jacobian(A).unsqueeze(-1) * q
    H_k = by_score(A, H, V).mT.unsqueeze(-1) * (beta * q)
    return Jacobians(A, H, A_q, A_k, A_beta, V.mT.unsqueeze(-3) @ A_q, H_k, A, A_beta @ V)


def jacobian(A: Float[Tensor, "*b s"]) -> Float[Tensor, "*b s s"]:
    """J = diag(A) − A Aᵀ: the derivative of A with respect to the scores. It is symmetric and its rows sum to 0."""
    return torch.diag_embed(A) - A.unsqueeze(-1) * A.unsqueeze(-2)


def centred(A: Float[Tensor, "*b t s"], Y: Float[Tensor, "*b t s d"]) -> Float[Tensor, "*b t s d"]:
    """J Y = A ⊙ (Y − Σ A Y): J times a matrix that differs between queries, without forming J."""
    mean = (A.unsqueeze(-1) * Y).sum(-2, keepdim=True)
    return A.unsqueeze(-1) * (Y - mean)


def by_query(A: Float[Tensor, "*b t s"], K: Float[Tensor, "*b s d"], beta: float) -> Float[Tensor, "*b t s d"]:
    """∂A_j/∂q_j = β J_j K = β A_ja (k_a − Σ A_j k)."""
    return beta * A.unsqueeze(-1) * (K.unsqueeze(-3) - (A @ K).unsqueeze(-2))


def by_score(
    A: Float[Tensor, "*b t s"], H: Float[Tensor, "*b t e"], V: Float[Tensor, "*b s e"]
) -> Float[Tensor, "*b t s e"]:
    """∂H_j/∂S_ji = A_ji (v_i − H_j): towards the value of that key, in proportion to its weight."""
    return A.unsqueeze(-1) * (V.unsqueeze(-3) - H.unsqueeze(-2))
