"""prepare(model, "int8"): the same model with faster products. Taps, edits, saving and exporting work as before."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from glassformer.errors import ConfigError, InputError
from glassformer.nn.linear import Kernel, Linear
from glassformer.nn.stack import Stack
from glassformer.nn.text import WordHead
from glassformer.runtime.calibration import LENGTH, calibrate, one_by_one, vectors
from glassformer.runtime.example import example
from glassformer.runtime.kernels import (
    KERNELS,
    AccurateKernel,
    BFloat16Kernel,
    HalfKernel,
    Int8Kernel,
    PackedKernel,
    Scaling,
    TransposedKernel,
)
from glassformer.runtime.machine import machine, why_not
from glassformer.runtime.measure import interleaved, one_thread

Precision = Literal["fp32", "bf16", "int8", "auto"]
PRECISIONS: tuple[str, ...] = ("fp32", "bf16", "int8", "auto")
# The minimum cosine between an output vector and its float32 counterpart that `auto` accepts.
AGREEMENT = 0.999
# Packed float32 products have a fixed cost per call: below this many weights torch's own product is as fast.
PACKED_FROM = 2**17
# Number of weights for `TransposedKernel`: a model without a layer of the first size is too small to benefit, and
# layers above the second size are faster without it for some numbers of rows.
TRANSPOSED = 2**14, 2**20


def layers(model: nn.Module) -> Iterator[Linear | WordHead]:
    """Return every layer whose product a kernel can compute."""
    return (module for module in model.modules() if isinstance(module, Linear | WordHead))


def prepare(model: nn.Module, precision: str = "fp32", run_example: Callable[[], Tensor] | None = None) -> nn.Module:
    """Make a model's linear layers compute in `precision`, in place, by the fastest kernel of this machine.

    The weights stay in the model in float32 and a packed copy is made on first use, so `save`, `export` and the lens
    see the same weights as before. Only `"fp32"` can be trained or differentiated. `"int8"` is calibrated on
    `run_example`, a call of the model; by default on a random input. `"auto"` uses the precision that `choose` returns.
    """
    if precision not in PRECISIONS:
        raise ConfigError(f"precision={precision!r} is not known", f"choose one of {', '.join(PRECISIONS)}")
    if precision == "auto":
        return prepare(model, choose(model, calibrated_on=run_example).precision, run_example)
    if precision != "fp32" and any(isinstance(module, Stack) and module.engine for module in model.modules()):
        raise InputError(
            f"precision={precision!r} does not apply to a model with an engine, which computes in fp32",
            "load it without an engine",
        )
    device, dtype = _kind(model)
    if precision != "fp32" and (device != "cpu" or dtype != torch.float32):
        raise InputError(
            f"precision={precision!r} needs float32 weights on the CPU, not {dtype} on {device}",
            "load the model on the CPU without a dtype",
        )
    if precision == "fp32" and all(_weights(layer) < min(PACKED_FROM, TRANSPOSED[0]) for layer in layers(model)):
        for layer in layers(model):
            layer.kernel = None
        return model
    chosen = machine().chosen.get(precision)
    if chosen is None:
        names = [kernel.__name__ for kernel in KERNELS[precision]]
        reasons = "; ".join(machine().refused[name] for name in names if name in machine().refused)
        able = " or ".join(machine().chosen)
        raise InputError(f"precision={precision!r} does not work on this machine ({reasons})", f"use {able}")
    kernel = machine().kernel(precision)
    if precision != "fp32":
        model.requires_grad_(False).eval()
        PackedKernel.fast_attention = machine().attention == "bf16"
    one_row = one_by_one(model) if precision == "int8" else set()
    for layer in layers(model):
        if (device, dtype) != ("cpu", torch.float32):
            layer.kernel = None
        elif precision == "int8":
            layer.kernel = _int8_kernel(layer, layer in one_row)()
        elif kernel is not None and (precision != "fp32" or _weights(layer) >= PACKED_FROM):
            layer.kernel = kernel()
        else:
            transposed = machine().small == TransposedKernel.__name__ and _weights(layer) <= TRANSPOSED[1]
            layer.kernel = TransposedKernel() if transposed else None
    if precision == "int8":
        _calibrate(model, run_example)
    return model


def _calibrate(model: nn.Module, run_example: Callable[[], Tensor] | None) -> None:
    """Choose how each layer rounds its inputs in int8; layers that the example does not reach use a single scale."""
    try:
        run_example = run_example or example(model, length=LENGTH)
    except InputError as error:
        warnings.warn(f"int8 is not calibrated and may be inaccurate: {error}", stacklevel=3)
        return
    here = machine()
    quick = [name for name in ("bf16", "fp32") if name in here.chosen]
    accurate = here.kernel(min(quick, key=lambda name: here.relative.get(here.chosen[name], 1.0)))
    accurate = AccurateKernel if accurate is BFloat16Kernel else accurate
    half = why_not(HalfKernel) is None
    largest_weight = min(here.int8_kernel(many_rows=many).largest_weight() for many in (True, False))

    def kernel(layer: Linear | WordHead, scaling: Scaling | None, one_row: bool) -> Kernel | None:
        if scaling is None and one_row and half:
            return HalfKernel()
        if scaling is None:
            return None if accurate is None else accurate()
        return _int8_kernel(layer, one_row)(scaling)

    before = kernels_of(model)
    set_kernels(model, [None] * len(before))
    with torch.no_grad():
        found = calibrate(model, list(layers(model)), run_example, kernel, largest_weight)
    for layer, one in zip(layers(model), before, strict=True):
        layer.kernel = found.get(layer, one)


def _int8_kernel(layer: Linear | WordHead, one_row: bool) -> type[Int8Kernel]:
    """The int8 kernel of a layer that receives one row at a time in generation, or many."""
    wide = isinstance(layer, Linear) and layer.in_features <= layer.out_features
    return machine().int8_kernel(many_rows=wide and not one_row)


def _weights(layer: Linear | WordHead) -> int:
    """The number of a layer's weights. A head that shares the embedding table is as large as the vocabulary."""
    return layer.weight.numel() if isinstance(layer, Linear) else int(layer.vocabulary) * int(layer.width)


