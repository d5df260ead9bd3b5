"""`glassformer embed lines.txt -o vectors.npy`; `--search QUERY` ranks the lines by similarity."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.items import ITEMS
from glassformer.cli.options import ConfigOption, DeviceOption, EngineOption, ModelOption, PrecisionOption, load_model

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.cli.items import Line


def embed(
    items: Annotated[list[str] | None, typer.Argument(help=ITEMS)] = None,
    model: ModelOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the vectors to this .npy, .jsonl or .parquet file.")
    ] = None,
    search: Annotated[str | None, typer.Option(help="Print the lines most similar to this text.")] = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="Number of lines that --search prints.")] = 5,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Number of texts per batch. Defaults to what fits 4,096 tokens.")
    ] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    engine: EngineOption = "torch",
    config: ConfigOption = None,
) -> None:
    """Embed each line of the input. Uses the model's own pooling and normalisation."""
    from glassformer.cli.items import Failures, each, progress, read_items
    from glassformer.errors import InputError
    from glassformer.pipelines.embed import batches_by_length, embed_batches, nearest, tokenize
    from glassformer.pipelines.embed import embed as one

    if output is not None and output.suffix not in (".npy", ".jsonl", ".parquet"):
        raise InputError(f"--output {output.name} has an unknown format", "end its name in .npy, .jsonl or .parquet")
    lines = read_items(items or [])
    net = load_model(model, verb="embed", device=device, precision=precision, engine=engine)
    failures = Failures()
    texts = list(each(lines, lambda line: line.where, lambda line: tokenize(net, line.text), failures))
    cut = sum(tokens.cut for _, tokens in texts)
    if cut:
        print(f"glassformer: {cut} of {len(lines)} lines were truncated to the model's maximum length", file=sys.stderr)
    found: dict[int, Tensor] = {}
    ids = [tokens.tokens for _, tokens in texts]
    found_batches = embed_batches(net, ids, batch_size)
    for _ in progress(batches_by_length(ids, batch_size), what="Embedding"):
        places, some = next(found_batches)
        found |= dict(zip(places, some, strict=True))
    kept, rows = [line for line, _ in texts], [found[i] for i in range(len(texts))]
    if output is not None or search is None:
        _write(kept, rows, output)
    if search is not None and rows:
        import torch

        for place, cosine in nearest(one(net, search), torch.stack(rows), top_k):
            print(f"{cosine:.4f}\t{kept[place].text}")
    failures.exit_if_any()


def _write(lines: list[Line], rows: list[Tensor], output: Path | None) -> None:
    """Write rows of a .npy file, or one JSON object per line with the text and its vector."""
    from glassformer.cli.output import write, write_bytes
    from glassformer.errors import InputError

    if output is None or output.suffix == ".jsonl":
        objects = ({"text": line.text, "vector": row.tolist()} for line, row in zip(lines, rows, strict=True))
        write("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects), output)
        return
    whole = io.BytesIO()
    if output.suffix == ".npy":
        import numpy as np

        np.save(whole, np.stack([row.numpy() for row in rows]) if rows else np.zeros((0, 0), np.float32))
    else:
        import importlib

        try:
            arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
        except ImportError:
            raise InputError(
                ".parquet needs the package pyarrow, which is not installed", "pip install pyarrow"
            ) from None
        columns = {"text": [line.text for line in lines], "vector": [row.tolist() for row in rows]}
        parquet.write_table(arrow.table(columns), whole)
    write_bytes(whole.getvalue(), output)
