"""`glassformer classify FOLDER cat.png dog.png`: the likeliest classes of images, or of lines of text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def classify(
    folder: Annotated[Path, typer.Argument(help="A model's folder.")],
    files: Annotated[
        list[Path] | None, typer.Argument(help="Images; for a model of text, files of lines, or standard input.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many classes to show.")] = 5,
    label: Annotated[list[str] | None, typer.Option(help="CLIP: a text that may fit; may be repeated.")] = None,
) -> None:
    """Print the k likeliest classes with their probabilities, one item a line."""
    from glassformer.app.items import Failures, Line, each, read_lines
    from glassformer.checkpoints import load
    from glassformer.errors import InputError
    from glassformer.models import Encoder
    from glassformer.tasks import classify as classes

    model = load(folder)
    if isinstance(model, Encoder):
        items = read_lines(files or [])
    elif files:
        items = [Line(str(path), b"") for path in files]
    else:
        raise InputError("there are no images", "name their files")
    guess = lambda item: classes(model, item.text if item.data else item.where, k=k, labels=label)
    failures = Failures()
    for item, guesses in each(items, lambda item: item.where, guess, failures):
        shown = "  ".join(f"{one.label} {one.probability:.4f}" for one in guesses)
        print(f"{item.text if item.data else item.where}\t{shown}", flush=True)
    failures.leave()
