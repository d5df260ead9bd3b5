"""The blocks of a stack as an ONNX graph, written node by node: X, bias, caches in; Y and new keys and values out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from glassformer.core.positions import HALVES
from glassformer.nn.attention import AttentionConfig, MultiHeadAttention
from glassformer.nn.feedforward import FeedForward
from glassformer.nn.linear import Linear
from glassformer.nn.norm import LayerNorm, RMSNorm

if TYPE_CHECKING:
    from glassformer.nn.blocks import Residual
    from glassformer.nn.stack import Stack

OPSET = 20  # the first with Gelu
SMALL = 1 << 30  # bytes; larger graphs store their weights in a separate file, since protobuf is limited to 2 GB


class Form(NamedTuple):
    """Inputs of a graph: a key/value cache, a bias for this many heads, a memory, a layout of rotary positions."""

    cached: bool
    bias_heads: int | None
    memory: bool
    rotary: str | None


def stack_graph(stack: Stack, form: Form) -> Any:
    """Return the blocks of a stack as an onnx.ModelProto.

    Inputs: X (b, t, m); bias (b, heads or 1, t, s); cos and sin (b, t, half); past0, past1, … keys and values of each
    block (b, g, s − t, d); memory0, memory1, … those of its memory, and memory_bias. Outputs: Y, then new0, new1, …
    """
    return Graph(form).build(stack)


class Graph:
    """A graph under construction. A method appends nodes and returns the name of their output."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def build(self, stack: Stack) -> Any:
        from onnx import helper

        form, width = self.form, next(stack.blocks()).config.attention.width
        x = self.input("X", "b", "t", width)
        bias = None if form.bias_heads is None else self.input("bias", "b", form.bias_heads, "t", "s")
        rotation = None
        if form.rotary is not None:
            assert stack.rotary is not None
            half = stack.rotary.width // 2
            angles = (self.input("cos", "b", "t", half), self.input("sin", "b", "t", half))
            rotation = tuple(self.op("Unsqueeze", one, self.numbers(1)) for one in angles)
        seen = self.input("memory_bias", "b", 1, "t", "n") if form.memory else None
        for i, block in enumerate(stack.blocks()):

            def attend_self(x: str, i: int = i, layer: MultiHeadAttention = block.attention) -> str:
                return self.attention(layer, x, bias, rotation, i)

            x = self.residual(block.attention_residual, x, attend_self)
            if block.config.cross is not None:

                def attend_memory(x: str, i: int = i, layer: MultiHeadAttention = block.cross) -> str:
                    return self.cross(layer, x, seen, i)

                x = self.residual(block.cross_residual, x, attend_memory)
            x = self.residual(block.ffn_residual, x, lambda x, ffn=block.ffn: self.feed_forward(ffn, x))
        self.output("Y", x, "b", "t", width)
        graph = helper.make_graph(
            self.nodes, "blocks", self.inputs, self.outputs[-1:] + self.outputs[:-1], self.weights
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)

    # ---- parts of a block ----

    def attention(self, layer: MultiHeadAttention, x: str, bias: str | None, rotation: Any, i: int) -> str:
        c = layer.config
        Q, K = self.split(self.linear(layer.WQ, x), c.heads), self.split(self.linear(layer.WK, x), c.kv_heads)
        V = self.split(self.linear(layer.WV, x), c.kv_heads)
        if rotation is not None:
            Q, K = self.rotated(Q, rotation, c), self.rotated(K, rotation, c)
        if self.form.cached:
            for kind, (part, width) in enumerate(((K, c.key_width), (V, c.value_width))):
                past = self.input(f"past{2 * i + kind}", "b", c.kv_heads, "p", width)
                self.output(f"new{2 * i + kind}", part, "b", c.kv_heads, "t", width)
                K, V = (
                    (self.op("Concat", past, part, axis=2), V)
                    if kind == 0
                    else (K, self.op("Concat", past, part, axis=2))
                )
        return self.heads(layer, Q, K, V, bias)

    def cross(self, layer: MultiHeadAttention, x: str, bias: str | None, i: int) -> str:
        c = layer.config
        K = self.input(f"memory{2 * i}", "b", c.kv_heads, "n", c.key_width)
        V = self.input(f"memory{2 * i + 1}", "b", c.kv_heads, "n", c.value_width)
        return self.heads(layer, self.split(self.linear(layer.WQ, x), c.heads), K, V, bias)

    def heads(self, layer: MultiHeadAttention, Q: str, K: str, V: str, bias: str | None) -> str:
        """W_O [H¹ … Hʰ], H = softmax(β Q Kᵀ + bias) V."""
        c = layer.config
        K, V = self.repeat_heads(K, c, c.key_width), self.repeat_heads(V, c, c.value_width)
        scaled = self.op("Mul", Q, self.constant(torch.tensor(c.beta)))
        S = self.op("MatMul", scaled, self.op("Transpose", K, perm=[0, 1, 3, 2]))
        A = self.op("Softmax", S if bias is None else self.op("Add", S, bias), axis=-1)
        H = self.op("Transpose", self.op("MatMul", A, V), perm=[0, 2, 1, 3])
        return self.linear(layer.WO, self.op("Reshape", H, self.numbers(0, 0, c.heads * c.value_width)))

    def feed_forward(self, ffn: FeedForward, x: str) -> str:
        F = self.activation(ffn.config.activation, self.linear(ffn.W1, x))
        return self.linear(ffn.W2, F if ffn.W3 is None else self.op("Mul", F, self.linear(ffn.W3, x)))

    def residual(self, residual: Residual, x: str, branch: Any) -> str:
        y = branch(self.norm(residual.norm, x) if residual.pre else x)
        y = y if residual.gain is None else self.op("Mul", y, self.constant(residual.gain.lam))
        y = self.op("Add", x, y)
        return y if residual.pre else self.norm(residual.norm, y)

    def norm(self, norm: LayerNorm | RMSNorm, x: str) -> str:
        gamma = self.constant(norm.gamma)
        if isinstance(norm, LayerNorm):
            beta = [] if norm.beta is None else [self.constant(norm.beta)]
            return self.op("LayerNormalization", x, gamma, *beta, axis=-1, epsilon=norm.eps)
        square = self.op("ReduceMean", self.op("Mul", x, x), self.numbers(-1), keepdims=1)
        sigma = self.op("Sqrt", self.op("Add", square, self.constant(torch.tensor(norm.eps))))
        return self.op("Mul", self.op("Div", x, sigma), gamma)

    def activation(self, name: str, x: str) -> str:
        match name:
            case "gelu" | "gelu_tanh":
                return self.op("Gelu", x, approximate="tanh" if name == "gelu_tanh" else "none")
            case "silu" | "quick_gelu":
                scaled = x if name == "silu" else self.op("Mul", x, self.constant(torch.tensor(1.702)))
                return self.op("Mul", x, self.op("Sigmoid", scaled))
            case "relu" | "tanh":
                return self.op(name.capitalize(), x)
        raise ValueError(f"no ONNX operator for the activation {name}")

    # ---- tensors ----

    def linear(self, layer: Linear, x: str) -> str:
        y = self.op("MatMul", x, self.constant(layer.weight.T))
        return y if layer.bias is None else self.op("Add", y, self.constant(layer.bias))

    def split(self, x: str, heads: int) -> str:
        """(b, t, h·d) → (b, h, t, d)."""
        return self.op("Transpose", self.op("Reshape", x, self.numbers(0, 0, heads, -1)), perm=[0, 2, 1, 3])

    def repeat_heads(self, K: str, c: AttentionConfig, width: int) -> str:
        """Repeat each key/value head for the query heads of its group (grouped-query attention)."""
        if c.kv_heads == c.heads:
            return K
        each = self.op("Unsqueeze", K, self.numbers(2))
        each = self.op("Expand", each, self.numbers(1, 1, c.heads // c.kv_heads, 1, 1))
        return self.op("Reshape", each, self.numbers(0, c.heads, -1, width))

    def rotated(self, Y: str, rotation: tuple[str, str], c: AttentionConfig) -> str:
        """Apply rotary positions to the first columns of each head."""
        cos, sin = rotation
        layout, width = self.form.rotary, self.rotated_width
        if layout == HALVES:
            first, second = self.slice(Y, 0, width // 2, 1), self.slice(Y, width // 2, width, 1)
        else:
            first, second = self.slice(Y, 0, width, 2), self.slice(Y, 1, width, 2)
        one = self.op("Sub", self.op("Mul", first, cos), self.op("Mul", second, sin))
        two = self.op("Add", self.op("Mul", second, cos), self.op("Mul", first, sin))
        if layout != HALVES:
            pairs = [self.op("Unsqueeze", part, self.numbers(-1)) for part in (one, two)]
            both = [self.op("Reshape", self.op("Concat", *pairs, axis=-1), self.numbers(0, 0, 0, width))]
        else:
            both = [one, two]
        rest = [self.slice(Y, width, c.key_width, 1)] if width < c.key_width else []
        return self.op("Concat", *both, *rest, axis=-1)

    @property
    def rotated_width(self) -> int:
        return 2 * next(one for one in self.inputs if one.name == "cos").type.tensor_type.shape.dim[2].dim_value

    def slice(self, Y: str, start: int, end: int, step: int) -> str:
        return self.op("Slice", Y, *(self.numbers(number) for number in (start, end, -1, step)))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, values: Tensor) -> str:
        from onnx import numpy_helper

        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.detach().contiguous().numpy(), name))
        return name

    def numbers(self, *values: int) -> str:
        return self.constant(torch.tensor(values, dtype=torch.long))

    def input(self, name: str, *shape: int | str) -> str:
        from onnx import TensorProto, helper

        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        return name

    def output(self, name: str, source: str, *shape: int | str) -> None:
        from onnx import TensorProto, helper

        self.nodes.append(helper.make_node("Identity", [source], [name], name=f"give_{name}"))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
