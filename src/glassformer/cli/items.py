"""Inputs from arguments, files or standard input, one by one. A bad input is reported, and the rest is processed."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import typer

from glassformer.errors import GlassError, InputError

X = TypeVar("X")
Y = TypeVar("Y")

ITEMS = "Texts, or files with one text per line. Defaults to standard input."
TEXTS = (".txt", ".tsv", ".csv", ".md", ".jsonl")  # endings of names that must be files
TABLES = (".csv", ".jsonl", ".parquet")


class Line(NamedTuple):
    """One line of input and where it came from."""

    where: str
    data: bytes

    @property
    def text(self) -> str:
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"byte {error.start} is not UTF-8", "save the text as UTF-8") from None


def read_lines(files: Sequence[Path], *, empty: bool = False) -> list[Line]:
    """Return the lines of files; no file, or "-", is standard input. Empty lines are kept only if `empty`."""
    found = []
    for file in files or [Path("-")]:
        try:
            data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        except OSError as error:
            raise InputError(
                f"{file} cannot be read ({error.strerror})", "give a text file with one item per line"
            ) from None
        name = "standard input" if str(file) == "-" else str(file)
        for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).splitlines(), 1):
            if empty or line.strip():
                found.append(Line(f"{name}:{number}", line))
    if not any(line.data.strip() for line in found):
        raise InputError("the input is empty", "give files or standard input with one item per line")
    return found


def read_items(items: Sequence[str], *, empty: bool = False) -> list[Line]:
    """Return arguments that are texts, and the lines of those that are files; without any, those of standard input."""
    found = []
    for i, item in enumerate(items or ["-"], 1):
        path = Path(item)
        if item == "-" or _is_file(path):
            if path.suffix.lower() in TABLES:
                raise InputError(
                    f"{item} is a table, and its header and other columns would be taken as text",
                    "give a file with one text per line; evaluate reads tables with labels",
                )
            found += read_lines([path], empty=empty)
        elif path.suffix in TEXTS and not item.count(" "):
            raise InputError(f"there is no file {item}", "give an existing file, or a text")
        elif empty or item.strip():
            found.append(Line(f"text {i}", item.encode()))
    if not any(line.data.strip() for line in found):
        raise InputError("the input is empty", "give texts, files, or standard input with one item per line")
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a text can be too long for a file name
        return False


class Failures:
    """Counts the inputs that failed; `exit_if_any` exits with code 2."""

    def __init__(self) -> None:
        self.count = 0

    def report(self, where: str, error: GlassError) -> None:
        self.count += 1
        place = "" if where in str(error) else f"{where}: "
        print(f"glassformer: {place}{error}", file=sys.stderr, flush=True)

    def exit_if_any(self) -> None:
        if self.count:
            raise typer.Exit(2)


def each(
    items: Sequence[X], where: Callable[[X], str], do: Callable[[X], Y], failures: Failures
) -> Iterator[tuple[X, Y]]:
    """Yield (item, result) for every item that did not fail."""
    for item in progress(items):
        try:
            result = do(item)
        except GlassError as error:
            failures.report(where(item), error)
            continue
        yield item, result


def progress(items: Sequence[X], total: int | None = None, what: str = "Working") -> Iterator[X]:
    """Yield the items, with a progress bar if there are several, stderr is a terminal and stdout is not."""
    if len(items) < 2 or not sys.stderr.isatty() or sys.stdout.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, what, total or len(items), console=Console(stderr=True), transient=True)
