"""`glassformer translate "Good morning."` or `translate lines.txt`: each line, translated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.items import ITEMS
from glassformer.cli.options import ConfigOption, DeviceOption, EngineOption, ModelOption, PrecisionOption, load_model

if TYPE_CHECKING:
    from glassformer.pipelines import Aligned


def translate(
    items: Annotated[list[str] | None, typer.Argument(help=ITEMS)] = None,
    model: ModelOption = None,
    num_beams: Annotated[
        int | None, typer.Option(min=1, help="Number of beams. Defaults to the model's generation config.")
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of tokens to generate per line.")
    ] = None,
    prefix: Annotated[
        str,
        typer.Option(help='Text to put before each line, for example ">>fra<< " or "translate English to German: ".'),
    ] = "",
    align: Annotated[
        bool, typer.Option("--align", help="Also print which source word each translated word attends to most.")
    ] = False,
    figure: Annotated[Path | None, typer.Option(help="Draw the alignment of a single text to this .png file.")] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    engine: EngineOption = "torch",
    config: ConfigOption = None,
) -> None:
    """Translate each line of the input. The output has one line per input line, empty where translation failed."""
    from glassformer.cli.items import Failures, progress, read_items
    from glassformer.errors import GlassError, InputError
    from glassformer.pipelines import translate as translated
    from glassformer.pipelines import translate_aligned

    lines = read_items(items or [], empty=True)
    texts = sum(bool(line.data.strip()) for line in lines)
    if figure is not None and texts > 1:
        raise InputError(f"--figure draws one text, got {texts}", "translate one of them with --figure")
    net = load_model(model, verb="translate", device=device, precision=precision, engine=engine)
    options: dict[str, Any] = {"num_beams": num_beams, "max_new_tokens": max_new_tokens, "prefix": prefix}
    failures = Failures()

    def one(text: str) -> str:
        if not align and figure is None:
            return " ".join(str(translated(net, text, **options)).splitlines())  # a line, whatever the model says
        found = translate_aligned(net, text, **options)
        if figure is not None:
            _draw(found, figure)
        return "\n".join([found.text, *_alignment_lines(found)]) if align else found.text

    for line in progress(lines):
        translation = ""  # an empty line keeps the output aligned with the input
        try:
            translation = one(line.text) if line.data.strip() else ""
        except GlassError as error:
            failures.report(line.where, error)
        print(translation, flush=True)
    failures.exit_if_any()


def _alignment_lines(found: Aligned) -> list[str]:
    """Format the alignment: each target word, the source word that it attends to most, and the weight."""
    wide = max(map(len, found.target), default=0)
    rows = zip(found.target, found.looks, found.A, strict=True)
    return [f"  {word:{wide}} ← {found.source[i]}  {float(A[i]):.2f}" for word, i, A in rows]


def _draw(found: Aligned, path: Path) -> None:
    from glassformer.cli.output import write_bytes
    from glassformer.figures import alignment, to_bytes

    write_bytes(to_bytes(alignment(found.A.numpy(), found.source, found.target, title=found.text)), path)
