"""`glassformer site -o FOLDER`: a static copy of the workbench that needs no server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def site(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="New folder for the site.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Shipped model to record; all of them by default. May be given several times."
        ),
    ] = None,
    lab: Annotated[bool, typer.Option("--lab/--no-lab", help="Run and record the experiments of the Lab.")] = True,
    results: Annotated[
        Path | None, typer.Option(help="Results file of glassformer compare, shown in the Compare room.")
    ] = None,
) -> None:
    """Write a static copy of the workbench. Exercises run in the browser, and models replay recorded runs."""
    from glassformer.server.site import write_site

    made = write_site(output, models=model or (), lab=lab, results=results, say=lambda text: typer.echo(text, err=True))
    for line in made.refused:
        typer.echo(f"not recorded: {line}", err=True)
    typer.echo(f"{made.folder}: {made.megabytes:.0f} MB. Try it: python -m http.server -d {made.folder}")
