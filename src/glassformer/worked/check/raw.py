"""Which S is meant? Many write S for QKᵀ and scale or mask it later; in an exercise S is what the softargmax gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from glassformer.worked.check.own import closeness
from glassformer.worked.check.vocabulary import RAW, subject
from glassformer.worked.read import Statement

if TYPE_CHECKING:
    from glassformer.worked.check.place import Placer


def raw_of(symbols: Mapping[str, Any], symbol: str) -> str | None:
    """QKt1 for S1, where the exercise has it."""
    if symbol.rstrip("0123456789") != "S":
        return None
    return next((f"{base}{symbol[1:]}" for base in RAW[:2] if f"{base}{symbol[1:]}" in symbols), None)


def as_raw(symbols: Mapping[str, Any], statement: Statement, symbol: str) -> str | None:
    """`S = QKᵀ = …` where the exercise goes on to scale or mask: these are the scores before that."""
    raw = raw_of(symbols, symbol)
    said = [subject(link.term) for link in statement.terms if not link.numeric]
    if raw is None or statement.place == "answer" or not any(s is not None and s.bases == RAW for s in said):
        return None
    return raw


def told_by_weights(placer: Placer) -> None:
    """S that is QKᵀ to the last cell, with weights that are right: it was scaled or masked on the way to them."""
    sheet, exact = placer.sheet, placer.exact
    own = sheet.own()
    for symbol in [s for s in exact if s in own and placer.reading.kind in ("markdown", "latex")]:
        raw, weights = raw_of(exact, symbol), f"A{symbol[1:]}"
        if raw is None or sheet.answered(raw) or weights not in own:
            continue
        cells, seen = own[symbol], own[weights]
        is_raw = all(closeness(exact[raw][at], mine) == "right" for at, mine in cells.items())
        is_scaled = all(closeness(exact[symbol][at], mine) == "right" for at, mine in cells.items())
        if (
            is_raw
            and not is_scaled
            and all(closeness(exact[weights][at], mine) != "wrong" for at, mine in seen.items())
        ):
            first = next(p for p in sheet.placed if p.symbol == symbol)
            sheet.placed[:] = [replace(p, symbol=raw) if p.symbol == symbol else p for p in sheet.placed]
            said = f"{symbol} is taken as {raw}: your weights show that it was scaled or masked later"
            sheet.note(first.line, first.source, said)
