"""`--model NAME`: the model that a verb uses, shared by all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from torch import nn

ModelOption = Annotated[
    str | None,
    typer.Option("--model", "-m", help="A model that comes with Glassformer, fetched weights by name, or a folder."),
]


def chosen(model: str | None, verb: str) -> nn.Module:
    """The model named, or the one that comes with Glassformer for this verb."""
    from glassformer.tasks.shipped import DEFAULTS, open_model

    return open_model(DEFAULTS[verb] if model is None else model)
