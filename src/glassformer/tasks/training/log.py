"""What happened, line by line: `log.jsonl`, the same as `log.csv`, and TensorBoard's form if it is installed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from glassformer.tasks.training.state import write_whole

Line = dict[str, Any]


class Progress(NamedTuple):
    """Where a training is after a step; `left` is in seconds, `held_out` the newest measurement."""

    step: int
    steps: int
    loss: float
    rate: float
    seconds: float
    left: float
    held_out: Mapping[str, float]


class Show(Protocol):
    """Called after every step."""

    def __call__(self, progress: Progress, /) -> None: ...


def silent(progress: Progress, /) -> None:
    """Shows nothing."""


class Log:
    """Lines in memory, and in the folder if there is one and this process writes it.

    Opened at step s it forgets what came after s.
    """

    def __init__(self, folder: Path | None, step: int = 0, *, writes: bool = True) -> None:
        self.folder = folder if writes else None
        self.lines: list[Line] = []
        self._columns: list[str] = []
        self._board: Any = None
        if folder is None:
            return
        self.lines = [line for line in read(folder / "log.jsonl") if line["step"] <= step]
        if not writes:
            return
        write_whole(folder / "log.jsonl", "".join(json.dumps(line) + "\n" for line in self.lines))
        self._rewrite_csv()
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def write(self, line: Line) -> None:
        self.lines.append(line)
        if self.folder is None:
            return
        with open(self.folder / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        row = flat(line)
        if any(name not in self._columns for name in row):
            self._rewrite_csv()
        else:
            with open(self.folder / "log.csv", "a", encoding="utf-8", newline="") as file:
                csv.DictWriter(file, self._columns).writerow(row)
        if self._board is not None:
            for name, value in row.items():
                if name != "step" and value is not None:  # no loss where every row was faulty
                    self._board.add_scalar(name.replace(".", "/"), value, line["step"])

    def close(self) -> None:
        if self._board is not None:
            self._board.close()

    def _rewrite_csv(self) -> None:
        assert self.folder is not None
        rows = [flat(line) for line in self.lines]
        self._columns = list(dict.fromkeys(name for row in rows for name in row))
        table = io.StringIO(newline="")
        writer = csv.DictWriter(table, self._columns)
        writer.writeheader()
        writer.writerows(rows)
        write_whole(self.folder / "log.csv", table.getvalue())


def read(path: Path) -> list[Line]:
    """The whole lines of a log; a line that a killed process did not finish is not one."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines


def flat(line: Line) -> dict[str, float]:
    """`held_out: {accuracy: 0.9}` as `held_out.accuracy: 0.9`."""
    row: dict[str, float] = {}
    for name, value in line.items():
        inside = value if isinstance(value, dict) else {"": value}
        row |= {f"{name}.{inner}".rstrip("."): number for inner, number in inside.items()}
    return row
