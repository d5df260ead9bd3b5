from __future__ import annotations


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(7, "holds when")
    solution = solved(7, results[0])
    assert float(solution["A2"][0, 0]) < float(solution["A1"][0, 0])
