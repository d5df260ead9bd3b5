"""Reports as plain data (a title and sections of texts, tables, images and details) and as HTML pages."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from matplotlib.figure import Figure

from glassformer import figures
from glassformer.errors import InputError
from glassformer.templates import render

DPI = 92


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; a note is visually set apart."""

    text: str
    note: bool = False
    kind: Literal["text"] = "text"


@dataclass(frozen=True)
class TableBlock:
    """A table of cells, formatted for display."""

    header: list[str]
    rows: list[list[str]]
    kind: Literal["table"] = "table"


@dataclass(frozen=True)
class Image:
    """A base64-encoded PNG with its size in pixels and alternative text."""

    png: str
    alt: str
    width: int
    height: int
    kind: Literal["image"] = "image"


@dataclass(frozen=True)
class Details:
    """Trusted markup from this package, collapsed under a summary."""

    summary: str
    html: str
    kind: Literal["details"] = "details"


Block = Paragraph | TableBlock | Image | Details


@dataclass(frozen=True)
class Section:
    """A heading and the blocks below it."""

    name: str
    blocks: list[Block]

    @property
    def anchor(self) -> str:
        """The heading's id in the page."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.name.lower())


@dataclass(frozen=True)
class Report:
    """Report of a model running on one input, section by section.

    A notebook displays it as a page; `save("report.html")` writes that page, which needs no network and no scripts.
    """

    title: str
    sections: list[Section]
    run: Any = field(default=None, compare=False, repr=False)  # (model, inputs), for gf.show

    def html(self) -> str:
        """Return the self-contained page."""
        return render("report.html", report=self)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-serialisable values."""
        return {"title": self.title, "sections": [asdict(section) for section in self.sections]}

    def save(self, path: str | Path) -> Path:
        """Write the page to an .html file."""
        path = Path(path)
        if path.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"a report cannot be saved as {path.name!r}", "end the name in .html")
        try:
            path.write_text(self.html(), encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path} cannot be written ({error.strerror})", "choose another place") from None
        return path

    def _repr_html_(self) -> str:
        """Return the page in an iframe, so that its style does not affect the notebook."""
        return render("frame.html", page=self.html(), title=self.title)

    def __repr__(self) -> str:
        return f"<Report {self.title!r}: {', '.join(section.name for section in self.sections)}>"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> TableBlock:
    """Create a table, converting each cell to text."""
    return TableBlock(list(header), [[str(cell) for cell in row] for row in rows])


def embed_figure(fig: Figure, alt: str, *, photo: bool = False) -> Image:
    """Embed a figure in a page; a `photo` keeps all of its colours."""
    data = base64.b64encode(figures.to_bytes(fig, dpi=DPI, few_colours=not photo)).decode()
    width, height = (round(side * DPI) for side in fig.get_size_inches())
    return Image(data, alt, width, height)
