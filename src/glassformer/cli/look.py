"""`glassformer look MODEL INPUT -o report.html`: a page about one run of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.options import TRACEABLE, ConfigOption, DeviceOption, PrecisionOption, SeedOption, load_model

INPUTS = (
    "Input of the model: a text, an image file or an audio file. Texts may follow: the translation of a text, the "
    "transcript of a recording for Whisper (by default the model's own), or the candidate texts of an image for CLIP."
)


def look(
    model: Annotated[str, typer.Argument(help=TRACEABLE)],
    inputs: Annotated[list[str], typer.Argument(help=INPUTS)],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    config: ConfigOption = None,
) -> None:
    """Write a page about one run of a model. It shows attention, heads, flow, margins and trace."""
    from rich.console import Console

    from glassformer.cli.output import require_writable, write

    require_writable(output)
    console = Console(stderr=True)
    with console.status("loading") as status:
        net = load_model(model, device=device, precision=precision, seed=seed)  # before the slow imports of figures
        note = f"The weights are random (seed {seed}): the model is untrained." if model.startswith("tiny:") else ""

        from glassformer.report import look as make_report

        page = make_report(net, *inputs, note=note, progress=status.update).html()
    write(page, output)
    typer.echo(f"{output}: {len(page.encode()) / 1e6:.1f} MB, opens in any browser")
