from __future__ import annotations


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(1, "holds when")
    assert all(result["tied"][-1] == 0.5 for result in results)
    solution = solved(1, results[0])
    assert [float(x) for x in solution["A"].rows[0]] == [0.5, 0.5]
    assert float(solution["H"][0, 0]) == 1
