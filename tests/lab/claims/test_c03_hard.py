from __future__ import annotations


def test_verdict(stable) -> None:  # type: ignore[no-untyped-def]
    results = stable(3, "holds")
    for result in results:
        assert result["gradient"]["argmax"] == 0
        assert result["solved"]["argmax"] == 0
        assert result["solved"]["straight-through"] >= 0.75
