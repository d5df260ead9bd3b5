"""`glassformer sweep MODEL CLEAN CORRUPTED`: activation patching, head by head."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import TRACEABLE, ConfigOption, DeviceOption, PrecisionOption, load_model

if TYPE_CHECKING:
    from glassformer.lens import Sweep


def sweep(
    model: Annotated[str, typer.Argument(help=TRACEABLE)],
    clean: Annotated[str, typer.Argument(help="Clean text, whose answer the patch should restore.")],
    corrupted: Annotated[
        str, typer.Argument(help="Corrupted text: the same number of tokens, but a different answer.")
    ],
    answer: Annotated[
        str | None, typer.Option(help="Answer to the clean text. Defaults to the model's own prediction.")
    ] = None,
    wrong: Annotated[
        str | None, typer.Option(help="Answer to the corrupted text. Defaults to the model's own prediction.")
    ] = None,
    position: Annotated[int, typer.Option(help="Position whose logits are compared; -1 is the last.")] = -1,
    site: Annotated[
        str, typer.Option(help="Quantity to patch: H, A, Q, K or V per head, X, R or O per token, or a trace path.")
    ] = "H",
    figure: Annotated[Path | None, typer.Option(help="Draw the result to this .png or .svg file.")] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    config: ConfigOption = None,
) -> None:
    """Patch activations of a clean run into a corrupted run. Prints how much of the answer each head recovers."""
    from rich.console import Console
    from rich.progress import Progress

    from glassformer.cli.output import figure_format, require_writable
    from glassformer.lens.answer_sweep import answer_sweep

    kind = figure_format(figure)
    require_writable(figure)
    net = load_model(model, device=device, precision=precision)
    there = Console(stderr=True)
    with Progress(console=there, transient=True, disable=not there.is_terminal) as bar:
        task = bar.add_task("patching", total=None)
        found = answer_sweep(
            net,
            clean,
            corrupted,
            answer=answer,
            wrong=wrong,
            position=position,
            site=site,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    console = Console(width=None if Console().is_terminal else 160)
    console.print(f"metric: logit of {found.answer!r} − logit of {found.wrong!r} at position {position}", markup=False)
    console.print(found.sweep)
    if figure is not None:
        _draw(found.sweep, figure, kind, found.tokens)


def _draw(made: Sweep, output: Path, kind: str, tokens: list[str]) -> None:
    from glassformer import figures
    from glassformer.cli.output import write_bytes

    layers = [path.rpartition(".")[0].removesuffix(".attention") for path in made.paths]
    places = None if made.axis == "head" else tokens
    write_bytes(figures.to_bytes(figures.patching_sweep(made.recovered.numpy(), layers, places), kind), output)
