"""`glassformer info MODEL`: what a model is, and which commands take it."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.options import MODEL


def info(model: Annotated[str, typer.Argument(help=MODEL)]) -> None:
    """Show a model's family, sizes, parameters, context and tokenizer, and the commands that take it."""
    from glassformer.checkpoints.info import info as describe
    from glassformer.pipelines.loading import find_model

    print(describe(find_model(model)))
