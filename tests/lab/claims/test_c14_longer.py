from __future__ import annotations

import pytest

from glassformer.figures import save
from glassformer.lab.claims import claim


def test_who_learned_nothing_is_no_evidence(solved) -> None:  # type: ignore[no-untyped-def]
    experiment = claim(14)
    result = experiment.run(experiment.settings({"steps": 1, "length": 8}), 0)
    verdict = experiment.verdict(result)
    assert verdict.kind == "fails"
    assert "learned, sinusoidal, rotary, relative bias did not even learn" in verdict.condition
    assert save(experiment.figure(result))
    A = solved(14, result)["A"].rows
    assert max(range(len(A)), key=lambda j: float(A[0][j])) != len(A) - 1


def test_the_rule() -> None:
    judge = claim(14).judge
    row = lambda seen, twice: {"seen": seen, "up to twice": twice, "up to four times": twice}
    table = {"learned": row(1, 0.1), "sinusoidal": row(1, 0.2), "rotary": row(1, 0.8), "relative bias": row(1, 1)}
    assert judge({"table": table})[0] == "holds when"
    assert judge({"table": {**table, "sinusoidal": row(1, 0.95)}})[0] == "holds"
    assert judge({"table": {**table, "learned": row(1, 0.95)}})[0] == "fails"
    assert judge({"table": {**table, "relative bias": row(1, 0.5)}})[0] == "fails"


@pytest.mark.slow
def test_verdict(stable) -> None:  # type: ignore[no-untyped-def]
    stable(14, "holds when")
