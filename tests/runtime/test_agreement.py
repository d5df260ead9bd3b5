"""Every precision and engine agrees with float32 on every architecture, with taps watched and edited."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.models import registry
from glassformer.nn import Tap
from glassformer.runtime import engine_of, machine, precision_of, prepare, use_engine
from glassformer.runtime.kernels import (
    KERNELS,
    AccurateKernel,
    Float32Kernel,
    HalfKernel,
    Int8Kernel,
    PackedKernel,
    Scaling,
    TransposedKernel,
)
from glassformer.runtime.machine import TORCH, why_not
from glassformer.runtime.precision import layers
from runtime.small_models import KINDS, WITHOUT_BLOCKS, make, tensor_of

# The largest difference to float32, relative to the largest number; docs/runtime.md states them.
TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2, "int8": 4e-2}
EVERY_KERNEL = [kernel for kernels in KERNELS.values() for kernel in kernels] + [TransposedKernel]


def test_every_registered_architecture_is_here() -> None:
    names = {name for name, (kind, _) in registry._ARCHITECTURES.items() if kind.__module__.startswith("glassformer.")}
    assert {type(make(kind)[0]).__name__ for kind in KINDS} == names


@pytest.fixture
def packing(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[PackedKernel]], str]:
    """Make a kernel that of its precision, in layers of every size."""

    def take(kernel: type[PackedKernel]) -> str:
        here = machine()
        if kernel.__name__ in here.refused:
            pytest.skip(f"{kernel.__name__} does not run here: {here.refused[kernel.__name__]}")
        if kernel is TransposedKernel:
            chosen = replace(here, chosen={**here.chosen, "fp32": TORCH}, small=kernel.__name__)
        else:
            chosen = replace(here, chosen={**here.chosen, kernel.precision: kernel.__name__})
            chosen = replace(chosen, many_rows=kernel.__name__) if issubclass(kernel, Int8Kernel) else chosen
        monkeypatch.setattr("glassformer.runtime.precision.machine", lambda: chosen)
        monkeypatch.setattr("glassformer.runtime.precision.PACKED_FROM", 0)
        return kernel.precision

    return take


@torch.no_grad()
def tap_of(model: nn.Module, call: Callable[[nn.Module], Tensor]) -> str:
    """The first pattern A that the call reaches; the first tap of a model without attention."""
    taps = [name for name, module in model.named_modules() if isinstance(module, Tap)]
    patterns = [name for name in taps if name.endswith(".A")]
    with gf.trace(model, *(patterns or taps[:1])) as watched:
        call(model)
    return next(name for name in patterns or taps if name in watched)


@torch.no_grad()
def agree(model: nn.Module, plain: nn.Module, call: Callable[[nn.Module], Tensor], tolerance: float) -> None:
    """Compare outputs as they are, with a tap watched and with it edited, and the watched tap."""
    path = tap_of(plain, call)

    def answers(model: nn.Module) -> Iterator[Tensor]:
        yield tensor_of(call(model))
        with gf.trace(model, path) as watched:
            yield tensor_of(call(model))
        yield watched[path]
        with gf.edit(model, path, lambda value: value * 4):
            yield tensor_of(call(model))
        yield tensor_of(call(model))

    ours, theirs = list(answers(model)), list(answers(plain))
    assert (theirs[3] - theirs[0]).abs().amax() > 1e-4 * theirs[0].abs().amax(), "the edit changes the output"
    for what, found, expected in zip(("plain", "watched", "tap", "edited", "after"), ours, theirs, strict=True):
        assert found.dtype == torch.float32
        assert (found - expected).abs().amax() <= tolerance * expected.abs().amax(), what


@pytest.mark.parametrize("kernel", EVERY_KERNEL)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kernel(kind: str, kernel: type[PackedKernel], packing: Callable[[type[PackedKernel]], str]) -> None:
    model, call = make(kind)
    plain = copy.deepcopy(model).eval()
    name = packing(kernel)
    prepare(model.eval(), name)
    accurate = {AccurateKernel, Float32Kernel, HalfKernel, type(None)} if name == "int8" else set()  # for single layers
    assert {type(layer.kernel) for layer in layers(model)} <= {kernel, *accurate}
    assert precision_of(model) == (name if any(layers(model)) else "fp32")
    agree(model, plain, call, TOLERANCE[name])


@pytest.mark.parametrize("kernel", [HalfKernel(), Int8Kernel(Scaling(exact=torch.tensor([0, 2]), per_row=True))])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.variants(6)
def test_kernels_of_single_layers(kind: str, kernel: PackedKernel) -> None:
    """What calibration may choose for a layer, in all of them."""
    if (reason := why_not(type(kernel))) is not None:
        pytest.skip(reason)
    model, call = make(kind)
    plain = copy.deepcopy(model).eval()
    model.eval().requires_grad_(False)
    for layer in layers(model):
        layer.kernel = copy.deepcopy(kernel)
    agree(model, plain, call, 2e-3 if isinstance(kernel, HalfKernel) else TOLERANCE["int8"])


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in WITHOUT_BLOCKS])
def test_every_engine(kind: str, engine: str, runs: list[bool]) -> None:
    pytest.importorskip(engine)
    model, call = make(kind)
    plain = copy.deepcopy(model).eval()
    use_engine(model, engine)
    assert (engine_of(model), precision_of(model)) == (engine, "fp32")
    with torch.no_grad():
        call(model)
    assert runs
    assert all(runs), "every pass was computed by the engine"
    agree(model, plain, call, TOLERANCE["fp32"])
    assert runs[-1]
    assert not all(runs), "what is watched or edited was computed by torch"
