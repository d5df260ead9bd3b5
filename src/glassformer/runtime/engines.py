"""Engines: the blocks of a model computed by ONNX Runtime or OpenVINO instead of torch.

Only the blocks move: embeddings, heads, pooling, masks, caches and decoding stay as they are, so every verb works with
every engine. The graph of a stack is built on first use, with a key/value cache as inputs and outputs if it decodes.
Blocks that are traced or edited, and passes that need gradients, are computed by torch from the same weights.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, InputError
from glassformer.nn.attention import View
from glassformer.nn.blocks import BlockCache
from glassformer.nn.cache import StaticCache
from glassformer.nn.flat import FlatStack, can_run_flat, merge_view
from glassformer.nn.stack import Stack
from glassformer.runtime.onnx_graph import SMALL, Form, stack_graph
from glassformer.runtime.precision import prepare
from glassformer.runtime.signal_stack import kept_signal_stack

ENGINES: tuple[str, ...] = ("torch", "onnxruntime", "openvino")


def use_engine(model: nn.Module, engine: str, precision: str = "fp32") -> nn.Module:
    """Make an engine compute the blocks of a model, in place; "torch" reverts this. Engines compute in fp32."""
    if engine not in ENGINES:
        raise ConfigError(f"engine={engine!r} is not known", f"choose one of {', '.join(ENGINES)}")
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    if engine == "torch":
        for stack in stacks:
            stack.engine = None
        return model
    if precision != "fp32":
        raise ConfigError(
            f"engine={engine!r} computes in fp32, not in precision={precision!r}", "leave one of them out"
        )
    if not stacks:
        raise InputError(
            f"engine={engine!r} runs Transformer blocks, and a {type(model).__name__} has none", "leave engine out"
        )
    weight = next(model.parameters())
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        raise InputError(
            f"engine={engine!r} needs float32 weights on the CPU, not {weight.dtype} on {weight.device.type}",
            "load the model with device='cpu' and without a dtype",
        )
    for name in ("onnx", engine):
        try:
            importlib.import_module(name)
        except ImportError:
            raise InputError(
                f"engine={engine!r} needs the package {name}, which is not installed",
                f"pip install glassformer[{'onnx' if engine == 'onnxruntime' else 'openvino'}]",
            ) from None
    prepare(model, "fp32")
    for stack in stacks:
        if not FlatStack(stack.blocks()).supported:
            raise InputError(f"engine={engine!r} cannot run the blocks of this model", "leave engine out")
        stack.engine = GraphEngine(engine)
    model.requires_grad_(False).eval()
    return model


def engine_of(model: nn.Module) -> str:
    """The engine that computes the blocks of a model."""
    found = {module.engine.name for module in model.modules() if isinstance(module, Stack) and module.engine}
    return found.pop() if found else "torch"


class GraphEngine:
    """The blocks of one stack as graphs: one for passes with a cache, one with and one without a bias on the scores."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._graphs: dict[Form, Any] = {}
        self._flat: FlatStack | None = None

    def run(
        self,
        stack: Stack,
        X: Tensor,
        view: View,
        memory: Tensor | None,
        memory_view: View,
        cache: list[BlockCache] | None,
    ) -> Tensor | None:
        """Run the blocks, or return None if torch has to run them."""
        graded = X.requires_grad or any(weight.requires_grad for weight in stack.parameters())
        if stack.training and torch.is_grad_enabled() and not graded:
            raise InputError(f"a model with engine={self.name!r} is frozen", "load it without an engine to train it")
        if not can_run_flat(stack, X, view) or not all(isinstance(one.own, StaticCache) for one in cache or ()):
            return None
        if self._flat is None:
            self._flat = FlatStack(stack.blocks())
        before = self._flat.state
        if not self._flat.usable(X, memory, cache) or any(run.watched() for run in self._flat.runs):
            return None
        if self._flat.state is not before:  # weights have changed: build new graphs
            self._graphs.clear()
        b, t = X.shape[:2]
        pasts = self._pasts(stack, X, cache)
        memories = self._memories(stack, memory, memory_view, cache)
        seen = merge_view(view, X, pasts[0].shape[2] + t if pasts else t)
        bias = seen.bias
        if seen.causal or (pasts and bias is None):
            s = t + (pasts[0].shape[2] if pasts else 0)
            bias = X.new_full((t, s), -torch.inf).triu(s - t + 1) if seen.causal else X.new_zeros(t, s)
        memory_bias = merge_view(memory_view, X, memories[0].shape[2]).bias if memories else None
        heads = None if bias is None else (bias.shape[1] if bias.dim() == 4 else 1)
        form = Form(bool(pasts), heads, bool(memories), None if view.turn is None else view.turn.layout)
        inputs = {"X": X}
        if bias is not None and heads is not None:
            inputs["bias"] = bias.expand(b, heads, t, bias.shape[-1])
        if view.turn is not None:
            inputs |= {"cos": _batched(view.turn.cos, b), "sin": _batched(view.turn.sin, b)}
        inputs |= {f"past{i}": part for i, part in enumerate(pasts)}
        inputs |= {f"memory{i}": part for i, part in enumerate(memories)}
        if memories:
            s = memories[0].shape[2]
            shape = (b, 1, t, s)
            inputs["memory_bias"] = X.new_zeros(shape) if memory_bias is None else memory_bias.expand(shape)
        graph = self._graphs.get(form)
        if graph is None:
            graph = self._graphs[form] = self._compile(stack, form)
        Y, *new = graph(inputs)
        for i, one in enumerate(cache or ()):
            one.own.append(new[2 * i], new[2 * i + 1])
        return Y

    def _pasts(self, stack: Stack, X: Tensor, cache: list[BlockCache] | None) -> list[Tensor]:
        """Keys and values of every block so far, (b, g, length, d); none without a cache."""
        if cache is None:
            return []
        found: list[Tensor] = []
        for block, one in zip(stack.blocks(), cache, strict=True):
            assert isinstance(one.own, StaticCache)
            c = block.attention.config
            empty = X.new_zeros(len(X), c.kv_heads, 0, c.key_width)
            found += one.own.kept() if one.own.length else (empty, empty)
        return found

    def _memories(
        self, stack: Stack, memory: Tensor | None, view: View, cache: list[BlockCache] | None
    ) -> list[Tensor]:
        """Keys and values of the memory for every block with cross-attention, projected once by torch."""
        found: list[Tensor] = []
        for i, block in enumerate(stack.blocks()):
            if block.config.cross is None:
                continue
            if cache is not None and cache[i].memory.complete:
                found += cache[i].memory.kept()
                continue
            assert memory is not None
            with torch.no_grad():
                pair = block.cross.project(memory, view)
            found += pair if cache is None else cache[i].memory.append(*pair)
        return found

    def _compile(self, stack: Stack, form: Form) -> Callable[[dict[str, Tensor]], list[Tensor]]:
        import onnx

        graph = stack_graph(stack, form)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "blocks.onnx"
            onnx.save_model(graph, str(path), save_as_external_data=graph.ByteSize() > SMALL)
            return OpenVINOGraph(path) if self.name == "openvino" else OnnxRuntimeGraph(path)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphEngine:
        return GraphEngine(self.name)  # the copy builds its own graphs

    def __reduce__(self) -> tuple[type[GraphEngine], tuple[str]]:
        return GraphEngine, (self.name,)


