from __future__ import annotations

import pytest

from glassformer.lab.comparison.nets import sequence
from glassformer.lab.comparison.reach import gradient
from glassformer.lab.comparison.results import Results


def net(name: str, distance: int):  # type: ignore[no-untyped-def]
    return sequence(name, 4_000, words=17, length=distance + 1, window=8, seed=0, positions="sinusoidal")


def test_windows_end() -> None:
    assert gradient(net("MLP", 7), 7, 0) > 0
    assert gradient(net("MLP", 8), 8, 0) == 0
    assert gradient(net("CNN", 252), 252, 0) > 0  # six dilated blocks see 253 tokens
    assert gradient(net("CNN", 253), 253, 0) == 0


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_through_time_it_fades(name: str) -> None:
    assert gradient(net(name, 40), 40, 0) < 1e-2 * gradient(net(name, 2), 2, 0)


def test_attention_shares_evenly() -> None:
    """Untrained, each of n tokens has about 1/n of the weight: no faster than n does it fall."""
    near, far = gradient(net("Transformer", 8), 8, 0), gradient(net("Transformer", 128), 128, 0)
    assert far > near / 128


def test_what_was_measured(results: Results) -> None:
    for unit in results.select("reach", "recall", distance=4):
        assert 0 <= unit["accuracy"] <= 1
        assert unit["parameters"] == pytest.approx(2_000, rel=0.2)
