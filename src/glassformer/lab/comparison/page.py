"""A standalone page of a comparison: its figures, tables and circumstances, from its file of results alone."""

from __future__ import annotations

import base64
from html import escape

from glassformer.figures import save
from glassformer.lab.comparison.drawings import drawings
from glassformer.lab.comparison.results import Results
from glassformer.lab.comparison.tables import Table, tables
from glassformer.worked.render.page import STYLE, page

_STYLE = (
    STYLE
    + """
img { max-width: 100%; background: white }
table { border-collapse: collapse } td, th { padding: .15rem .6rem; text-align: left; vertical-align: top }
td:not(:first-child) { font-variant-numeric: tabular-nums }
"""
)


def report(results: Results) -> str:
    """The page: no script, nothing fetched, every figure inside it."""
    pictures = [
        f'<figure><img alt="{escape(each.says)}" src="data:image/png;base64,'
        f'{base64.b64encode(save(each.figure)).decode("ascii")}"><figcaption>{escape(each.says)}</figcaption></figure>'
        for each in drawings(results)
    ]
    body = [*pictures, *(_table(each) for each in tables(results)), _circumstances(results)]
    return page("Architectures side by side, measured", "\n".join(body), _STYLE)


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return (
        f"<section><h2>{escape(table.title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        f"<p>{escape(table.note)}</p></section>"
    )


def circumstances(results: Results) -> list[tuple[str, str]]:
    """The machine's card, how long it took, and how busy the machine was."""
    loads = sorted(unit["load"] for unit in results.units)
    data = results.data
    return [
        *((name, str(value)) for name, value in data["card"].items()),
        ("command", data["command"]),
        ("began", f"{data['began']} UTC"),
        ("took", f"{data['seconds'] / 60:.1f} minutes, {data['cpu'] / 60:.1f} of them on a core"),
        (
            "load while it ran",
            f"{loads[0]} to {loads[-1]}, median {loads[len(loads) // 2]} (other work shared the cores)",
        ),
        ("seeds", ", ".join(map(str, results.plan.seeds))),
    ]


def _circumstances(results: Results) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in circumstances(results)
    )
    return f"<section><h2>Circumstances</h2><table>{rows}</table></section>"
