from __future__ import annotations


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(23, "holds when")
    assert all(1 <= result["in_n"]["self-attention"][0] < 1.2 for result in results)
    assert solved(23, results[0]).steps
