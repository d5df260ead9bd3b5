"""`glassformer check EXERCISE ANSWERS…`: a learner's own working, marked as a patient teacher would."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glassformer.worked.check.folder import Marked
    from glassformer.worked.problem import Exercise

DOCUMENTS = frozenset([".md", ".markdown", ".txt", ".tex", ".latex", ".csv", ".tsv"])  # never an exercise


def check(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="[EXERCISE] ANSWERS...",
            help="An exercise (a YAML file, or the name of an embedded one), then documents (Markdown, LaTeX, YAML, "
            "JSON, CSV) or folders of them. A document alone: its own arithmetic is checked.",
        ),
    ],
    format_: Annotated[str, typer.Option("--format", "-f", help="text, markdown, html or json.")] = "text",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file; for several documents, to this folder.")
    ] = None,
) -> None:
    """Check a learner's working: each cell, what follows from an earlier slip, and what the slip was."""
    from glassformer.app.output import write
    from glassformer.errors import InputError
    from glassformer.worked.check.folder import submissions
    from glassformer.worked.check.marking import check as marked
    from glassformer.worked.check.show import FORMATS, show
    from glassformer.worked.read import read_file

    if format_ not in FORMATS:
        raise InputError(f"there is no format {format_!r}", f"choose one of {', '.join(FORMATS)}")
    exercise, documents = _split(sources)
    paths = submissions(documents)
    if len(paths) == 1 and not documents[0].is_dir():
        report = marked(exercise, read_file(paths[0]))
        if format_ == "text" and output is None and sys.stdout.isatty():
            _colourful(show(report, "text", shutil.get_terminal_size((100, 24)).columns))
        else:
            write(show(report, format_), output)
        return
    _pile(exercise, paths, format_, output)


def _split(sources: list[str]) -> tuple[Exercise | None, list[Path]]:
    """The exercise, if the first source is one, and the documents."""
    from glassformer.app.commands.exercise import find
    from glassformer.worked import library

    paths = [Path(source) for source in sources]
    if sources[0] not in library.names() and (paths[0].is_dir() or paths[0].suffix.lower() in DOCUMENTS):
        return None, paths
    if len(sources) > 1:
        return find(sources[0]), paths[1:]
    if sources[0] in library.names() and not Path(sources[0]).exists():
        from glassformer.errors import InputError

        raise InputError(f"{sources[0]!r} is an exercise, and there are no answers", "name the document to check, too")
    return None, paths


def _pile(exercise: Exercise | None, paths: list[Path], form: str, output: Path | None) -> None:
    from glassformer.app.output import write
    from glassformer.errors import InputError
    from glassformer.worked.check.folder import RESULTS, mark_all, names, table
    from glassformer.worked.check.show import show

    if output is not None:
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{output} cannot be a folder ({error.strerror})", "choose another place") from None
    files = names(paths, form)
    results: list[Marked] = []
    for item in _with_progress(mark_all(exercise, paths), len(paths)):
        results.append(item)
        if output is not None:
            write(show(item.report, form) if item.report else _unreadable(item, form), output / files[item.path])
    text = table(results, files if output is not None else dict.fromkeys(files, ""))
    write(text, output / RESULTS if output is not None else None)
    for item in results:
        if item.report is None:
            print(f"glassformer: {item.path}: {item.error}", file=sys.stderr)
    if all(item.report is None for item in results):
        raise typer.Exit(2)


def _unreadable(item: Marked, form: str) -> str:
    """The feedback on a submission that could not be marked: why."""
    from glassformer.worked.render import page

    match form:
        case "json":
            return json.dumps({"name": item.path.name, "score": None, "error": item.error}, ensure_ascii=False) + "\n"
        case "html":
            return page(item.path.name, f"<p>This could not be marked: {escape(str(item.error))}</p>")
        case _:
            return f"{item.path.name}\n\nThis could not be marked: {item.error}\n"


def _with_progress(items: Iterator[Marked], count: int) -> Iterator[Marked]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, "Checking", count, console=Console(stderr=True), transient=True)


def _colourful(text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    shown = Text(text, end="")
    for pattern, style in ((r"\S+✗", "bold red"), (r"\S+~(?=[ ⎤⎥⎦\]])", "yellow"), (r"\S+→(?=[ ⎤⎥⎦\]])", "cyan")):
        shown.highlight_regex(pattern, style)
    shown.highlight_regex(r"(?m)^[A-Z][^\n]*\n[-=]{3,}$", "bold")
    Console(soft_wrap=True, highlight=False).print(shown, end="")
