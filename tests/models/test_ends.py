from __future__ import annotations

import pytest
import torch
from torch.nn.init import kaiming_uniform_

from glassformer.errors import ConfigError, InputError, MaskError, ShapeError
from glassformer.models.ends import (
    Frames,
    Head,
    Tokens,
    check_real,
    he,
    pooled,
    require_pool,
    require_streamable,
)


def test_pooling_is_of_the_real_positions() -> None:
    X = torch.arange(12.0).reshape(2, 3, 2)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    assert pooled(X, "none", mask) is X
    assert pooled(X, "mean", mask).tolist() == [[1, 2], [8, 9]]
    assert pooled(X, "last", mask).tolist() == [[2, 3], [10, 11]]
    everything = torch.ones(2, 3, dtype=torch.bool)
    for pool in ("mean", "last"):
        assert pooled(X, pool, None).equal(pooled(X, pool, everything))


def test_last_is_the_last_real_position_wherever_padding_stands() -> None:
    X = torch.arange(4.0).reshape(1, 4, 1)
    assert pooled(X, "last", torch.tensor([[False, True, False, False]])).item() == 1
    assert pooled(X, "last", torch.tensor([[True, False, False, False]])).item() == 0


def test_what_padding_holds_does_not_matter() -> None:
    X = torch.tensor([[[1.0], [float("nan")]]])
    assert pooled(X, "mean", torch.tensor([[True, False]])).item() == 1


def test_head_shapes() -> None:
    X = torch.zeros(2, 3, 4)
    assert Head(4, 5, "none")(X).shape == (2, 3, 5)
    assert Head(4, 5, "mean")(X).shape == (2, 5)


def test_he_is_torchs() -> None:
    ours, theirs = torch.empty(7, 5, 3), torch.empty(7, 5, 3)
    he(ours, torch.Generator().manual_seed(3))
    kaiming_uniform_(theirs, nonlinearity="relu", generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Tokens(vocabulary=0), ConfigError, "vocabulary is 0: choose at least 1"),
        (lambda: Frames(features=-2), ConfigError, "features is -2: choose at least 1"),
        (lambda: require_pool("max"), ConfigError, "pool 'max' is unknown: choose one of none, mean, last"),
        (lambda: require_streamable("mean"), ConfigError, "known only at their end"),
        (lambda: Tokens(vocabulary=5).check(torch.zeros(3, dtype=torch.long)), ShapeError, r"shape \(3,\)"),
        (lambda: Tokens(vocabulary=5).check(torch.zeros(3, 0, dtype=torch.long)), ShapeError, "at least one position"),
        (lambda: Tokens(vocabulary=5).check(torch.tensor([[1, 5]])), InputError, "token id 5 .* keep ids in 0 … 4"),
        (lambda: Tokens(vocabulary=5).check(torch.tensor([[1, -1]])), InputError, "token id -1"),
        (lambda: Tokens(vocabulary=5).check(torch.zeros(1, 2)), InputError, "token ids are float32: give int64"),
        (lambda: Frames(features=4).check(torch.zeros(1, 2, 3)), ShapeError, r"\(1, 2, 3\): give \(batch, frames, 4\)"),
        (lambda: check_real(torch.ones(1, 2), torch.zeros(1, 2)), MaskError, "holds float32: give booleans"),
        (lambda: check_real(torch.ones(1, 3).bool(), torch.zeros(1, 2)), MaskError, r"\(1, 3\) does not fit"),
        (lambda: check_real(torch.tensor([[True], [False]]), torch.zeros(2, 1)), MaskError, "sequence 1 has no real"),
    ],
)
def test_mistakes(make, kind, message) -> None:
    with pytest.raises(kind, match=message):
        make()
