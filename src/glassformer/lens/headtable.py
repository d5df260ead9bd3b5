"""label = the plainest behaviour that says nearly all there is to say, if it is clearly above its null; else none."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from glassformer.lens.tally import Score

CLEAR_EXCESS, CLEAR_Z = 0.4, 4.0
NEARLY_ALL = 0.75


def clear(score: Score | None) -> bool:
    """Far above the null in size (excess ≥ 0.4) and beyond luck (z ≥ 4)."""
    return score is not None and score.excess >= CLEAR_EXCESS and score.z >= CLEAR_Z


def choose(scores: Mapping[str, Score], groups: Sequence[Sequence[str]]) -> str:
    """The name of the behaviour, or "". Groups go from the plain (one key) to the wide (a window, everything).

    A wide behaviour contains plain ones, so it always scores at least as much: the first group that reaches ¾ of the
    best excess names the head, by its own best.
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
    """One head: every score by its name, the mean weight by offset, and what it does ("" if nothing clear).

    `behind` is the name of the score behind the label; of a local head the kernel is that of its window.
    """

    path: str
    layer: int
    head: int
    label: str
    behind: str
    scores: dict[str, Score]
    kernel: dict[Any, float]

    @property
    def score(self) -> Score | None:
        return self.scores.get(self.behind)


@dataclass(frozen=True, kw_only=True)
class HeadTable:
    """All heads of a model; `columns` are the scores worth printing, `points` those that name one key by its offset."""

    rows: list[HeadRow]
    columns: list[str]
    points: list[str]

    def __iter__(self) -> Iterator[HeadRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def find(self, label: str) -> list[HeadRow]:
        """The heads whose label starts so: `find("offset")`, `find("convolution")`."""
        return [row for row in self.rows if row.label.startswith(label)]

    def at(self, path: str, head: int) -> HeadRow:
        return next(row for row in self.rows if row.path == path and row.head == head)

    def matrix(self, name: str) -> list[list[float]]:
        """Excess of one score, layers × heads in the order of the table; NaN where it was not measured."""
        layers: dict[str, list[float]] = {}
        for row in self.rows:
            score = row.scores.get(name)
            layers.setdefault(row.path, []).append(float("nan") if score is None else score.excess)
        return list(layers.values())

    def records(self) -> list[dict[str, Any]]:
        """Plain data, for files and figures."""
        return [
            {
                "path": row.path,
                "layer": row.layer,
                "head": row.head,
                "label": row.label,
                "kernel": {str(offset): weight for offset, weight in row.kernel.items()},
                "scores": {n: {**s._asdict(), "excess": s.excess, "z": s.z} for n, s in row.scores.items()},
            }
            for row in self.rows
        ]

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
