"""`glassformer check EXERCISE ANSWERS…`: a learner's own working, graded cell by cell."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glassformer.exercises.exercise import Exercise
    from glassformer.exercises.grade.rubric import Rubric
    from glassformer.exercises.grade.submissions import Submission

TEXTS = (".md", ".markdown", ".txt", ".tex", ".latex", ".typ", ".csv", ".tsv", ".html", ".htm")
GRADESCOPE = "gradescope"
DOCUMENTS = frozenset([*TEXTS, ".ipynb", ".pdf", ".docx", ".xlsx"])  # never an exercise


def check(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="[EXERCISE] ANSWERS",
            help="Exercise (the name of an embedded one, or a YAML file) and the documents to grade (Markdown, LaTeX, "
            "text, notebooks, PDF, DOCX, XLSX, HTML, Typst, YAML, JSON, CSV) or folders of them. Without an exercise, "
            "only a document's own arithmetic is checked.",
        ),
    ],
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="Output format: text, markdown, html, json, or gradescope: results.json of one submission, or the "
            "autograder itself if only an exercise and -o FILE.zip are given.",
        ),
    ] = "text",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write to; for several documents, the folder.")
    ] = None,
    decimal_comma: Annotated[
        bool, typer.Option("--decimal-comma", help="Read every comma between two digits as a decimal comma.")
    ] = False,
    rubric: Annotated[
        Path | None, typer.Option(help="YAML file with points per step, tolerance and partial credit.")
    ] = None,
    overrides: Annotated[
        Path | None,
        typer.Option(
            help="CSV file of points set by hand. Defaults to overrides.csv in the output folder, which is created if "
            "it is missing and never overwritten."
        ),
    ] = None,
) -> None:
    """Grade a learner's working. Reports wrong cells, cells that follow from an earlier mistake, and each mistake."""
    from glassformer.cli.output import write
    from glassformer.errors import InputError
    from glassformer.exercises.grade.rubric import load_rubric
    from glassformer.exercises.grade.submissions import grade_all, submissions
    from glassformer.exercises.grade.view import FORMATS
    from glassformer.exercises.grade.workers import refusal

    if format_ not in (*FORMATS, GRADESCOPE):
        raise InputError(f"there is no format {format_!r}", f"choose one of {', '.join((*FORMATS, GRADESCOPE))}")
    scheme = load_rubric(rubric) if rubric is not None else None
    if format_ == GRADESCOPE:
        if overrides is not None:
            raise InputError(
                "--overrides has no effect on --format gradescope",
                "change the points in Gradescope, or choose another format",
            )
        _gradescope(sources, scheme, output, decimal_comma)
        return
    exercise, documents = _split(sources)
    paths = submissions(documents)
    if overrides is None and len(paths) == 1 and not documents[0].is_dir():
        (submission,) = grade_all(exercise, paths, decimal_comma=decimal_comma, rubric=scheme)
        if submission.grade is None:
            raise refusal(submission.error)
        graded = submission.grade
        if format_ == "text" and output is None and sys.stdout.isatty():
            _print_coloured(graded.render("text", shutil.get_terminal_size((100, 24)).columns))
        else:
            write(graded.render(format_), output)
        return
    results = _with_progress(grade_all(exercise, paths, decimal_comma=decimal_comma, rubric=scheme), len(paths))
    _write_class(results, exercise, scheme, paths, format_, output, overrides)


