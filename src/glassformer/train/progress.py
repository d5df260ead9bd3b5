"""Progress of a run: a bar with loss, learning rate and remaining time on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

INTERVAL = 30.0  # seconds between lines without a terminal


class Progress(NamedTuple):
    """The state of a run after a step; `val` holds the latest validation metrics."""

    step: int
    steps: int
    loss: float
    lr: float
    seconds: float
    seconds_left: float
    val: Mapping[str, float]

    def __str__(self) -> str:
        val = format_metrics(self.val)
        return f"loss {self.loss:.4g}  lr {self.lr:.1e}{'  ' if val else ''}{val}"


Callback = Callable[[Progress], None]


def format_metrics(metrics: Mapping[str, float]) -> str:
    """Format metrics on one line, as in `val: accuracy 0.912  loss 0.37`."""
    numbers = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
    return f"val: {numbers}" if numbers else ""


def format_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def progress_bar(title: str) -> Iterator[Callback]:
    """Yield a callback that shows progress on standard error, so that results can be piped."""
    if not sys.stderr.isatty():
        yield _Lines(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Task, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.table import Column
    from rich.text import Text

    class TruncatedColumn(TextColumn):
        """A text column that is truncated on a narrow terminal before the steps or the remaining time are."""

        def render(self, task: Task) -> Text:
            return Text(str(task.fields["now"]), no_wrap=True, overflow="ellipsis")

    whole = lambda: Column(no_wrap=True)
    steps, left = MofNCompleteColumn(table_column=whole()), TimeRemainingColumn(table_column=whole())
    columns = (
        TextColumn(title),
        BarColumn(12, table_column=whole()),
        steps,
        left,
        TruncatedColumn("", table_column=Column()),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None, now="")

        def show(progress: Progress, /) -> None:
            bar.update(task, total=progress.steps, completed=progress.step, now=str(progress))

        yield show


class _Lines:
    """Prints one line every half minute and one for the last step."""

    def __init__(self, title: str) -> None:
        self.title, self.last = title, time.monotonic()

    def __call__(self, progress: Progress, /) -> None:
        now = time.monotonic()
        if now - self.last < INTERVAL and progress.step < progress.steps:
            return
        self.last = now
        left = format_seconds(progress.seconds_left)
        print(f"{self.title} {progress.step}/{progress.steps}  {progress}  {left} left", file=sys.stderr, flush=True)
