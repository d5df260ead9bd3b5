"""A training on the screen: a bar with loss, rate and time left on a terminal, lines elsewhere; and its curves."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.tasks.training import Progress, Show

EVERY = 30.0  # seconds between two lines where nobody watches a bar


@contextmanager
def shown(what: str) -> Iterator[Show]:
    """`show(progress)` after every step; on standard error, so that results can be piped."""
    if not sys.stderr.isatty():
        yield _Lines(what)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Task, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.table import Column
    from rich.text import Text

    class Now(TextColumn):
        """What is cut where a terminal is narrow: its end, not the steps or the time left."""

        def render(self, task: Task) -> Text:
            return Text(str(task.fields["now"]), no_wrap=True, overflow="ellipsis")

    whole = lambda: Column(no_wrap=True)
    steps, left = MofNCompleteColumn(table_column=whole()), TimeRemainingColumn(table_column=whole())
    columns = (TextColumn(what), BarColumn(12, table_column=whole()), steps, left, Now("", table_column=Column()))
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None, now="")

        def show(progress: Progress, /) -> None:
            bar.update(task, total=progress.steps, completed=progress.step, now=told(progress))

        yield show


def told(progress: Progress) -> str:
    """loss 0.31  rate 9.8e-04  held out: accuracy 0.912  loss 0.37."""
    held = measured(progress.held_out)
    return f"loss {progress.loss:.4g}  rate {progress.rate:.1e}{'  ' if held else ''}{held}"


def measured(held_out: Mapping[str, float]) -> str:
    numbers = "  ".join(f"{name} {value:.4g}" for name, value in held_out.items())
    return f"held out: {numbers}" if numbers else ""


class _Lines:
    """One line every so often, and one for the last step."""

    def __init__(self, what: str) -> None:
        self.what, self.last = what, time.monotonic()

    def __call__(self, progress: Progress, /) -> None:
        now = time.monotonic()
        if now - self.last < EVERY and progress.step < progress.steps:
            return
        self.last = now
        left = f"{progress.left / 60:.0f} min left" if progress.left >= 90 else f"{progress.left:.0f} s left"
        line = f"{self.what} {progress.step}/{progress.steps}  {told(progress)}  {left}"
        print(line, file=sys.stderr, flush=True)


def draw_curves(history: Sequence[dict[str, Any]], path: Path, title: str) -> None:
    """The lines of a log as a picture; nothing where there is no line with a loss."""
    from glassformer.app.output import write_bytes
    from glassformer.figures import learning_curves, save

    lines = [line for line in history if line.get("loss") is not None]
    if not lines:
        return
    curve = lambda name: ([line["step"] for line in lines], [line[name] for line in lines])
    points = [line for line in history if line.get("held_out")]
    names = dict.fromkeys(name for line in points for name in line["held_out"])
    held = {
        f"held-out {name}": (
            [line["step"] for line in points if name in line["held_out"]],
            [line["held_out"][name] for line in points if name in line["held_out"]],
        )
        for name in names
    }
    write_bytes(save(learning_curves(curve("loss"), curve("rate"), held, title=title)), path)
