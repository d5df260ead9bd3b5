from __future__ import annotations

import warnings

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import wasserstein_distance
from torch import Tensor

from glassformer.core.transport import Move, Transport, distance_1d, emd, emd_1d
from glassformer.errors import InputError, ShapeError


@st.composite
def heaps(draw: st.DrawFn, n: int) -> Tensor:
    """n masses that sum to 1, some of them 0."""
    parts = draw(st.lists(st.integers(0, 20), min_size=n, max_size=n).filter(any))
    return torch.tensor(parts, dtype=torch.float64) / sum(parts)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    n = draw(st.integers(1, 8))
    places = draw(st.lists(st.integers(-50, 50), min_size=n, max_size=n))  # in any order, some the same
    return draw(heaps(n)), draw(heaps(n)), torch.tensor(places) / 4


def is_plan(found: Transport, p: Tensor, q: Tensor) -> None:
    assert (found.plan >= 0).all()
    torch.testing.assert_close(found.plan.sum(1), p.double())
    torch.testing.assert_close(found.plan.sum(0), q.double())
    assert sum(move.cost for move in found.moves) == pytest.approx(found.distance, abs=1e-9)
    assert sum(move.mass for move in found.moves) == pytest.approx(p.sum().item())
    rebuilt = torch.zeros_like(found.plan)
    for source, target, mass, _ in found.moves:
        rebuilt[source, target] += mass
    assert torch.equal(rebuilt, found.plan)


def test_by_hand() -> None:
    """Heaps (½, ½, 0) and (0, ½, ½): each half goes one place to the right, nothing jumps."""
    found = emd_1d(torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.0, 0.5, 0.5]))
    assert found.distance == 1.0
    assert found.moves == (Move(0, 1, 0.5, 0.5), Move(1, 2, 0.5, 0.5))


def test_what_stays_costs_nothing() -> None:
    p = torch.tensor([0.1, 0.2, 0.7])
    found = emd_1d(p, p)
    assert found.distance == 0
    assert [(move.source, move.target, move.cost) for move in found.moves] == [(0, 0, 0), (1, 1, 0), (2, 2, 0)]


def test_rounding_moves_nothing() -> None:
    """0.1 + 0.2 is not 0.3 in binary; the difference is no mass."""
    found = emd_1d(torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64), torch.tensor([0.3, 0, 0.7], dtype=torch.float64))
    assert [(move.source, move.target) for move in found.moves] == [(0, 0), (1, 0), (2, 2)]


@given(pairs())
def test_1d_equals_scipy_and_pot(pair: tuple[Tensor, Tensor, Tensor]) -> None:
    p, q, x = pair
    found = emd_1d(p, q, x)
    is_plan(found, p, q)
    assert found.distance == pytest.approx(wasserstein_distance(x, x, p, q), abs=1e-9)
    places = x.double().numpy()
    theirs = ot.emd2_1d(places, places, p.numpy(), q.numpy(), metric="euclidean")
    assert found.distance == pytest.approx(theirs, abs=1e-9)
    assert distance_1d(p, q, x).item() == pytest.approx(found.distance, abs=1e-12)


@given(pairs())
def test_1d_and_general_agree(pair: tuple[Tensor, Tensor, Tensor]) -> None:
    p, q, x = pair
    general = emd(p, q, (x[:, None] - x).abs())
    is_plan(general, p, q)
    assert general.distance == pytest.approx(emd_1d(p, q, x).distance, abs=1e-9)


@settings(max_examples=40)
@given(st.data(), st.integers(1, 5), st.integers(1, 5))
def test_general_equals_linear_programming(data: st.DataObject, n: int, m: int) -> None:
    p, q = data.draw(heaps(n)), data.draw(heaps(m))
    C = torch.tensor(data.draw(st.lists(st.lists(st.integers(-9, 9), min_size=m, max_size=m), min_size=n, max_size=n)))
    found = emd(p, q, C)
    is_plan(found, p, q)
    rows, columns = np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))
    best = linprog(C.flatten().numpy(), A_eq=np.vstack([rows, columns]), b_eq=torch.cat([p, q]).numpy())
    assert best.status == 0
    assert found.distance == pytest.approx(best.fun, abs=1e-9)


@given(pairs(), st.floats(0.01, 1000))
def test_twice_the_mass_is_twice_the_work(pair: tuple[Tensor, Tensor, Tensor], k: float) -> None:
    p, q, x = pair
    C = (x[:, None] - x).abs()
    assert emd_1d(k * p, k * q, x).distance == pytest.approx(k * emd_1d(p, q, x).distance, rel=1e-9, abs=1e-9)
    assert emd(k * p, k * q, C).distance == pytest.approx(k * emd(p, q, C).distance, rel=1e-9, abs=1e-9)


