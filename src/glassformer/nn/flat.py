"""A forward pass through the blocks of a stack in flat functions instead of module calls.

For short inputs the arithmetic of a block takes less time than the calls of its modules, taps and checks. `FlatStack`
does the same arithmetic with the weights that the layers' kernels have packed. It calls watchers of Q, K, V, S, A and
H; a block with any other watcher, an editor or a hook runs as a module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import linear

from glassformer.core.attention import checked_bias, checked_mask
from glassformer.core.captured import captured
from glassformer.core.fused import FEW_KEYS, additive, attend_in_bfloat16
from glassformer.core.masks import causal as causal_mask
from glassformer.core.masks import combine
from glassformer.core.positions import HALVES
from glassformer.core.values import has_values
from glassformer.nn.attention import MultiHeadAttention, Turn, View
from glassformer.nn.cache import LayerCache, SlidingCache, StaticCache
from glassformer.nn.feedforward import ACTIVATIONS
from glassformer.nn.linear import Linear, joined
from glassformer.nn.norm import LayerNorm, RMSNorm
from glassformer.nn.tap import Tap

if TYPE_CHECKING:
    from glassformer.nn.blocks import Block, BlockCache, Residual
    from glassformer.nn.stack import Stack

Function = Callable[[Tensor], Tensor]
# Rows of activations computed at a time. More would not fit into the CPU caches, and newly mapped memory costs as much
# time as the matrix products.
ROWS = 1024
# Layers with the same input are copied into one matrix up to this many weights in total; larger ones gain nothing.
JOINED = 2**19
# Keys, over all sequences and heads, from which two products are faster than the fused kernel for one query.
MANY_KEYS = 2048
# Queries from which attention in bfloat16 is faster than in float32, on CPUs where bfloat16 is faster at all.
MANY_QUERIES = 96
# Dispatch keys of the work that every operator does for autograd even when no gradient is recorded.
AUTOGRAD = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU).add(torch._C.DispatchKey.ADInplaceOrView)
_KEPT: WeakKeyDictionary[Stack, FlatStack] = WeakKeyDictionary()


class Seen(NamedTuple):
    """A view as the fused kernel takes it: an additive bias on the scores, and whether it is causal."""

    view: View
    bias: Tensor | None = None
    causal: bool = False


def run_flat(
    stack: Stack, X: Tensor, view: View, memory: Tensor | None, memory_view: View, cache: list[BlockCache] | None
) -> Tensor | None:
    """Run the blocks of a stack, or return None if they have to run as modules."""
    if not can_run_flat(stack, X, view):
        return None
    flat = _KEPT.get(stack)
    if flat is None:
        flat = _KEPT[stack] = FlatStack(stack.blocks())
    return flat(X, view, memory, memory_view, cache) if flat.usable(X, memory, cache) else None


def forget(stack: Stack) -> None:
    """Drop the packed copies of a stack's weights."""
    _KEPT.pop(stack, None)


def can_run_flat(stack: Stack, X: Tensor, view: View) -> bool:
    """Whether this is plain inference: no gradient, no compiler, no training mode, float32 on the CPU."""
    if not has_values(X) or X.device.type != "cpu" or X.dtype != torch.float32 or not X.numel():
        return False
    if stack.get_submodule("0").training or view.window is not None:
        return False
    if torch.is_grad_enabled() and (X.requires_grad or any(weight.requires_grad for weight in stack.parameters())):
        return False
    return forward_ad._current_level < 0 and not torch._C._are_functorch_transforms_active()


