"""Every precision and engine agrees with float32 on every architecture, with taps watched and edited."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.core.fused import attend_in_bfloat16
from glassformer.models import registry
from glassformer.nn import Tap
from glassformer.nn.attention import weights_of
from glassformer.runtime import engine_of, machine, precision_of, prepare, use_engine
from glassformer.runtime.kernels import (
    KERNELS,
    AccurateKernel,
    Float32Kernel,
    HalfKernel,
    Int8Kernel,
    OneDNNInt8Kernel,
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
@pytest.mark.variants(34)
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
@pytest.mark.variants(10)
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


@torch.no_grad()
@pytest.mark.parametrize("kernel", [Int8Kernel, OneDNNInt8Kernel])
@pytest.mark.parametrize("scaling", [Scaling(), Scaling(per_row=True), Scaling(exact=torch.arange(3))])
def test_int8_products_fuse_the_activation(kernel: type[Int8Kernel], scaling: Scaling) -> None:
    if (reason := why_not(kernel)) is not None:
        pytest.skip(reason)
    draw = torch.Generator().manual_seed(0)
    x, weight, bias = (torch.randn(size, generator=draw) for size in ((20, 64), (48, 64), (48,)))
    one = kernel(scaling)
    packed = one.pack(weight, bias)
    expected = torch.nn.functional.linear(x, weight, bias)
    for found, y in ((one.product(x, packed, bias), expected),
                     (one.activated("gelu", packed, bias)(x), torch.nn.functional.gelu(expected))):  # fmt: skip
        assert (found - y).abs().max() < TOLERANCE["int8"] * y.abs().max()
    assert one.product(x[:0], packed, bias).shape == (0, 48)


@torch.no_grad()
def test_a_nan_does_not_become_an_integer() -> None:
    if (reason := why_not(OneDNNInt8Kernel)) is not None:
        pytest.skip(reason)
    x, weight = torch.ones(4, 64), torch.ones(16, 64)
    for bad in (torch.nan, torch.inf):
        x[1, 2] = bad
        assert OneDNNInt8Kernel()(x, weight, None).isnan().all()


@torch.no_grad()
@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_attention_in_bfloat16(precision: str, watched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if precision not in machine().chosen:
        pytest.skip(f"{precision} does not run here")
    model, call = make("vit")
    expected = tensor_of(call(model.eval()))
    A = dict.fromkeys(("float32", "bfloat16"), torch.empty(0))
    taken: list[int] = []
    monkeypatch.setattr(PackedKernel, "bfloat16_attention", lambda self: self.precision != "fp32")
    monkeypatch.setattr("glassformer.nn.flat.FEW_KEYS", 0)
    monkeypatch.setattr("glassformer.nn.flat.MANY_QUERIES", 1)
    monkeypatch.setattr("glassformer.core.fused.HELD_WEIGHTS", 1)

    def attend(*parts: Tensor, beta: float) -> Tensor:
        taken.append(1)
        return attend_in_bfloat16(*parts, beta=beta)

    monkeypatch.setattr("glassformer.nn.flat.attend_in_bfloat16", attend)
    path = tap_of(model, call)
    for name in A:
        taken.clear()
        with gf.trace(model, path) if watched else nullcontext() as trace:
            found = tensor_of(call(model))
        assert bool(taken) == (name == "bfloat16")
        if watched:
            A[name] = weights_of(trace[path])
        prepare(model, precision)
    assert (found - expected).abs().max() < TOLERANCE[precision] * expected.abs().max()
    if watched:
        assert (A["float32"] - A["bfloat16"]).abs().max() < TOLERANCE[precision]
