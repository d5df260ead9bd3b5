"""Report of one run: the model traced on one input, with every section that applies to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from glassformer import lens
from glassformer.lens import GridScores, HeadScores, HeadTable, Run
from glassformer.models.protocols import ImageTextModel, PatchModel, inputs_of
from glassformer.report import attention, patches, query
from glassformer.report.answer import answer, card, compare_texts
from glassformer.report.inputs import Inputs, prepare_inputs
from glassformer.report.views import Details, Paragraph, Report, Section, table

WHOLE = 1024  # maximum number of tokens for which every quantity is recorded


@torch.no_grad()
def look(
    model: nn.Module, *inputs: str | Path, note: str = "", progress: Callable[[str], None] = lambda _: None
) -> Report:
    """Create a report of `model` running on one input: attention, heads, flow, margins and trace.

    The input is a text, an image file or an audio file, depending on the model. Texts may follow: the translation
    of a text or the transcript of a recording for Whisper (both default to the model's own), or the candidate texts of
    an image for CLIP.
    `note` is a sentence for the top of the page; `progress` is called with the name of each step.

    >>> report = gf.look(gf.load("tiny:vit"), "examples/cat.jpg")
    >>> report.save("report.html")
    PosixPath('report.html')
    """
    progress("preparing the input")
    given = prepare_inputs(model, inputs)
    parts = [card(model, given, note)]
    if isinstance(model, ImageTextModel) and (rows := compare_texts(model, given)):
        parts.append(Section("Answer", [table(["text", "probability", "cosine"], rows)]))
    for name, tower, own in given.towers or (("", model, given),):
        own = replace(own, tensors=tuple(x.to(given.tensors[0].device) for x in own.tensors))
        parts += [Section(f"{name}: {part.name}", part.blocks) if name else part for part in _run(tower, own, progress)]
    return Report(f"{type(model).__name__}: {given.title}", parts, (model, inputs))


def _run(model: nn.Module, inputs: Inputs, progress: Callable[[str], None]) -> Iterator[Section]:
    """Yield the sections of one run."""
    progress("running the model")
    with lens.trace(model, *paths_to_record(inputs)) as run:
        out = model(*inputs.tensors)
    yield from answer(model, inputs, out)
    makers: dict[str, Callable[[], list[Section]]] = {
        "attention": lambda: attention.maps(run, inputs),
        "alignment": lambda: attention.alignment(run, inputs),
        "patches": lambda: patches.overlays(model, run, inputs),
        "audio": lambda: attention.spectrogram(run, inputs) if inputs_of(model)[:1] == ("audio",) else [],
        "arcs": lambda: attention.arcs(run, inputs),
        "flow": lambda: attention.flow(run, inputs),
        "heads": lambda: attention.heads(score_run_heads(model, run, inputs)),
        "entropy": lambda: attention.entropies(run),
        "map of heads": lambda: attention.map_of_heads(run),
        "margins": lambda: query.margins(run, inputs),
        "one query": lambda: query.one_query(run, inputs),
        "trace": lambda: _trace(run),
    }
    if not lens.attention_layers(model):  # recurrent: attention to the source only
        makers = {name: makers[name] for name in ("alignment", "trace")}
    for name, make in makers.items():
        progress(name)
        yield from make()


def paths_to_record(inputs: Inputs) -> list[str]:
    """Return the paths to record: everything, or for a long input only what is drawn, to limit memory use."""
    long = inputs.grid is None and max(x.shape[1] for x in inputs.tensors) > WHOLE
    return ["*.A", "*.S", "*.V"] if long else []


def score_run_heads(model: nn.Module, run: Run, inputs: Inputs) -> HeadTable:
    """Score the heads of this run, over a sequence or over the grid of patches."""
    if isinstance(model, PatchModel) and inputs.grid is not None:
        prefix = len(model.prefix_names)
        scores: HeadScores = GridScores(inputs.grid, prefix=prefix, patch=model.patch_size)
    else:
        scores = HeadScores()
    scores.add(run, inputs.tokens)
    return scores.table()


def _trace(run: Run) -> list[Section]:
    text = f"{len(run)} quantities by path; S and A are recomputed when they are read."
    return [Section("Trace", [Paragraph(text), Details("Every quantity", run._repr_html_())])]
