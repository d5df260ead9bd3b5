"""`glassformer parity FOLDER`: every layer against Hugging Face's own class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def parity(
    folder: Annotated[Path, typer.Argument(help="A folder as Hugging Face saves it.")],
    seed: Annotated[int, typer.Option(help="Of the input that both models get.")] = 0,
) -> None:
    """Compare every quantity in float32 and float64 and name the first that differs; exit code 1 if one does."""
    from glassformer.checkpoints import parity as compare

    report = compare(folder, seed=seed)
    print(report)
    if not report.equal:
        raise typer.Exit(1)
