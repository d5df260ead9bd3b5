from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.order import batches, bucketed, held_out, seeds, shuffled, spread, stratified
from glassformer.errors import InputError

SEED, EPOCH = st.integers(0, 2**64), st.integers(0, 1000)


@given(st.integers(0, 300), SEED, EPOCH)
def test_an_order_is_a_permutation_and_the_same_again(n: int, seed: int, epoch: int) -> None:
    rows = shuffled(n, seed, epoch)
    assert sorted(rows) == list(range(n))
    assert rows == shuffled(n, seed, epoch)
    assert all(type(row) is int for row in rows)


def test_every_seed_and_epoch_has_its_own() -> None:
    orders = {tuple(shuffled(50, seed, epoch)) for seed in range(10) for epoch in range(10)}
    assert len(orders) == 100


def test_every_place_is_as_likely() -> None:
    """χ² of where row 0 of 10 lands over 2,000 epochs, 9 degrees of freedom: 27.9 has probability 0.001."""
    counts = np.bincount([shuffled(10, 0, epoch).index(0) for epoch in range(2000)], minlength=10)
    assert ((counts - 200) ** 2 / 200).sum() < 27.9


def test_orders_are_pinned() -> None:
    """A run that was begun with another version of numpy, or of this, goes on with the same rows."""
    assert shuffled(10, 0, 0) == [4, 6, 2, 7, 3, 5, 9, 0, 8, 1]
    assert shuffled(10, 3, 4) == [7, 2, 3, 4, 9, 6, 8, 0, 1, 5]
    assert list(bucketed(range(12), 30, 3, 4)) == [[1, 0, 2, 3, 4, 5], [11], [6, 7, 8], [9, 10]]
    assert seeds(2, 1, 2) == [4007361692370880152, 1994245567028158720]


@given(st.integers(0, 100), st.integers(1, 20), SEED, EPOCH, st.booleans())
def test_batches_are_the_order_cut(n: int, size: int, seed: int, epoch: int, whole: bool) -> None:
    made = batches(n, size, seed, epoch, whole=whole)
    rows = shuffled(n, seed, epoch)
    cut = [rows[i : i + size] for i in range(0, n, size)]
    assert list(made) == [part for part in cut if len(part) == size or not whole]


@given(st.lists(st.integers(0, 60), max_size=200), st.integers(1, 150), st.integers(1, 20), SEED, EPOCH)
def test_buckets_cover_each_row_once_within_the_budget(
    lengths: list[int], budget: int, most: int, seed: int, epoch: int
) -> None:
    made = list(bucketed(lengths, budget, seed, epoch, most=most))
    assert sorted(row for rows in made for row in rows) == list(range(len(lengths)))
    for rows in made:
        assert 1 <= len(rows) <= most
        assert len(rows) == 1 or len(rows) * max(lengths[row] for row in rows) <= budget
    assert made == list(bucketed(np.array(lengths, dtype=np.int32), budget, seed, epoch, most=most))


def test_buckets_waste_little_and_mix() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 20_000)
    first, second = (list(bucketed(lengths, 2000, 0, epoch)) for epoch in (0, 1))
    padded = sum(len(rows) * lengths[rows].max() for rows in first)
    assert lengths.sum() / padded > 0.95
    assert {tuple(rows) for rows in first}.isdisjoint({tuple(rows) for rows in second})
    longest = [lengths[rows].max() for rows in first]
    assert abs(np.corrcoef(longest[:-1], longest[1:])[0, 1]) < 0.2, "batches do not come sorted by length"


def test_a_part_of_the_batches() -> None:
    made = batches(10, 3, 0, 0)
    assert list(made[2:]) == list(made)[2:]
    assert made[-1] == list(made)[-1]
    assert list(made[1::2]) == list(made)[1::2]
    with pytest.raises(IndexError):
        made[4]


def test_some_from_all_over() -> None:
    assert spread(10, 5) == [0, 2, 4, 6, 8]
    assert spread(3, 10) == spread(3, None) == [0, 1, 2]
    assert spread(7, 3) == [0, 2, 4]


def test_seeds_differ() -> None:
    assert seeds(5, 1, 2) == seeds(5, 1, 2)
    assert len({seed for epoch in range(20) for seed in seeds(50, 0, epoch)}) == 1000


@given(st.integers(2, 300), st.floats(0, 1), SEED)
def test_rows_are_learned_from_or_held_out(n: int, share: float, seed: int) -> None:
    rows, held = held_out(n, share, seed, most=50)
    assert sorted([*rows.tolist(), *held.tolist()]) == list(range(n))
    assert len(held) == min(50, max(1, round(share * n)), n - 1)
    assert all(np.array_equal(a, b) for a, b in zip((rows, held), held_out(n, share, seed, most=50), strict=True))
    assert rows.tolist() == sorted(rows.tolist())


@given(st.lists(st.sets(st.integers(0, 6), max_size=3), min_size=2, max_size=80), st.floats(0, 0.5), SEED)
def test_every_class_is_learned_and_validated(classes: list[set[int]], share: float, seed: int) -> None:
    rows, held = stratified([tuple(some) for some in classes], share, seed)
    assert sorted([*rows.tolist(), *held.tolist()]) == list(range(len(classes)))
    assert len(rows)
    assert len(held)
    count = len(held_out(len(classes), share, seed)[1])
    often = [k for k in range(7) if sum(k in some for some in classes) > 1]
    for k in often:
        assert any(k in classes[i] for i in rows)
        if len(often) <= count and all(len(some) <= 1 for some in classes):
            assert any(k in classes[i] for i in held)


@given(st.lists(st.integers(10, 60), min_size=2, max_size=5), SEED)
def test_each_class_has_its_share(sizes: list[int], seed: int) -> None:
    classes = [(k,) for k, size in enumerate(sizes) for _ in range(size)]
    _, held = stratified(classes, 0.1, seed)
    assert len(held) == len(held_out(len(classes), 0.1, seed)[1])
    for k, size in enumerate(sizes):
        assert abs(sum(classes[i] == (k,) for i in held) - 0.1 * size) <= 1
    again = stratified(classes, 0.1, seed)[1]
    assert np.array_equal(held, again), "the seed decides"


def test_rows_without_classes_are_split_as_any() -> None:
    for plain, other in zip(held_out(50, 0.1, 3), stratified([()] * 50, 0.1, 3), strict=True):
        assert np.array_equal(plain, other)
    apart = [(i,) for i in range(50)]  # of which none could be validated
    assert np.array_equal(held_out(50, 0.1, 3)[1], stratified(apart, 0.1, 3)[1])


def test_what_is_refused(refused: Any) -> None:
    refused(InputError, "batch size must be at least 1, got 0: choose", lambda: batches(5, 0, 0, 0))
    refused(InputError, "batches have at most 0 tokens and 4096 rows: choose", lambda: bucketed([1], 0, 0, 0))
    refused(InputError, "1 row cannot be split into training and validation data: give", lambda: held_out(1, 0.5, 0))
    refused(InputError, "seed is -1 and epoch is 0: give", lambda: shuffled(5, -1, 0))
