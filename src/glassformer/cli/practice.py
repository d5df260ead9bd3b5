"""`glassformer practice`: fresh exercises with keys, as sheets or one step at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glassformer.exercises.exercise import Exercise


def practice(
    tokens: Annotated[int, typer.Option(help="Number of tokens, 1 to 8.")] = 3,
    width: Annotated[int, typer.Option(help="Width of each token, 1 to 8.")] = 2,
    heads: Annotated[int, typer.Option(help="Number of heads, 1 to 4.")] = 1,
    topic: Annotated[
        str, typer.Option(help="Topic: attention, beta, mask, heads, cross, layernorm, patches or transport.")
    ] = "attention",
    level: Annotated[str, typer.Option(help="Difficulty: easy, medium or hard.")] = "medium",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    sheets: Annotated[int, typer.Option(help="Number of different sheets.")] = 1,
    format_: Annotated[
        str, typer.Option("--format", "-f", help="Output format: markdown, latex, html or text.")
    ] = "markdown",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write sheets, answer keys and exercise files to.")
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Practise one step at a time, with hints.")
    ] = False,
) -> None:
    """Generate exercises with small numbers and their answer keys, or practise one step at a time."""
    from glassformer.errors import InputError
    from glassformer.exercises import practice as make

    if not 1 <= sheets <= 1000:
        raise InputError(f"{sheets} sheets", "ask for 1 to 1000")
    spec = make.ExerciseSpec(topic=topic, level=level, tokens=tokens, width=width, heads=heads)  # type: ignore[arg-type]
    if interactive:
        from glassformer.cli.drill import drill

        drill(make.sheets(spec, seed, sheets))
        return
    made = make.sheets(spec, seed, sheets)
    if output is None:
        typer.echo("\n".join(make.sheet(exercise, format_) for exercise in made), nl=False)
        return
    _write(made, format_, output)


def _write(made: list[Exercise], form: str, folder: Path) -> None:
    from glassformer.cli.output import write
    from glassformer.errors import InputError
    from glassformer.exercises import practice as make
    from glassformer.exercises.practice.sheet import ENDINGS

    if form not in ENDINGS:
        raise InputError(f"sheets cannot be made as {form!r}", f"choose one of {', '.join(ENDINGS)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error.strerror})", "choose another folder") from None
    digits = max(2, len(str(len(made))))
    for i, exercise in enumerate(made, 1):
        number = str(i).zfill(digits)
        write(make.sheet(exercise, form), folder / f"sheet-{number}.{ENDINGS[form]}")
        write(make.key(exercise, form), folder / f"key-{number}.{ENDINGS[form]}")
        write(make.dump(exercise), folder / f"exercise-{number}.yaml")
    typer.echo(f"{len(made)} sheets with keys in {folder}")
