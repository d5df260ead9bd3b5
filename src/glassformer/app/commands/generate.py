"""`glassformer generate "Once upon a time"`: text, as it comes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from glassformer.app.choice import ModelOption, chosen


def generate(
    prompts: Annotated[
        list[str] | None, typer.Argument(metavar="[PROMPT]...", help="Or lines of standard input.")
    ] = None,
    model: ModelOption = None,
    max_new: Annotated[
        int | None, typer.Option(help="At most so many new tokens (256, or what the context holds).")
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", "-t", help="0 is greedy.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(help="Only the k likeliest tokens.")] = None,
    top_p: Annotated[float, typer.Option(help="Only the fewest likeliest that reach this probability.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="Only those at least so likely, as a share of the likeliest.")] = 0.0,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1, less is said twice.")] = 1.0,
    beam: Annotated[int, typer.Option(min=1, help="Search among so many beginnings.")] = 1,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="Of sampling.")] = 0,
    system: Annotated[str, typer.Option(help="A chat's first message, from the system.")] = "",
    raw: Annotated[
        bool, typer.Option("--raw", help="Go on from the text, even if the model has a chat template.")
    ] = False,
) -> None:
    """Write on from a text, or answer in a chat if the model has a template for it."""
    from glassformer.app.items import Failures, Line, each, read_lines
    from glassformer.errors import InputError
    from glassformer.tasks import Message, stream

    if raw and system:
        raise InputError("--system without a chat", "leave out --raw or --system")
    lines = [Line(f"prompt {i}", text.encode()) for i, text in enumerate(prompts or [], 1)] or read_lines([])
    net = chosen(model, "generate")
    failures = Failures()

    def answer(line: Line) -> None:
        messages = [Message(role="system", content=system), Message(role="user", content=line.text)]
        pieces = stream(
            net,
            messages if system else line.text,
            max_new=max_new,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            beams=beam,
            stop=tuple(stop or ()),
            seed=seed,
            chat=False if raw else None,
        )
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write("\n")

    for _ in each(lines, lambda line: line.where, answer, failures):
        pass
    failures.leave()
