"""The log of a run: `log.jsonl`, the same data as `log.csv`, and the experiment trackers of `train.loggers`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.train.loggers import Logger, open_loggers
from glassformer.train.state import write_atomic

Line = dict[str, Any]


class Log:
    """Log lines in memory, and in the run folder if `writes`. Opening the log at a step drops all later lines."""

    def __init__(
        self,
        folder: Path | None,
        step: int = 0,
        *,
        writes: bool = True,
        report_to: str = "auto",
        args: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = folder if writes else None
        self.lines: list[Line] = []
        self._columns: list[str] = []
        self._loggers: list[Logger] = []
        if folder is None:
            return
        self.lines = [line for line in read(folder / "log.jsonl") if line["step"] <= step]
        if not writes:
            return
        write_atomic(folder / "log.jsonl", "".join(json.dumps(line) + "\n" for line in self.lines))
        self._rewrite_csv()
        self._loggers = open_loggers(report_to, folder, args or {}, step)

    def write(self, line: Line) -> None:
        self.lines.append(line)
        if self.folder is None:
            return
        with open(self.folder / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        row = flatten_metrics(line)
        if any(name not in self._columns for name in row):
            self._rewrite_csv()
        else:
            with open(self.folder / "log.csv", "a", encoding="utf-8", newline="") as file:
                csv.DictWriter(file, self._columns).writerow(row)
        numbers = {name: value for name, value in row.items() if name != "step" and value is not None}
        for logger in self._loggers:  # there is no loss if every row was faulty
            logger.write(numbers, line["step"])

    def close(self) -> None:
        for logger in self._loggers:
            logger.close()

    def _rewrite_csv(self) -> None:
        assert self.folder is not None
        rows = [flatten_metrics(line) for line in self.lines]
        self._columns = list(dict.fromkeys(name for row in rows for name in row))
        table = io.StringIO(newline="")
        writer = csv.DictWriter(table, self._columns)
        writer.writeheader()
        writer.writerows(rows)
        write_atomic(self.folder / "log.csv", table.getvalue())


def read(path: Path) -> list[Line]:
    """Read the complete lines of a log; a last line truncated by a killed process is dropped."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines


def flatten_metrics(line: Line) -> dict[str, float]:
    """Flatten nested metrics: `val: {accuracy: 0.9}` becomes `val.accuracy: 0.9`."""
    row: dict[str, float] = {}
    for name, value in line.items():
        inside = value if isinstance(value, dict) else {"": value}
        row |= {f"{name}.{inner}".rstrip("."): number for inner, number in inside.items()}
    return row
