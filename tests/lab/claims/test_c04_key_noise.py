from __future__ import annotations


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(4, "fails")
    solution = solved(4, results[0])
    before, after = (float(solution[name][0, 1]) for name in ("A1", "A2"))
    assert after < before