def test_float32_rows_of_a_softargmax_are_no_obstacle() -> None:
    rows = torch.randn(2, 4000, generator=torch.Generator().manual_seed(0)).softmax(-1)
    p, q = rows
    assert p.double().sum() != q.double().sum()
    assert distance_1d(p, q).item() == pytest.approx(wasserstein_distance(range(4000), range(4000), p, q), rel=1e-5)
    p, q = (a[:50] / a[:50].sum() for a in rows)
    near = emd(p, q, (torch.arange(50)[:, None] - torch.arange(50)).abs())
    assert near.distance == pytest.approx(emd_1d(p, q).distance, rel=1e-6)


@pytest.mark.parametrize("off", [1 - 5e-6, 1 + 5e-6])
def test_nearly_equal_masses_are_made_equal(off: float) -> None:
    p, q = torch.tensor([[0.1, 0.6, 0.3], [0.5, 0.25, 0.25]], dtype=torch.float64)
    C = (torch.arange(3)[:, None] - torch.arange(3)).abs()
    for found in (emd_1d(p, off * q), emd(p, off * q, C)):
        torch.testing.assert_close(found.plan.sum(1), p, atol=1e-12, rtol=0)
        torch.testing.assert_close(found.plan.sum(0), q, atol=1e-12, rtol=0)
        assert found.distance == pytest.approx(0.45, abs=1e-12)


def test_many_pairs_at_once_with_gradients() -> None:
    A = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(-1)
    B = A.flip(-1)
    many = distance_1d(A, B)
    assert many.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            assert many[i, j].item() == pytest.approx(emd_1d(A[i, j], B[i, j]).distance)
    S = torch.randn(4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda S: distance_1d(S.softmax(-1), B[0, :1].expand(4, 5)), (S,))


half = torch.tensor([0.5, 0.5])


@pytest.mark.parametrize(
    ("p", "q", "x", "error", "message"),
    [
        ([0.5, 0.5], [1.5, -0.5], None, InputError, "the mass -0.5 of q at 1 is negative: give masses of 0 or more"),
        ([-1.0, 2.0], [0.5, 0.5], None, InputError, "the mass -1 of p at 0 is negative"),
        ([0.5, 0.5], [0.5, 0.25], None, InputError, r"p has mass 1 and q has 0\.75: scale one of them"),
        ([0.5, float("nan")], [0.5, 0.5], None, InputError, "the mass nan of p at 1 is not finite"),
        ([0.5, 0.5], [0.5, float("inf")], None, InputError, "the mass inf of q at 1 is not finite"),
        ([0.0, 0.0], [0.0, 0.0], None, InputError, "p has no mass"),
        ([], [], None, ShapeError, "p is empty: give at least one"),
        ([0.5, 0.5], [1.0], None, ShapeError, r"p of \(2,\) and q of \(1,\) must have the same shape: pad with zeros"),
        ([0.5, 0.5], [0.5, 0.5], [1.0], ShapeError, "1 positions do not fit 2 masses"),
        ([0.5, 0.5], [0.5, 0.5], [1.0, float("nan")], InputError, "a position is NaN or infinite"),
    ],
)
def test_bad_heaps_on_a_line(
    p: list[float], q: list[float], x: list[float] | None, error: type[Exception], message: str
) -> None:
    places = None if x is None else torch.tensor(x)
    for distance in (emd_1d, distance_1d):
        with pytest.raises(error, match=message):
            distance(torch.tensor(p), torch.tensor(q), places)


def test_bad_heaps_and_costs() -> None:
    with pytest.raises(InputError, match=r"p has mass 1 and q has 1\.5"):
        emd(half, torch.tensor([1.0, 0.5]), torch.ones(2, 2))
    with pytest.raises(InputError, match="negative"):
        emd(torch.tensor([1.5, -0.5]), half, torch.ones(2, 2))
    with pytest.raises(ShapeError, match=r"costs of \(2, 3\) do not fit 2 entries of p and 2 of q"):
        emd(half, half, torch.ones(2, 3))
    with pytest.raises(InputError, match="the cost matrix has a NaN or an infinity"):
        emd(half, half, torch.tensor([[0.0, 1.0], [1.0, torch.nan]]))


def test_a_solver_that_reaches_its_iteration_limit_is_an_error() -> None:
    p, q = torch.rand(2, 60, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    C = torch.rand(60, 60, generator=torch.Generator().manual_seed(1))
    with warnings.catch_warnings(record=True) as theirs:
        warnings.simplefilter("always")
        with pytest.raises(InputError, match=r"no optimal plan was found .*: allow more iterations"):
            emd(p / p.sum(), q / q.sum(), C, iterations=1)
    assert theirs  # POT's own warning is passed on, too
