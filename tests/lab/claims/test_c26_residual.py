from __future__ import annotations


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(26, "fails", deepest=8, width=8)
    assert all(result["least"] == 0 for result in results)
    assert all(result["gradient"]["neither"][-1] < result["gradient"]["neither"][0] / 10 for result in results)
    last = solved(26, results[0]).steps[-1].value
    assert [float(row[0]) for row in last.rows] == [0, 0]
