"""`glassformer classify cat.png dog.png`: the most likely classes of images, or of lines of text."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import ConfigOption, DeviceOption, EngineOption, ModelOption, PrecisionOption, load_model

if TYPE_CHECKING:
    from torch import nn

    from glassformer.pipelines import Classification


def classify(
    items: Annotated[
        list[str] | None,
        typer.Argument(
            help="Images; for a text classifier texts, or files with one text per line, where a tab separates the "
            "texts of a pair. Defaults to standard input."
        ),
    ] = None,
    model: ModelOption = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="Number of classes to show.")] = 5,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="Candidate label for zero-shot classification with CLIP. May be given several times."
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the patches that mattered to the answer: a .png for one image, a folder for several."),
    ] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    engine: EngineOption = "torch",
    config: ConfigOption = None,
) -> None:
    """Classify images or texts. Prints the most likely classes with their probabilities."""
    from glassformer.checkpoints.origin import reads_pairs
    from glassformer.cli.items import Failures, Line, each, read_items
    from glassformer.errors import InputError
    from glassformer.models.protocols import inputs_of
    from glassformer.pipelines import classify as classes

    net = load_model(model, verb="classify", device=device, precision=precision, engine=engine)
    reads_text = "text" in inputs_of(net)[:1]
    if reads_text:
        lines = read_items(items or [])
    elif items:
        lines = [Line(path, b"") for path in items]
    else:
        raise InputError("no images were given", "give image files")
    if figure is not None and (reads_text or (len(lines) > 1 and figure.suffix)):
        fact = (
            "--figure needs images, and this model reads text"
            if reads_text
            else f"--figure {figure.name} is one file for {len(lines)} images"
        )
        raise InputError(fact, "leave it out" if reads_text else "give a folder")
    if figure is not None:
        _make(figure.parent if figure.suffix else figure)
    pairs = reads_text and reads_pairs(net)

    def guess(item: Line) -> Classification:
        text = item.text if item.data else item.where
        first, tab, second = text.partition("\t")
        return classes(net, (first, second) if pairs and tab else text, top_k=top_k, labels=labels)

    failures = Failures()
    drawn: set[Path] = set()
    for item, guesses in each(lines, lambda item: item.where, guess, failures):
        print(_shown(item.text if item.data else item.where, guesses), flush=True)
        if figure is not None:
            _draw(net, Path(item.where), figure, drawn)
    failures.exit_if_any()


def _shown(name: str, guesses: Classification) -> str:
    if not sys.stdout.isatty():
        warning = f"\t{guesses.warning}" if guesses.warning else ""
        words = (f"{one.word}/{one.label}" if one.word else one.label for one in guesses)
        shown = "  ".join(f"{label} {one.score:.4f}" for label, one in zip(words, guesses, strict=True))
        return f"{name}\t{shown}{warning}"
    if any(one.word for one in guesses):
        return str(guesses)
    return "\n".join([name, *(f"  {line}" for line in str(guesses).splitlines())])


def _draw(net: nn.Module, image: Path, figure: Path, drawn: set[Path]) -> None:
    """Draw to the file `figure`, or to a folder under the image's name, numbered if taken (x/1.png and y/1.png)."""
    from glassformer.cli.output import write_bytes
    from glassformer.figures import to_bytes
    from glassformer.report import important_patches

    names = (image.stem if i == 1 else f"{image.stem}-{i}" for i in count(1))
    target = figure if figure.suffix else next(path for name in names if (path := figure / f"{name}.png") not in drawn)
    if not figure.suffix and target.stem != image.stem:
        print(f"glassformer: {image} was drawn to {target}", file=sys.stderr)
    drawn.add(target)
    write_bytes(to_bytes(important_patches(net, image)), target)


def _make(folder: Path) -> None:
    from glassformer.errors import InputError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be created ({error.strerror})", "choose another place for --figure"
        ) from None
