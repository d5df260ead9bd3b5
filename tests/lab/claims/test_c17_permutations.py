from __future__ import annotations


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(17, "holds when", tokens=3, many=6)
    H = solved(17, results[0])["H"]
    assert len({float(row[0]) for row in H.rows}) <= 2
