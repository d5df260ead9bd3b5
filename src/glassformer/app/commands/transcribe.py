"""`glassformer transcribe talk.wav`: what was said, and when; with --live, while it is being said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from glassformer.app.choice import ModelOption, chosen

if TYPE_CHECKING:
    from torch import nn

FORMATS = ("text", "plain", "srt", "json")


def transcribe(
    files: Annotated[list[Path] | None, typer.Argument(help="Recordings: WAV, FLAC, OGG, of any length.")] = None,
    model: ModelOption = None,
    live: Annotated[
        bool, typer.Option("--live", help="Words as they are spoken: raw PCM (s16le) from a pipe, or a microphone.")
    ] = False,
    rate: Annotated[int | None, typer.Option(min=1000, help="Samples a second of live sound; 16,000.")] = None,
    language: Annotated[str | None, typer.Option(help="en, fr, …; heard if not given (Whisper).")] = None,
    translate: Annotated[bool, typer.Option("--translate", help="Into English (Whisper).")] = False,
    timestamps: Annotated[bool, typer.Option(help="Find out when each piece was said.")] = True,
    format_: Annotated[
        str, typer.Option("--format", "-f", help="text (with times), plain, srt or json; live: text, plain or json.")
    ] = "text",
) -> None:
    """Transcribe recordings, or listen."""
    from glassformer.errors import InputError

    if format_ not in FORMATS:
        raise InputError(f"there is no format {format_!r}", f"choose {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if live:
        if files or language or translate:
            raise InputError("live sound has no files, language or translation", "leave them out, or leave out --live")
        if not timestamps:
            raise InputError("live words always have their times", "leave out --no-timestamps, or choose -f plain")
        _live(chosen(model, "transcribe"), rate or 16_000, format_)
    elif rate is not None:
        raise InputError(f"a rate of {rate} without --live", "leave it out: a file says its own")
    elif not files:
        raise InputError("there is nothing to transcribe", "name sound files, or listen with --live")
    else:
        _files(files, chosen(model, "transcribe"), language, translate, timestamps, format_)


def _files(
    files: list[Path], net: nn.Module, language: str | None, translate: bool, timestamps: bool, form: str
) -> None:
    from glassformer.app.items import Failures, each
    from glassformer.tasks import Transcribed
    from glassformer.tasks import transcribe as heard

    def listen(path: Path) -> Transcribed:
        task: Literal["translate", "transcribe"] = "translate" if translate else "transcribe"
        return heard(net, path, language=language, task=task, timestamps=timestamps)

    failures = Failures()
    for path, found in each(files, str, listen, failures):
        if len(files) > 1 and form != "json":
            print(f"# {path}")
        print(_shown(path, found, form), flush=True)
    failures.leave()


def _live(net: nn.Module, rate: int, form: str) -> None:
    """A word as soon as it is final; Ctrl-C is the end of the sound."""
    from glassformer.app.microphone import incoming, until_interrupted
    from glassformer.errors import InputError
    from glassformer.tasks import Word, listen

    if form == "srt":
        raise InputError("subtitles need the whole recording", "choose text, plain or json while live")

    def tell(word: Word) -> None:
        if form == "json":
            print(json.dumps(word._asdict(), ensure_ascii=False), flush=True)
        elif form == "text":
            print(f"{word.start:7.2f} – {word.end:7.2f}  {word.text}", flush=True)
        else:
            print(word.text, end=" ", flush=True)

    for word in listen(net, until_interrupted(incoming(rate)), rate=rate):
        tell(word)
    if form == "plain":
        print(flush=True)


def _shown(path: Path, found: object, form: str) -> str:
    from glassformer.tasks import Transcribed

    assert isinstance(found, Transcribed)
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
    """00:01:02,340."""
    thousandths = round(seconds * 1000)
    minutes, rest = divmod(thousandths, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02},{rest % 1000:03}"
