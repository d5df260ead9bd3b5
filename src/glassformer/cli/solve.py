"""`glassformer solve EXERCISE`: every step of an exercise on paper, exactly."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer


def solve(
    exercise: Annotated[
        str,
        typer.Argument(help="Exercise to solve: the name of an embedded one, a YAML file, or - for standard input."),
    ] = "four-tokens",
    list_: Annotated[bool, typer.Option("--list", help="List the embedded exercises.")] = False,
    format_: Annotated[
        str, typer.Option("--format", "-f", help="Output format: text, markdown, latex, html or json.")
    ] = "text",
    digits: Annotated[int, typer.Option(help="Number of digits after the decimal point.")] = 4,
    step: Annotated[str | None, typer.Option(help="Show a single step, for example A, or S2 for S of head 2.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write to. Defaults to standard output.")
    ] = None,
) -> None:
    """Solve an exercise: every step, exactly, in its own notation."""
    from glassformer.cli.exercise import find_exercise
    from glassformer.cli.output import write
    from glassformer.exercises import library

    if list_:
        for name in library.names():
            typer.echo(f"{name:14} {library.get(name).title}")
        return
    from glassformer.exercises.solution import render
    from glassformer.exercises.solution import solve as solved

    solution = solved(find_exercise(exercise))
    width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100
    write(render(solution, format_, digits=digits, only=step, width=width), output)
