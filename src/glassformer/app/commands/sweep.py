"""`glassformer sweep MODEL CLEAN CORRUPTED`: which heads carry the difference between two texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.app.choice import LENS, opened

if TYPE_CHECKING:
    from torch import Tensor, nn

    from glassformer.lens import Sweep


def sweep(
    model: Annotated[str, typer.Argument(help=LENS)],
    clean: Annotated[str, typer.Argument(help="The text whose answer is wanted.")],
    corrupted: Annotated[str, typer.Argument(help="A text of as many tokens with another answer.")],
    answer: Annotated[str | None, typer.Option(help="The clean text's answer; the model's own unless given.")] = None,
    wrong: Annotated[str | None, typer.Option(help="The corrupted text's; the model's own unless given.")] = None,
    at: Annotated[int, typer.Option(help="The position whose logits are read; the last is -1.")] = -1,
    site: Annotated[str, typer.Option(help="What is patched: H, A, Q, K, V by head; X, R, O by token; paths.")] = "H",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Draw it to this file: .png or .svg.")] = None,
) -> None:
    """Patch each head's output from the clean text into the corrupted one: how much of the answer comes back?"""
    from rich.console import Console
    from rich.progress import Progress

    from glassformer import lens
    from glassformer.app.output import require_place
    from glassformer.app.tokens import name_of, tokens_of, words_beside

    kind = _kind(output)
    require_place(output)
    net, _ = opened(model)
    words = words_beside(net)
    texts = tokens_of(net, clean), tokens_of(net, corrupted)
    right, other = _answers(net, texts, (answer, wrong), at)
    there = Console(stderr=True)
    with Progress(console=there, transient=True, disable=not there.is_terminal) as bar:
        task = bar.add_task("patching", total=None)
        made = lens.sweep(
            net,
            *texts,
            lambda out: (logits := _logits(net, out, at))[right] - logits[other],
            site=site,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    console = Console(width=None if Console().is_terminal else 160)
    names = name_of(words, right), name_of(words, other)
    console.print(f"metric: logit of {names[0]!r} − logit of {names[1]!r} at position {at}", markup=False)
    console.print(made)
    if output is not None:
        _draw(made, output, kind, [name_of(words, int(token)) for token in texts[1][0]])


def _kind(output: Path | None) -> str:
    from glassformer.errors import InputError

    kind = "png" if output is None else output.suffix.removeprefix(".")
    if kind not in ("png", "svg"):
        raise InputError(f"a picture cannot be {output}", "end its name in .png or .svg")
    return kind


def _logits(model: nn.Module, out: Tensor, at: int) -> Tensor:
    """Over the vocabulary, at one position of the one text."""
    from glassformer.errors import InputError
    from glassformer.models import Encoder

    if not -out.shape[1] <= at < out.shape[1]:
        raise InputError(f"there is no position {at} in {out.shape[1]} tokens", f"choose up to {out.shape[1] - 1}")
    return model.words(out[0, at]) if isinstance(model, Encoder) else out[0, at]


def _answers(
    model: nn.Module, texts: tuple[Tensor, Tensor], given: tuple[str | None, str | None], at: int
) -> tuple[int, int]:
    """The first token of each answer that is given; else the one the model finds likeliest."""
    import torch

    from glassformer.app.tokens import name_of, words_beside
    from glassformer.errors import InputError
    from glassformer.models import Decoder, Encoder

    if not isinstance(model, Decoder | Encoder):
        raise InputError(f"a {type(model).__name__} has no words to answer with", "sweep a decoder or encoder of text")
    found = []
    for ids, text in zip(texts, given, strict=True):
        with torch.no_grad():
            logits = _logits(model, model(ids), at)
        token = int(logits.argmax()) if text is None else _first(model, text)
        if token >= len(logits):
            raise InputError(f"token {token} is not among the {len(logits)} known", f"use 0 to {len(logits) - 1}")
        found.append(token)
    if found[0] == found[1]:
        both = name_of(words_beside(model), found[0])
        raise InputError(f"both texts have the answer {both!r}", "name two with --answer and --wrong")
    return found[0], found[1]


def _first(model: nn.Module, text: str) -> int:
    """The first token of an answer; of " she" some words make the space alone and then what was meant."""
    from glassformer.app.tokens import name_of, tokens_of, words_beside

    words, tokens = words_beside(model), tokens_of(model, text, special=False)[0].tolist()
    return int(next((token for token in tokens if name_of(words, token).strip(" ▁")), tokens[0]))


def _draw(made: Sweep, output: Path, kind: str, tokens: list[str]) -> None:
    from glassformer import figures
    from glassformer.app.output import write_bytes

    layers = [path.rpartition(".")[0].removesuffix(".attention") for path in made.paths]
    places = None if made.axis == "head" else tokens
    write_bytes(figures.save(figures.patching_sweep(made.recovered.numpy(), layers, places), kind), output)
