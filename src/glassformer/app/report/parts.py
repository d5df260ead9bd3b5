"""Pieces of the page: tables, pictures inside it, and its look."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

from matplotlib.figure import Figure

from glassformer import figures

STYLE = """
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
h2 { border-top: 1px solid #8884; padding-top: .8rem; margin-top: 2rem }
figure { margin: 1rem 0; overflow-x: auto }
img { max-width: 100%; background: #fff }
table { border-collapse: collapse; font-size: .85rem; display: block; overflow-x: auto }
th, td { text-align: left; padding: .1rem .7rem .1rem 0; white-space: nowrap }
th { border-bottom: 1px solid #8888 }
.note { border-left: .3rem solid #c60; padding-left: .7rem }
summary { cursor: pointer }
nav a { margin-right: 1rem }
"""
DPI = 92


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def picture(fig: Figure, says: str, *, photo: bool = False) -> str:
    """The figure inside the page, and what it shows for those who do not see it; a `photo` keeps all its colours."""
    data = base64.b64encode(figures.save(fig, dpi=DPI, few_colours=not photo)).decode()
    wide, high = (round(side * DPI) for side in fig.get_size_inches())
    size = f'width="{wide}" height="{high}" style="height:auto"'
    return f'<figure><img {size} alt="{escape(says)}" src="data:image/png;base64,{data}"></figure>'


def section(name: str, *body: str) -> str:
    """A heading with a place to go to; nothing if there is nothing to show."""
    inside = "\n".join(part for part in body if part)
    return f'<h2 id="{place(name)}">{escape(name)}</h2>\n{inside}' if inside else ""


def contents(names: Iterable[str]) -> str:
    return "<nav>" + "".join(f'<a href="#{place(name)}">{escape(name)}</a>' for name in names) + "</nav>"


def place(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())


def says(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def folded(summary: str, body: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"
