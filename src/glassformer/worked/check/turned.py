"""Does a learner write every matrix transposed? Decided over the whole document, never for one matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glassformer.worked.check.own import closeness
from glassformer.worked.check.vocabulary import subject

if TYPE_CHECKING:
    from glassformer.worked.check.place import Placer

STEPS = ("X", "Q", "K", "V", "QKt", "KtQ", "S", "A", "H", "C", "O")


def is_turned(placer: Placer) -> bool:
    """More named matrices agree with the exercise transposed than as they stand, and at least two steps do."""
    straight = turned = 0
    for statement in placer.reading.statements:
        target = statement.target
        found = subject(target.term) if target is not None else None
        if target is None or found is None or statement.place == "answer":
            continue
        written = placer.written(statement)
        if written is None or 1 in written.shape or found.bases[0] not in STEPS:
            continue
        for symbol in placer.exact:
            if symbol.rstrip("0123456789") not in found.bases:
                continue
            exact = placer.exact[symbol]
            upright, sideways = (
                value.shape == written.shape
                and all(closeness(value[i, j], own) == "right" for i, j, own in written.cells())
                for value in ((exact.T, exact) if found.turned else (exact, exact.T))
            )
            if upright != sideways:  # a symmetric matrix says nothing
                straight, turned = straight + upright, turned + sideways
    return turned >= 2 and turned > straight
