"""`glassformer lab`: experiments on claims about attention; `glassformer lab 7 --set alpha=3` runs one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import SeedOption

if TYPE_CHECKING:
    from rich.console import Console

    from glassformer.lab import Outcome


def lab(
    claims: Annotated[list[int] | None, typer.Argument(help="Numbers of the claims to test. Defaults to all.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the claims and their parameters.")] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Set a parameter of a single claim. May be given several times."
        ),
    ] = None,
    seed: SeedOption = 0,
    report: Annotated[Path | None, typer.Option(help="Write a self-contained HTML page to this file.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw a single claim to this .png or .svg file.")] = None,
    counterexample: Annotated[
        Path | None, typer.Option(help="Write the counterexample of a single claim to this exercise file.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Ignore cached results, and do not cache new ones.")
    ] = False,
) -> None:
    """Test claims about attention by experiment.

    Each claim has a verdict, a figure and, for most that do not simply hold, a counterexample.
    """
    from rich.console import Console

    from glassformer.cli.output import figure_format, require_writable
    from glassformer.lab import claim, numbers

    console = Console(width=None if Console().is_terminal else 120)
    chosen = list(claims or numbers())
    if list_:
        for number in chosen:
            _list(console, number)
        return
    for number in chosen:
        claim(number)  # an unknown number is refused before anything runs
    changes = _changes(set_ or [])
    _require_one(chosen, {"--set": bool(changes), "--figure": figure, "--counterexample": counterexample})
    kind = figure_format(figure)
    require_writable(report, figure, counterexample)
    outcomes = _run(chosen, seed, changes, not no_cache)
    if json_:
        print(json.dumps([_plain(each) for each in outcomes], ensure_ascii=False, indent=1))
    elif len(outcomes) == 1:
        _one(console, outcomes[0])
    else:
        _table(console, outcomes)
    _write(outcomes, report, figure, kind, counterexample)


def _changes(given: list[str]) -> dict[str, str | int | float]:
    from glassformer.errors import InputError

    changes: dict[str, str | int | float] = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign or not name or not value:
            raise InputError(f"--set {each} is not name=value", "write it as in --set alpha=3")
        if name in ("seed", "keep"):
            raise InputError(f"--set {name}: {name} is not a parameter of a claim", "use --seed, or --no-cache")
        changes[name] = value
    return changes


def _require_one(chosen: list[int], given: dict[str, object]) -> None:
    from glassformer.errors import InputError

    for option, value in given.items():
        if value and len(chosen) != 1:
            raise InputError(
                f"{option} needs a single claim, got {len(chosen)}", f"choose one, as in glassformer lab 7 {option} …"
            )


def _run(chosen: list[int], seed: int, changes: dict[str, str | int | float], keep: bool) -> list[Outcome]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from glassformer.lab import claim, run_claim

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    outcomes = []
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("claims", total=len(chosen))
        for number in chosen:
            bar.update(task, description=f"{number}: {claim(number).name}")
            outcomes.append(run_claim(number, seed=seed, keep=keep, **changes))
            bar.advance(task)
    return outcomes


_COLOURS = {"holds": "green", "holds when": "yellow", "fails": "red"}


def _table(console: Console, outcomes: list[Outcome]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("claim", "", "verdict", "found", "seconds", box=None, header_style="bold")
    for each in outcomes:
        kind = each.verdict.kind
        seconds = "cached" if each.cached else f"{each.seconds:.1f}"
        name = escape(each.experiment.name)
        shown = f"[{_COLOURS[kind]}]{kind}[/]"
        table.add_row(str(each.experiment.number), name, shown, escape(each.verdict.condition), seconds)
    console.print(table)


def _one(console: Console, outcome: Outcome) -> None:
    from glassformer.lab.formula import formula_text
    from glassformer.lab.page import flatten_result

    experiment, verdict = outcome.experiment, outcome.verdict
    say = lambda text, style="": console.print(text, style=style, markup=False, highlight=False)
    say(f"{experiment.number}. {experiment.statement}", "bold")
    say(f"   {formula_text(experiment.formula)}\n")
    say(str(verdict), _COLOURS[verdict.kind])
    say(f"\nmeasured: {experiment.measured}")
    say(f"rule: {verdict.rule}")
    say(f"what would change the verdict: {experiment.falsified_by}")
    if experiment.circumstances:
        say(f"scope: {experiment.circumstances}")
    values = ", ".join(f"{name}={value}" for name, value in outcome.parameters.items())
    say(f"parameters: {values or 'none'}; seed {outcome.seed}{' (cached)' if outcome.cached else ''}\n")
    for name, value in flatten_result(outcome.result):
        say(f"  {name}: {value}")
    example = experiment.counterexample(outcome.result)
    if example is not None:
        say(f"\ncounterexample (an exercise for glassformer solve):\n{example}")


def _list(console: Console, number: int) -> None:
    from glassformer.lab import claim

    experiment = claim(number)
    console.print(f"{number:2} {experiment.statement}", markup=False, highlight=False)
    for name, each in experiment.parameters.items():
        console.print(f"     {name}={each.default}  {each.meaning}", markup=False, highlight=False)


def _plain(outcome: Outcome) -> dict[str, object]:
    return {
        "claim": outcome.experiment.number,
        "statement": outcome.experiment.statement,
        "parameters": outcome.parameters,
        "seed": outcome.seed,
        "verdict": outcome.verdict._asdict(),
        "falsified_by": outcome.experiment.falsified_by,
        "result": outcome.result,
        "seconds": outcome.seconds,
    }


def _write(
    outcomes: list[Outcome], report: Path | None, figure: Path | None, kind: str, counterexample: Path | None
) -> None:
    from glassformer import figures
    from glassformer.cli.output import write, write_bytes
    from glassformer.errors import InputError
    from glassformer.lab import claims_page as page

    first = outcomes[0]
    if counterexample is not None:
        text = first.experiment.counterexample(first.result)
        if text is None:
            raise InputError(f"claim {first.experiment.number} has no counterexample", "leave out --counterexample")
        write(text, counterexample)
    if figure is not None:
        write_bytes(figures.to_bytes(first.experiment.figure(first.result), kind), figure)
    if report is not None:
        write(page(outcomes), report)
