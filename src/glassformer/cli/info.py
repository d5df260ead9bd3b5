"""`glassformer info MODEL`: what a model is, and which commands take it; `--machine`: which kernels are used here."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.options import TRACEABLE


def info(
    model: Annotated[str | None, typer.Argument(help=TRACEABLE)] = None,
    machine: Annotated[
        bool, typer.Option("--machine", help="Show the processor and the kernel used for each precision on it.")
    ] = False,
) -> None:
    """Describe a model. Shows its family, sizes and tokenizer, and the commands that take it."""
    from glassformer.pipelines.loading import describe_model
    from glassformer.runtime import machine as here

    if model is None and not machine:
        raise typer.BadParameter("no model was given: give one, or use --machine")
    if model is not None:
        print(describe_model(model))
    if machine:
        print(here())
