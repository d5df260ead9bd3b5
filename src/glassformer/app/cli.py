"""The command line: `glassformer COMMAND …`. A user's mistake is one line on stderr and exit code 2."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import typer

from glassformer import __version__
from glassformer.app.commands import COMMANDS
from glassformer.errors import GlassError


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"glassformer {__version__}")
        raise typer.Exit


def build() -> typer.Typer:
    app = typer.Typer(
        name="glassformer",
        help="The see-through Transformer: attention from the arithmetic on paper to models that run.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def options(
        version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    ) -> None:
        pass

    for name in COMMANDS:
        module = importlib.import_module(f"glassformer.app.commands.{name.replace('-', '_')}")
        command = getattr(module, name.replace("-", "_"))
        if isinstance(command, typer.Typer):  # a group: `glassformer data fetch`
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


UsageError: Any = typer.BadParameter.__bases__[0]  # an option or command that is wrong; typer does not export it


def main() -> None:
    code = 0
    try:
        try:
            code = build()(standalone_mode=False) or 0  # else typer would tell mistakes itself, in a box of many lines
        finally:
            sys.stdout.flush()  # here, where a reader that has left can be met: at exit it is too late
    except GlassError as error:
        print(f"glassformer: {error}", file=sys.stderr)
        sys.exit(2)
    except UsageError as error:
        told = " ".join(error.format_message().split()).rstrip(".")
        command = error.ctx.command_path if error.ctx is not None else "glassformer"
        print(f"glassformer: {told} (see {command} --help)", file=sys.stderr)
        sys.exit(2)
    except typer.Abort:
        sys.exit(1)
    except BrokenPipeError:  # `glassformer … | head` has what it wanted; typer, too, ends quietly with 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(code)


if __name__ == "__main__":
    main()
