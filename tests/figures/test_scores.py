from __future__ import annotations

import numpy as np
import pytest

from glassformer.errors import InputError, ShapeError
from glassformer.figures import score_by_coordinate


@pytest.mark.golden
def test_bars_are_the_scores(golden_picture, labels_of) -> None:
    r = np.random.default_rng(3)
    q, K = r.normal(size=8), r.normal(size=(5, 8))
    fig = score_by_coordinate(q, K, ["The", "cat", "sat", "on", "it"], beta=8**-0.5)
    ax, bars, _ = fig.axes
    assert [bar.get_width() for bar in bars.patches] == pytest.approx((K @ q / np.sqrt(8)).tolist())
    assert np.allclose(ax.images[0].get_array(), q * K / np.sqrt(8))
    assert labels_of(ax, "y") == ["The", "cat", "sat", "on", "it"]
    assert len(ax.texts) == 40
    golden_picture("score_by_coordinate", fig)


def test_many_keys_and_coordinates() -> None:
    r = np.random.default_rng(3)
    q, K = r.normal(size=64), r.normal(size=(2000, 64))
    ax, bars, _ = score_by_coordinate(q, K).axes
    assert len(bars.patches) == 1000
    assert bars.patches[0].get_width() == pytest.approx((K[:2] @ q).mean())
    assert not ax.texts


def test_mistakes(refused) -> None:
    refused(ShapeError, "q has 2 coordinates and keys have 3", lambda: score_by_coordinate([1, 2], np.ones((4, 3))))
    refused(InputError, "β is nan", lambda: score_by_coordinate([1.0], [[1.0]], beta=float("nan")))
