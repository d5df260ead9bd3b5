"""`glassformer export FOLDER -o OUT`: back to Hugging Face's layout, or to ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    folder: Annotated[Path, typer.Argument(help="A model's folder: published, or one that `save` wrote.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder (or .onnx file) to make.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="One .onnx file, checked against the model.")] = False,
) -> None:
    """Give a model back: name for name and bit for bit as it was published; or as ONNX, proved equal."""
    if onnx:
        from glassformer.checkpoints.onnx_file import export_onnx

        print(export_onnx(folder, output))
    else:
        from glassformer.checkpoints.give_back import export as give

        print(give(folder, output))
