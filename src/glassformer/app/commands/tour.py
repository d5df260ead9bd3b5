"""`glassformer tour`: what `make run` shows a newcomer."""

from __future__ import annotations


def tour() -> None:
    """A worked example and a look into a small model."""
