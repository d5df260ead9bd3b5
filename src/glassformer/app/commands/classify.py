"""`glassformer classify cat.png dog.png`: the likeliest classes of images, or of lines of text."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.app.choice import ModelOption, chosen

if TYPE_CHECKING:
    from torch import nn

    from glassformer.tasks import Guess


def classify(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Images; for a model of text, files of lines, or standard input.")
    ] = None,
    model: ModelOption = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many classes to show.")] = 5,
    label: Annotated[list[str] | None, typer.Option(help="CLIP: a text that may fit; may be repeated.")] = None,
    look: Annotated[
        Path | None, typer.Option(help="Draw the patches that mattered: a .png for one image, a folder for several.")
    ] = None,
) -> None:
    """Print the k likeliest classes: with bars on a terminal, one item a line elsewhere."""
    from glassformer.app.items import Failures, Line, each, read_lines
    from glassformer.errors import InputError
    from glassformer.models import Encoder
    from glassformer.tasks import classify as classes

    net = chosen(model, "classify")
    if isinstance(net, Encoder):
        items = read_lines(files or [])
    elif files:
        items = [Line(str(path), b"") for path in files]
    else:
        raise InputError("there are no images", "name their files")
    if look is not None and (isinstance(net, Encoder) or (len(items) > 1 and look.suffix)):
        fact = "--look with lines of text" if isinstance(net, Encoder) else f"one {look.name} for {len(items)} images"
        raise InputError(fact, "leave it out" if isinstance(net, Encoder) else "name a folder")
    if look is not None:
        _make(look.parent if look.suffix else look)
    guess = lambda item: classes(net, item.text if item.data else item.where, k=k, labels=label)
    failures = Failures()
    drawn: set[Path] = set()
    for item, guesses in each(items, lambda item: item.where, guess, failures):
        print(_shown(item.text if item.data else item.where, guesses), flush=True)
        if look is not None:
            _draw(net, Path(item.where), look, drawn)
    failures.leave()


def _shown(name: str, guesses: list[Guess]) -> str:
    if not sys.stdout.isatty():
        return f"{name}\t" + "  ".join(f"{one.label} {one.probability:.4f}" for one in guesses)
    wide = max(len(one.label) for one in guesses)
    rows = (f"  {one.label:{wide}}  {one.probability:6.1%}  {'█' * round(40 * one.probability)}" for one in guesses)
    return "\n".join([name, *rows])


def _draw(net: nn.Module, image: Path, look: Path, drawn: set[Path]) -> None:
    """Into `look`, or under the image's name in it; one that is `drawn` already gets a number: x/1.png and y/1.png."""
    from glassformer.app.looked import looked_at
    from glassformer.app.output import write_bytes
    from glassformer.figures import save

    names = (image.stem if i == 1 else f"{image.stem}-{i}" for i in count(1))
    target = look if look.suffix else next(path for name in names if (path := look / f"{name}.png") not in drawn)
    if not look.suffix and target.stem != image.stem:
        print(f"glassformer: {image} is drawn in {target}", file=sys.stderr)
    drawn.add(target)
    write_bytes(save(looked_at(net, image)), target)


def _make(folder: Path) -> None:
    from glassformer.errors import InputError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error.strerror})", "choose another place for --look") from None
