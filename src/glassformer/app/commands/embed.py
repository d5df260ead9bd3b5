"""`glassformer embed lines.txt -o vectors.npy`; `--search QUERY`: which lines are most like it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.app.choice import ModelOption, chosen
from glassformer.app.items import ITEMS

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.app.items import Line


def embed(
    items: Annotated[list[str] | None, typer.Argument(help=ITEMS)] = None,
    model: ModelOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help=".npy, .jsonl or .parquet.")] = None,
    search: Annotated[str | None, typer.Option(help="Print the lines that are most like this text.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many of them.")] = 5,
    batch: Annotated[int, typer.Option(min=1, help="Texts at a time.")] = 32,
) -> None:
    """Turn each line into a vector, pooled and normalised as the model's folder says."""
    from glassformer.app.items import Failures, each, progress, read_items
    from glassformer.errors import InputError
    from glassformer.tasks.embed import embed as one
    from glassformer.tasks.embed import nearest, read, vectors

    if output is not None and output.suffix not in (".npy", ".jsonl", ".parquet"):
        raise InputError(f"{output.name} is of no known kind", "end its name in .npy, .jsonl or .parquet")
    lines = read_items(items or [])
    net = chosen(model, "embed")
    failures = Failures()
    texts = list(each(lines, lambda line: line.where, lambda line: read(net, line.text), failures))
    cut = sum(tokens.cut for _, tokens in texts)
    if cut:
        print(f"glassformer: {cut} of {len(lines)} lines were cut, as the model's folder asks", file=sys.stderr)
    found: dict[int, Tensor] = {}
    batches = vectors(net, [tokens.tokens for _, tokens in texts], batch)
    for _ in progress(range(-(-len(texts) // batch)), what="Embedding"):
        places, some = next(batches)
        found |= dict(zip(places, some, strict=True))
    kept, rows = [line for line, _ in texts], [found[i] for i in range(len(texts))]
    if output is not None or search is None:
        _write(kept, rows, output)
    if search is not None and rows:
        import torch

        for place, cosine in nearest(one(net, search), torch.stack(rows), k):
            print(f"{cosine:.4f}\t{kept[place].text}")
    failures.leave()


def _write(lines: list[Line], rows: list[Tensor], output: Path | None) -> None:
    """Rows of a .npy, or one object a line: the text and its vector."""
    from glassformer.app.output import write, write_bytes
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
