from __future__ import annotations

import numpy as np
import pytest

from glassformer.errors import ShapeError
from glassformer.figures import sensitivity_curves


@pytest.mark.golden
def test_curves(golden_picture) -> None:
    x = np.linspace(0, 1, 9)
    predicted, measured = np.stack([x, -x / 2]), np.stack([np.sin(x), -x / 2 + x**2 / 9])
    fig = sensitivity_curves(x, predicted, measured, ["key 0", "key 1"], margin=0.6)
    ax = fig.axes[0]
    assert [line.get_ydata().tolist() for line in ax.lines[:4]] == [
        predicted[0].tolist(), measured[0].tolist(), predicted[1].tolist(), measured[1].tolist(),
    ]  # fmt: skip
    assert ax.lines[0].get_linestyle() != ax.lines[2].get_linestyle()  # told apart without colour
    assert ax.lines[1].get_marker() != ax.lines[3].get_marker()
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [
        "key 0: predicted", "key 0: measured", "key 1: predicted", "key 1: measured", "the largest weight moves",
    ]  # fmt: skip
    golden_picture("sensitivity_curves", fig)


def test_one_curve() -> None:
    assert len(sensitivity_curves([1, 2], [1, 2], [1, 3]).axes[0].lines) == 3  # and the line at 0


def test_mistakes(refused) -> None:
    says = "predicted (1, 2) and measured (1, 3) at 2 sizes"
    refused(ShapeError, says, lambda: sensitivity_curves([1, 2], [1, 2], [1, 2, 3]))
    refused(ShapeError, "2 names for 1 quantities", lambda: sensitivity_curves([1], [1], [1], ["a", "b"]))
