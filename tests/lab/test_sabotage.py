"""A lab that cannot be wrong proves nothing: broken on purpose, attention must lose the verdicts that depend on it."""

from __future__ import annotations

import pytest
import torch

from glassformer.core import attention, masks
from glassformer.lab.claims import claim


def kind(number: int, **changes: float) -> str:
    experiment = claim(number)
    return experiment.verdict(experiment.run(experiment.settings(changes), 0)).kind


@pytest.fixture
def off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mask shows one key more of the future."""
    right = masks.relative_distance
    monkeypatch.setattr(masks, "relative_distance", lambda *a, **k: right(*a, **k) - 1)


@pytest.fixture
def unscaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """β is 1 unless it is given."""
    monkeypatch.setattr(attention, "default_beta", lambda Q, beta: 1.0 if beta is None else beta)


@pytest.fixture
def wrong_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights of each key sum to 1 over the queries."""
    right = torch.softmax
    turned = lambda S, dim: right(S, -3 - dim) if S.dim() > 1 else right(S, dim)
    monkeypatch.setattr(torch, "softmax", turned)


@pytest.mark.usefixtures("off_by_one")
@pytest.mark.parametrize(("number", "changes"), [(19, {}), (20, {}), (21, {"seconds": 0.4}), (27, {})])
def test_a_mask_off_by_one(number: int, changes: dict[str, float]) -> None:
    assert kind(number, **changes) == "fails"


@pytest.mark.usefixtures("unscaled")
def test_no_scaling() -> None:
    assert kind(2) == "fails"


@pytest.mark.usefixtures("wrong_axis")
@pytest.mark.parametrize("number", [1, 6, 7, 19, 20])
def test_softargmax_over_the_wrong_axis(number: int) -> None:
    assert kind(number) == "fails"


@pytest.mark.usefixtures("wrong_axis")
def test_what_fails_by_the_sum_to_one_would_hold_over_the_wrong_axis() -> None:
    """Each key's weights then sum to 1 by themselves, and a moved key changes its own alone."""
    assert kind(4) == "holds"


def test_unharmed() -> None:
    """The same claims, whole."""
    assert {n: kind(n) for n in (1, 2, 6, 7, 19, 20)} == dict.fromkeys((1, 2, 6, 7, 19, 20), "holds when")
    assert {n: kind(n) for n in (4, 21, 27)} == {4: "fails", 21: "holds", 27: "holds"}
