"""Options that several commands share: `--model`, `--device`, `--config`, `--output`, `--seed`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from torch import nn

    from glassformer.models.protocols import Verb

Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["fp32", "bf16", "int8", "auto"]
EngineName = Literal["torch", "onnxruntime", "openvino"]


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make the file's values the defaults of the command's other options."""
    if path is not None:
        context.default_map = {**(context.default_map or {}), **config_values(context, path)}
    return path


def config_values(context: typer.Context, path: Path) -> dict[str, Any]:
    """Return the values of a YAML file by parameter name; raises ConfigError for a key that is not an option."""
    import yaml

    from glassformer.cli.suggest import suggest
    from glassformer.errors import ConfigError

    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ConfigError(
            f"--config {path} cannot be read ({reason})", "write a YAML file with one option: value per line"
        ) from None
    if not isinstance(values, dict):
        raise ConfigError(f"--config {path} contains no options", "write one option: value per line")
    names = {option.lstrip("-"): p.name for p in context.command.params for option in p.opts if p.name != "config"}
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = names.get(str(key).replace("_", "-"))
        if name is None:
            better = suggest(str(key), [f"--{known}" for known in names], {}).replace("--", "")
            raise ConfigError(
                f"--config {path}: {key!r} is not an option of {context.info_name}", better or "remove it"
            )
        found[name] = value
    return found


CONFIG_HELP = "Read options from this YAML file. Options on the command line take precedence."

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", "-m",
        help="Model to use: the name of a shipped or fetched model, or a folder. Defaults to the shipped model for "
        "this command.",
    ),
]  # fmt: skip
DeviceOption = Annotated[
    Device, typer.Option(help="Device to run the model on. auto chooses a GPU if one is available.")
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(help="Precision of matrix products. auto chooses the fastest that agrees with fp32 on this machine."),
]
EngineOption = Annotated[
    EngineName,
    typer.Option(
        help="Engine that runs the Transformer blocks. onnxruntime needs the extra onnx, openvino the extra openvino; "
        "both compute in fp32."
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.yaml", is_eager=True, callback=_read_config,
        help=CONFIG_HELP,
    ),
]  # fmt: skip
SeedOption = Annotated[int, typer.Option(min=0, help="Random seed.")]

MODEL = "Model to use: the name of a shipped or fetched model, or a folder."
TRACEABLE = (
    "Name of a shipped or fetched model, a folder, or tiny:KIND for a small model with random "
    "weights, where KIND is decoder, encoder, seq2seq, vit, hybrid, clip, "
    "speech, whisper, convolution, recurrent or recurrent-seq2seq."
)


def load_model(
    model: str | None,
    *,
    verb: Verb | None = None,
    device: Device = "auto",
    precision: Precision = "fp32",
    engine: EngineName = "torch",
    seed: int = 0,
) -> nn.Module:
    """Load a model that supports `verb`, by default the one that is shipped for it."""
    from glassformer.models.protocols import require
    from glassformer.pipelines.loading import DEFAULTS, load

    name = DEFAULTS[verb or ""] if model is None else model
    net = load(name, device=device, precision=precision, engine=engine, seed=seed)
    if verb:
        require(net, verb)  # once, not for every item
    return net
