from __future__ import annotations


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(19, "holds when")
    H = solved(19, results[0])["H"]
    assert all(float(row[0]) == 1 for row in H.rows)
