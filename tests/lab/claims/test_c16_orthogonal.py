from __future__ import annotations

import math

import pytest


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(16, "holds when")
    assert float(solved(16, results[0])["A"][0, 0]) == pytest.approx(math.e / (math.e + 1))
