from __future__ import annotations


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(20, "holds when")
    A = solved(20, results[0])["A"]
    assert float(A[1, 0]) == 0
    assert float(A[0, 1]) == 0.5
    assert all(result["renormalised"] < 1e-12 for result in results)
