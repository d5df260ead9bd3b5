"""`glassformer practice`: fresh exercises with keys, as sheets or one step at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glassformer.exercises.exercise import Exercise


LMS = ("moodle", "qti")  # formats of learning management systems


def practice(
    tokens: Annotated[int, typer.Option(help="Number of tokens, 1 to 8.")] = 3,
    width: Annotated[int, typer.Option(help="Width of each token, 1 to 8.")] = 2,
    heads: Annotated[int, typer.Option(help="Number of heads, 1 to 4.")] = 1,
    topic: Annotated[
        str, typer.Option(help="Topic: attention, beta, mask, heads, cross, layernorm, patches or transport.")
    ] = "attention",
    level: Annotated[str, typer.Option(help="Difficulty: easy, medium or hard.")] = "medium",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    sheets: Annotated[int, typer.Option(help="Number of different sheets.")] = 1,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="Output format: markdown, latex, html, text, moodle (questions.xml for the question bank) or qti (one "
            "quiz per sheet, for Canvas).",
        ),
    ] = "markdown",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write sheets, answer keys and exercise files to.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Tolerance of numeric answers in Moodle and QTI questions. Defaults to 0.001."),
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Practise one step at a time, with hints.")
    ] = False,
) -> None:
    """Generate exercises with answer keys, or practise step by step."""
    from glassformer.errors import InputError
    from glassformer.exercises import practice as make
    from glassformer.exercises.practice import questions

    if not 1 <= sheets <= 1000:
        raise InputError(f"--sheets must be between 1 and 1000, got {sheets}", "choose another number")
    spec = make.ExerciseSpec(topic=topic, level=level, tokens=tokens, width=width, heads=heads)  # type: ignore[arg-type]
    if interactive:
        from glassformer.cli.drill import drill

        drill(make.sheets(spec, seed, sheets))
        return
    made = make.sheets(spec, seed, sheets)
    if tolerance is not None and format_ not in LMS:
        raise InputError(
            f"--tolerance has no effect on --format {format_}", f"leave it out, or use --format {' or '.join(LMS)}"
        )
    if format_ in LMS:
        _for_lms(made, format_, output, questions.TOLERANCE if tolerance is None else tolerance)
    elif output is None:
        typer.echo("\n".join(make.sheet(exercise, format_) for exercise in made), nl=False)
    else:
        _write(made, format_, output)


def _write(made: list[Exercise], form: str, folder: Path) -> None:
    from glassformer.cli.output import write
    from glassformer.errors import InputError
    from glassformer.exercises import practice as make
    from glassformer.exercises.practice.sheet import ENDINGS

    if form not in ENDINGS:
        raise InputError(f"there is no format {form!r}", f"choose one of {', '.join((*ENDINGS, *LMS))}")
    for number, exercise in _numbered(made, folder):
        write(make.sheet(exercise, form), folder / f"sheet-{number}.{ENDINGS[form]}")
        write(make.answer_key(exercise, form), folder / f"key-{number}.{ENDINGS[form]}")
        write(make.exercise_yaml(exercise), folder / f"exercise-{number}.yaml")
    kind = "sheet with its answer key" if len(made) == 1 else "sheets with answer keys"
    typer.echo(f"{len(made)} {kind} in {folder}")


def _for_lms(made: list[Exercise], form: str, folder: Path | None, tolerance: float) -> None:
    """Write the questions, answer keys in HTML, and exercise files."""
    from glassformer.cli.output import write, write_bytes
    from glassformer.errors import InputError
    from glassformer.exercises import practice as make
    from glassformer.exercises.practice.moodle import moodle_xml
    from glassformer.exercises.practice.qti import qti_zip
    from glassformer.exercises.practice.questions import questions

    sheets = [questions(exercise, tolerance) for exercise in made]
    if folder is None:
        if form == "qti":
            raise InputError("a QTI quiz is a zip file", "give a folder for it with -o")
        write(moodle_xml(sheets), None)
        return
    for (number, exercise), sheet in zip(_numbered(made, folder), sheets, strict=True):
        if form == "qti":
            write_bytes(qti_zip(sheet), folder / f"quiz-{number}.zip")
        write(make.answer_key(exercise, "html"), folder / f"key-{number}.html")
        write(make.exercise_yaml(exercise), folder / f"exercise-{number}.yaml")
    if form == "moodle":
        write(moodle_xml(sheets), folder / "questions.xml")
    kind = ("quiz", "quizzes") if form == "qti" else ("question", "questions")
    keys = "its answer key" if len(made) == 1 else "answer keys"
    typer.echo(f"{len(made)} {kind[len(made) != 1]} with {keys} in {folder}")


def _numbered(made: list[Exercise], folder: Path) -> Iterator[tuple[str, Exercise]]:
    """Create the folder, and yield each exercise with its number, zero-padded to at least two digits."""
    from glassformer.errors import InputError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be created ({error.strerror})", "choose another folder") from None
    digits = max(2, len(str(len(made))))
    for i, exercise in enumerate(made, 1):
        yield str(i).zfill(digits), exercise
