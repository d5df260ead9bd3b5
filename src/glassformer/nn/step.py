"""One token per row through a stack of blocks, without calling its modules: what decoding does most of the time.

For one token the arithmetic of a block takes less time than the calls of its modules, taps and checks. `Step` does the
same arithmetic in one flat function. It is used only while nothing watches, edits or hooks the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, linear, rms_norm

from glassformer.core.attention import attend
from glassformer.core.fused import FEW_KEYS, additive, spread
from glassformer.core.positions import HALVES
from glassformer.core.rotary import rotate
from glassformer.core.values import has_values
from glassformer.nn.attention import MultiHeadAttention, Turn, View
from glassformer.nn.cache import LayerCache, StaticCache
from glassformer.nn.feedforward import ACTIVATIONS
from glassformer.nn.linear import Linear, version_of
from glassformer.nn.norm import LayerNorm, RMSNorm
from glassformer.nn.tap import Tap

if TYPE_CHECKING:
    from glassformer.nn.blocks import Block, BlockCache, Residual

Function = Callable[[Tensor], Tensor]
# The operator itself: torch's wrapper around it looks through the arguments first.
_attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default._op


def step_of(blocks: Iterable[Block], X: Tensor, cache: Sequence[BlockCache]) -> Step | None:
    """Return the step for these caches, made on first use; None if the modules have to run."""
    own = cache[0].own
    if not isinstance(own, StaticCache) or torch.is_grad_enabled() or not has_values(X) or X.device.type != "cpu":
        return None
    if own.step is None:
        own.step = Step(list(blocks)) if own.length else None
    step: Step | None = own.step
    return step if step is not None and step.usable(X, cache) else None


class Step:
    """The blocks of a stack for one new token per row. Weights are packed as the layers' kernels have them."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = blocks
        modules = [module for block in blocks for module in block.modules()]
        taps = [module for module in modules if isinstance(module, Tap)]
        others = [module for module in modules if not isinstance(module, Tap)]
        betas = [module.beta_editors for module in others if isinstance(module, MultiHeadAttention)]
        # Lists and dicts that are empty while nothing watches, edits or hooks the blocks.
        self.users = [part for tap in taps for part in (tap.watchers, tap.editors)] + betas
        self.users += [part for one in others for part in (one._forward_hooks, one._forward_pre_hooks)]
        self.layers = [module for module in others if isinstance(module, Linear)]
        self.supported = all(map(_supported, blocks))
        self.state = self._state()
        self.runs = [LayerStep(block) for block in blocks] if self.supported else []

    def _state(self) -> list[object]:
        """What the packed weights were made from."""
        return [(version_of(layer.weight), layer.kernel) for layer in self.layers]

    def usable(self, X: Tensor, cache: Sequence[BlockCache]) -> bool:
        if not self.supported or any(self.users) or self.blocks[0].training:
            return False
        if self._state() != self.state:
            self.state, self.runs = self._state(), [LayerStep(block) for block in self.blocks]
        for one, run in zip(cache, self.runs, strict=True):
            own = one.own
            if not isinstance(own, StaticCache) or own.length >= own.room or own.rows != len(X):
                return False
            if run.cross is not None and not (one.memory.complete and len(one.memory.kept()[0]) == len(X)):
                return False
        return True

    def __call__(self, X: Tensor, view: View, memory_view: View, cache: Sequence[BlockCache]) -> Tensor:
        seen, memory_seen = _additive(view, X), _additive(memory_view, X)
        turn = None if view.turn is None else _both_halves(view.turn)
        x = X[:, 0]
        for run, (own, memory) in zip(self.runs, cache, strict=True):
            x = run(x, own, memory, turn, seen, memory_seen)
        return x[:, None]


class LayerStep:
    """One block for vectors (b, m)."""

    def __init__(self, block: Block) -> None:
        attention, cross = block.attention, block.cross if block.config.cross is not None else None
        self.qkv, self.WO = product(attention.WQ, attention.WK, attention.WV), product(attention.WO)
        self.own = attention
        self.residual = branch(block.attention_residual)
        self.cross = cross
        if cross is not None:
            self.cross_q, self.cross_o = product(cross.WQ), product(cross.WO)
            self.cross_residual = branch(block.cross_residual)
        self.ffn = feed_forward(block)
        self.ffn_residual = branch(block.ffn_residual)

    def __call__(
        self,
        x: Tensor,
        own: LayerCache,
        memory: LayerCache,
        turn: Turn | None,
        seen: Tensor | None,
        memory_seen: Tensor | None,
    ) -> Tensor:
        assert isinstance(own, StaticCache)

        def attend_self(x: Tensor) -> Tensor:
            c = self.own.config
            both = (c.heads + c.kv_heads) * c.key_width
            y = self.qkv(x)
            qk = y[:, :both].view(len(x), c.heads + c.kv_heads, 1, c.key_width)
            qk = qk if turn is None else _turned(qk, turn)
            K, V = own.push(qk[:, c.heads :, 0], y[:, both:].view(len(x), c.kv_heads, c.value_width))
            return self.WO(_heads(qk[:, : c.heads], K, V, c.beta, seen))

        def attend_memory(x: Tensor) -> Tensor:
            assert self.cross is not None
            c = self.cross.config
            Q = self.cross_q(x).view(len(x), c.heads, 1, c.key_width)
            return self.cross_o(_heads(Q, *memory.kept(), c.beta, memory_seen))

        x = self.residual(x, attend_self)
        if self.cross is not None:
            x = self.cross_residual(x, attend_memory)
        return self.ffn_residual(x, self.ffn)


