from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import conv1d, conv2d

from glassformer.errors import ConfigError, ShapeError
from glassformer.lens import edit
from glassformer.lens.construct import build
from glassformer.lens.kernels import named_kernel
from glassformer.lens.routing import EDGES, convolution, identity, permutation, shift

DOUBLE = torch.float64


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", ["one-hot", "quadratic", "sinusoidal"])
def test_nine_heads_are_any_convolution_with_channels(kind: str) -> None:
    W, X = randn(3, 2, 3, 3), randn(2, 30, 2, seed=1)
    layer = build(convolution(W), (6, 5), beta=90.0, kind=kind)
    assert layer.attention.config.heads == 9
    image = X.mT.unflatten(2, (6, 5))
    torch.testing.assert_close(layer(X), conv2d(image, W, padding=1).flatten(2).mT, rtol=1e-12, atol=1e-12)


def test_one_head_for_each_tap_takes_weights_below_zero() -> None:
    X = randn(1, 8, 1)
    layer = build(convolution([-1, 2.5, -1]), 8, beta=60.0, kind="quadratic")
    wanted = conv1d(X.mT, torch.tensor([[[-1, 2.5, -1]]], dtype=DOUBLE), padding=1).mT
    torch.testing.assert_close(layer(X), wanted)


def test_one_renormalised_head_is_banded() -> None:
    X = randn(1, 8, 2)
    routing = convolution([1, 2, 1], channels=2, edges="renormalised")
    layer = build(routing, 8, beta=60.0)
    assert layer.attention.config.heads == 1
    torch.testing.assert_close(layer(X), routing.target(X, 8))
    kernel = torch.tensor([1.0, 2, 1], dtype=DOUBLE).expand(2, 1, 3)
    torch.testing.assert_close(layer(X)[:, 1:-1], conv1d(X.mT, kernel, groups=2).mT)


def test_permutation_and_identity_are_exact_early() -> None:
    X = randn(2, 3, 4)
    torch.testing.assert_close(build(permutation([3, 1, 2], channels=4), 3, beta=60.0)(X), X[:, [2, 0, 1]])
    torch.testing.assert_close(build(identity(channels=4), 3, beta=60.0)(X), X)


KNOWN = {"one-hot": EDGES, "quadratic": ("zero", "hold"), "sinusoidal": ("zero",)}
HOW = [(kind, edges) for kind, known in KNOWN.items() for edges in known]
cases = st.fixed_dictionaries(
    {
        "n": st.integers(1, 9),
        "k": st.integers(1, 4),
        "c": st.integers(1, 3),
        "beta": st.floats(0.0, 45.0),
        "scale": st.floats(0.01, 100.0),
        "seed": st.integers(0, 999),
        "how": st.sampled_from(HOW),
    }
)


@settings(max_examples=150)
@given(cases)
def test_the_error_is_within_the_bound(case: dict) -> None:  # type: ignore[type-arg]
    kind, edges = case["how"]
    n, k, c, seed = case["n"], case["k"], case["c"], case["seed"]
    W = randn(k, seed=seed).abs() + 0.01 if edges == "renormalised" else randn(c, c, k, seed=seed)
    layer = build(convolution(W, channels=c, edges=edges), n, beta=case["beta"], kind=kind)
    X = case["scale"] * randn(2, n, c, seed=seed + 1)
    largest = X.abs().max().item()
    error = (layer(X) - layer.target(X)).abs().max().item()
    assert error <= layer.bound(case["beta"], largest) + 1e-13 * largest * layer.norm


@given(st.floats(1e-9, 0.5), st.integers(2, 12))
def test_the_beta_asked_for_keeps_the_tolerance(tolerance: float, n: int) -> None:
    layer = build(shift(1), n)
    beta = layer.beta_for(tolerance, 1.0)
    assert layer.bound(beta, 1.0) <= tolerance * (1 + 1e-9)
    if beta > 0.1:
        assert layer.bound(beta - 0.05, 1.0) > tolerance  # and no larger than it must be
    X = randn(4, n, 1).sign()
    with edit(layer, "attention.beta", beta):
        assert (layer(X) - layer.target(X)).abs().max() <= tolerance * (1 + 1e-6)


def test_the_missed_weight_is_what_the_bound_says() -> None:
    """One-hot codes leave every other key the same: there the bound on ε is met exactly."""
    layer = build(shift(1, edges="wrap"), 6, beta=3.0)
    assert layer.missed(3.0) == pytest.approx(5 * math.exp(-3) / (1 + 5 * math.exp(-3)))


def test_one_place_is_always_exact() -> None:
    layer = build(identity(), 1, beta=0.0)
    X = randn(1, 1, 1)
    torch.testing.assert_close(layer(X), X)
    assert layer.beta_for(1e-6, 1.0) == 0.0
    assert layer.bound(0.0, 1.0) == 0.0


def test_weights_come_back_from_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from safetensors.torch import load_file, save_file

    layer = build(convolution(named_kernel("blur", (3, 3))), (4, 4), beta=40.0)
    save_file(layer.state_dict(), tmp_path / "w.safetensors")
    other = build(convolution(named_kernel("box", (3, 3))), (4, 4), beta=40.0)
    other.load_state_dict(load_file(tmp_path / "w.safetensors"))
    X = randn(1, 16, 1)
    assert torch.equal(other(X), layer(X))


def test_mistakes() -> None:
    layer = build(shift(1, channels=2), 4)
    with pytest.raises(ShapeError, match="give \\(batch, 4, 2\\)"):
        layer(torch.zeros(1, 5, 2, dtype=DOUBLE))
    with pytest.raises(ConfigError, match="a tolerance of 0"):
        layer.beta_for(0.0, 1.0)
