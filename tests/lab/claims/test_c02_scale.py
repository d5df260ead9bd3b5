from __future__ import annotations

import pytest


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(2, "holds when")
    assert all(abs(result["mean_one"] - 3) < 1 for result in results)  # 1 + 2 mean²
    S = solved(2, results[0])["S"]
    assert sum(float(x) ** 2 for row in S.rows for x in row) / 4 == pytest.approx(2)
