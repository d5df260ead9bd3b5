"""`glassformer compare`: Transformer, RNN, LSTM, GRU, CNN and MLP side by side, measured here."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from glassformer.lab.comparison import Plan, Results


def compare(
    quick: Annotated[
        bool, typer.Option("--quick", help="The plan of under three minutes that fetches nothing.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="cost, reach, data, streaming or bias; may be repeated; all unless given.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for results; a run that was stopped there goes on.")] = Path(
        "results"
    ),
    from_: Annotated[Path | None, typer.Option("--from", help="Measure nothing: show this file of results.")] = None,
    again: Annotated[
        list[str] | None,
        typer.Option(help="With --from: measure again the units that begin so, such as cost,threads; may be repeated."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a standalone page (HTML) to this file.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Write every figure (PNG) to this folder.")] = None,
    readme: Annotated[
        list[Path] | None,
        typer.Option(help="Put the table or the findings between the markers of this Markdown file; may be repeated."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List what the plan would measure.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
) -> None:
    """Compare architectures on matched budgets: cost, reach, data, streaming, inductive bias."""
    from rich.console import Console

    from glassformer.app.output import require_place
    from glassformer.errors import InputError
    from glassformer.lab import comparison
    from glassformer.lab.comparison.readme import require_markers

    console = Console(width=None if Console().is_terminal else 160)
    if from_ is not None and (quick or only):
        raise InputError("--from came with a plan", "leave --quick and --only out, or --from")
    if again and from_ is None:
        raise InputError("--again came without results", "name their file with --from")
    plan = comparison.load(from_).plan if from_ is not None else _plan(quick, only or [])
    if list_:
        for unit in comparison.units(plan):
            console.print(unit.key, markup=False, highlight=False)
        return
    require_place(report)
    for file in readme or []:
        require_markers(file, plan.tasks)
    path = _carry_out(plan, out, from_, again or []) if from_ is None or again else from_
    results = comparison.load(path)
    _show(console, results, json_)
    if from_ is None or again:
        console.print(f"{path}", style="bold", markup=False, highlight=False)
    _write(results, report, figures, readme or [])


def _plan(quick: bool, only: list[str]) -> Plan:
    from dataclasses import replace

    from glassformer.errors import InputError
    from glassformer.lab import comparison
    from glassformer.lab.comparison.plan import TASKS

    plan = comparison.quick() if quick else comparison.full()
    for task in only:
        if task not in TASKS:
            raise InputError(f"there is no {task!r} to compare", f"choose one of {', '.join(TASKS)}")
    if not only:
        return plan
    tasks = tuple(task for task in TASKS if task in only)
    return replace(plan, name="-".join([plan.name, *tasks]), tasks=tasks)


def _carry_out(plan: Plan, out: Path, from_: Path | None, again: list[str]) -> Path:
    """With a bar that knows how long each unit roughly takes; what a file has, but for `again`, is taken from it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from glassformer.lab.comparison import Step, carry_out, load, reopen

    command = shlex.join(["glassformer", *sys.argv[1:]])
    if from_ is not None:
        before = load(from_)
        reopen(before, out, again)
        command = f"{before.data['command']}; {command}"
    columns = (
        TextColumn("{task.fields[count]}"), BarColumn(), TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.description}"),
    )  # fmt: skip
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, count="")

        def show(step: Step) -> None:
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
    from glassformer.app.output import write, write_bytes
    from glassformer.lab.comparison import drawings, page
    from glassformer.lab.comparison.readme import update

    if report is not None:
        write(page.report(results), report)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for each in drawings.drawings(results):
            write_bytes(figures.save(each.figure), folder / f"{each.name}.png")
    for path in readme:
        update(results, path)
