"""Pieces of the page: tables, pictures inside it, and its look."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Sequence
from html import escape, unescape

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
APART = 4  # so many pictures are worth a second process


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


def pictures(made: Sequence[tuple[Figure, str]]) -> list[str]:
    """`picture` of each, the second half in another process: drawing is most of what a large page takes.

    The child draws and nothing else (no tensors, whose threads do not live on after a fork); if it fails, all is drawn
    here.
    """
    apart = made[len(made) // 2 :] if len(made) >= APART and hasattr(os, "fork") and (os.cpu_count() or 1) > 1 else []
    if not apart:
        return [picture(fig, says) for fig, says in made]
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        code = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "w", encoding="utf-8") as out:
                json.dump([picture(fig, says) for fig, says in apart], out)
            code = 0
        finally:
            os._exit(code)  # nothing of the parent's is closed or flushed twice
    os.close(writing)
    here = [picture(fig, says) for fig, says in made[: len(made) - len(apart)]]
    with os.fdopen(reading, encoding="utf-8") as told:
        text = told.read()
    _, status = os.waitpid(child, 0)
    there = json.loads(text) if status == 0 else [picture(fig, says) for fig, says in apart]
    return [*here, *there]


def section(name: str, *body: str) -> str:
    """A heading with a place to go to; nothing if there is nothing to show."""
    inside = "\n".join(part for part in body if part)
    return f'<h2 id="{place(name)}">{escape(name)}</h2>\n{inside}' if inside else ""


def under(name: str, part: str) -> str:
    """A section's heading with the name of what it belongs to before it."""
    heading = re.match("<h2[^>]*>([^<]*)</h2>\n", part)
    return part if not name or heading is None else section(f"{name}: {unescape(heading[1])}", part[heading.end() :])


def contents(names: Iterable[str]) -> str:
    return "<nav>" + "".join(f'<a href="#{place(name)}">{escape(name)}</a>' for name in names) + "</nav>"


def place(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())


def says(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def folded(summary: str, body: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"
