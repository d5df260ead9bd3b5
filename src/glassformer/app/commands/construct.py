"""`glassformer construct shift --by 2`: attention with weights that do it, and a certificate of how exactly."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.app.choice import LENS, opened

if TYPE_CHECKING:
    from glassformer.lens.construct import Constructed, Edges, Routing
    from glassformer.models import Hybrid, ViT

_BEHAVIOURS = ("identity", "permutation", "shift", "previous-token", "convolution")


def construct(
    behaviour: Annotated[str, typer.Argument(help=f"{', '.join(_BEHAVIOURS)}.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(help='3,1,2 for a permutation; "[1,2,1]/4", "3x3 blur" or "3x3 [[…]]" for a convolution.'),
    ] = None,
    by: Annotated[int | None, typer.Option(help="shift: how many tokens back each looks (1).")] = None,
    size: Annotated[str, typer.Option(help="How many tokens: 16, or 8x8 for a grid.")] = "",
    channels: Annotated[int, typer.Option(min=1, help="How wide each token is.")] = 1,
    edges: Annotated[
        str | None, typer.Option(help="What lies outside: zero (unless given), wrap, hold or renormalised.")
    ] = None,
    code: Annotated[str, typer.Option(help="How places are known: one-hot, quadratic or sinusoidal.")] = "one-hot",
    beta: Annotated[list[float] | None, typer.Option(help="Measure at this β; may be repeated.")] = None,
    tolerance: Annotated[float, typer.Option(help="Say which β this error needs.")] = 1e-6,
    seed: Annotated[int, typer.Option(help="Of the tokens it is measured on, and of a random kernel.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the weights, at the largest β, as safetensors.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Which heads of this model come nearest? " + LENS)] = None,
    text: Annotated[list[str] | None, typer.Option(help="Text for that model to read; may be repeated.")] = None,
    image: Annotated[
        list[str] | None, typer.Option(help="A picture for that model to see, by 2-D behaviour; may be repeated.")
    ] = None,
) -> None:
    """Build attention that shifts, permutes or convolves exactly, and certify it: measured error against the bound."""
    from rich.console import Console

    from glassformer.app.output import require_place
    from glassformer.errors import InputError
    from glassformer.lens.construct import BETAS, build, certify

    require_place(output)
    routing = _routing(behaviour, words or [], by, channels, edges, seed)
    betas = beta or list(BETAS)
    if any(b < 0 for b in betas):
        raise InputError(f"β is {min(betas):g}", "choose 0 or more")
    near = None if model is None else _nearest(model, text or [], image or [], routing)
    made = build(routing, _size(size, routing), beta=max(betas), kind=code)
    console = Console()
    console.print(certify(made, betas, tolerance=tolerance, seed=seed))
    if output is not None:
        _save(made, output)
    if near is not None:
        console.print(near)


def _routing(
    behaviour: str, words: list[str], by: int | None, channels: int, edges: str | None, seed: int
) -> Routing:
    from typing import cast

    from glassformer.errors import InputError
    from glassformer.lens import construct as c

    kept = cast("Edges", edges or "zero")  # Routing checks it
    unused = {
        words[0] if words else "": ("permutation", "convolution"),
        f"--by {by}" if by is not None else "": ("shift",),
        f"--edges {edges}" if edges is not None else "": ("shift", "previous-token", "convolution"),
    }
    for option, takers in unused.items():
        if option and behaviour in _BEHAVIOURS and behaviour not in takers:
            raise InputError(f"{behaviour} takes no {option}", "leave it out")
    match behaviour:
        case "identity":
            return c.identity(channels=channels)
        case "permutation":
            found = re.fullmatch(r"\d+([\s,]+\d+)*", " ".join(words))
            if found is None:
                raise InputError(f"{' '.join(words)!r} is no permutation", "give the order as 3,1,2")
            return c.permutation([int(i) for i in re.findall(r"\d+", found[0])], channels=channels)
        case "shift":
            return c.shift(1 if by is None else by, channels=channels, edges=kept)
        case "previous-token":
            return c.previous_token(channels=channels, edges=kept)
        case "convolution":
            kernel = c.read_kernel(words, channels=channels, seed=seed)
            return c.convolution(kernel, channels=channels, edges=kept)
    raise InputError(f"there is no behaviour {behaviour!r}", f"choose one of {', '.join(_BEHAVIOURS)}")


def _size(text: str, routing: Routing) -> int | tuple[int, ...]:
    from glassformer.errors import InputError

    if not text:
        return len(routing.order) if routing.order is not None else (16 if routing.dims == 1 else 8)
    if not re.fullmatch(r"\d+([x×]\d+)?", text):
        raise InputError(f"a size of {text!r}", "give 16, or 8x8 for a grid")
    sizes = tuple(int(k) for k in re.split("[x×]", text))
    return sizes[0] if len(sizes) == 1 else sizes


def _save(made: Constructed, path: Path) -> None:
    from safetensors.torch import save

    from glassformer.app.output import write_bytes

    about = {
        "behaviour": made.routing.name,
        "size": "x".join(map(str, made.size)),
        "edges": made.routing.edges,
        "code": made.kind,
        "beta": repr(made.attention.beta),
    }
    write_bytes(save({name: part.contiguous() for name, part in made.state_dict().items()}, about), path)


def _nearest(name: str, texts: list[str], pictures: list[str], routing: Routing) -> object:
    from glassformer.app.tokens import tokens_of
    from glassformer.errors import InputError
    from glassformer.lens import nearest_heads
    from glassformer.models import Decoder, Encoder, Hybrid, ViT

    model, _ = opened(name)
    if isinstance(model, ViT | Hybrid):
        return _nearest_on_grid(model, texts, pictures, routing)
    if not isinstance(model, Decoder | Encoder):
        raise InputError(f"{name} holds a {type(model).__name__}", "compare with a model of text or of pictures")
    if not texts or pictures:
        fact = "there is no text for the model to read" if not texts else f"it reads text, and cannot see {pictures[0]}"
        raise InputError(fact, "give some with --text")
    return nearest_heads(model, [tokens_of(model, text) for text in texts], routing)


def _nearest_on_grid(model: ViT | Hybrid, texts: list[str], pictures: list[str], routing: Routing) -> object:
    from glassformer.app.report import see
    from glassformer.errors import InputError
    from glassformer.lens import nearest_heads
    from glassformer.models import ViTConfig

    if texts or not pictures:
        raise InputError(f"a {type(model).__name__} sees pictures", "give some with --image, and no --text")
    seen = [see(model, [path]) for path in pictures]
    c, grid = model.config, seen[0].grid
    prefix = c.prefix + c.registers if isinstance(c, ViTConfig) else 0
    return nearest_heads(
        model, [x for one in seen for x in one.inputs], routing, size=grid if routing.dims == 2 else None, prefix=prefix
    )
