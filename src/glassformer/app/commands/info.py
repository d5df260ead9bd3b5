"""`glassformer info FOLDER`: what a model is, and what it can do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def info(folder: Annotated[Path, typer.Argument(help="A model's folder, or a safetensors file of timm's.")]) -> None:
    """Family, sizes, parameters, context, tokenizer, and the commands that apply."""
    from glassformer.checkpoints.about import about

    print(about(folder))
