"""O = W_O [H¹ … Hʰ], Hⁱ = softargmax_β(Qⁱ Kⁱᵀ) Vⁱ, Q = W_Q X, K = W_K Z, V = W_V Z: several heads of attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.core.attention import drop, require_dropout, scores, softargmax, softargmax_
from glassformer.core.fused import Pattern, attend_fused, spread
from glassformer.core.rotary import rotate
from glassformer.errors import ConfigError, ShapeError
from glassformer.nn.cache import LayerCache
from glassformer.nn.linear import Linear
from glassformer.nn.tap import Tap


class Turn(NamedTuple):
    """The angles by which rotary positions turn queries and keys."""

    cos: Tensor
    sin: Tensor
    layout: str


class View(NamedTuple):
    """What queries see of the keys: M (True = may attend), the causal mask, a bias on S, and where they stand."""

    mask: Bool[Tensor, "..."] | None = None
    causal: bool = False
    bias: Float[Tensor, "..."] | None = None
    turn: Turn | None = None


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """`kv_heads` heads of keys and values serve `heads` heads of queries; `biases` names the projections with one."""

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
                f"{self.heads} query heads do not share {self.kv_heads} key/value heads evenly",
                f"choose key/value heads that divide {self.heads} ({_divisors(self.heads)})",
            )
        if set(self.biases) - set("qkvo"):
            raise ConfigError(f"biases are {self.biases!r}", "name them by the letters q, k, v, o")
        require_dropout(self.dropout)


def heads(width: int, count: int, **changes: Any) -> AttentionConfig:
    """`count` heads of width `width / count` and β = 1/√that, or as the changes say."""
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
    found = [d for d in range(1, min(n, 10_000) + 1) if n % d == 0]  # n may be any number that a file claims
    return ", ".join(map(str, found[:6])) + (", …" if len(found) > 6 else "")


class MultiHeadAttention(nn.Module):
    """Attention of X to itself, or to a memory Z.

    Fused while nobody edits S or A: who watches them gets a `Pattern`, from which they come back late.
    """

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        self.config = c = config
        self.beta = c.beta
        self.WQ = Linear(c.width, c.heads * c.key_width, bias="q" in c.biases)
        self.WK = Linear(c.memory_width, c.kv_heads * c.key_width, bias="k" in c.biases)
        self.WV = Linear(c.memory_width, c.kv_heads * c.value_width, bias="v" in c.biases)
        self.WO = Linear(c.heads * c.value_width, c.width, bias="o" in c.biases)
        self.Q, self.K, self.V, self.S, self.A, self.H, self.O = (Tap() for _ in "QKVSAHO")

    def forward(
        self,
        X: Float[Tensor, "b t m"],
        Z: Float[Tensor, "b s n"] | None = None,
        view: View = View(),
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "b t m"]:
        if X.dim() != 3:
            raise ShapeError(f"tokens of shape {tuple(X.shape)} came to attention", "give (batch, tokens, width)")
        Q = self.Q(self.turn(self.split(self.WQ(X), self.config.heads), view))
        if cache is not None and cache.complete:  # a memory that was projected before
            K, V = cache.kept()
        else:
            K, V = self.project(X if Z is None else Z, view)
            if cache is not None:
                K, V = cache.append(K, V)
        H = self.gather(Q, K, V, view)
        return self.O(self.WO(self.H(H).transpose(1, 2).flatten(2)))

    def project(self, Z: Float[Tensor, "b s n"], view: View) -> tuple[Tensor, Tensor]:
        """K = W_K Z and V = W_V Z, in heads; the keys turned by their positions."""
        K = self.split(self.WK(Z), self.config.kv_heads)
        V = self.split(self.WV(Z), self.config.kv_heads)
        return self.K(self.turn(K, view)), self.V(V)

    def gather(self, Q: Tensor, K: Tensor, V: Tensor, view: View) -> Float[Tensor, "b h t e"]:
        """H = softargmax_β(Q Kᵀ) V: fused, unless an edit, dropout or a reader of all of it needs A itself."""
        if self.S.edited or self.A.edited or self.A.whole or (self.training and self.config.dropout):
            return self.explicit(Q, K, V, view)
        H, L = attend_fused(Q, K, V, beta=self.beta, mask=view.mask, causal=view.causal, bias=view.bias)
        if self.S.watched or self.A.watched:
            pattern = self.pattern(Q, K, L, view)
            self.S(pattern)
            self.A(pattern)
        return H

    def pattern(self, Q: Tensor, K: Tensor, L: Tensor | None, view: View) -> Pattern:
        return Pattern(Q, K, L, beta=self.beta, mask=view.mask, causal=view.causal, bias=view.bias)

    def explicit(self, Q: Tensor, K: Tensor, V: Tensor, view: View) -> Float[Tensor, "b h t e"]:
        """The same with A held, so that it can be read and changed on the way; and S, if that is what is changed."""
        K, V = spread(K, self.config.heads), spread(V, self.config.heads)
        S = scores(Q, K, beta=self.beta, mask=view.mask, bias=view.bias, causal=view.causal)
        if self.S.edited or self.A.edited:
            A = self.A(softargmax(self.S(S)) if self.S.edited or self.S.watched else softargmax_(S))
        else:  # S is still to be had late, and its memory is A's
            if self.S.watched:
                self.S(self.pattern(Q, K, None, view))
            A = self.A(softargmax_(S))
        return drop(A, self.config.dropout if self.training else 0.0, None) @ V

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
    """A, whether a tap gave it late or explicit."""
    return pattern.A() if isinstance(pattern, Pattern) else pattern
