from __future__ import annotations

import json

import pytest

from glassformer.errors import InputError
from glassformer.figures import save
from glassformer.lab.claims import claim
from glassformer.lab.experiment import Result


def made(first: tuple[float, float], last: tuple[float, float]) -> Result:
    """Gaps and the half-widths of their intervals, with the fewest images and with the most."""
    gaps, halves = zip(first, last, strict=True)
    accuracy = {"convolutional": [0.6 + gap for gap in gaps], "vision Transformer": [0.6, 0.6]}
    return {
        "sizes": [40, 4000],
        "accuracy": accuracy,
        "gap": list(gaps),
        "half": list(halves),
        "narrower": [gaps[0] - gaps[1], sum(halves)],
        "chance": 0.1,
    }


@pytest.mark.parametrize(
    ("first", "last", "kind"),
    [
        ((0.10, 0.04), (0.01, 0.02), "holds"),
        ((0.10, 0.04), (0.10, 0.04), "holds when"),
        ((0.10, 0.04), (0.08, 0.09), "holds when"),  # a gap that cannot be seen is not a gap that is gone
        ((0.10, 0.12), (0.00, 0.01), "fails"),  # luck would explain it
        ((-0.1, 0.02), (0.00, 0.01), "fails"),
    ],
)
def test_the_rule(first: tuple[float, float], last: tuple[float, float], kind: str) -> None:
    result = made(first, last)
    assert claim(31).judge(result)[0] == kind
    assert save(claim(31).figure(result)).startswith(b"\x89PNG")


def test_mistakes() -> None:
    experiment = claim(31)
    with pytest.raises(InputError, match="from 40 images to 40"):
        experiment.run(experiment.settings({"most": 40}), 0)
    with pytest.raises(InputError, match="pairs is 1"):
        experiment.settings({"pairs": 1})


@pytest.mark.slow
def test_who_learned_nothing_is_no_evidence() -> None:
    experiment = claim(31)
    result = experiment.run(experiment.settings({"steps": 1, "fewest": 16, "most": 64, "pairs": 2}), 0)
    assert result["sizes"] == [16, 32, 64]
    few, more = result["parameters"]
    assert 0.95 < few / more < 1.05
    assert all(abs(x - 0.1) < 0.15 for each in result["accuracy"].values() for x in each)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_verdict(seed: int) -> None:
    experiment = claim(31)
    result = json.loads(json.dumps(experiment.run(experiment.settings({}), seed), allow_nan=False))
    verdict = experiment.verdict(result)
    assert verdict.kind == "holds when", verdict
    assert min(result["accuracy"]["convolutional"]) > 0.3  # it learned
