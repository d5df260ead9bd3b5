from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import ConfigError
from glassformer.lens.construct import code, gap
from glassformer.lens.routing import Routing, convolution, permutation, shift

ONE = torch.ones(1, 1, 1, dtype=torch.float64)


def argmax_is_target(kind: str, routing: Routing, size: int | tuple[int, ...]) -> None:
    made = code(kind, routing, size)
    n = made.targets.shape[1]
    for T, targets in zip(made.T, made.targets, strict=True):
        S = (made.E[:n] @ T.T) @ (made.E @ made.G.T).T
        assert torch.equal(S.argmax(-1), targets.int().argmax(-1))


@given(n=st.integers(2, 30), by=st.integers(-40, 40))
def test_the_largest_score_is_the_target_on_a_line(n: int, by: int) -> None:
    for kind, edges in [("one-hot", "zero"), ("one-hot", "wrap"), ("one-hot", "hold"), ("quadratic", "zero"),
                        ("quadratic", "hold"), ("sinusoidal", "zero")]:  # fmt: skip
        argmax_is_target(kind, shift(by, edges=edges), n)  # type: ignore[arg-type]


@given(rows=st.integers(1, 5), cols=st.integers(1, 5), dy=st.integers(-3, 3), dx=st.integers(-3, 3))
def test_and_on_a_grid(rows: int, cols: int, dy: int, dx: int) -> None:
    for kind in ("one-hot", "quadratic", "sinusoidal"):
        argmax_is_target(kind, Routing(name="offset", offsets=((dy, dx),), C=ONE), (rows, cols))
    argmax_is_target("quadratic", Routing(name="offset", offsets=((dy, dx),), C=ONE, edges="hold"), (rows, cols))


@pytest.mark.parametrize(("kind", "edges"), [("one-hot", "zero"), ("one-hot", "wrap"), ("quadratic", "zero")])
def test_one_hot_and_quadratic_gaps_are_one(kind: str, edges: str) -> None:
    assert gap(code(kind, convolution(torch.ones(3, 3), edges=edges), (5, 4))) == pytest.approx(1.0)  # type: ignore[arg-type]


def test_the_gap_of_the_sinusoids() -> None:
    """The nearest rival is Σ_i (1 − cos ω_i Δ) below, for the worst distance Δ."""
    omega = 10000 ** (-torch.arange(8) / 8.0).double()
    wanted = min((1 - torch.cos(omega * d)).sum().item() for d in range(1, 21))
    assert gap(code("sinusoidal", shift(1), 20)) == pytest.approx(wanted, rel=1e-6)


def test_the_gap_of_one_key_has_no_end() -> None:
    assert gap(code("one-hot", shift(0), 1)) == float("inf")


def test_not_every_code_has_every_edge() -> None:
    with pytest.raises(ConfigError, match="sinusoidal codes know only offsets and cannot do wrap edges"):
        code("sinusoidal", shift(1, edges="wrap"), 4)
    with pytest.raises(ConfigError, match="cannot do a permutation"):
        code("quadratic", permutation([2, 1]), 2)
    with pytest.raises(ConfigError, match="there is no code 'gray'"):
        code("gray", shift(1), 4)
