"""`glassformer export MODEL -o OUT`: a model in Hugging Face's layout, or as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.options import MODEL


def export(
    model: Annotated[str, typer.Argument(help=MODEL)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder or .onnx file to write.")],
    onnx: Annotated[
        bool,
        typer.Option("--onnx", help="Write an .onnx file and compare its outputs with the model's; implied by .onnx."),
    ] = False,
) -> None:
    """Export a model as a Hugging Face folder, or as an ONNX file."""
    from glassformer.checkpoints.export_folder import export_model as export_folder
    from glassformer.checkpoints.onnx import export_onnx
    from glassformer.pipelines.loading import find_model

    print((export_onnx if onnx or output.suffix == ".onnx" else export_folder)(find_model(model), output))
