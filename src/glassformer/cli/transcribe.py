"""`glassformer transcribe talk.wav`: the text of a recording with timestamps; `--live` transcribes a stream."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from glassformer.cli.options import ConfigOption, DeviceOption, EngineOption, ModelOption, PrecisionOption, load_model

if TYPE_CHECKING:
    from torch import nn

Format = Literal["text", "plain", "srt", "json"]


def transcribe(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Recordings of any length: WAV, FLAC or OGG files.")
    ] = None,
    model: ModelOption = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Transcribe while speech arrives: raw 16-bit PCM from a pipe, or the microphone."),
    ] = False,
    sample_rate: Annotated[
        int | None, typer.Option(min=1000, help="Sample rate of live audio in Hz. Defaults to 16000.")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Spoken language, for example en. Whisper detects it if it is not given.")
    ] = None,
    task: Annotated[
        Literal["transcribe", "translate"],
        typer.Option(help="Whisper's task: transcribe, or translate into English."),
    ] = "transcribe",
    timestamps: Annotated[bool, typer.Option(help="Find the start and end of each segment.")] = True,
    format_: Annotated[
        Format,
        typer.Option("--format", "-f", help="Output format. plain omits timestamps; srt is not available with --live."),
    ] = "text",
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    engine: EngineOption = "torch",
    config: ConfigOption = None,
) -> None:
    """Transcribe recordings, or live audio with --live."""
    from glassformer.errors import InputError

    if live:
        if files or language or task == "translate":
            raise InputError(
                "--live takes no files, --language or --task translate", "leave them out, or leave out --live"
            )
        if not timestamps:
            raise InputError("--live always computes timestamps", "leave out --no-timestamps, or use --format plain")
        _warn_about_default_model(model)
        net = load_model(model, verb="transcribe", device=device, precision=precision, engine=engine)
        _live(net, sample_rate or 16_000, format_)
    elif sample_rate is not None:
        raise InputError(
            f"--sample-rate {sample_rate} needs --live", "leave it out: audio files state their own sample rate"
        )
    elif not files:
        raise InputError("no recordings were given", "give audio files, or use --live")
    else:
        _warn_about_default_model(model)
        _files(
            files,
            load_model(model, verb="transcribe", device=device, precision=precision, engine=engine),
            language,
            task,
            timestamps,
            format_,
        )


def _warn_about_default_model(model: str | None) -> None:
    """Warn that the default model, the shipped listener, transcribes poorly."""
    from glassformer.pipelines.transcribe import DEMONSTRATION

    if model is None:
        print(f"glassformer: {DEMONSTRATION}", file=sys.stderr)


def _files(
    files: list[Path],
    net: nn.Module,
    language: str | None,
    task: Literal["transcribe", "translate"],
    timestamps: bool,
    form: Format,
) -> None:
    from glassformer.cli.items import Failures, each
    from glassformer.pipelines import Transcript
    from glassformer.pipelines import transcribe as transcribe_file

    def transcript(path: Path) -> Transcript:
        return transcribe_file(net, path, language=language, task=task, timestamps=timestamps)

    failures = Failures()
    for path, found in each(files, str, transcript, failures):
        if len(files) > 1 and form != "json":
            print(f"# {path}")
        print(_shown(path, found, form), flush=True)
    failures.exit_if_any()


def _live(net: nn.Module, rate: int, form: Format) -> None:
    """Print each word as soon as it is final; Ctrl-C ends the audio."""
    from glassformer.errors import InputError
    from glassformer.pipelines import Word, transcribe_stream
    from glassformer.pipelines.speech.microphone import incoming, until_interrupted

    if form == "srt":
        raise InputError("--format srt needs a whole recording", "use text, plain or json with --live")

    def show(word: Word) -> None:
        if form == "json":
            print(json.dumps(word._asdict(), ensure_ascii=False), flush=True)
        elif form == "text":
            print(f"{word.start:7.2f} – {word.end:7.2f}  {word.text}", flush=True)
        else:
            print(word.text, end=" ", flush=True)

    for word in transcribe_stream(net, until_interrupted(incoming(rate)), rate=rate):
        show(word)
    if form == "plain":
        print(flush=True)


def _shown(path: Path, found: object, form: Format) -> str:
    from glassformer.pipelines import Transcript

    assert isinstance(found, Transcript)
    if form == "json":
        segments = [segment._asdict() for segment in found.segments]
        return json.dumps({"file": str(path), "text": found.text, "segments": segments}, ensure_ascii=False)
    if form == "plain":
        return found.text
    if form == "srt":
        times = lambda one: f"{_clock(one.start)} --> {_clock(one.end)}"
        return "\n".join(f"{i}\n{times(one)}\n{one.text}\n" for i, one in enumerate(found.segments, 1))
    return "\n".join(f"{one.start:7.2f} – {one.end:7.2f}  {one.text}" for one in found.segments)


def _clock(seconds: float) -> str:
    """Format a time as SRT does: 00:01:02,340."""
    thousandths = round(seconds * 1000)
    minutes, rest = divmod(thousandths, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02},{rest % 1000:03}"
