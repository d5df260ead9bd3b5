"""`glassformer solve EXERCISE`: every step of an exercise on paper, exactly."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer


def solve(
    exercise: Annotated[
        str, typer.Argument(help="An exercise file (YAML), - for standard input, or the name of an embedded one.")
    ] = "four-tokens",
    list_: Annotated[bool, typer.Option("--list", help="List the embedded exercises.")] = False,
    format_: Annotated[str, typer.Option("--format", "-f", help="text, markdown, latex, html or json.")] = "text",
    digits: Annotated[int, typer.Option(help="Digits after the point.")] = 4,
    step: Annotated[str | None, typer.Option(help="Only this step, e.g. A, or S2 of head 2.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
) -> None:
    """Solve an exercise: every step exact, in its own layout and symbols."""
    from glassformer.app.commands.exercise import find
    from glassformer.app.output import write
    from glassformer.worked import library

    if list_:
        for name in library.names():
            typer.echo(f"{name:14} {library.get(name).title}")
        return
    from glassformer.worked.render import render
    from glassformer.worked.solve import solve as solved

    solution = solved(find(exercise))
    if format_ == "json":
        text = json.dumps(solution.to_json(), ensure_ascii=False, indent=1) + "\n"
    else:
        width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100
        text = render(solution, format_, digits=digits, only=step, width=width)
    write(text, output)
