from __future__ import annotations


def test_verdict(stable, solved) -> None:  # type: ignore[no-untyped-def]
    results = stable(30, "holds when")
    for result in results:
        assert result["errors"]["patches, no positions: by a patch"] < 1e-9
        assert result["errors"]["patches, no positions: by 1"] > 0.01
    assert solved(30, results[0]).steps
