from __future__ import annotations


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(12, "holds when")
    H1, H2 = (solved(12, results[0])[name] for name in ("H1", "H2"))
    assert [float(row[0]) for row in H1.rows] == [float(row[0]) for row in H2.rows][::-1]
    assert float(H1[0, 0]) != float(H2[0, 0])
