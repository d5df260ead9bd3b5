"""`glassformer transcribe FOLDER speech.wav`: what was said, and when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer


def transcribe(
    folder: Annotated[Path, typer.Argument(help="A Whisper model's folder.")],
    files: Annotated[list[Path], typer.Argument(help="Recordings: WAV, FLAC, OGG, of any length.")],
    language: Annotated[str | None, typer.Option(help="en, fr, …; heard if not given.")] = None,
    translate: Annotated[bool, typer.Option("--translate", help="Into English.")] = False,
    timestamps: Annotated[bool, typer.Option(help="Find out when each piece was said.")] = True,
    format_: Annotated[str, typer.Option("--format", "-f", help="text (with times), plain, srt or json.")] = "text",
) -> None:
    """Transcribe recordings; long ones in windows of 30 s."""
    from glassformer.app.items import Failures, each
    from glassformer.checkpoints import load
    from glassformer.errors import InputError
    from glassformer.tasks import Transcribed
    from glassformer.tasks import transcribe as heard

    if format_ not in ("text", "plain", "srt", "json"):
        raise InputError(f"there is no format {format_!r}", "choose text, plain, srt or json")
    model = load(folder)
    def listen(path: Path) -> Transcribed:
        task: Literal["translate", "transcribe"] = "translate" if translate else "transcribe"
        return heard(model, path, language=language, task=task, timestamps=timestamps)

    failures = Failures()
    for path, found in each(files, str, listen, failures):
        if len(files) > 1 and format_ != "json":
            print(f"# {path}")
        print(_shown(path, found, format_), flush=True)
    failures.leave()


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
