"""The question of an exercise states its conventions."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.exercises.exercise import from_data
from glassformer.exercises.question import question

QKV = {"Q": [[1, 0]], "K": [[1, 0], [0, 1]], "V": [[1], [2]]}
X = [[1, 0, 0, 1], [0, 1, 1, 0]]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (QKV, "Scale the scores by β: divide them by √d_k with d_k = 2."),
        (QKV | {"scale": "none"}, "Do not scale the scores."),
        (QKV | {"scale": 1}, "Do not scale the scores."),
        (QKV | {"scale": "2/3"}, "Scale the scores by β = 2/3."),
        (QKV | {"scale": "1/sqrt(d)"}, "Scale the scores by β: divide them by √d with d = 2."),
        (QKV | {"scale": "1/d_k"}, "β = 1/d_k with d_k = 2."),
        (QKV | {"mask": [[1, 0]]}, "the scores for key 2 are −∞"),
        (QKV | {"Q": [[1, 0], [1, 1]], "mask": [[1, 0], [1, 1]]}, "that it may attend to: 1·; 11."),
        ({"layout": "columns", "X": [[1, 0], [0, 1]], "layernorm": True}, "Tokens are columns."),
        ({"X": X, "layernorm": {"eps": "1/100"}}, "plus ε = 1/100. There is no γ"),
        ({"X": X, "layernorm": True}, "deviations. There is no γ and no β"),
        ({"X": X, "positions": "sinusoidal", "layernorm": True}, "sin(t/10000^(2i/d))"),
        ({"X": [[1], [2]], "ffn": {"W1": [[1]], "W2": [[1]], "b2": [1]}}, "applies W1, ReLU, then W2 and b2."),
        ({"transport": {"p": [1, 0], "q": [0, 1], "positions": [0, "5/2"]}}, "The bins are at the positions 0, 5/2."),
    ],
)
def test_what_is_needed_is_said(data: dict[str, Any], said: str) -> None:
    asked = question(from_data({"text": "Why?", **data}))
    assert asked.startswith("Why? ")
    assert said in asked


def test_the_limit_has_no_finite_scale() -> None:
    asked = question(from_data(QKV), limit=True)
    assert "β is infinite" in asked
    assert "√" not in asked
