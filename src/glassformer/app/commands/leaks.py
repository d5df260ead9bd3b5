"""`glassformer leaks MODULE:FUNCTION`: what an encoder hears, against what it declares; a leak is exit code 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from torch import nn

    from glassformer.lens import Subject

TARGET = (
    "MODULE:FUNCTION or FILE.py:FUNCTION that makes the encoder (or encoder and stream, or a lens.Subject); "
    "a model that comes with Glassformer, or its folder; or one of: tiny speech, tiny convolution, tiny recurrent, "
    "tiny decoder."
)


def leaks(
    target: Annotated[list[str], typer.Argument(help=TARGET)],
    frames: Annotated[int | None, typer.Option(help="Input frames (or tokens) of the example.")] = None,
    features: Annotated[int | None, typer.Option(help="Numbers in a frame that your encoder takes.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Or, if it takes token ids, how many there are.")] = None,
    lookahead: Annotated[int | None, typer.Option(help="Frames that may be heard after an output's chunk.")] = None,
    left: Annotated[int | None, typer.Option(help="Frames that may be heard before its chunk.")] = None,
    chunk: Annotated[int | None, typer.Option(help="Frames that are heard together.")] = None,
    stride: Annotated[int | None, typer.Option(help="Frames that make an output; measured if not given.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Any look-ahead is allowed.")] = False,
    pieces: Annotated[str, typer.Option(help="Frames at a time that the stream is fed with.")] = "1,3,7",
    seconds: Annotated[float | None, typer.Option(help="The time of one frame.")] = None,
    seed: Annotated[int, typer.Option(help="Of the example and of what is changed in it.")] = 0,
) -> None:
    """Find what an encoder hears that it should not: by changing every frame of its input, and by streaming it."""
    from dataclasses import replace

    from rich.console import Console
    from rich.progress import Progress

    sizes = _sizes(pieces)
    found = _subject(target, frames, features, tokens, seed)
    given = {"lookahead": lookahead, "left": left, "chunk": chunk, "stride": stride}
    declared = replace(found.declared, **{name: value for name, value in given.items() if value is not None})
    if offline:
        declared = replace(declared, lookahead=None)
    found = found._replace(declared=declared, seconds=found.seconds if seconds is None else seconds)
    there = Console(stderr=True)
    with Progress(console=there, transient=True, disable=not there.is_terminal) as bar:
        task = bar.add_task("changing every frame", total=None)
        told = lambda done, total: bar.update(task, completed=done, total=total)
        report = found.find_leaks(pieces=sizes, seed=seed, progress=told)
    typer.echo(str(report))
    if not report.clean:
        raise typer.Exit(1)


def _sizes(pieces: str) -> tuple[int, ...]:
    from glassformer.errors import InputError

    parts = pieces.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"pieces are {pieces!r}", "give sizes of at least 1, as 1,3,7")
    return tuple(int(part) for part in parts)


def _subject(target: list[str], frames: int | None, features: int | None, tokens: int | None, seed: int) -> Subject:
    from glassformer.errors import InputError
    from glassformer.lens import Subject, subject
    from glassformer.tasks.shipped import open_model

    words = " ".join(target)
    if words.startswith(("tiny ", "tiny:")):
        return subject(_tiny(words[len("tiny ") :], seed), frames=frames, seed=seed)
    if len(target) > 1:
        raise InputError(f"there is no encoder {words!r}", "give MODULE:FUNCTION, a model, or tiny speech")
    if ":" not in words:
        return subject(open_model(words), frames=frames, seed=seed)
    made = _made(words)
    if isinstance(made, Subject):
        return made
    encoder, stream = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not callable(encoder):
        fact = f"{words} gave {type(encoder).__name__}"
        raise InputError(fact, "return the encoder, or the encoder and its stream")
    if features is None and tokens is None:
        try:
            known = subject(encoder, frames=frames, seed=seed)
        except InputError:
            fact = f"what {words} takes is not known"
            raise InputError(fact, "say --features (numbers in a frame), or --tokens (how many ids)") from None
        return known if stream is None else known._replace(streaming=stream)
    return _theirs(encoder, stream, 48 if frames is None else frames, features, tokens, seed)


def _theirs(encoder: Any, stream: Any, frames: int, features: int | None, tokens: int | None, seed: int) -> Subject:
    """Noise, or random tokens, in the number type of the encoder's weights."""
    import torch

    from glassformer.errors import InputError
    from glassformer.lens import Declared, Subject

    for name, size, least in (("frames", frames, 4), ("features", features, 1), ("tokens", tokens, 2)):
        if size is not None and size < least:
            raise InputError(f"an example with {name} {size}", f"choose at least {least}")
    generator = torch.Generator().manual_seed(seed)
    if features is None:
        assert tokens is not None
        return Subject(encoder, torch.randint(tokens, (1, frames), generator=generator), Declared(), stream)
    weights = encoder.parameters() if isinstance(encoder, torch.nn.Module) else ()
    like = next((weight for weight in weights if weight.is_floating_point()), torch.zeros(()))
    return Subject(encoder, torch.randn(1, frames, features, generator=generator).to(like), Declared(), stream)


def _tiny(name: str, seed: int) -> nn.Module:
    from glassformer import models
    from glassformer.errors import InputError
    from glassformer.models.speech import Speech
    from glassformer.models.speech import tiny as tiny_speech

    reads = models.Frames(features=8)
    match name:
        case "speech":
            return Speech(tiny_speech(), seed=seed)
        case "convolution":
            return models.ConvNet1d(models.convolutional_sequence.tiny(reads, 4), seed=seed)
        case "recurrent":
            return models.Recurrent(models.recurrent.tiny(reads, 4), seed=seed)
        case "decoder":
            return models.Decoder(models.decoder.tiny(), seed=seed)
    raise InputError(f"there is no tiny {name!r}", "choose speech, convolution, recurrent or decoder")


def _made(target: str) -> Any:
    """What the function of a module, found from here as Python itself would find it, or of a file returns."""
    import importlib
    import importlib.util
    import os
    import sys
    from pathlib import Path

    from glassformer.errors import GlassError, InputError

    place, _, name = target.rpartition(":")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, os.getcwd())
            module = importlib.import_module(place)
        return getattr(module, name)()
    except GlassError:
        raise
    except Exception as error:  # anyone's code
        fact = f"{target} cannot be made ({type(error).__name__}: {error})"
        raise InputError(fact, "give MODULE:FUNCTION of a function without arguments") from error
    finally:
        if not place.endswith(".py") and sys.path and sys.path[0] == os.getcwd():
            sys.path.pop(0)
