"""The whole page: one run, traced with its layers fused, and every section that its kind of input has."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from torch import nn

from glassformer import lens
from glassformer.app.report import closer, sections
from glassformer.app.report.card import answer, card
from glassformer.app.report.inputs import Seen
from glassformer.app.report.looks import overlays
from glassformer.app.report.parts import STYLE, contents, folded, says, section
from glassformer.lens import GridScores, HeadScores, HeadTable, Run
from glassformer.models import Speech, ViT
from glassformer.worked.render.page import page

WHOLE = 1024  # tokens up to which every quantity is kept


@torch.no_grad()
def report(model: nn.Module, seen: Seen, *, note: str = "", step: Callable[[str], None] = lambda _: None) -> str:
    """A standalone page, nothing fetched and no script; `step` hears what is being made."""
    step("running the model")
    with lens.trace(model, *watched(seen)) as run:
        out = model(*seen.inputs)
    parts = [card(model, seen, note), answer(model, seen, out)]
    makers: list[tuple[str, Callable[[], str]]] = [
        ("attention maps", lambda: sections.maps(run, seen)),
        ("alignment", lambda: sections.aligned(run, seen)),
        ("pictures", lambda: overlays(model, run, seen, out) if isinstance(model, ViT) else ""),
        ("sound", lambda: _sound(model, run, seen)),
        ("arcs", lambda: sections.lines(run, seen)),
        ("flow", lambda: sections.flow(run, seen)),
        ("heads", lambda: sections.heads(run, seen, head_table(model, run, seen))),
        ("entropy", lambda: sections.entropies(run)),
        ("map of heads", lambda: sections.map_of_heads(run)),
        ("margins", lambda: closer.margins(run, seen)),
        ("one query", lambda: closer.closer(run, seen)),
        ("trace", lambda: _trace(run)),
    ]
    for name, make in makers:
        step(name)
        parts.append(make())
    kept = [part for part in parts if part]
    names = [found[1] for part in kept if (found := re.match(r"<h2[^>]*>([^<]*)<", part))]
    return page(f"{type(model).__name__}: {seen.title}", "\n".join([contents(names), *kept]), STYLE)


def watched(seen: Seen) -> list[str]:
    """Everything; of a long input only what is drawn, lest it fill the memory."""
    long = seen.grid is None and max(x.shape[1] for x in seen.inputs) > WHOLE
    return ["*.A", "*.S", "*.V"] if long else []


def head_table(model: nn.Module, run: Run, seen: Seen) -> HeadTable:
    """Scores of this run's heads, on a line or on the grid of patches."""
    if isinstance(model, ViT) and seen.grid is not None:
        c = model.config
        scores: HeadScores = GridScores(seen.grid, prefix=c.prefix + c.registers, patch=c.patch)
    else:
        scores = HeadScores()
    scores.add(run, seen.tokens)
    return scores.table()


def _sound(model: nn.Module, run: Run, seen: Seen) -> str:
    return sections.heard(run, seen.inputs[0], model.config.seconds) if isinstance(model, Speech) else ""


def _trace(run: Run) -> str:
    text = f"{len(run)} quantities by their paths; S and A are made when they are asked for."
    return section("Trace", says(text), folded("Every quantity", run._repr_html_()))
