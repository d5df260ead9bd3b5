"""`glassformer check EXERCISE ANSWERS…`: a learner's own working, graded as a patient teacher would."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glassformer.exercises.exercise import Exercise
    from glassformer.exercises.grade.submissions import Submission

TEXTS = (".md", ".markdown", ".txt", ".tex", ".latex", ".typ", ".csv", ".tsv", ".html", ".htm")
DOCUMENTS = frozenset([*TEXTS, ".ipynb", ".pdf", ".docx", ".xlsx"])  # never an exercise


def check(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="[EXERCISE] ANSWERS...",
            help="Exercise (the name of an embedded one, or a YAML file) and the documents to grade (Markdown, LaTeX, "
            "text, notebooks, PDF, DOCX, XLSX, HTML, Typst, YAML, JSON, CSV) or folders of them. Without an exercise, "
            "a document's own arithmetic is checked.",
        ),
    ],
    format_: Annotated[
        str, typer.Option("--format", "-f", help="Output format: text, markdown, html or json.")
    ] = "text",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write to, or for several documents a folder.")
    ] = None,
    decimal_comma: Annotated[
        bool, typer.Option("--decimal-comma", help="Read every comma between two digits as a decimal comma.")
    ] = False,
) -> None:
    """Grade a learner's working: wrong cells, those that follow from an earlier mistake, and the mistakes."""
    from glassformer.cli.output import write
    from glassformer.errors import InputError
    from glassformer.exercises.grade.submissions import grade_all, submissions
    from glassformer.exercises.grade.view import FORMATS

    if format_ not in FORMATS:
        raise InputError(f"there is no format {format_!r}", f"choose one of {', '.join(FORMATS)}")
    exercise, documents = _split(sources)
    paths = submissions(documents)
    if len(paths) == 1 and not documents[0].is_dir():
        (submission,) = grade_all(exercise, paths, decimal_comma=decimal_comma)
        if submission.grade is None:
            fact, _, remedy = submission.error.rpartition(": ")
            raise InputError(fact or "it could not be graded", remedy)
        graded = submission.grade
        if format_ == "text" and output is None and sys.stdout.isatty():
            _colourful(graded.render("text", shutil.get_terminal_size((100, 24)).columns))
        else:
            write(graded.render(format_), output)
        return
    _pile(exercise, paths, format_, output, decimal_comma)


def _split(sources: list[str]) -> tuple[Exercise | None, list[Path]]:
    """The exercise, if the first source is one, and the documents."""
    from glassformer.cli.exercise import find
    from glassformer.exercises import library

    paths = [Path(source) for source in sources]
    if sources[0] not in library.names() and (paths[0].is_dir() or paths[0].suffix.lower() in DOCUMENTS):
        return None, paths
    if len(sources) > 1:
        return find(sources[0]), paths[1:]
    if sources[0] in library.names() and not Path(sources[0]).exists():
        from glassformer.errors import InputError

        raise InputError(f"{sources[0]!r} is an exercise, and there are no answers", "name the document to check, too")
    return None, paths


def _pile(
    exercise: Exercise | None, paths: list[Path], form: str, output: Path | None, decimal_comma: bool
) -> None:
    from glassformer.cli.output import write
    from glassformer.errors import InputError
    from glassformer.exercises.grade.submissions import RESULTS, grade_all, report_names, table

    if output is not None:
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{output} cannot be a folder ({error.strerror})", "choose another place") from None
    files = report_names(paths, form)
    results: list[Submission] = []
    for item in _with_progress(grade_all(exercise, paths, decimal_comma=decimal_comma), len(paths)):
        results.append(item)
        if output is not None:
            write(item.render(form), output / files[item.path])
    text = table(results, files if output is not None else dict.fromkeys(files, ""))
    write(text, output / RESULTS if output is not None else None)
    for item in results:
        if item.grade is None:
            print(f"glassformer: {item.path}: {item.error}", file=sys.stderr)
    if all(item.grade is None for item in results):
        raise typer.Exit(2)


def _with_progress(items: Iterator[Submission], count: int) -> Iterator[Submission]:
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
