"""Which model a command means: `--model NAME` of verbs, and MODEL of the lens, shared by all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from torch import nn

ModelOption = Annotated[
    str | None,
    typer.Option("--model", "-m", help="A model that comes with Glassformer, fetched weights by name, or a folder."),
]

LENS = (
    "A model that comes with Glassformer, fetched weights by name, a folder; or tiny: and decoder, encoder, seq2seq, "
    "vit, hybrid, clip, speech, whisper, recurrent (random weights)."
)


def chosen(model: str | None, verb: str) -> nn.Module:
    """The model named, or the one that comes with Glassformer for this verb."""
    from glassformer.tasks.shipped import DEFAULTS, open_model

    return open_model(DEFAULTS[verb] if model is None else model)


def opened(name: str, *, seed: int = 0) -> tuple[nn.Module, str]:
    """The model that is named, tiny ones too, ready to look into; and what must be said of it."""
    if name.startswith("tiny:"):
        from glassformer.app.tiny import tiny_model

        return tiny_model(name, seed=seed)
    from glassformer.tasks.shipped import open_model

    return open_model(name).eval(), ""
