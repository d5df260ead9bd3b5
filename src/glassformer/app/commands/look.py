"""`glassformer look MODEL INPUT -o report.html`: one page that shows a model at work on one input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.app.choice import LENS, opened

INPUTS = (
    "As the model takes it: a text; a text and its translation (if left out, the model's own); an image file; an image "
    "file and texts for it (CLIP); a sound file, and what is said in it (Whisper; if left out, what it hears)."
)


def look(
    model: Annotated[str, typer.Argument(help=LENS)],
    inputs: Annotated[list[str], typer.Argument(help=INPUTS)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    seed: Annotated[int, typer.Option(help="Of the random weights of a tiny model.")] = 0,
) -> None:
    """Show a model at work on one input: a page with its attention, heads, flow, margins and trace."""
    from rich.console import Console

    from glassformer.app.output import require_place, write

    require_place(output)
    console = Console(stderr=True)
    with console.status("loading") as status:
        net, note = opened(model, seed=seed)  # first: what cannot be loaded needs no pictures

        from glassformer.app.report import report, see

        page = report(net, see(net, inputs), note=note, step=status.update)
    write(page, output)
    typer.echo(f"{output}: {len(page.encode()) / 1e6:.1f} MB, opens in any browser")
