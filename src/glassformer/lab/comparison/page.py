"""The standalone HTML page of a comparison."""

from __future__ import annotations

import base64
from statistics import median

from glassformer.figures import to_bytes
from glassformer.lab.comparison.figures import figures
from glassformer.lab.comparison.results import Results
from glassformer.lab.comparison.tables import tables
from glassformer.templates import render


def comparison_page(results: Results) -> str:
    """Render every figure and table of the results as one page without scripts or external files."""
    shown = [(each.caption, base64.b64encode(to_bytes(each.figure)).decode("ascii")) for each in figures(results)]
    return render("compare.html", figures=shown, tables=tables(results), setup=setup(results))


def setup(results: Results) -> list[tuple[str, str]]:
    """Return the machine, the duration and the load of the run."""
    loads = [unit["load"] for unit in results.units]
    data = results.data
    return [
        *((name, str(value)) for name, value in data["card"].items()),
        ("command", ", ".join(results.commands)),
        ("first measurement", f"{data['began']} UTC"),
        ("last measurement", f"{data['ended']} UTC"),
        ("duration", f"{data['seconds'] / 60:.1f} minutes, {data['cpu'] / 60:.1f} of processor time"),
        ("load", f"{min(loads)} to {max(loads)}, median {median(loads):.2f}"),
        ("seeds", ", ".join(map(str, results.plan.seeds))),
    ]