def _gradescope(sources: list[str], rubric: Rubric | None, output: Path | None, decimal_comma: bool) -> None:
    """Write results.json for the documents of one submission; without documents, write the autograder."""
    import json

    from glassformer.cli.exercise import find_exercise
    from glassformer.cli.output import require_writable, write, write_bytes
    from glassformer.errors import InputError
    from glassformer.exercises.grade.gradescope import autograder, results
    from glassformer.exercises.grade.rubric import Rubric, format_points
    from glassformer.exercises.grade.submissions import grade_all, submissions

    exercise = find_exercise(sources[0])
    if len(sources) > 1:
        paths = submissions(Path(source) for source in sources[1:])
        graded = list(grade_all(exercise, paths, decimal_comma=decimal_comma, rubric=rubric))
        write(json.dumps(results(graded, rubric), ensure_ascii=False, indent=1) + "\n", output)
        return
    if output is None or output.suffix != ".zip":
        raise InputError("an autograder is a zip file", "write it with -o autograder.zip, or give answers to grade")
    require_writable(output)
    write_bytes(autograder(exercise, rubric, decimal_comma=decimal_comma), output)
    points = format_points((rubric or Rubric()).maximum)
    typer.echo(f"{output}: upload it to Gradescope as the autograder of an assignment of {points} points")


def _split(sources: list[str]) -> tuple[Exercise | None, list[Path]]:
    """Return the exercise, if the first source is one, and the documents."""
    from glassformer.cli.exercise import find_exercise
    from glassformer.exercises import library

    paths = [Path(source) for source in sources]
    if sources[0] not in library.names() and (paths[0].is_dir() or paths[0].suffix.lower() in DOCUMENTS):
        return None, paths
    if len(sources) > 1:
        return find_exercise(sources[0]), paths[1:]
    if sources[0] in library.names() and not Path(sources[0]).exists():
        from glassformer.errors import InputError

        raise InputError(f"{sources[0]!r} is an exercise without answers", "also give the document to grade")
    return None, paths


def _write_class(
    graded: Iterator[Submission],
    exercise: Exercise | None,
    rubric: Rubric | None,
    paths: list[Path],
    form: str,
    output: Path | None,
    overrides: Path | None,
) -> None:
    """Write results, feedback and the class summary to a folder, or print the results."""
    from glassformer.cli.output import write
    from glassformer.errors import InputError
    from glassformer.exercises.grade.class_summary import summarize
    from glassformer.exercises.grade.overrides import EMPTY, apply, read_overrides
    from glassformer.exercises.grade.submissions import OVERRIDES, RESULTS, SUMMARY, report_names, table
    from glassformer.exercises.grade.view import SUFFIX

    if output is not None:
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{output} cannot be created ({error.strerror})", "choose another place") from None
        if overrides is None:
            overrides = output / OVERRIDES
            if not overrides.exists():
                write(EMPTY, overrides)
    by_hand = read_overrides(overrides) if overrides is not None else ()  # before the grading, which takes time
    results, unused = apply(list(graded), by_hand, exercise, rubric)
    files = report_names(paths, form)
    if output is None:
        write(table(results, dict.fromkeys(files, "")), None)
    else:
        for item in results:
            write(item.render(form), output / files[item.path])
        write(table(results, files), output / RESULTS)
        if exercise is not None:
            summary = summarize(results, exercise, rubric, unused)
            write(summary.render(form), output / f"{SUMMARY}{SUFFIX[form]}")
            write(summary.render("text"), None)
    for problem in unused:
        print(f"glassformer: {overrides}, {problem}", file=sys.stderr)
    for item in results:
        if item.grade is None:
            print(f"glassformer: {item.path}: {item.error}", file=sys.stderr)
    if all(item.grade is None for item in results):
        raise typer.Exit(2)


def _with_progress(items: Iterator[Submission], count: int) -> Iterator[Submission]:
    """Show a progress bar if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, "Checking", count, console=Console(stderr=True), transient=True)


def _print_coloured(text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    shown = Text(text, end="")
    for pattern, style in ((r"\S+✗", "bold red"), (r"\S+~(?=[ ⎤⎥⎦\]])", "yellow"), (r"\S+→(?=[ ⎤⎥⎦\]])", "cyan")):
        shown.highlight_regex(pattern, style)
    shown.highlight_regex(r"(?m)^[A-Z][^\n]*\n[-=]{3,}$", "bold")
    Console(soft_wrap=True, highlight=False).print(shown, end="")
