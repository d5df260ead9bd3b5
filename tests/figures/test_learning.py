from __future__ import annotations

import numpy as np
import pytest

from glassformer.errors import ShapeError
from glassformer.figures import learning_curves


@pytest.mark.golden
def test_curves(golden_picture) -> None:
    steps = np.arange(10, 310, 10)
    loss, rate = 2.3 * np.exp(-steps / 90), 1e-3 * np.cos(np.pi * steps / 620)
    held = {"accuracy": ([100, 200, 300], [0.6, 0.8, 0.85]), "loss on held-out data": ([100, 200, 300], [1, 0.6, 0.5])}
    fig = learning_curves((steps, loss), (steps, rate), held, title="digits")
    assert fig.axes[0].lines[0].get_ydata().tolist() == loss.tolist()
    assert [ax.get_ylabel() for ax in fig.axes] == ["loss", "accuracy", "loss on held-out data", "rate (dotted)"]
    golden_picture("learning_curves", fig)


def test_nothing_held_out() -> None:
    assert len(learning_curves(([1, 2], [2, 1]), ([1, 2], [1, 1])).axes) == 2


def test_mistakes(refused) -> None:
    refused(ShapeError, "loss has 1 values at 2 steps", lambda: learning_curves(([1, 2], [1]), ([1], [1])))
    refused(ShapeError, "steps of loss is empty", lambda: learning_curves(([], []), ([1], [1])))
