"""`glassformer convert FILE -o FOLDER`: other checkpoint formats to a folder that `gf.load` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def convert(
    file: Annotated[Path, typer.Argument(help="PyTorch .bin or .pt, Whisper .pt, llama2.c .bin or GGUF file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")],
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="Tokenizer of a llama2.c (.bin) or Whisper (.tiktoken) model, if it is not beside the file."),
    ] = None,
) -> None:
    """Convert a checkpoint to a safetensors folder. No code from the file is run."""
    from glassformer.checkpoints.convert import convert as make

    print(make(file, output, tokenizer=tokenizer))
