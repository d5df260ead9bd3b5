"""An existing trace in the views of the Model room, without the model and its input."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from torch import Tensor

from glassformer.errors import GlassError, InputError
from glassformer.lens import HeadScores, HeadTable, Run
from glassformer.lens.sensitivity import layer_at, scores_at
from glassformer.report import attention
from glassformer.report.inputs import Inputs
from glassformer.report.model import Change, Look
from glassformer.report.views import Report

EMPTY = {"kind": "none", "heading": "The answer is not part of a trace", "text": "", "options": []}


class RecordedRun(Look):
    """A `Run` of `gf.trace` that holds at least A of one attention layer. `tokens` names the positions."""

    def __init__(self, run: Run, tokens: Sequence[str] | None = None, name: str = "trace") -> None:
        self.name, self.run = name, run
        self._largest, self._last = {}, None
        if not any(path.endswith(".A") for path in run):
            raise InputError(
                "the trace contains no attention weights", 'trace "*.A", and run the model inside the block'
            )
        labels = {}
        for path in self.layers if tokens is not None else ():
            *_, queries, _ = run.passes(f"{path}.A")[-1].shape
            if ".cross" not in path and queries == len(tokens or ()):
                labels[path.split(".")[0]] = list(tokens or ())
        if tokens is not None and not labels:
            sizes = sorted({run.passes(f"{path}.A")[-1].shape[2] for path in self.layers})
            raise InputError(
                f"{len(tokens)} tokens were given", f"give one for each of the {sizes} positions of the trace"
            )
        self.prepared = Inputs(tensors=(), title=name, labels=labels)

    @cached_property
    def layers(self) -> dict[str, Any]:
        """Attention layers that were traced, by path, with their β."""
        found = {}
        for path in (path.removesuffix(".A") for path in self.run if path.endswith(".A")):
            found[path] = SimpleNamespace(beta=scores_at(self.run, path).beta)
        return found

    def summary(self) -> dict[str, Any]:
        """Return layers and heads in the form of `Look.summary`."""
        notes = [] if self.prepared.labels else ["Positions are numbered: gf.show(run, tokens=[…]) labels them."]
        return {
            "model": self.name, "architecture": "Trace", "parameters": 0, "facts": {}, "inputs": [], "verbs": [],
            "texts": [""], "title": self.name, "notes": notes, "grid": None, "prefix": 0, "image": None,
            "labels": self.prepared.labels, "layers": [self._layer(path) for path in self.layers],
            "heads": self.heads(), "answer": EMPTY, "changes": {},
        }  # fmt: skip

    def _scored(self) -> HeadTable:
        scores = HeadScores()
        scores.add(self.run, None)
        return scores.table()

    def _vectors(self, path: str, head: int, query: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        layer = (layer_at if f"{path}.V" in self.run else scores_at)(self.run, path).head(0, head)
        scores = self.run.passes(f"{path}.A")[-1].S([head], [query])[0, 0, 0]
        return scores, layer.Q[query], layer.K, layer.V  # V has width 0 if it was not traced

    def answer(self) -> dict[str, Any]:
        return dict(EMPTY)

    def changed(self, heads: Sequence[tuple[str, int]], change: Change) -> dict[str, Any]:
        raise InputError("a trace cannot be run again", "gf.show(gf.look(model, …)) shows a run that can be changed")

    def report(self) -> Report:
        """Return the static report: every map, the behaviour of the heads, and every recorded quantity."""
        from glassformer.report.model_report import _trace

        sections = attention.maps(self.run, self.prepared)
        with suppress(GlassError):  # the input is too short to score heads
            sections += attention.heads(self._scored())
        return Report(f"{self.name}: {len(self.layers)} attention layers", [*sections, *_trace(self.run)])
