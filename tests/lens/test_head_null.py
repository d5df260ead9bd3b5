from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import ShapeError
from glassformer.lens.head_null import AttentionRows, Found, Profile, Score, Tally

DOUBLE = torch.float64


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def one_row(a: list[float], allowed: list[bool] | None = None) -> AttentionRows:
    A = torch.tensor(a, dtype=DOUBLE)[None, None, None]
    M = torch.ones_like(A, dtype=torch.bool) if allowed is None else torch.tensor(allowed)[None, None, None]
    return AttentionRows(A, M, torch.tensor([len(a) - 1]))


def dealt(a: torch.Tensor, times: int, seed: int) -> torch.Tensor:
    order = torch.rand(times, len(a), generator=generator(seed)).argsort(-1)
    return a[order]


@given(st.integers(2, 9), st.integers(0, 10_000))
def test_the_null_is_the_same_weights_dealt_at_random(n: int, seed: int) -> None:
    a = torch.rand(n, dtype=DOUBLE, generator=generator(seed)).pow(4)
    a = a / a.sum()
    k = 1 + seed % (n - 1)
    found = one_row(a.tolist()).within((torch.arange(n) < k)[None, None])
    samples = dealt(a, 20_000, seed)[:, :k].sum(-1)
    assert found.null.item() == pytest.approx(k / n)
    assert samples.mean().item() == pytest.approx(found.null.item(), abs=5 * found.variance.sqrt().item() / 140 + 1e-9)
    assert samples.var().item() == pytest.approx(found.variance.item(), rel=0.15, abs=1e-9)


def test_the_null_of_a_mean_of_distances() -> None:
    a = torch.tensor([0.6, 0.3, 0.05, 0.05], dtype=DOUBLE)
    d = torch.tensor([0.0, 1.0, 4.0, 2.5], dtype=DOUBLE)
    found = one_row(a.tolist()).mean_of(d[None], torch.ones(1, 4, dtype=torch.bool))
    samples = dealt(a, 40_000, 3) @ d
    assert found.value.item() == pytest.approx((a @ d).item())
    assert samples.mean().item() == pytest.approx(found.null.item(), rel=0.02)
    assert samples.var().item() == pytest.approx(found.variance.item(), rel=0.05)


@pytest.mark.parametrize("n", [2, 5, 40])
def test_the_null_of_entropy_is_that_of_dirichlet(n: int) -> None:
    drawn = np.random.default_rng(n).dirichlet(np.ones(n), 40_000)
    entropy = -(drawn * np.log(drawn)).sum(-1) / math.log(n)
    found = one_row([1 / n] * n).entropy()
    assert found.value.item() == pytest.approx(1.0)
    assert entropy.mean() == pytest.approx(found.null.item(), abs=0.01)
    assert entropy.var() == pytest.approx(found.variance.item(), rel=0.06)


def test_masked_keys_are_no_part_of_the_null() -> None:
    rows = one_row([0.5, 0.25, 0.25, 0.0], [True, True, True, False])
    found = rows.at(torch.tensor([[0]]))
    assert found.null.item() == pytest.approx(1 / 3)
    assert not rows.at(torch.tensor([[3]])).use.any()  # the target itself is hidden
    assert not rows.at(torch.tensor([[-1]])).use.any()


def test_rows_that_choose_nothing_do_not_count() -> None:
    assert not one_row([1.0, 0.0], [True, False]).at(torch.tensor([[0]])).use.any()
    everything = torch.ones(1, 1, 2, dtype=torch.bool)
    assert not one_row([0.9, 0.1]).within(everything).use.any()


