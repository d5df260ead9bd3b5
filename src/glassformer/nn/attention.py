"""O = W_O [H¹ … Hʰ], Hⁱ = softargmax_β(Qⁱ Kⁱᵀ) Vⁱ, Q = W_Q X, K = W_K Z, V = W_V Z: multi-head attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, is_grad_enabled, nn

from glassformer.core.attention import drop, require_dropout, scores, softargmax, softargmax_
from glassformer.core.fused import Pattern, attend_fused, repeat_kv
from glassformer.core.masks import window
from glassformer.core.rotary import rotate
from glassformer.core.windowed import attend_window
from glassformer.errors import ConfigError, ShapeError
from glassformer.nn.cache import LayerCache
from glassformer.nn.linear import Linear, joint
from glassformer.nn.tap import Tap, active


class Turn(NamedTuple):
    """Cosines and sines of the rotary angles of queries and keys, and the layout of the rotated pairs."""

    cos: Tensor
    sin: Tensor
    layout: str


class View(NamedTuple):
    """What the queries may attend to: mask M (True = may attend), causal or not, a bias on S, and rotary angles.

    With a `window`, which needs a causal view without mask and bias, each query attends to the last `window` keys.
    """

    mask: Bool[Tensor, "..."] | None = None
    causal: bool = False
    bias: Float[Tensor, "..."] | None = None
    turn: Turn | None = None
    window: int | None = None


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """Configuration of attention: `heads` query heads share `kv_heads` key/value heads.

    `biases` lists the projections that have a bias, by the letters q, k, v and o.
    """

    width: int
    heads: int
    kv_heads: int
    key_width: int
    value_width: int
    memory_width: int
    beta: float
    biases: str = "qkvo"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("width", "heads", "kv_heads", "key_width", "value_width", "memory_width"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}", "choose widths and heads of at least 1")
        if self.heads % self.kv_heads:
            raise ConfigError(
                f"{self.heads} query heads cannot share {self.kv_heads} key/value heads evenly",
                f"choose key/value heads that divide {self.heads} ({_divisors(self.heads)})",
            )
        if set(self.biases) - set("qkvo"):
            raise ConfigError(f"biases are {self.biases!r}", "list projections by their letters q, k, v, o")
        require_dropout(self.dropout)


def heads(width: int, count: int, **changes: Any) -> AttentionConfig:
    """Return a config with `count` heads of width d = `width / count` and β = 1/√d; `changes` override its fields."""
    if count < 1 or (width % count and "key_width" not in changes):
        raise ConfigError(
            f"width {width} does not split into {count} heads", f"choose heads that divide it ({_divisors(width)})"
        )
    each = changes.get("key_width", width // count)
    plain = {
        "kv_heads": count,
        "key_width": each,
        "value_width": each,
        "memory_width": width,
        "beta": 1 / math.sqrt(max(each, 1)),
    }
    return AttentionConfig(width=width, heads=count, **{**plain, **changes})


def _divisors(n: int) -> str:
    found = [d for d in range(1, min(n, 10_000) + 1) if n % d == 0]  # n may come from an untrusted file
    return ", ".join(map(str, found[:6])) + (", …" if len(found) > 6 else "")


class HeadOutputs:
    """Cⁱ = W_Oⁱ Hⁱ, the contribution of each head to O, computed lazily; O = Σ_i Cⁱ + b."""

    def __init__(self, H: Float[Tensor, "b h t e"], WO: Any) -> None:
        self._H, self._WO, self._graded = H, WO, is_grad_enabled()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (*self._H.shape[:3], self._WO.out_features)

    def HO(self, heads: slice | list[int] = slice(None), rows: slice | list[int] = slice(None)) -> Tensor:
        """Return C for the requested heads and query rows; it requires gradients only if the pass recorded them."""
        with torch.set_grad_enabled(self._graded and is_grad_enabled()):
            return self._contributions(heads, rows)

    def _contributions(self, heads: slice | list[int], rows: slice | list[int]) -> Tensor:
        h, e = self._H.shape[1], self._H.shape[3]
        chosen = torch.arange(h)[heads].tolist()
        H = self._H[:, :, rows]
        if isinstance(self._WO, nn.Linear):
            W = self._WO.weight.unflatten(1, (h, e))[:, chosen]
            return torch.einsum("bhte,mhe->bhtm", H[:, chosen], W)
        rest = self._WO(H.new_zeros(1, 1, h * e))  # weights not accessible: compute b, then one head at a time
        only = [torch.nn.functional.pad(H[:, i], (i * e, (h - i - 1) * e)) for i in chosen]
        return torch.stack([self._WO(one) - rest for one in only], 1)


class MultiHeadAttention(nn.Module):
    """Multi-head attention of X to itself, or to a memory Z.

    The fused kernel runs unless S or A is edited or a gradient with respect to them may be needed. Watchers of S or A
    in a fused layer receive a `Pattern`, from which both are recomputed lazily and exactly. Q0 and K0 are queries and
    keys before rotary positions, Q and K after them; HO is the contribution of each head to O.
    """

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        self.config = c = config
        self.WQ = Linear(c.width, c.heads * c.key_width, bias="q" in c.biases)
        self.WK = Linear(c.memory_width, c.kv_heads * c.key_width, bias="k" in c.biases)
        self.WV = Linear(c.memory_width, c.kv_heads * c.value_width, bias="v" in c.biases)
        self.WO = Linear(c.heads * c.value_width, c.width, bias="o" in c.biases)
        self.Q0, self.K0, self.Q, self.K, self.V = Tap(), Tap(), Tap(), Tap(), Tap()
        self.S, self.A, self.H, self.HO, self.O = Tap(), Tap(), Tap(), Tap(), Tap()
        self.beta_editors: list[Any] = []

    @property
    def beta(self) -> float:
        """The scale β of the scores, from the config unless edited in the current context."""
        beta = self.config.beta
        for edit in active(self.beta_editors) if self.beta_editors else ():
            beta = edit(beta)
        return beta

    def forward(
        self,
        X: Float[Tensor, "b t m"],
        Z: Float[Tensor, "b s n"] | None = None,
        view: View = View(),
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "b t m"]:
        if X.dim() != 3:
            raise ShapeError(
                f"attention takes three axes, got a tensor of shape {tuple(X.shape)}", "give (batch, tokens, width)"
            )
        if cache is not None and cache.complete:  # the memory was already projected
            Q, (K, V) = self.queries(self.WQ(X), view), cache.kept()
        else:
            if Z is None:
                q, k, v = joint(X, self.WQ, self.WK, self.WV)
            else:
                q, (k, v) = self.WQ(X), joint(Z, self.WK, self.WV)
            Q, K, V = self.queries(q, view), *self.keys(k, v, view)
            if cache is not None:
                K, V = cache.append(K, V)
                cache.shared = cache.shared or self.S.watched or self.A.watched
        return self.O(self.join(self.H(self.gather(Q, K, V, view))))

    def project(self, Z: Float[Tensor, "b s n"], view: View) -> tuple[Tensor, Tensor]:
        """K = W_K Z and V = W_V Z, split into heads; rotary positions are applied to the keys."""
        k, v = joint(Z, self.WK, self.WV)
        return self.keys(k, v, view)

    def queries(self, q: Float[Tensor, "b t hd"], view: View) -> Float[Tensor, "b h t d"]:
        return self.Q(self.turn(self.Q0(self.split(q, self.config.heads)), view))

    def keys(self, k: Float[Tensor, "b s gd"], v: Float[Tensor, "b s ge"], view: View) -> tuple[Tensor, Tensor]:
        K = self.K(self.turn(self.K0(self.split(k, self.config.kv_heads)), view))
        return K, self.V(self.split(v, self.config.kv_heads))

    def gather(self, Q: Tensor, K: Tensor, V: Tensor, view: View) -> Float[Tensor, "b h t e"]:
        """H = softargmax_β(Q Kᵀ) V: fused, unless an edit, dropout, a watcher of all of A or a gradient needs A."""
        graded = is_grad_enabled() and (Q.requires_grad or K.requires_grad) and (self.S.watched or self.A.watched)
        dropped = self.training and self.config.dropout
        if graded or dropped or self.S.edited or self.A.edited or self.A.whole:
            return self.explicit(Q, K, V, view, graded)
        if view.window is not None:
            H, L = attend_window(Q, K, V, beta=self.beta, width=view.window)
        else:
            H, L = attend_fused(Q, K, V, beta=self.beta, mask=view.mask, causal=view.causal, bias=view.bias)
        if self.S.watched or self.A.watched:
            pattern = self.pattern(Q, K, L, view)
            self.S(pattern)
            self.A(pattern)
        return H

    def pattern(self, Q: Tensor, K: Tensor, L: Tensor | None, view: View) -> Pattern:
        return Pattern(Q, K, L, beta=self.beta, mask=view.mask, causal=view.causal, bias=view.bias, window=view.window)

    def explicit(self, Q: Tensor, K: Tensor, V: Tensor, view: View, graded: bool = False) -> Float[Tensor, "b h t e"]:
        """H as in `gather`, with A (and S if needed) in memory, so that it can be read, edited and differentiated."""
        K, V = repeat_kv(K, self.config.heads), repeat_kv(V, self.config.heads)
        if view.window is not None:
            mask = window(Q.shape[2], K.shape[2], width=view.window, causal=True, device=Q.device)
            view = view._replace(mask=mask, causal=False, window=None)
        S = scores(Q, K, beta=self.beta, mask=view.mask, bias=view.bias, causal=view.causal)
        dropped = self.training and self.config.dropout > 0
        if self.S.edited or (self.S.watched and (self.A.edited or dropped)):
            A = self.A(softargmax(self.S(S)))
        elif graded and not self.A.edited and not dropped:
            pattern = self.pattern(Q, K, None, view)
            A = softargmax(S)
            pattern.held = {"S": S, "A": A}
            self.S(pattern)
            self.A(pattern)
        else:  # S can still be recomputed lazily, and A reuses its memory
            if self.S.watched:
                self.S(self.pattern(Q, K, None, view))
            A = self.A(softargmax_(S))
        return drop(A, self.config.dropout if self.training else 0.0, None) @ V

    def join(self, H: Float[Tensor, "b h t e"]) -> Float[Tensor, "b t m"]:
        """O = W_O [H¹ … Hʰ] + b."""
        if self.HO.edited:
            rest = self.WO(H.new_zeros(1, 1, H.shape[1] * H.shape[3]))
            return self.HO(HeadOutputs(H, self.WO).HO()).sum(1) + rest
        if self.HO.watched:
            self.HO(HeadOutputs(H, self.WO))
        return self.WO(H.transpose(1, 2).flatten(2))

    @staticmethod
    def split(Y: Float[Tensor, "b t hd"], heads: int) -> Float[Tensor, "b h t d"]:
        return Y.unflatten(-1, (heads, -1)).transpose(1, 2)

    @staticmethod
    def turn(Y: Float[Tensor, "b h t d"], view: View) -> Float[Tensor, "b h t d"]:
        if view.turn is None:
            return Y
        cos, sin, layout = view.turn
        return rotate(Y, cos, sin, layout=layout)


def weights_of(pattern: Pattern | Tensor) -> Tensor:
    """Return A, whether the tap passed a lazy `Pattern` or a tensor."""
    return pattern.A() if isinstance(pattern, Pattern) else pattern
