from __future__ import annotations


def test_verdict(stable) -> None:  # type: ignore[no-untyped-def]
    stable(32, "holds")