def test_a_tally_streams() -> None:
    """Two halves of the rows, added one after the other, score as all of them."""
    A = torch.rand(2, 3, 8, 5, dtype=DOUBLE, generator=generator(0)).softmax(-1)
    M = torch.ones_like(A, dtype=torch.bool)
    keys = torch.arange(8)[None] % 5
    whole, parts = Tally(), Tally()
    whole.add(AttentionRows(A, M, torch.arange(8)).at(keys))
    for rows in (slice(0, 3), slice(3, 8)):
        parts.add(AttentionRows(A[:, :, rows], M[:, :, rows], torch.arange(8)[rows]).at(keys[:, rows]))
    for one, other in zip(whole.scores(), parts.scores(), strict=True):
        assert one is not None
        assert other is not None
        assert tuple(one) == pytest.approx(tuple(other))
    assert whole.scores()[1].value == pytest.approx(A[:, 1, range(8), keys[0]].mean().item())  # type: ignore[union-attr]


def test_a_score_reads_as_excess_and_z() -> None:
    score = Score(0.6, 0.2, 0.1, 9)
    assert score.excess == pytest.approx(0.5)
    assert score.z == pytest.approx(4.0)
    assert Score(1.0, 1.0, 0.0, 1).excess == 0.0 == Score(1.0, 1.0, 0.0, 1).z


def test_no_rows_no_score() -> None:
    zero = torch.zeros(1, 2, 3, dtype=DOUBLE)
    tally = Tally()
    tally.add(Found(zero, zero, zero, torch.zeros(1, 2, 3, dtype=torch.bool)))
    assert tally.scores() == [None, None]
    assert Tally().scores() == []


def test_heads_of_another_model_are_refused() -> None:
    tally = Tally()
    for heads in (2, 3):
        A = torch.full((1, heads, 2, 2), 0.5, dtype=DOUBLE)
        found = AttentionRows(A, A > 0, torch.arange(2)).entropy()
        if heads == 3:
            with pytest.raises(ShapeError, match="had 2 heads and now 3"):
                tally.add(found)
        else:
            tally.add(found)


def profile_of(A: torch.Tensor, offsets: list[int]) -> Profile:
    n = A.shape[-1]
    rows = AttentionRows(A, torch.ones_like(A, dtype=torch.bool), torch.arange(n))
    profile = Profile(offsets)
    profile.begin(rows)
    for i, offset in enumerate(offsets):
        keys = torch.arange(n) + offset
        mass, k = rows.gather(torch.where((keys >= 0) & (keys < n), keys, -1)[None])
        profile.add(i, rows, mass, k)
    return profile


def test_the_profile_is_the_mean_by_offset_and_what_it_explains() -> None:
    """Against the definition, written out with loops."""
    n, offsets = 7, [-1, 0, 1]
    A = torch.rand(1, 1, n, n, dtype=DOUBLE, generator=generator(5)).mul(4).softmax(-1)
    a = A[0, 0].numpy()
    kernel = {d: np.mean([a[t, t + d] for t in range(n) if 0 <= t + d < n]) for d in offsets}
    fit = np.array([[kernel.get(s - t, 0.0) for s in range(n)] for t in range(n)])
    explained = 1 - ((a - fit) ** 2).sum() / ((a - 1 / n) ** 2).sum()
    profile = profile_of(A, offsets)
    assert profile.kernel(0) == pytest.approx(kernel)
    score = profile.explained(0, offsets)
    assert score is not None
    assert score.value == pytest.approx(explained)


def test_the_null_of_what_a_kernel_explains() -> None:
    n, offsets = 12, [-1, 0, 1]
    a = torch.rand(n, dtype=DOUBLE, generator=generator(1)).mul(5).softmax(-1)
    values = []
    for seed in range(300):
        score = profile_of(dealt(a, n, seed)[None, None], offsets).explained(0, offsets)
        assert score is not None
        values.append(score.value)
    assert score is not None
    assert np.mean(values) == pytest.approx(score.null, abs=4 * score.sd / math.sqrt(300) + 1e-3)
    assert np.std(values) == pytest.approx(score.sd, rel=0.3)


def test_uniform_attention_has_nothing_to_explain() -> None:
    assert profile_of(torch.full((1, 1, 6, 6), 1 / 6, dtype=DOUBLE), [0]).explained(0, [0]) is None