class FlatStack:
    """The blocks of a stack as functions on rows (b·t, m), with the weights as the layers' kernels pack them."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.blocks = list(blocks)
        self.supported = all(map(_supported, self.blocks))
        modules = [module for block in self.blocks for module in block.modules()]
        self.weights = [module._parameters.values() for module in modules if module._parameters]
        self.layers = [module for module in modules if isinstance(module, Linear)]
        self.runs: list[FlatBlock] = []
        self.state: tuple[list[Any], ...] = ()
        self.counted: list[Tensor] = []  # weights whose in-place changes torch counts
        self.versions: list[int] = []

    def usable(self, X: Tensor, memory: Tensor | None, cache: list[BlockCache] | None) -> bool:
        """Whether blocks and caches are of the supported kinds. Repacks weights that have changed."""
        if not self.supported:
            return False
        weights = [weight for part in self.weights for weight in part if weight is not None]
        state = [layer.kernel for layer in self.layers], [*map(id, weights)]
        if state != self.state or [weight._version for weight in self.counted] != self.versions:
            self.state, self.runs = state, [FlatBlock(block) for block in self.blocks]
            self.counted = [weight for weight in weights if not weight.is_inference()]
            self.versions = [weight._version for weight in self.counted]
        crossed = self.runs[0].cross is not None
        if cache is None:
            return crossed == (memory is not None)
        for one in cache:
            own = one.own
            if isinstance(own, StaticCache):
                if own.length + X.shape[1] > own.room:
                    return False
            elif not isinstance(own, SlidingCache):
                return False
            if own.rows not in (0, len(X)):
                return False
            if crossed and memory is None and not (one.memory.complete and len(one.memory.kept()[0]) == len(X)):
                return False
        return crossed or memory is None

    def __call__(
        self, X: Tensor, view: View, memory: Tensor | None, memory_view: View, cache: list[BlockCache] | None
    ) -> Tensor:
        b, t = X.shape[:2]
        span = t if cache is None else cache[0].own.span(t)
        keys = 0 if memory is None else memory.shape[1]
        if cache is not None and cache[0].memory.complete:
            keys = cache[0].memory.length
        seen, memory_seen = merge_view(view, X, span), merge_view(memory_view, X, keys)
        several = cache is None and memory is None and b > 1 and b * t > ROWS
        if several and not any(run.watched() for run in self.runs) and (seen.bias is None or len(seen.bias) in (1, b)):
            each = max(1, ROWS // t)
            out = torch.empty_like(X, memory_format=torch.contiguous_format)
            for start in range(0, b, each):
                part = slice(start, start + each)
                bias = seen.bias if seen.bias is None or len(seen.bias) == 1 else seen.bias[part]
                out[part] = self._rows(X[part], seen._replace(bias=bias), None, memory_seen, None)
            return out
        return self._rows(X, seen, memory, memory_seen, cache)

    def _rows(
        self, X: Tensor, seen: Seen, memory: Tensor | None, memory_seen: Seen, cache: list[BlockCache] | None
    ) -> Tensor:
        b, t, m = X.shape
        x, turn = X.reshape(-1, m), None if seen.view.turn is None else _whole_heads(seen.view.turn)
        for i, run in enumerate(self.runs):
            own, past = (None, None) if cache is None else cache[i]
            if run.used():
                x = run.block(x.view(b, t, m), seen.view, memory, memory_seen.view, None if cache is None else cache[i])
                x = x.reshape(-1, m)
            elif any(run.watchers):
                x = run(x, (b, t), seen, turn, own, memory, memory_seen, past, watched=True)
            else:
                with torch._C._ExcludeDispatchKeyGuard(AUTOGRAD):
                    x = run(x, (b, t), seen, turn, own, memory, memory_seen, past)
        return x.view(b, t, m)


class FlatBlock:
    """One block on rows (b·t, m)."""

    def __init__(self, block: Block) -> None:
        self.block = block
        attention, cross = block.attention, block.cross if block.config.cross is not None else None
        self.attention, self.cross = attention, cross
        self.qkv, self.WO = product(attention.WQ, attention.WK, attention.WV), product(attention.WO)
        self.residual = branch(block.attention_residual)
        if cross is not None:
            self.cross_q, self.cross_kv, self.cross_o = (
                product(cross.WQ),
                product(cross.WK, cross.WV),
                product(cross.WO),
            )
            self.cross_residual = branch(block.cross_residual)
        self.ffn, self.ffn_residual = feed_forward(block), branch(block.ffn_residual)
        parts = [one for one in (attention, cross) if one is not None]
        served = [tap for one in parts for tap in (one.Q, one.K, one.V, one.H, one.S, one.A)]
        read = {id(tap) for tap in served}
        modules = list(block.modules())
        taps = [module for module in modules if isinstance(module, Tap)]
        others = [module for module in modules if not isinstance(module, Tap)]
        # Lists and dicts that are empty unless the modules have to run.
        self.users: list[Sized] = []
        self.users += [tap.editors for tap in taps] + [tap.watchers for tap in taps if id(tap) not in read]
        self.users += [one.beta_editors for one in parts]
        self.users += [part for one in others for part in (one._forward_hooks, one._forward_pre_hooks)]
        self.watchers = [tap.watchers for tap in served]
        self.patterns = [tap for one in parts for tap in (one.S, one.A)]

    def used(self) -> bool:
        """Whether the block has to run as a module."""
        return any(self.users) or (any(self.watchers) and any(tap.whole for tap in self.patterns))

    def watched(self) -> bool:
        """Whether anything in the block is watched, edited or hooked."""
        return any(self.users) or any(self.watchers)

    def __call__(
        self,
        x: Tensor,
        shape: tuple[int, int],
        seen: Seen,
        turn: Turn | None,
        own: LayerCache | None,
        memory: Tensor | None,
        memory_seen: Seen,
        past: LayerCache | None,
        watched: bool = False,
    ) -> Tensor:
        b, t = shape

        def attend_self(x: Tensor) -> Tensor:
            c = self.attention.config
            cos, sin, halves = (None, None, True) if turn is None else (turn.cos, turn.sin, turn.layout == HALVES)
            Q, K, V = split_heads(self.qkv(x), b, t, c.heads, c.kv_heads, c.key_width, cos, sin, halves)
            return self.WO(heads(self.attention, Q, K, V, seen, own, watched))

        def attend_memory(x: Tensor) -> Tensor:
            assert self.cross is not None
            c = self.cross.config
            Q = self.cross_q(x).view(b, t, c.heads, c.key_width).transpose(1, 2)
            if past is not None and past.complete:
                return self.cross_o(heads(self.cross, Q, *past.kept(), memory_seen, None, watched, projected=True))
            assert memory is not None
            s = memory.shape[1]
            y = self.cross_kv(memory.reshape(b * s, -1))
            both = c.kv_heads * c.key_width
            K = y[:, :both].view(b, s, c.kv_heads, c.key_width).transpose(1, 2)
            V = y[:, both:].view(b, s, c.kv_heads, c.value_width).transpose(1, 2)
            return self.cross_o(heads(self.cross, Q, K, V, memory_seen, past, watched))

        x = self.residual(x, attend_self)
        if self.cross is not None:
            x = self.cross_residual(x, attend_memory)
        return self.ffn_residual(x, self.ffn)


def heads(
    layer: MultiHeadAttention,
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    seen: Seen,
    cache: LayerCache | None,
    watched: bool,
    projected: bool = False,
) -> Tensor:
    """[H¹ … Hʰ] as rows (b·t, h·e). New keys and values are appended to the cache; watchers are called."""
    if watched:
        layer.Q(Q)
        if not projected:
            layer.K(K)
            layer.V(V)
    if isinstance(cache, StaticCache) and cache.length and Q.shape[2] == 1:
        K, V = cache.push(K, V)
    elif cache is not None:
        K, V = cache.append(K, V)
    lazy = watched and bool(layer.S.watchers or layer.A.watchers)
    kernel = layer.WO.kernel
    plain = cache is None and Q.shape[2] >= MANY_QUERIES and seen.bias is None and not seen.causal
    if plain and kernel is not None and kernel.bfloat16_attention():
        H, L = attend_in_bfloat16(Q, K, V, beta=layer.config.beta), None
        rows = H.transpose(1, 2).reshape(-1, H.shape[1] * H.shape[3])
    else:
        rows, H, L = attend_rows(Q, K, V, seen.bias, seen.causal, layer.config.beta, MANY_KEYS, lazy)
    if lazy:
        if cache is not None:
            cache.shared = True
        pattern = layer.pattern(Q, K, L, seen.view)
        layer.S(pattern)
        layer.A(pattern)
    if watched:
        layer.H(H)
    return rows


@captured
def split_heads(
    y: Tensor,
    b: int,
    t: int,
    heads: int,
    kv_heads: int,
    width: int,
    cos: Tensor | None,
    sin: Tensor | None,
    halves: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Q, K and V as (b, heads, t, width) from the rows (b·t, …) of one product; Q and K are rotated together."""
    both = heads + kv_heads
    qk = y[:, : both * width].view(b, t, both, width).transpose(1, 2)
    V = y[:, both * width :].view(b, t, kv_heads, width).transpose(1, 2)
    if cos is not None and sin is not None:
        turned = cos.shape[-1]
        first = qk[..., :turned]
        swapped = first.roll(turned // 2, -1) if halves else first.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        rotated = torch.addcmul(first * cos, swapped, sin)
        qk = rotated if turned == width else torch.cat([rotated, qk[..., turned:]], -1)
    return qk[:, :heads], qk[:, heads:], V


@captured
def attend_rows(
    Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, causal: bool, beta: float, many_keys: int, watched: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """[H¹ … Hʰ] as rows (b·t, h·e), H and, if watched, L.

    For one query over many keys, two products are faster than the kernel. They need heads and sequences that have one
    common stride in memory; heads that share keys are the rows of one product.
    """
    b, h, t, e = Q.shape
    g, s = K.shape[1], K.shape[2]
    products = t == 1 and b * g * s >= many_keys
    for part in (K, V):
        products = products and part.stride(3) == 1 and (b == 1 or part.stride(0) == g * part.stride(1))
    L: Tensor | None = None
    if products:
        S = torch.bmm(Q.reshape(b * g, h // g, e) * beta, K.view(b * g, s, e).mT).view(b, h, 1, s)
        S = S if bias is None else S + bias
        H = torch.bmm(S.softmax(-1).view(b * g, h // g, s), V.view(b * g, s, e)).view(b, h, 1, e)
        L = S.logsumexp(-1) if watched else None
    else:
        H, L = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            Q, K, V, 0.0, causal, attn_mask=bias, scale=beta
        )
    return H.transpose(1, 2).reshape(b * t, h * e), H, L


def product(*layers: Linear, activation: str | None = None) -> Function:
    """[W₁ x + b₁, W₂ x + b₂, …] of layers with the same input, then the activation."""
    kernels = [layer.kernel for layer in layers]
    first = kernels[0]
    if first is not None and all(map(first.joins, kernels)):
        return first.packed(layers, activation)
    if activation is not None:
        plain, function = product(*layers), ACTIVATIONS[activation]
        return lambda x: function(plain(x))
    if len(layers) == 1:
        layer = layers[0]
        weight, bias = layer.weight, layer.bias
        return layer if first is not None else lambda x: linear(x, weight, bias)
    if any(kernels) or sum(layer.weight.numel() for layer in layers) > JOINED:
        each = [product(layer) for layer in layers]
        return lambda x: torch.cat([one(x) for one in each], -1)
    every = joined([layer.weight for layer in layers], [layer.bias for layer in layers])
    return lambda x: linear(x, *every)


def norm(module: LayerNorm | RMSNorm) -> Function:
    gamma, eps, shape = module.gamma, module.eps, module.gamma.shape
    if isinstance(module, LayerNorm):
        beta = module.beta
        return lambda x: torch.layer_norm(x, shape, gamma, beta, eps, False)
    return lambda x: torch.rms_norm(x, shape, gamma, eps)


def branch(residual: Residual) -> Callable[[Tensor, Function], Tensor]:
    """x + branch(norm x), or norm(x + branch x)."""
    normed, gain = norm(residual.norm), residual.gain
    scaled: Function = (lambda y: y) if gain is None else lambda y: y * gain.lam
    if residual.pre:
        return lambda x, run: scaled(run(normed(x))).add_(x)
    return lambda x, run: normed(scaled(run(x)).add_(x))


def feed_forward(block: Block) -> Function:
    """W2 φ(W1 x), or W2 (φ(W1 x) ⊙ W3 x)."""
    ffn = block.ffn
    W2 = product(ffn.W2)
    if ffn.W3 is None:
        W1 = product(ffn.W1, activation=ffn.config.activation)
        return lambda x: W2(W1(x))
    both, hidden, activation = product(ffn.W1, ffn.W3), ffn.config.hidden, ACTIVATIONS[ffn.config.activation]

    def gated(x: Tensor) -> Tensor:
        y = both(x)
        return W2(activation(y[:, :hidden]).mul_(y[:, hidden:]))

    return gated


def _supported(block: Block) -> bool:
    """Whether the block has standard layers only, and heads that the fused kernel accepts."""
    parts = [block.attention, *([block.cross] if block.config.cross is not None else [])]
    usual = all(type(module).forward is Linear.forward for module in block.modules() if isinstance(module, Linear))
    plain = all(one.config.key_width == one.config.value_width and one.config.beta > 0 for one in parts)
    floats = all(weight.dtype == torch.float32 for weight in block.parameters())
    linear_only = all(isinstance(getattr(one, name), Linear) for one in parts for name in ("WQ", "WK", "WV", "WO"))
    return usual and plain and floats and linear_only and isinstance(block.ffn.W1, Linear)


def merge_view(view: View, X: Tensor, s: int) -> Seen:
    """Check the mask and bias of a view over s keys, and merge them into one bias on the scores with four axes."""
    b, t = X.shape[:2]
    mask, bias, causal = view.mask, view.bias, view.causal and t > 1
    few = 0 < s < FEW_KEYS  # without a bias the kernel would mistake a row of NaN for a masked one
    if causal and (t != s or mask is not None or bias is not None or few):
        mask, causal = combine(mask, causal_mask(t, s, device=X.device)), False
    if mask is not None:
        heads = mask.shape[1] if mask.dim() == 4 else 1
        checked_mask(mask, torch.Size((b, heads, t, s)))
        mask = None if bool(mask.all()) else mask
    if bias is not None:
        checked_bias(bias, torch.Size((b, bias.shape[-3] if bias.dim() > 2 else 1, t, s)))
    if mask is not None:
        bias = additive(mask, X) if bias is None else bias.masked_fill(~mask, -torch.inf)
    elif bias is None and few:
        bias = X.new_zeros(s)
    return Seen(view, None if bias is None else bias[(None,) * (4 - bias.dim())], causal)


def _whole_heads(turn: Turn) -> Turn:
    """Expand cos and sin to whole heads, with the signs in sin, so that the rotation is x cos + swapped(x) sin."""
    cos, sin, layout = turn
    if cos.dim() == 3:  # batched positions: (b, t, half) → (b, 1, t, half)
        cos, sin = cos[:, None], sin[:, None]
    if layout == HALVES:
        return Turn(torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1), layout)
    return Turn(cos.repeat_interleave(2, -1), torch.stack([-sin, sin], -1).flatten(-2), layout)
