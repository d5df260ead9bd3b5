"""The command line: `glassformer COMMAND …`. A user's mistake is one line on stderr and exit code 2."""

from __future__ import annotations

import importlib
import os
import re
import sys
from typing import Any

import typer

from glassformer import __version__
from glassformer.cli import COMMANDS
from glassformer.cli.suggest import suggest
from glassformer.errors import GlassError
from glassformer.malloc import keep_freed_memory


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"glassformer {__version__}")
        raise typer.Exit


def build_app(*names: str) -> typer.Typer:
    """Build the application with these commands, by default with all of them."""
    app = typer.Typer(
        name="glassformer",
        help="The see-through Transformer: attention from the arithmetic on paper to models that run.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # two columns, which leave room for the help texts in 80 columns
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def options(
        version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    ) -> None:
        pass

    for name in names or COMMANDS:
        module = importlib.import_module(f"glassformer.cli.{name.replace('-', '_')}")
        command = getattr(module, name.replace("-", "_"))
        if isinstance(command, typer.Typer):  # a group: `glassformer data fetch`
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def commands(group: Any = None, path: str = "") -> dict[str, Any]:
    """Return every command by its path, such as "data fetch", as an object with `params`."""
    group = typer.main.get_command(build_app()) if group is None else group
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        found |= commands(command, f"{path}{name} ") if hasattr(command, "commands") else {f"{path}{name}": command}
    return found


def long_options(command: Any) -> list[str]:
    """Return the long options of a command, including `--no-` forms."""
    names = (name for p in command.params for name in (*p.opts, *p.secondary_opts))
    return [name for name in names if name.startswith("--")]


UsageError: Any = typer.BadParameter.__bases__[0]  # click's UsageError, which typer does not export


def _explain(error: Any) -> str:
    """Describe a usage error in one line, with a suggestion for an unknown option."""
    path = error.ctx.command_path if error.ctx is not None else "glassformer"
    option = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and option is not None:
        if len(option) == 2:  # typer reads -lr as -l
            option = next((word for word in sys.argv[1:] if word.startswith(option)), option).partition("=")[0]
        others = {name: long_options(command) for name, command in commands().items()}
        better = suggest(option, [*long_options(error.ctx.command), "--help"], others)
        return f"no such option {option}{better and ': '}{better} (see {path} --help)"
    message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    message = re.sub(r"Input should be a valid (\w+).*", r"it must be a valid \1", message)
    if "unexpected extra argument" in message and path.endswith(" train"):  # the shell has expanded a pattern
        message += (
            ": give one source of data: a folder, a file, a pattern of files in quotes, "
            "or two files with corresponding lines as corpus.en,corpus.fr"
        )
    return f"{message[:1].lower()}{message[1:]} (see {path} --help)"


def main() -> None:
    """Run the command line of this process and exit with its code."""
    code = 0
    called = [word for word in sys.argv[1:2] if word in COMMANDS]  # building all commands takes a tenth of a second
    if called != ["serve"]:  # a server keeps none until it loads a model
        keep_freed_memory()
    try:
        try:
            # outside standalone mode typer raises errors instead of printing them in a box
            words = sys.argv[1:] or ["--help"]
            code = build_app(*called)(words, prog_name="glassformer", standalone_mode=False) or 0
        finally:
            sys.stdout.flush()  # a closed pipe can be handled here, but not at exit
    except GlassError as error:
        print(f"glassformer: {error}", file=sys.stderr)
        sys.exit(2)
    except UsageError as error:
        print(f"glassformer: {_explain(error)}", file=sys.stderr)
        sys.exit(2)
    except typer.Abort:
        sys.exit(1)
    except BrokenPipeError:  # `glassformer … | head`: exit quietly with 1, as typer does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(code)


if __name__ == "__main__":
    main()