class OnnxRuntimeGraph:
    """A graph in ONNX Runtime, with as many threads as torch has."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.names = {one.name for one in self.session.get_inputs()}

    def __call__(self, inputs: dict[str, Tensor]) -> list[Tensor]:
        given = {name: x.contiguous().numpy() for name, x in inputs.items() if name in self.names}
        return [torch.from_numpy(y) for y in self.session.run(None, given)]


class OpenVINOGraph:
    """A graph in OpenVINO in float32, with as many threads as torch has."""

    def __init__(self, path: Path) -> None:
        import openvino

        options = {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        with kept_signal_stack():
            core = openvino.Core()
            self.compiled = core.compile_model(core.read_model(path), "CPU", options)
            self.request = self.compiled.create_infer_request()
        self.names = {name for port in self.compiled.inputs for name in port.names}

    def __call__(self, inputs: dict[str, Tensor]) -> list[Tensor]:
        given = {name: x.contiguous().numpy() for name, x in inputs.items() if name in self.names}
        with kept_signal_stack():
            found = self.request.infer(given, share_inputs=True)
        return [torch.from_numpy(found[port].copy()) for port in self.compiled.outputs]

    def __del__(self) -> None:
        with kept_signal_stack():
            self.__dict__.clear()  # deletes the compiled model


def _batched(angles: Tensor, b: int) -> Tensor:
    """(t, half) or (b, t, half) → (b, t, half)."""
    return angles.expand(b, *angles.shape[-2:])
