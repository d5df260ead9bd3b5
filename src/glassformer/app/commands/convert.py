"""`glassformer convert FILE -o FOLDER`: other forms of a published model to a folder that loads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def convert(
    file: Annotated[Path, typer.Argument(help="PyTorch .bin or .pt, Whisper .pt, llama2.c .bin, GGUF.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to make.")],
    tokenizer: Annotated[
        Path | None, typer.Option(help="llama2.c's tokenizer.bin or Whisper's .tiktoken, if not beside the file.")
    ] = None,
) -> None:
    """Convert a file of weights to safetensors with config.json and tokenizer.json; no code of the file is run."""
    from glassformer.checkpoints.convert import convert as make

    print(make(file, output, tokenizer=tokenizer))
