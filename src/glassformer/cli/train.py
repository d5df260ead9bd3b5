"""`glassformer train classify photos/ -o mine`: the options are the fields of `TrainArgs`."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import CONFIG_HELP
from glassformer.train.args import DEFAULTS, TrainArgs, flag, help_texts

if TYPE_CHECKING:
    from glassformer.train import Trained

_TYPES = {"int": int, "float": float, "str": str, "bool": bool}
_POSITIONAL = ("task", "data")


def train(ctx: typer.Context, output: Path, config: Path | None, resume: bool, **given: Any) -> None:
    """Train a model on your data.

    The output folder contains a usable model from the first checkpoint on: pass it to the other commands with -m.
    Ctrl-C saves and stops; `glassformer train -o FOLDER --resume` continues, with more or fewer --steps if you like.
    """
    from glassformer.train import run_training
    from glassformer.train.run_folder import resumed_options

    options = TrainArgs.read(config) if config is not None else {}
    typed = {name: value for name, value in given.items() if _was_typed(ctx, name)}
    if "augmentation" in typed:
        typed["augmentation"] = dict(map(_pair, typed["augmentation"]))
    options |= typed
    if resume:
        options = resumed_options(output / "run", options)
    args = TrainArgs.from_dict(options, str(config) if config is not None else "")
    trained = run_training(args, output, resume=resume)
    _report(trained, output)


def _was_typed(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")


def _pair(text: str) -> tuple[str, float]:
    """ "mixup=0.2" → ("mixup", 0.2)."""
    from glassformer.errors import ConfigError

    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise ConfigError(f"--augmentation {text!r} has no strength", "write a name and a number: mixup=0.2") from None


def _report(trained: Trained, output: Path) -> None:
    """Print the metrics, the folder, and finally the command that uses the model."""
    from glassformer.pipelines.loading import as_folder
    from glassformer.train.distributed import is_main_process

    if not is_main_process():
        return
    typer.echo(f"glassformer: {trained}", err=True)
    typer.echo(f"glassformer: curves, classes and mistakes: {output / 'report.html'}", err=True)
    typer.echo(output)
    use = "use it"
    if trained.stopped == "interrupted":
        typer.echo(f"glassformer: continue the run: glassformer train -o {output} --resume", err=True)
        use = "the model so far"
    typer.echo(f"glassformer: {use}: glassformer {trained.args.task} … -m {as_folder(output)}", err=True)


def _parameters() -> list[inspect.Parameter]:
    """The parameters of the command: the fields of `TrainArgs`, then the folder, the config file and --resume."""
    texts, made = help_texts(), []
    for one in fields(TrainArgs):
        kind: Any = str(one.type).split(" | ")[0]
        default = DEFAULTS[one.name]
        if one.name in _POSITIONAL:
            option: Any = typer.Argument(help=texts[one.name], show_default=False)
            annotation: Any = Annotated[str | None, option]
        elif one.name == "augmentation":
            option = typer.Option("--augmentation", metavar="NAME=STRENGTH", help=texts[one.name], show_default=False)
            annotation, default = Annotated[list[str] | None, option], None
        elif one.name == "betas":
            annotation = Annotated[tuple[float, float], typer.Option("--betas", help=texts[one.name])]
        elif kind == "bool":
            names = (flag(one.name), f"--no-{flag(one.name)[2:]}") if default else (flag(one.name),)
            annotation = Annotated[bool, typer.Option("/".join(names), help=texts[one.name])]
        else:
            option = typer.Option(flag(one.name), help=texts[one.name], show_default=default is not None)
            annotation = Annotated[_TYPES[kind] | None if default is None else _TYPES[kind], option]
        made.append(inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    own: dict[str, tuple[Any, Any]] = {
        "output": (Path, typer.Option("--output", "-o", help="Folder for the model, its checkpoints and its logs.")),
        "config": (
            Path | None,
            typer.Option("--config", metavar="FILE.yaml", help=CONFIG_HELP),
        ),
        "resume": (bool, typer.Option("--resume", help="Continue the run in the output folder.")),
    }
    defaults = {"output": inspect.Parameter.empty, "config": None, "resume": False}
    for name, (kind, option) in own.items():
        annotation = Annotated[kind, option]
        parameter = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=annotation
        )
        made.append(parameter)
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    return [context, *made]


train.__signature__ = inspect.Signature(_parameters())  # type: ignore[attr-defined]
train.__annotations__ = {one.name: one.annotation for one in _parameters()}
