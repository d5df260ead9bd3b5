"""The command line: `glassformer COMMAND …`. A user's mistake is one line on stderr and exit code 2."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import typer

from glassformer import __version__
from glassformer.cli import COMMANDS
from glassformer.cli.suggest import suggest
from glassformer.errors import GlassError


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"glassformer {__version__}")
        raise typer.Exit


def build() -> typer.Typer:
    """The application with all of its commands."""
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
        module = importlib.import_module(f"glassformer.cli.{name.replace('-', '_')}")
        command = getattr(module, name.replace("-", "_"))
        if isinstance(command, typer.Typer):  # a group: `glassformer data fetch`
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def commands(group: Any = None, path: str = "") -> dict[str, Any]:
    """Every command by its path, such as "data fetch", as an object with `params`."""
    group = typer.main.get_command(build()) if group is None else group
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        found |= commands(command, f"{path}{name} ") if hasattr(command, "commands") else {f"{path}{name}": command}
    return found


def long_options(command: Any) -> list[str]:
    """The long options of a command, `--no-` forms included."""
    names = (name for p in command.params for name in (*p.opts, *p.secondary_opts))
    return [name for name in names if name.startswith("--")]


UsageError: Any = typer.BadParameter.__bases__[0]  # an option or command that is wrong; typer does not export it


def _explain(error: Any) -> str:
    """One line for a wrong command, option or value; an unknown option comes with the right one."""
    path = error.ctx.command_path if error.ctx is not None else "glassformer"
    option = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and option is not None:
        if len(option) == 2:  # of -lr only -l was read
            option = next((word for word in sys.argv[1:] if word.startswith(option)), option).partition("=")[0]
        others = {name: long_options(command) for name, command in commands().items()}
        better = suggest(option, [*long_options(error.ctx.command), "--help"], others)
        return f"no such option {option}{better and ': '}{better} (see {path} --help)"
    message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    return f"{message[:1].lower()}{message[1:]} (see {path} --help)"


def main() -> None:
    """Runs the command line of this process and exits with its code."""
    code = 0
    try:
        try:
            code = build()(prog_name="glassformer", standalone_mode=False) or 0  # typer would print mistakes in a box
        finally:
            sys.stdout.flush()  # here, where a closed pipe can be handled: at exit it is too late
    except GlassError as error:
        print(f"glassformer: {error}", file=sys.stderr)
        sys.exit(2)
    except UsageError as error:
        print(f"glassformer: {_explain(error)}", file=sys.stderr)
        sys.exit(2)
    except typer.Abort:
        sys.exit(1)
    except BrokenPipeError:  # `glassformer … | head` has what it wanted; typer, too, ends quietly with 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(code)


if __name__ == "__main__":
    main()
