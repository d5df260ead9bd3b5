from __future__ import annotations


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(10, "holds when")
    for result in results:
        assert result["multiplications"] == [4 * 64 * 64**2 + 2 * 64**2 * 64] * 5
    assert {"A1", "A2"} <= {step.symbol for step in solved(10, results[0]).steps}
