"""`glassformer translate "Good morning."` or `translate lines.txt`: each line in another language."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.app.choice import ModelOption, chosen
from glassformer.app.items import ITEMS

if TYPE_CHECKING:
    from glassformer.tasks import Aligned


def translate(
    items: Annotated[list[str] | None, typer.Argument(help=ITEMS)] = None,
    model: ModelOption = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Search among so many beginnings (as the folder says).")
    ] = None,
    max_new: Annotated[int | None, typer.Option(min=1, help="At most so many tokens a line.")] = None,
    prefix: Annotated[str, typer.Option(help='Before each line: ">>fra<< ", "translate English to German: ".')] = "",
    align: Annotated[bool, typer.Option("--align", help="And which source word each word looked at.")] = False,
    figure: Annotated[Path | None, typer.Option(help="Draw the alignment of the one text to this .png.")] = None,
) -> None:
    """Translate each line; the translations come one a line, in the same order: an empty one where there is none."""
    from glassformer.app.items import Failures, progress, read_items
    from glassformer.errors import GlassError, InputError
    from glassformer.tasks import aligned
    from glassformer.tasks import translate as translated

    lines = read_items(items or [], empty=True)
    texts = sum(bool(line.data.strip()) for line in lines)
    if figure is not None and texts > 1:
        raise InputError(f"one figure for {texts} texts", "translate one of them with --figure")
    net = chosen(model, "translate")
    options: dict[str, Any] = {"beams": beam, "max_new": max_new, "prefix": prefix}
    failures = Failures()

    def one(text: str) -> str:
        if not align and figure is None:
            return " ".join(str(translated(net, text, **options)).splitlines())  # a line, whatever the model says
        found = aligned(net, text, **options)
        if figure is not None:
            _draw(found, figure)
        return "\n".join([found.text, *_looks(found)]) if align else found.text

    for line in progress(lines):
        said = ""  # so that what comes out stands beside what went in
        try:
            said = one(line.text) if line.data.strip() else ""
        except GlassError as error:
            failures.tell(line.where, error)
        print(said, flush=True)
    failures.leave()


def _looks(found: Aligned) -> list[str]:
    """target ← source, how much, word by word."""
    wide = max(map(len, found.target), default=0)
    rows = zip(found.target, found.looks, found.A, strict=True)
    return [f"  {word:{wide}} ← {found.source[i]}  {float(A[i]):.2f}" for word, i, A in rows]


def _draw(found: Aligned, path: Path) -> None:
    from glassformer.app.output import write_bytes
    from glassformer.figures import alignment, save

    write_bytes(save(alignment(found.A.numpy(), found.source, found.target, title=found.text)), path)
