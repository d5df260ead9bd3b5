"""`glassformer translate FOLDER lines.txt`: each line in another language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def translate(
    folder: Annotated[Path, typer.Argument(help="A Marian or T5 model's folder.")],
    files: Annotated[list[Path] | None, typer.Argument(help="Texts, one a line; or standard input.")] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Search among so many beginnings (as the folder says).")
    ] = None,
    max_new: Annotated[int | None, typer.Option(min=1, help="At most so many tokens a line.")] = None,
    prefix: Annotated[str, typer.Option(help='Before each line: ">>fra<< ", "translate English to German: ".')] = "",
) -> None:
    """Translate each line; the translations come one a line, in the same order."""
    from glassformer.app.items import Failures, each, read_lines
    from glassformer.checkpoints import load
    from glassformer.tasks import translate as translated

    lines = read_lines(files or [])
    model = load(folder)
    failures = Failures()
    one = lambda text: translated(model, text, beams=beam, max_new=max_new, prefix=prefix)
    for _, text in each(lines, lambda line: line.where, lambda line: one(line.text), failures):
        print(text, flush=True)
    failures.leave()
