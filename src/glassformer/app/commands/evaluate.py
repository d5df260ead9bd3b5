"""`glassformer evaluate mnist -m digits`: how good a model is on data that it has not seen."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    data: Annotated[str, typer.Argument(help="A folder, a file, or a dataset's name: then its test part.")],
    model: Annotated[str, typer.Option("--model", "-m", help="One that comes with Glassformer, or a folder.")],
    most: Annotated[int | None, typer.Option(min=1, help="Only so many items, from all over the data.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Measure a model: accuracy, BLEU and chrF, word error rate, bits per byte, rank of paraphrases, words left out."""
    from glassformer.app.items import progress
    from glassformer.errors import InputError
    from glassformer.tasks.data import Faults
    from glassformer.tasks.evaluate import evaluate as numbers
    from glassformer.tasks.shipped import open_model
    from glassformer.tasks.sources import DATASETS, open_data

    whole = open_data(data) if data in DATASETS else Path(data)
    parts = [whole / f"test{suffix}" for suffix in ("", ".tsv", ".txt")]
    place = next((part for part in parts if whole.is_dir() and part.exists()), whole)
    if not place.exists():
        raise InputError(f"there is no {data}", f"give a folder, a file, or one of {', '.join(DATASETS)}")
    net, faults = open_model(model), Faults()
    found = numbers(net, place, most=most, watch=lambda batches: progress(batches, what="Measuring"), faults=faults)
    for line in faults.told():
        print(f"glassformer: left out: {line}", file=sys.stderr)
    if json_:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:18} {value:.4f}" if value % 1 else f"{name:18} {value:.0f}")
