"""Table of head scores; a label is the simplest behaviour that explains most of a head and clearly exceeds its null."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from glassformer.lens.head_null import Score

CLEAR_EXCESS, CLEAR_Z = 0.4, 4.0
NEARLY_ALL = 0.75


def clear(score: Score | None) -> bool:
    """Whether a score is far above its null (excess ≥ 0.4) and significant (z ≥ 4)."""
    return score is not None and score.excess >= CLEAR_EXCESS and score.z >= CLEAR_Z


def choose_behaviour(scores: Mapping[str, Score], groups: Sequence[Sequence[str]]) -> str:
    """Return the name of the behaviour, or "". Groups go from narrow (one key) to wide (a window, all keys).

    A wide behaviour contains narrow ones, so it always scores at least as much: the label is the best behaviour of the
    first group that reaches ¾ of the best excess.
    """
    known = {name: scores[name].excess for group in groups for name in group if clear(scores.get(name))}
    if not known:
        return ""
    enough = NEARLY_ALL * max(known.values())
    for group in groups:
        name = max(group, key=lambda n: known.get(n, 0.0), default="")
        if known.get(name, 0.0) >= enough:
            return name
    raise AssertionError("the best itself is in a group")


@dataclass(frozen=True, kw_only=True)
class HeadRow:
    """One head: its scores by name, the mean weight by offset, and its labels (none if no behaviour is clear).

    Several labels go from specific to general: ("induction", "first") performs induction and otherwise uses the first
    token as a sink. `behind` names the score behind the last label; for a local head the kernel is restricted to its
    window.
    """

    path: str
    layer: int
    head: int
    labels: tuple[str, ...]
    behind: str
    scores: dict[str, Score]
    kernel: dict[Any, float]

    @property
    def label(self) -> str:
        """All labels joined by commas; "" if there are none."""
        return ", ".join(self.labels)

    @property
    def score(self) -> Score | None:
        return self.scores.get(self.behind)


@dataclass(frozen=True, kw_only=True)
class HeadTable:
    """All heads of a model; `columns` are the scores to print, `points` those of a single key at a fixed offset."""

    rows: list[HeadRow]
    columns: list[str]
    points: list[str]

    def __iter__(self) -> Iterator[HeadRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def find(self, label: str) -> list[HeadRow]:
        """Return the heads with a label that starts with `label`: `find("offset")`, `find("convolution")`."""
        return [row for row in self.rows if any(name.startswith(label) for name in row.labels)]

    def at(self, path: str, head: int) -> HeadRow:
        return next(row for row in self.rows if row.path == path and row.head == head)

    def matrix(self, name: str) -> list[list[float]]:
        """Return the excess of one score as layers × heads in table order; NaN where it was not measured."""
        layers: dict[str, list[float]] = {}
        for row in self.rows:
            score = row.scores.get(name)
            layers.setdefault(row.path, []).append(float("nan") if score is None else score.excess)
        return list(layers.values())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(*self._header(), box=None, header_style="bold", caption="excess over the null, z in brackets")
        for cells in self._cells():
            table.add_row(*cells)
        yield table

    def _header(self) -> list[str]:
        shown = [name for name in self.columns if any(name in row.scores for row in self.rows)]
        return ["layer", "head", "does", "best offset", *shown]

    def _cells(self) -> Iterator[list[str]]:
        shown = self._header()[4:]
        for row in self.rows:
            best = max((n for n in self.points if n in row.scores), key=lambda n: row.scores[n].excess, default="")
            where = f"{best} {row.scores[best].excess:.2f}" if best else ""
            yield [row.path.removesuffix(".A"), str(row.head), row.label, where, *(_cell(row, n) for n in shown)]

    def _repr_html_(self) -> str:
        def line(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(line(cells, "td") for cells in self._cells())
        return f"<table><thead>{line(self._header(), 'th')}</thead><tbody>{body}</tbody></table>"


def _cell(row: HeadRow, name: str) -> str:
    score = row.scores.get(name)
    if score is None:
        return ""
    return f"{score.value:.1f}" if name.startswith("distance") else f"{score.excess:.2f} ({score.z:.0f})"
