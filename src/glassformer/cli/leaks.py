"""`glassformer leaks MODULE:FUNCTION`: the receptive field of a streaming encoder, compared with its declaration."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.options import ConfigOption, DeviceOption, PrecisionOption, SeedOption

TARGET = (
    "Encoder to test: MODULE:FUNCTION or FILE.py:FUNCTION that returns it (or the encoder and its stream), a model's "
    "name or folder, or tiny:speech, tiny:convolution, tiny:recurrent or tiny:decoder."
)


def leaks(
    target: Annotated[str, typer.Argument(help=TARGET)],
    frames: Annotated[int | None, typer.Option(help="Number of input frames, or tokens, of the example.")] = None,
    features: Annotated[int | None, typer.Option(help="Number of features per frame that your encoder takes.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Vocabulary size, if your encoder takes token ids.")] = None,
    lookahead: Annotated[
        int | None, typer.Option(help="Number of frames after an output's chunk that it may depend on.")
    ] = None,
    left_context: Annotated[
        int | None, typer.Option(help="Number of frames before an output's chunk that it may depend on.")
    ] = None,
    chunk_size: Annotated[int | None, typer.Option(help="Number of frames per chunk.")] = None,
    stride: Annotated[
        int | None, typer.Option(help="Number of input frames per output. Measured if it is not given.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Allow any lookahead.")] = False,
    stream_chunks: Annotated[
        str, typer.Option(help="Chunk sizes, in frames, in which the input is streamed; comma-separated.")
    ] = "1,3,7",
    frame_seconds: Annotated[float | None, typer.Option(help="Duration of one frame in seconds.")] = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    config: ConfigOption = None,
) -> None:
    """Find inputs that an encoder depends on but should not. Perturbs every frame, and streams the input.

    Exits with code 1 if there is a leak.
    """
    from dataclasses import replace

    from rich.console import Console
    from rich.progress import Progress

    from glassformer.errors import InputError
    from glassformer.lens.leak_target import leak_target

    if offline and lookahead is not None:
        raise InputError(f"--lookahead {lookahead} and --offline were both given", "give one of them")
    sizes = _sizes(stream_chunks)
    found = leak_target(
        target, frames=frames, features=features, tokens=tokens, device=device, precision=precision, seed=seed
    )
    given = {"lookahead": lookahead, "left": left_context, "chunk": chunk_size, "stride": stride}
    declared = replace(found.declared, **{name: value for name, value in given.items() if value is not None})
    if offline:
        declared = replace(declared, lookahead=None)
    found = found._replace(declared=declared, seconds=found.seconds if frame_seconds is None else frame_seconds)
    there = Console(stderr=True)
    with Progress(console=there, transient=True, disable=not there.is_terminal) as bar:
        task = bar.add_task("perturbing every frame", total=None)
        update = lambda done, total: bar.update(task, completed=done, total=total)
        report = found.run(pieces=sizes, seed=seed, progress=update)
    typer.echo(str(report))
    if not report.clean:
        raise typer.Exit(1)


def _sizes(text: str) -> tuple[int, ...]:
    from glassformer.errors import InputError

    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise InputError(
            f"--stream-chunks {text!r} is not a list of sizes", "give sizes of at least 1, for example 1,3,7"
        )
    return tuple(int(part) for part in parts)
