"""`glassformer evaluate mnist -m digits`: the metrics of a model on held-out data."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from glassformer.cli.options import MODEL, ConfigOption, DeviceOption, EngineOption, PrecisionOption, load_model


def evaluate(
    data: Annotated[
        str, typer.Argument(help="Folder, file or dataset name. A named dataset is evaluated on its test split.")
    ],
    model: Annotated[str, typer.Option("--model", "-m", help=MODEL)],
    columns: Annotated[
        str | None, typer.Option(help="Columns of a table, for example text=review,label=stars.", show_default=False)
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of items, spread evenly over the data.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON.")] = False,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    engine: EngineOption = "torch",
    config: ConfigOption = None,
) -> None:
    """Evaluate a model. Prints accuracy, BLEU and chrF, word error rate, bits per byte or retrieval rank."""
    from glassformer.cli.items import progress
    from glassformer.data import Faults
    from glassformer.data.columns import parse
    from glassformer.data.sources import embedded_part
    from glassformer.pipelines.evaluate import evaluate as numbers

    net, faults = load_model(model, device=device, precision=precision, engine=engine), Faults()
    if part := embedded_part(data):
        fact = f"{data} was not fetched, so only its embedded part is used ({part})"
        print(f"glassformer: {fact}: glassformer data fetch {data}", file=sys.stderr)
    watch = lambda batches: progress(batches, what="Evaluating")
    named = None if columns is None else parse(columns)
    found = numbers(net, data, columns=named, limit=limit, progress=watch, faults=faults)
    for line in faults.summary():
        print(f"glassformer: skipped: {line}", file=sys.stderr)
    if json_:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:18} {value:.4f}" if value % 1 else f"{name:18} {value:.0f}")
