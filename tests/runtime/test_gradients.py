"""oneDNN's products with gradients against torch's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import linear

from glassformer.models import Decoder, decoder
from glassformer.runtime import gradients
from glassformer.runtime.gradients import MANY_ROWS, linear_with_gradients
from glassformer.runtime.kernels import Float32Kernel
from glassformer.runtime.precision import layers

Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the left factors that oneDNN multiplied."""
    shapes: list[tuple[int, ...]] = []
    product = gradients._product

    def counted(rows: Tensor, *rest: object) -> Tensor:
        shapes.append(tuple(rows.shape))
        return product(rows, *rest)

    monkeypatch.setattr(gradients, "_product", counted)
    return shapes


def example(*shape: int, out: int, bias: bool = True) -> list[Tensor | None]:
    generator = torch.Generator().manual_seed(0)
    x, W = torch.randn(*shape, generator=generator), torch.randn(out, shape[-1], generator=generator)
    parts = [x, W, torch.randn(out, generator=generator) if bias else None]
    return [None if part is None else part.requires_grad_() for part in parts]


def results(product: Product, parts: list[Tensor | None]) -> list[Tensor]:
    """The product and its gradients for a loss that weighs every output differently."""
    y = product(*parts)  # type: ignore[arg-type]
    wanted = [part for part in parts if part is not None and part.requires_grad]
    weights = torch.arange(y.numel(), dtype=y.dtype).sin().view_as(y)
    return [y, *torch.autograd.grad((y * weights).sum(), wanted)]


@given(batch=st.integers(1, 3), length=st.integers(1, 130), width=st.integers(1, 40), out=st.integers(1, 40),
       bias=st.booleans())  # fmt: skip
def test_product_and_gradients_are_those_of_torch(batch: int, length: int, width: int, out: int, bias: bool) -> None:
    parts = example(batch, length, width, out=out, bias=bias)
    for ours, torchs in zip(results(linear_with_gradients, parts), results(linear, parts), strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-3)


def test_all_three_products_are_by_onednn(calls: list[tuple[int, ...]]) -> None:
    results(linear_with_gradients, example(2, MANY_ROWS, 8, out=5))
    assert calls == [(2 * MANY_ROWS, 8), (2 * MANY_ROWS, 5), (5, 2 * MANY_ROWS)]


def test_frozen_weight_has_no_product_for_its_gradient(calls: list[tuple[int, ...]]) -> None:
    x, W, b = example(MANY_ROWS, 8, out=5)
    assert W is not None
    assert b is not None
    results(linear_with_gradients, [x, W.requires_grad_(False), b.requires_grad_(False)])
    assert len(calls) == 2


def test_views_that_are_not_contiguous() -> None:
    x = torch.randn(8, MANY_ROWS).mT.requires_grad_()
    parts: list[Tensor | None] = [x, torch.randn(8, 5).mT.requires_grad_(), None]
    for ours, torchs in zip(results(linear_with_gradients, parts), results(linear, parts), strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-4)


def test_second_derivatives_are_those_of_torch() -> None:
    def penalty(product: Product) -> Tensor:
        x, W, b = example(MANY_ROWS, 8, out=5)
        assert W is not None
        (first,) = torch.autograd.grad(product(x, W, b).tanh().sum(), x, create_graph=True)  # type: ignore[arg-type]
        return torch.autograd.grad(first.square().sum(), W)[0]

    torch.testing.assert_close(penalty(linear_with_gradients), penalty(linear), rtol=1e-4, atol=1e-4)


def test_what_onednn_does_not_serve_is_computed_by_torch(calls: list[tuple[int, ...]]) -> None:
    x, W, b = example(MANY_ROWS, 8, out=5)
    assert x is not None
    assert W is not None
    linear_with_gradients(x[:1], W, b)
    linear_with_gradients(x.double(), W.double(), None)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear_with_gradients(x, W, b).dtype == torch.bfloat16
    torch.func.vmap(lambda row: linear_with_gradients(row, W, b))(x.view(2, -1, 8))
    with forward_ad.dual_level():
        linear_with_gradients(x, W, b)
    assert not calls


def test_model_with_the_kernel_has_the_gradients_of_the_model_without(calls: list[tuple[int, ...]]) -> None:
    model, ids = Decoder(decoder.plain(50, 16, 2, 2, 64), seed=0).train(), torch.arange(64)[None] % 50

    def gradients_of_loss() -> list[Tensor]:
        model.zero_grad()
        model(ids).logsumexp(-1).sum().backward()
        return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

    without = gradients_of_loss()
    for layer in layers(model):
        layer.kernel = Float32Kernel()
    with_kernel = gradients_of_loss()
    assert calls
    for ours, torchs in zip(with_kernel, without, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-3, atol=1e-4)
