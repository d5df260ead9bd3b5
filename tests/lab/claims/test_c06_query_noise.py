from __future__ import annotations


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(6, "holds when")
    solution = solved(6, results[0])
    assert float(solution["H1"][1, 0]) != float(solution["H2"][1, 0])