def _heads(Q: Tensor, K: Tensor, V: Tensor, beta: float, seen: Tensor | None) -> Tensor:
    """[H¹ … Hʰ] of one query per row, as `core.fused.attend_fused` computes it."""
    if K.shape[2] < FEW_KEYS:
        h = Q.shape[1]
        return attend(Q, spread(K, h), spread(V, h), beta=beta, bias=seen).H.reshape(len(Q), -1)
    H, _ = _attention(Q, K, V, 0.0, False, attn_mask=seen, scale=beta)
    return H.reshape(len(Q), -1)


def product(*layers: Linear) -> Function:
    """[W₁ x + b₁, W₂ x + b₂, …] of layers with the same input."""
    kernels = [layer.kernel for layer in layers]
    first = kernels[0]
    if first is not None and all(type(kernel) is type(first) for kernel in kernels):
        return first.packed(layers)
    if len(layers) == 1:
        layer = layers[0]
        return layer if first is not None else lambda x: linear(x, layer.weight, layer.bias)
    each = [product(layer) for layer in layers]
    return lambda x: torch.cat([one(x) for one in each], -1)


def norm(module: LayerNorm | RMSNorm) -> Function:
    shape, eps = module.gamma.shape, module.eps
    if isinstance(module, LayerNorm):
        return lambda x: layer_norm(x, shape, module.gamma, module.beta, eps)
    return lambda x: rms_norm(x, shape, module.gamma, eps)


def branch(residual: Residual) -> Callable[[Tensor, Function], Tensor]:
    """x + branch(norm x), or norm(x + branch x)."""
    normed, gain = norm(residual.norm), residual.gain
    scaled: Function = (lambda y: y) if gain is None else lambda y: y * gain.lam
    if residual.pre:
        return lambda x, run: x + scaled(run(normed(x)))
    return lambda x, run: normed(x + scaled(run(x)))


def feed_forward(block: Block) -> Function:
    """W2 φ(W1 x), or W2 (φ(W1 x) ⊙ W3 x)."""
    ffn = block.ffn
    activation, W2 = ACTIVATIONS[ffn.config.activation], product(ffn.W2)
    if ffn.W3 is None:
        W1 = product(ffn.W1)
        return lambda x: W2(activation(W1(x)))
    both, hidden = product(ffn.W1, ffn.W3), ffn.config.hidden

    def gated(x: Tensor) -> Tensor:
        y = both(x)
        return W2(activation(y[:, :hidden]) * y[:, hidden:])

    return gated


def _supported(block: Block) -> bool:
    """Whether the block has the usual layers, and heads that the fused kernel takes as they are."""
    parts = [block.attention, *([block.cross] if block.config.cross is not None else [])]
    usual = all(type(module).forward is Linear.forward for module in block.modules() if isinstance(module, Linear))
    plain = all(one.config.key_width == one.config.value_width and one.config.beta > 0 for one in parts)
    floats = all(weight.dtype == torch.float32 for weight in block.parameters())
    linear_only = all(isinstance(getattr(one, name), Linear) for one in parts for name in ("WQ", "WK", "WV", "WO"))
    return usual and plain and floats and linear_only and isinstance(block.ffn.W1, Linear)


def _additive(view: View, like: Tensor) -> Tensor | None:
    """Mask and bias of a view as one bias on the scores of four dimensions."""
    if view.mask is None:
        seen = view.bias
    elif view.bias is None:
        seen = additive(view.mask, like)
    else:
        seen = view.bias.masked_fill(~view.mask, -torch.inf)
    return None if seen is None else seen[(None,) * (4 - seen.dim())]


def _both_halves(turn: Turn) -> Turn:
    """cos and sin for whole heads, so that x cos + roll(x) sin rotates: sin has its sign."""
    cos, sin, layout = turn
    if cos.dim() == 3:  # batched positions: (b, t, half) → (b, 1, t, half)
        cos, sin = cos[:, None], sin[:, None]
    return Turn(torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1), layout) if layout == HALVES else turn


def _turned(Y: Tensor, turn: Turn) -> Tensor:
    cos, sin, layout = turn
    if layout != HALVES:
        return rotate(Y, cos, sin, layout=layout)
    width = cos.shape[-1]
    if width == Y.shape[-1]:
        return torch.addcmul(Y * cos, Y.roll(width // 2, -1), sin)
    first = Y[..., :width]
    return torch.cat([torch.addcmul(first * cos, first.roll(width // 2, -1), sin), Y[..., width:]], -1)
