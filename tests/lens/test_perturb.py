from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from glassformer.core.masks import causal
from glassformer.errors import InputError, ShapeError
from glassformer.lens.perturb import move_key, move_query, noise_on_key, noise_on_query, order_of_error, scale_key
from glassformer.lens.sensitivity import Layer, jacobians

SAMPLES = 100_000
SIZES = (1e-2, 1e-3, 1e-4)


def layer(seed: int = 0, *lead: int) -> Layer:
    g = torch.Generator().manual_seed(seed)
    Q, K, V = (torch.randn(*lead, n, 3, dtype=torch.float64, generator=g) for n in (4, 5, 5))
    return Layer(Q, K, V, 0.8, causal(4, 5), torch.randn(4, 5, dtype=torch.float64, generator=g))


def direction(seed: int = 9) -> torch.Tensor:
    return torch.randn(3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_predictions_are_the_jacobians_times_the_change() -> None:
    one, delta = layer(), 1e-3 * direction()
    J = jacobians(one)
    moved = move_key(one, 1, delta)
    torch.testing.assert_close(moved.predicted_A, J.A_k[:, :, 1] @ delta)
    torch.testing.assert_close(moved.predicted_H, J.H_k[:, :, 1] @ delta)
    turned = move_query(one, 2, delta)
    torch.testing.assert_close(turned.predicted_A[0], J.A_q[2] @ delta)
    torch.testing.assert_close(turned.predicted_H[0], J.H_q[2] @ delta)


@pytest.mark.parametrize("lead", [(), (2, 3)])
def test_the_error_of_first_order_is_of_second_order(lead: tuple[int, ...]) -> None:
    one, delta = layer(1, *lead), direction()
    along = delta.expand(*lead, 3)
    assert order_of_error(lambda x: move_key(one, 1, x * along), SIZES) == pytest.approx(2, abs=0.02)
    assert order_of_error(lambda x: move_query(one, 2, x * along), SIZES) == pytest.approx(2, abs=0.02)
    assert order_of_error(lambda x: scale_key(one, 1, 1 + x), SIZES) == pytest.approx(2, abs=0.02)


def test_measured_changes_are_of_the_right_thing() -> None:
    one = layer()
    K = one.K.clone()
    K[1] *= 3
    torch.testing.assert_close(
        scale_key(one, 1, 3.0).measured_A, one._replace(K=K).attend().A - one.attend().A
    )
    assert scale_key(one, 1, 1.0).error == 0


def test_noise_on_a_key() -> None:
    found = noise_on_key(layer(), 1, 0.12, samples=SAMPLES, generator=torch.Generator().manual_seed(1))
    compare(found)


def test_noise_on_a_query() -> None:
    found = noise_on_query(layer(), 3, 0.12, samples=SAMPLES, generator=torch.Generator().manual_seed(1))
    compare(found)


def compare(found) -> None:  # type: ignore[no-untyped-def]
    """Within the error of the sample mean, 4 s/√n, and a few percent for the orders left out."""
    for symbol in "AH":
        mean, std = (getattr(found.predicted, f"{name}_{symbol}") for name in ("mean", "std"))
        seen, seen_std = (getattr(found.measured, f"{name}_{symbol}") for name in ("mean", "std"))
        assert mean.abs().max() > 5e-4  # there is something to see
        assert ((seen - mean).abs() <= 4 * seen_std / SAMPLES**0.5 + 0.1 * mean.abs().max()).all()
        assert (seen - mean).abs().max() < 0.35 * mean.abs().max()
        assert ((std - seen_std).abs() <= 0.05 * std.max()).all()


def laplacian(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Σ_c ∂²f/∂x_c² of every output, by autograd."""
    size = function(x).numel()
    each = [
        torch.autograd.functional.hessian(lambda y, k=k: function(y).flatten()[k], x).trace() for k in range(size)
    ]
    return torch.stack(each).reshape(function(x).shape)


def test_the_second_order_against_autograd() -> None:
    one, sigma = layer(3), 0.1
    both = lambda l: torch.cat(l.attend()[1:], -1)
    by_key = laplacian(lambda k: both(one._replace(K=torch.cat([one.K[:1], k[None], one.K[2:]]))), one.K[1])
    predicted = noise_on_key(one, 1, sigma, samples=2).predicted
    torch.testing.assert_close(torch.cat([predicted.mean_A, predicted.mean_H], -1), 0.5 * sigma**2 * by_key)
    row = one.rows([3])
    by_query = laplacian(lambda q: both(row._replace(Q=q[None])), one.Q[3])
    predicted = noise_on_query(one, 3, sigma, samples=2).predicted
    torch.testing.assert_close(torch.cat([predicted.mean_A, predicted.mean_H], -1), 0.5 * sigma**2 * by_query)


def test_mistakes() -> None:
    with pytest.raises(InputError, match="there is no key 7: they are 0 to 4"):
        scale_key(layer(), 7, 2.0)
    with pytest.raises(ShapeError, match=r"a change of shape \(2,\) of a query 3 wide"):
        move_query(layer(), 0, torch.zeros(2))
    with pytest.raises(InputError, match="1 samples have no deviation"):
        noise_on_key(layer(), 0, 0.1, samples=1)
    with pytest.raises(InputError, match="leave errors"):
        order_of_error(lambda x: scale_key(layer(), 1, 1.0), SIZES)
