from __future__ import annotations

import pytest

from glassformer.figures import save
from glassformer.lab.claims import claim


def test_what_learned_nothing_fails_and_shuffling_still_changes_nothing() -> None:
    experiment = claim(29)
    result = experiment.run(experiment.settings({"steps": 1, "images": 32}), 0)
    assert experiment.verdict(result).kind == "fails"
    assert result["same_class"] == 1
    assert result["without"] < 1e-5
    assert save(experiment.figure(result))


@pytest.mark.slow
def test_verdict(stable) -> None:  # type: ignore[no-untyped-def]
    stable(29, "holds")
