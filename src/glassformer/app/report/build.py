"""The whole page: one run, traced with its layers fused, and every section that its kind of input has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import torch
from torch import nn

from glassformer import lens
from glassformer.app.report import closer, sections
from glassformer.app.report.both import fits
from glassformer.app.report.card import answer, card
from glassformer.app.report.looks import overlays
from glassformer.app.report.parts import STYLE, contents, folded, says, section, table, under
from glassformer.app.report.seen import Seen
from glassformer.lens import GridScores, HeadScores, HeadTable, Run
from glassformer.models import CLIP, Hybrid, RecurrentSeq2Seq, Speech, ViT, ViTConfig, Whisper
from glassformer.worked.render.page import page

WHOLE = 1024  # tokens up to which every quantity is kept


@torch.no_grad()
def report(model: nn.Module, seen: Seen, *, note: str = "", step: Callable[[str], None] = lambda _: None) -> str:
    """A standalone page, nothing fetched and no script; `step` hears what is being made."""
    parts = [card(model, seen, note)]
    if isinstance(model, CLIP):
        fit = fits(model, seen)
        parts.append(section("Answer", table(["text", "probability", "cosine"], fit)) if fit else "")
    for name, tower, given in seen.towers or (("", model, seen),):
        parts += [under(name, part) for part in shown(tower, given, step) if part]
    kept = [part for part in parts if part]
    names = [found[1] for part in kept if (found := re.match(r"<h2[^>]*>([^<]*)<", part))]
    return page(f"{type(model).__name__}: {seen.title}", "\n".join([contents(names), *kept]), STYLE)


def shown(model: nn.Module, seen: Seen, step: Callable[[str], None]) -> Iterator[str]:
    """The sections of one run; those that its input has nothing for are empty."""
    step("running the model")
    with lens.trace(model, *watched(seen)) as run:
        out = model(*seen.inputs)
    yield answer(model, seen, out)
    makers: list[tuple[str, Callable[[], str]]] = [
        ("attention maps", lambda: sections.maps(run, seen)),
        ("alignment", lambda: sections.aligned(run, seen)),
        ("pictures", lambda: overlays(model, run, seen, out) if isinstance(model, ViT | Hybrid) else ""),
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
    few = ("alignment", "trace")  # all that a recurrent model has to show
    for name, make in makers:
        if name in few or not isinstance(model, RecurrentSeq2Seq):
            step(name)
            yield make()


def watched(seen: Seen) -> list[str]:
    """Everything; of a long input only what is drawn, lest it fill the memory."""
    long = seen.grid is None and max(x.shape[1] for x in seen.inputs) > WHOLE
    return ["*.A", "*.S", "*.V"] if long else []


def head_table(model: nn.Module, run: Run, seen: Seen) -> HeadTable:
    """Scores of this run's heads, on a line or on the grid of patches."""
    if isinstance(model, ViT | Hybrid) and seen.grid is not None:
        c = model.config
        prefix = c.prefix + c.registers if isinstance(c, ViTConfig) else 0
        scores: HeadScores = GridScores(seen.grid, prefix=prefix, patch=c.patch)
    else:
        scores = HeadScores()
    scores.add(run, seen.tokens)
    return scores.table()


def _sound(model: nn.Module, run: Run, seen: Seen) -> str:
    return sections.heard(run, seen) if isinstance(model, Speech | Whisper) else ""


def _trace(run: Run) -> str:
    text = f"{len(run)} quantities by their paths; S and A are made when they are asked for."
    return section("Trace", says(text), folded("Every quantity", run._repr_html_()))
