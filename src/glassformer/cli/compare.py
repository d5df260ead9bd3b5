"""`glassformer compare`: Transformer, RNN, LSTM, GRU, CNN and MLP, measured side by side on this machine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from glassformer.lab.comparison import ComparisonPlan, Results


def compare(
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a short plan of a few minutes that needs no downloads.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART", help="Run only this part: cost, reach, data, streaming or bias. May be given several times."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the results. An interrupted run in it is resumed.")
    ] = Path("results"),
    from_: Annotated[Path | None, typer.Option("--from", help="Show this results file instead of measuring.")] = None,
    reuse: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Take over the measurements of this results file that have the same settings, and measure the rest. "
            "May be given several times.",
        ),
    ] = None,
    again: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Repeat the measurements of --from whose names start with this, such as cost,threads. "
            "May be given several times.",
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a self-contained HTML page to this file.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Write every figure as PNG to this folder.")] = None,
    readme: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Update the table or findings between the markers of this Markdown file. May be given several times.",
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the measurements of the plan without running them.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
) -> None:
    """Compare architectures of the same size. Measures cost, reach, data efficiency, streaming and bias."""
    from rich.console import Console

    from glassformer.cli.output import require_writable
    from glassformer.errors import InputError
    from glassformer.lab import comparison
    from glassformer.lab.comparison.tables import require_markers

    console = Console(width=None if Console().is_terminal else 160)
    if from_ is not None and (quick or only):
        raise InputError("--from cannot be combined with --quick or --only", "leave out one of them")
    if from_ is not None and reuse:
        raise InputError("--from cannot be combined with --reuse", "leave out one of them")
    if again and from_ is None:
        raise InputError("--again needs --from FILE", "give the results file with --from")
    plan = comparison.load_results(from_).plan if from_ is not None else _plan(quick, only or [])
    if list_:
        for unit in comparison.units(plan):
            console.print(unit.key, markup=False, highlight=False)
        return
    require_writable(report)
    for file in readme or []:
        require_markers(file)
    reused = reuse or ([from_] if from_ is not None else [])
    path = _carry_out(plan, output, reused, again or []) if from_ is None or again else from_
    results = comparison.load_results(path)
    _show(console, results, json_)
    if from_ is None or again:
        console.print(f"{path}", style="bold", markup=False, highlight=False)
    _write(results, report, figures, readme or [])


def _plan(quick: bool, only: list[str]) -> ComparisonPlan:
    from dataclasses import replace

    from glassformer.errors import InputError
    from glassformer.lab import comparison
    from glassformer.lab.comparison.plan import TASKS

    plan = comparison.quick() if quick else comparison.full()
    for task in only:
        if task not in TASKS:
            raise InputError(f"--only {task!r} is not a part of the comparison", f"choose one of {', '.join(TASKS)}")
    if not only:
        return plan
    tasks = tuple(task for task in TASKS if task in only)
    return replace(plan, name="-".join([plan.name, *tasks]), tasks=tasks)


def _carry_out(plan: ComparisonPlan, out: Path, reused: list[Path], again: list[str]) -> Path:
    """Run the plan with a progress bar; units that a results file already has are reused, except `again`."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from glassformer.lab.comparison import RunProgress, carry_out, reuse

    command = shlex.join(["glassformer", *sys.argv[1:]])
    if reused:
        reuse(plan, reused, out, again=again)
    columns = (
        TextColumn("{task.fields[count]}"), BarColumn(), TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.description}"),
    )  # fmt: skip
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, count="")

        def show(step: RunProgress) -> None:
            count = f"{step.done + 1}/{step.of}"
            bar.update(task, total=step.weight, completed=step.weight_done, description=step.unit.key, count=count)

        return carry_out(plan, out, command=command, show=show)


def _show(console: Console, results: Results, json_: bool) -> None:
    import json

    from rich.markup import escape
    from rich.table import Table

    from glassformer.lab.comparison import tables

    made = tables.tables(results)
    if json_:
        print(json.dumps([each._asdict() for each in made], ensure_ascii=False, indent=1))
        return
    for each in made:
        table = Table(*map(escape, each.head), box=None, header_style="bold", title=each.title, title_justify="left")
        for row in each.rows:
            table.add_row(*map(escape, row))
        console.print(table)
        console.print(each.note, style="dim", markup=False, highlight=False)
        console.print()


def _write(results: Results, report: Path | None, folder: Path | None, readme: list[Path]) -> None:
    from glassformer import figures
    from glassformer.cli.output import write, write_bytes
    from glassformer.lab.comparison import figures as drawn
    from glassformer.lab.comparison import page
    from glassformer.lab.comparison.tables import update

    if report is not None:
        write(page.comparison_page(results), report)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for each in drawn.figures(results):
            write_bytes(figures.to_bytes(each.figure), folder / f"{each.name}.png")
    for path in readme:
        update(results, path)
