"""sound → text with times: Whisper in windows of 30 s, each read from where the last one's speech ended; a CTC model
word by word as it would be heard live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from glassformer.core.audio import MelConfig, whisper_log_mel
from glassformer.decoding import Answer, Stopping, generate
from glassformer.errors import InputError
from glassformer.models import ConvNet1d, Recurrent, Speech, Whisper
from glassformer.tasks.hearing import TICK, Codes, Listener, codes_of
from glassformer.tasks.live import listen
from glassformer.tasks.reading import Word
from glassformer.tasks.sound import read_sound
from glassformer.tasks.tokenize import Words, words_of

MEL = MelConfig()
SILENCE, UNSURE = 0.6, -1.0  # a window is left out if it is likely empty, and its words are unlikely
APART = 0.6  # seconds between two words that begin a new segment


class Segment(NamedTuple):
    """What was said from `start` to `end`, in seconds."""

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class Transcribed:
    """`language` is empty for a model of one language."""

    segments: tuple[Segment, ...]
    language: str = ""

    @property
    def text(self) -> str:
        return " ".join(segment.text.strip() for segment in self.segments)


def transcribe(
    model: nn.Module,
    sound: str | Path | Tensor,
    *,
    language: str | None = None,
    task: Literal["transcribe", "translate"] = "transcribe",
    timestamps: bool = True,
) -> Transcribed:
    """What a file, or samples at 16 kHz, say. A model of many languages hears which it is unless told.

    A CTC model (`Speech`, or a causal `Recurrent` or `ConvNet1d` that was saved with its symbols) has one language; its
    text is that of `listen`, whatever the pieces. Without `timestamps` a window is one segment, of a CTC model all is.
    """
    if not isinstance(model, Whisper | Speech | Recurrent | ConvNet1d):
        remedy = "load a Whisper, or a recogniser that was saved with its symbols"
        raise InputError(f"a {type(model).__name__} does not transcribe", remedy)
    wave = sound if isinstance(sound, Tensor) else read_sound(sound)
    if wave.dim() != 1 or not len(wave):
        raise InputError(f"sound of shape {tuple(wave.shape)}", "give (samples,), at least one")
    if not isinstance(model, Whisper):
        if language is not None or task != "transcribe":
            raise InputError(f"the model has one language, and no choice of {language or task!r}", "leave it out")
        heard = list(listen(model, [wave]))
        whole = Segment(0.0, round(len(wave) / MEL.rate, 2), " ".join(word.text for word in heard))
        return Transcribed(segmented(heard) if timestamps else (whole,) * bool(heard))
    words = words_of(model)
    codes = codes_of(model, words)
    if codes.languages and language is None:
        language = _heard_language(model, codes, _frames(model, wave))
    begin = _begin(codes, language, task, timestamps)
    segments = tuple(_windows(model, wave, words, codes, begin, timestamps))
    return Transcribed(segments, language or "")


def segmented(words: Iterable[Word], apart: float = APART) -> tuple[Segment, ...]:
    """Words with less than `apart` seconds between them, together."""
    groups: list[list[Word]] = []
    for word in words:
        if not groups or word.start - groups[-1][-1].end >= apart:
            groups.append([])
        groups[-1].append(word)
    return tuple(Segment(group[0].start, group[-1].end, " ".join(word.text for word in group)) for group in groups)


def _begin(codes: Codes, language: str | None, task: str, timestamps: bool) -> list[int]:
    begin = [codes.start]
    if codes.languages:
        if language not in codes.languages:
            known = ", ".join(codes.languages)
            raise InputError(f"the model does not know the language {language!r}", f"choose one of {known}")
        if task not in codes.tasks:
            raise InputError(f"the model has no task {task!r}", f"choose one of {', '.join(codes.tasks)}")
        begin += [codes.languages[str(language)], codes.tasks[task]]
    elif language not in (None, "en") or task != "transcribe":
        raise InputError(f"the model transcribes English, not {language or task!r}", "leave the option out")
    return begin if timestamps else [*begin, codes.silent]


def _frames(model: Whisper, wave: Tensor) -> Tensor:
    """(frames, bands) of one window, silence after its end."""
    mel = replace(MEL, bands=model.config.embed.bands)
    samples = model.config.frames * mel.hop
    return whisper_log_mel(pad(wave[:samples].float(), (0, max(0, samples - len(wave)))), mel)


def _heard_language(model: Whisper, codes: Codes, frames: Tensor) -> str:
    with torch.inference_mode():
        logits = model(frames[None], torch.tensor([[codes.start]]))[0, -1]
    return max(codes.languages, key=lambda name: float(logits[codes.languages[name]]))


def _windows(
    model: Whisper, wave: Tensor, words: Words, codes: Codes, begin: list[int], timed: bool
) -> Iterator[Segment]:
    at, window = 0, model.config.frames * MEL.hop
    most = min(model.config.length // 2, model.config.length - len(begin))
    while at < len(wave):
        piece = wave[at : at + window]
        listener = Listener(model, codes, begin, timed=timed)
        (answer,) = generate(listener, [_frames(model, piece)], stopping=Stopping(max_new=most))
        heard = not _empty(listener, answer)
        found, ended = parted(answer.body, codes, len(piece) / MEL.rate)
        for start, end, tokens in found:
            text = words.decode([token for token in tokens if token < codes.end])
            if heard and text.strip():
                yield Segment(round(at / MEL.rate + start, 2), round(at / MEL.rate + end, 2), text.strip())
        step = round(ended * MEL.rate) if heard and ended is not None else 0
        at += step if 0 < step < window else window


def _empty(listener: Listener, answer: Answer) -> bool:
    nothing = listener.nothing[0] if listener.nothing else 0.0
    return nothing > SILENCE and answer.score / len(answer.tokens) < UNSURE


def parted(
    tokens: tuple[int, ...], codes: Codes, seconds: float
) -> tuple[list[tuple[float, float, tuple[int, ...]]], float | None]:
    """(start, end, tokens) of each piece between times, and the second at which the next window begins.

    None: all was heard. A window that ends in a pair of times was cut within a sentence, and is read again from there.
    """
    time = lambda token: min((token - codes.times) * TICK, seconds)  # a model may put words after the end
    is_time = [token >= codes.times for token in tokens]
    cuts = [i for i in range(1, len(tokens)) if is_time[i - 1] and is_time[i]]
    alone = len(tokens) >= 2 and is_time[-1] and not is_time[-2]  # one time at the end: nothing is said after it
    if not cuts:
        times = [token for token in tokens if token >= codes.times]
        start = time(times[0]) if times and is_time[0] else 0.0
        end = time(times[-1]) if len(times) > 1 and times[-1] > times[0] else seconds
        return [(start, end, tokens)], None
    bounds = [0, *cuts, *([len(tokens)] if alone else [])]
    pieces = [tokens[a:b] for a, b in pairwise(bounds)]
    found = [(time(piece[0]), time(piece[-1]), piece) for piece in pieces]
    return found, None if alone else time(tokens[cuts[-1] - 1])
