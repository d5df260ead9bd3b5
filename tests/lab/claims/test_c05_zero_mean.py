from __future__ import annotations


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(5, "holds when", samples=30_000)
    solution = solved(5, results[0])
    H = [float(solution[f"H{i}"][0, 0]) for i in (1, 2, 3)]
    assert abs((H[1] + H[2]) / 2 - H[0]) > 0.01
