"""`glassformer parity MODEL`: every layer compared with Hugging Face's own implementation."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.options import MODEL, ConfigOption, SeedOption


def parity(
    model: Annotated[str, typer.Argument(help=MODEL)], seed: SeedOption = 0, config: ConfigOption = None
) -> None:
    """Compare a model with Hugging Face's implementation. Runs on the CPU in float32 and float64.

    If quantities differ, the command prints the first one and exits with code 1.
    """
    from glassformer.checkpoints import parity as compare
    from glassformer.pipelines.loading import find_model

    report = compare(find_model(model), seed=seed)
    print(report)
    if not report.equal:
        raise typer.Exit(1)
