"""`glassformer construct shift --by 2`: attention weights with a given behaviour, and a certificate of their error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import TRACEABLE, ConfigOption, DeviceOption, PrecisionOption, SeedOption, load_model

if TYPE_CHECKING:
    from glassformer.lens.construct import Constructed


def construct(
    behaviour: Annotated[
        str, typer.Argument(help="Behaviour to construct: identity, permutation, shift, previous-token or convolution.")
    ],
    parameters: Annotated[
        list[str] | None,
        typer.Argument(
            help='Order of a permutation, such as 3,1,2, or kernel of a convolution, such as "[1,2,1]/4" or "3x3 blur".'
        ),
    ] = None,
    by: Annotated[int | None, typer.Option(help="Number of tokens to shift by. Defaults to 1.")] = None,
    size: Annotated[str, typer.Option(help="Number of tokens, for example 16, or 8x8 for a grid.")] = "",
    channels: Annotated[int, typer.Option(min=1, help="Number of channels of each token.")] = 1,
    edges: Annotated[
        str | None,
        typer.Option(help="Padding beyond the edges: zero, wrap, hold or renormalised. Defaults to zero."),
    ] = None,
    code: Annotated[str, typer.Option(help="Positional encoding: one-hot, quadratic or sinusoidal.")] = "one-hot",
    beta: Annotated[
        list[float] | None,
        typer.Option(metavar="<float>", help="Value of β to measure at. May be given several times."),
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Error for which the required β is reported.")] = 1e-6,
    seed: SeedOption = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the weights at the largest β to this safetensors file.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help=f"Also find the heads of a model that are closest to the behaviour. {TRACEABLE}"
        ),
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Text to run a text model on. May be given several times.")
    ] = None,
    image: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Image to run an image model on. May be given several times."),
    ] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    config: ConfigOption = None,
) -> None:
    """Construct attention that shifts, permutes or convolves. Its measured error is certified against a bound."""
    from rich.console import Console

    from glassformer.cli.output import require_writable
    from glassformer.errors import InputError
    from glassformer.lens.behaviour import read_behaviour, read_size
    from glassformer.lens.construct import BETAS, build, certify
    from glassformer.report import closest_heads

    require_writable(output)
    routing = read_behaviour(behaviour, parameters or [], by=by, channels=channels, edges=edges, seed=seed)
    betas = beta or list(BETAS)
    if any(b < 0 for b in betas):
        raise InputError(f"--beta must be at least 0, got {min(betas):g}", "choose 0 or more")
    near = None
    if model is not None:
        net = load_model(model, device=device, precision=precision)
        near = closest_heads(net, routing, text or [], image or [])
    made = build(routing, read_size(size, routing), beta=max(betas), kind=code)
    console = Console()
    console.print(certify(made, betas, tolerance=tolerance, seed=seed))
    if output is not None:
        _save(made, output)
    if near is not None:
        console.print(near)


def _save(made: Constructed, path: Path) -> None:
    from safetensors.torch import save

    from glassformer.cli.output import write_bytes

    about = {
        "behaviour": made.routing.name,
        "size": "x".join(map(str, made.size)),
        "edges": made.routing.edges,
        "code": made.kind,
        "beta": repr(made.attention.beta),
    }
    write_bytes(save({name: part.contiguous() for name, part in made.state_dict().items()}, about), path)
