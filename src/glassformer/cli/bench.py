"""`glassformer bench MODEL`: how fast a model is on this machine, in every precision."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.options import TRACEABLE, ConfigOption, load_model


def bench(
    model: Annotated[str, typer.Argument(help=TRACEABLE)] = "writer",
    batch_size: Annotated[int, typer.Option(min=1, help="Number of inputs per forward pass.")] = 1,
    length: Annotated[int, typer.Option(min=1, help="Number of tokens of a text input.")] = 32,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of threads. Defaults to one per core.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of timings per precision; the fastest counts.")] = 5,
    config: ConfigOption = None,
) -> None:
    """Time a model on the CPU in every supported precision. The input is random."""
    import torch
    from rich.console import Console
    from rich.table import Table

    from glassformer.runtime import bench as measure
    from glassformer.runtime import machine

    if threads is not None:
        torch.set_num_threads(threads)
    rows = measure(load_model(model, device="cpu"), batch=batch_size, length=length, rounds=rounds)
    here = machine()
    title = f"{model} on {here.processor}, {torch.get_num_threads()} threads, torch {here.torch}"
    table = Table("precision", "kernel", "ms", "× torch fp32", "cosine to fp32", "tokens/s", title=title)
    for row in rows:
        speed = "" if row.tokens_per_second is None else f"{row.tokens_per_second:.1f}"
        numbers = (f"{1e3 * row.seconds:.2f}", f"{row.relative:.2f}", f"{row.cosine:.5f}", speed)
        table.add_row(row.precision, row.kernel, *numbers)
    console = Console()
    console.print(table)
    for name, reason in here.refused.items():
        console.print(f"{name} is not used: {reason}.")
