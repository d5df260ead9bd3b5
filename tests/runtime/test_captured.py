"""Functions compiled by torch.jit compute exactly what they compute as plain Python."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.core.captured import _compiled, captured
from glassformer.runtime import prepare
from glassformer.runtime.kernels import Int8Kernel, Scaling
from glassformer.runtime.machine import why_not
from glassformer.runtime.precision import layers
from runtime.small_models import KINDS, WITHOUT_BLOCKS, make, tensor_of

CAPTURED = {
    "glassformer.nn.flat": ("split_heads", "attend_rows"),
    "glassformer.nn.cache": ("_pushed",),
    "glassformer.runtime.kernels": ("_int8_product", "_half_product"),
}
FUNCTIONS = [(module, name) for module, names in CAPTURED.items() for name in names]


def function(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_it_compiles(module: str, name: str) -> None:
    """Otherwise it would run as plain Python without a word."""
    assert isinstance(_compiled(function(module, name).__wrapped__), torch.jit.ScriptFunction)


@torch.no_grad()
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in WITHOUT_BLOCKS])
@pytest.mark.variants(6)
def test_results_are_those_of_plain_python(kind: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, call = make(kind)
    prepare(model.eval(), precision)
    if precision == "int8" and why_not(Int8Kernel) is None:
        for i, layer in enumerate(layers(model)):
            layer.kernel = Int8Kernel(Scaling(exact=torch.tensor([0, 2]) if i % 2 else None, per_row=i % 3 == 0))
    compiled = [tensor_of(call(model)) for _ in range(3)]  # torch.jit optimizes at the second call
    for module, name in FUNCTIONS:
        monkeypatch.setattr(f"{module}.{name}", function(module, name).__wrapped__)
    plain = tensor_of(call(model))
    assert all(torch.equal(one, plain) for one in compiled)


@captured
def twice(x: Tensor, times: int) -> Tensor:
    return x * 2 * times


def test_without_torch_jit_it_runs_as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Callable[..., Any]) -> None:
        raise RuntimeError("torch.jit does not support this Python")

    monkeypatch.setattr(torch.jit, "script", refuse)
    assert captured(twice.__wrapped__)(torch.ones(2), 3).tolist() == [6.0, 6.0]  # type: ignore[attr-defined]


def test_arguments_may_be_named() -> None:
    assert twice(torch.ones(2), times=3).tolist() == twice(torch.ones(2), 3).tolist() == [6.0, 6.0]