def kernels_of(model: nn.Module) -> list[Kernel | None]:
    """Return the kernel of each layer in the order of `layers`; None is torch's own product."""
    return [layer.kernel for layer in layers(model)]


def set_kernels(model: nn.Module, kernels: Sequence[Kernel | None]) -> None:
    """Set the kernel of each layer, in the order of `layers`."""
    for layer, kernel in zip(layers(model), kernels, strict=True):
        layer.kernel = kernel


def prepared(
    model: nn.Module, precisions: Sequence[str], run_example: Callable[[], Tensor] | None = None
) -> dict[str, list[Kernel | None]]:
    """Return the kernels of each precision. Leaves the model in eval mode, prepared for fp32, trainable as before."""
    wanted = [weight.requires_grad for weight in model.parameters()]
    found = {}
    for precision in precisions:
        found[precision] = kernels_of(prepare(model, precision, run_example))
    for weight, before in zip(model.parameters(), wanted, strict=True):
        weight.requires_grad_(before)
    prepare(model.eval(), "fp32")
    return found


def precision_of(model: nn.Module) -> str:
    """The precision that a model was prepared for: fp32, bf16, or int8 (single layers may be more accurate)."""
    found = {getattr(layer.kernel, "precision", "fp32") for layer in layers(model)}
    return "int8" if "int8" in found else found.pop() if len(found) == 1 else "fp32"


class Choice(NamedTuple):
    """The precision that `auto` chose, with the time and cosine of every precision tried, relative to float32."""

    precision: str
    relative_time: dict[str, float]
    cosine: dict[str, float]
    compared_on: str

    def __str__(self) -> str:
        tried = ", ".join(
            f"{name} {self.relative_time[name]:.2f} × the time, cosine {self.cosine[name]:.5f}" for name in self.cosine
        )
        return f"precision {self.precision} ({tried}; accepted from cosine {AGREEMENT}; compared on {self.compared_on})"


def choose(
    model: nn.Module,
    run_example: Callable[[], object] | None = None,
    *,
    compared_on: str = "an input of the caller",
    calibrated_on: Callable[[], Tensor] | None = None,
    rounds: int = 3,
) -> Choice:
    """Choose the fastest precision whose outputs agree with float32. Afterwards the model is prepared for fp32.

    Outputs are compared on `run_example`, a call of the model that `compared_on` describes; by default on a random
    input on which int8 was not calibrated. int8 is calibrated on `calibrated_on`. A model whose weights are not float32
    on the CPU has no other precision, and nothing is run.
    """
    if _kind(model) != ("cpu", torch.float32):
        return Choice("fp32", {"fp32": 1.0}, {"fp32": 1.0}, "nothing: the weights are not float32 on the CPU")
    if run_example is None:
        run_example, compared_on = example(model, seed=1), "random input"
    outputs: dict[str, Tensor] = {}
    names = [name for name in ("fp32", "bf16", "int8") if name in machine().chosen]
    kernels = prepared(model, names, calibrated_on)

    def run(name: str) -> None:
        set_kernels(model, kernels[name])
        with torch.no_grad():
            outputs[name] = vectors(run_example())

    runs = {name: (lambda name=name: run(name)) for name in names}
    with one_thread():
        times = interleaved(runs, rounds=rounds, clock=time.thread_time)
    prepare(model, "fp32")
    agree = {name: float(cosine_similarity(outputs[name], outputs["fp32"], dim=-1).min()) for name in names}
    used = {name: {getattr(kernel, "precision", "fp32") for kernel in kernels[name]} for name in names}
    able = [name for name in names if name == "fp32" or (agree[name] >= AGREEMENT and name in used[name])]
    best = min(able, key=lambda name: times[name])
    return Choice(best, {name: times[name] / times["fp32"] for name in names}, agree, compared_on)


def _kind(model: nn.Module) -> tuple[str, torch.dtype]:
    first = next(model.parameters())
    return first.device.type, first.dtype
