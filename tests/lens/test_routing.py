from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import conv1d, conv2d, pad

from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.lens.routing import Routing, convolution, identity, permutation, previous_token, shift

DOUBLE = torch.float64
TORCH_EDGES = {"zero": "constant", "wrap": "circular", "hold": "replicate"}


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("edges", TORCH_EDGES)
@given(k=st.integers(1, 5), n=st.integers(5, 9), c_in=st.integers(1, 3), c_out=st.integers(1, 3), seed=st.just(0))
def test_a_line_is_convolved_as_torch_does(edges: str, k: int, n: int, c_in: int, c_out: int, seed: int) -> None:
    W, X = randn(c_out, c_in, k, seed=seed), randn(2, n, c_in, seed=seed + 1)
    routing = convolution(W, edges=edges)  # type: ignore[arg-type]
    padded = pad(X.mT, ((k - 1) // 2, k // 2), mode=TORCH_EDGES[edges])
    torch.testing.assert_close(routing.target(X, n), conv1d(padded, W).mT)


@pytest.mark.parametrize("edges", TORCH_EDGES)
@pytest.mark.parametrize("sizes", [(3, 3), (1, 3), (5, 2)])
def test_a_grid_is_convolved_as_torch_does(edges: str, sizes: tuple[int, int]) -> None:
    H, W = 6, 5
    kernel, X = randn(3, 2, *sizes), randn(2, H * W, 2, seed=1)
    image = X.mT.unflatten(2, (H, W))
    (kh, kw) = sizes
    around = ((kw - 1) // 2, kw // 2, (kh - 1) // 2, kh // 2)
    wanted = conv2d(pad(image, around, mode=TORCH_EDGES[edges]), kernel).flatten(2).mT
    routing = convolution(kernel, edges=edges)  # type: ignore[arg-type]
    torch.testing.assert_close(routing.target(X, (H, W)), wanted)


def test_a_kernel_alone_is_for_each_channel() -> None:
    X = randn(1, 7, 3)
    wanted = conv1d(X.mT, torch.tensor([1.0, 2, 1], dtype=DOUBLE).expand(3, 1, 3), padding=1, groups=3).mT
    torch.testing.assert_close(convolution([1, 2, 1], channels=3).target(X, 7), wanted)


def test_renormalised_edges_are_those_of_a_mean_without_padding() -> None:
    """avg_pool with count_include_pad=False is the renormalised box, nobody's code here."""
    X = randn(2, 9, 1)
    box = convolution([1, 1, 1], edges="renormalised")
    wanted = 3 * torch.nn.functional.avg_pool1d(X.mT, 3, 1, 1, count_include_pad=False).mT
    torch.testing.assert_close(box.target(X, 9), wanted)
    image = X[:, :, 0].reshape(2, 1, 3, 3)
    wide = convolution([[1, 1, 1]] * 3, edges="renormalised")
    wanted = 9 * torch.nn.functional.avg_pool2d(image, 3, 1, 1, count_include_pad=False).reshape(2, 9, 1)
    torch.testing.assert_close(wide.target(X, (3, 3)), wanted)


def test_shifts_and_permutations() -> None:
    X = torch.arange(1.0, 6, dtype=DOUBLE)[None, :, None]
    assert shift(2).target(X, 5).flatten().tolist() == [0, 0, 1, 2, 3]
    assert shift(2, edges="wrap").target(X, 5).flatten().tolist() == [4, 5, 1, 2, 3]
    assert shift(2, edges="hold").target(X, 5).flatten().tolist() == [1, 1, 1, 2, 3]
    assert shift(-1).target(X, 5).flatten().tolist() == [2, 3, 4, 5, 0]
    assert previous_token().target(X, 5).flatten().tolist() == [0, 1, 2, 3, 4]
    assert identity().target(X, 5).equal(X)
    assert permutation([3, 1, 2]).target(X[:, :3], 3).flatten().tolist() == [3, 1, 2]


@pytest.mark.parametrize(
    "routing",
    [shift(1), shift(1, edges="wrap"), convolution([1, 2, 1], edges="renormalised"), permutation([2, 1, 4, 3])],
)
def test_the_ideal_weights_gather_the_target(routing: Routing) -> None:
    X = randn(1, 4, 1)
    A = routing.ideal(4)
    gathered = A @ X * (routing.weights().sum() if routing.edges == "renormalised" else 1)
    torch.testing.assert_close(gathered, routing.target(X, 4))
    assert set(A.sum(-1).round(decimals=9).tolist()) <= {0.0, 1.0}


def test_mistakes() -> None:
    with pytest.raises(InputError, match="1,1 is no permutation"):
        permutation([1, 1])
    with pytest.raises(ConfigError, match="has the weight -1, and A is never below 0"):
        convolution([-1, 2, -1], edges="renormalised")
    with pytest.raises(ConfigError, match="mixes channels"):
        convolution(torch.ones(2, 2, 3), edges="renormalised")
    with pytest.raises(ConfigError, match="edges are 'mirror'"):
        shift(1, edges="mirror")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="a permutation of 3 tokens for 4"):
        permutation([3, 1, 2]).places(4)
    with pytest.raises(ShapeError, match="in 1 dimension"):
        shift(1).places((3, 3))
    with pytest.raises(ShapeError, match="a kernel of shape"):
        convolution(torch.ones(1, 1, 1, 1, 1))
    with pytest.raises(InputError, match="only weights of 0 inside"):
        convolution([1, 0, 0], edges="renormalised").ideal(3)
