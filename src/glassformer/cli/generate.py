"""`glassformer generate "Once upon a time"`: text, printed as it is generated."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from glassformer.cli.options import (
    ConfigOption,
    DeviceOption,
    EngineOption,
    ModelOption,
    PrecisionOption,
    SeedOption,
    load_model,
)


def generate(
    prompts: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="Prompts to continue. Defaults to the lines of standard input."),
    ] = None,
    model: ModelOption = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of tokens to generate. Defaults to 256, or what fits the context."),
    ] = None,
    temperature: Annotated[
        float, typer.Option("--temperature", "-t", min=0, help="Sampling temperature; 0 decodes greedily.")
    ] = 0.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample from the k most likely tokens only.")] = None,
    top_p: Annotated[
        float, typer.Option(help="Sample from the smallest set of tokens whose probability reaches this value.")
    ] = 1.0,
    min_p: Annotated[
        float, typer.Option(help="Discard tokens less likely than this fraction of the most likely token.")
    ] = 0.0,
    repetition_penalty: Annotated[
        float | None,
        typer.Option(help="Values above 1 discourage repetition. Defaults to the model's generation config."),
    ] = None,
    num_beams: Annotated[
        int | None,
        typer.Option(min=1, help="Number of beams; 1 disables beam search. Defaults to the model's generation config."),
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Stop before this text. May be given several times.")
    ] = None,
    seed: SeedOption = 0,
    system: Annotated[str, typer.Option(help="System message that opens the chat.")] = "",
    chat: Annotated[
        bool | None,
        typer.Option(help="Apply the model's chat template to the prompt. Defaults to yes if the model has one."),
    ] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    engine: EngineOption = "torch",
    config: ConfigOption = None,
) -> None:
    """Continue a text, or answer if the model has a chat template."""
    from glassformer.cli.items import Failures, Line, each, read_lines
    from glassformer.errors import InputError
    from glassformer.pipelines import Message, stream

    if chat is False and system:
        raise InputError("--system needs a chat", "leave out --no-chat or --system")
    lines = [Line(f"prompt {i}", text.encode()) for i, text in enumerate(prompts or [], 1)] or read_lines([])
    net = load_model(model, verb="generate", device=device, precision=precision, engine=engine)
    failures = Failures()

    def answer(line: Line) -> None:
        messages = [Message(role="system", content=system), Message(role="user", content=line.text)]
        pieces = stream(
            net,
            messages if system else line.text,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            num_beams=num_beams,
            stop=tuple(stop or ()),
            seed=seed,
            chat=chat,
        )
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write("\n")

    for _ in each(lines, lambda line: line.where, answer, failures):
        pass
    failures.exit_if_any()
