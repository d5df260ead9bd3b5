"""audio → text with timestamps, by Whisper or a CTC model.

Whisper runs in windows of 30 s, each starting where the speech of the previous one ended; a CTC model runs word by
word, from a recording or as the audio arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from glassformer.core.audio import RATE, MelConfig, whisper_log_mel
from glassformer.data.audio import Resampler, read_sound
from glassformer.decoding import Stopping, generate_ids
from glassformer.errors import InputError
from glassformer.models.protocols import CTCModel, SpeechGenerator, device_of, require
from glassformer.models.sessions import MemorySession
from glassformer.pipelines.speech.charset import RecognizerConfig, recognizer_config
from glassformer.pipelines.speech.ctc_stream import CTCStream
from glassformer.pipelines.speech.whisper import TICK, TimestampRules, WhisperTokens, whisper_tokens
from glassformer.pipelines.speech.words import BeamWordDecoder, GreedyWordDecoder, Word
from glassformer.pipelines.tokenizers import Words, words_of

MEL = MelConfig()
NO_SPEECH, UNSURE = 0.6, -1.0  # a window is skipped above this probability of no speech and below this log-probability
APART = 0.6  # seconds between two words that start a new segment
DEMONSTRATION = (
    "the listener that comes with Glassformer is a small demonstration model; for usable transcripts fetch Whisper: "
    "glassformer data fetch whisper-tiny.en, then transcribe with -m whisper-tiny.en"
)


class Segment(NamedTuple):
    """The text spoken from `start` to `end`, in seconds."""

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class Transcript:
    """A transcript; `language` is empty for a monolingual model."""

    segments: tuple[Segment, ...]
    language: str = ""

    @property
    def text(self) -> str:
        return " ".join(segment.text.strip() for segment in self.segments)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        row = "<tr><td>{:.2f}–{:.2f} s</td><td>{}</td></tr>".format
        return f"<table>{''.join(row(start, end, escape(text)) for start, end, text in self.segments)}</table>"


def transcribe(
    model: nn.Module,
    audio: str | Path | Tensor,
    *,
    language: str | None = None,
    task: Literal["transcribe", "translate"] = "transcribe",
    timestamps: bool = True,
) -> Transcript:
    """Transcribe an audio file or samples at 16 kHz. A multilingual model detects the language if it is None.

    A CTC model has one language; its text equals that of `transcribe_stream`, however the audio is split. Without
    `timestamps` each window is one segment; for a CTC model, the whole recording is.
    """
    transcriber = require(model, "transcribe")
    wave = audio if isinstance(audio, Tensor) else read_sound(audio)
    if wave.dim() != 1 or not len(wave):
        raise InputError(f"audio of shape {tuple(wave.shape)}", "give (samples,), at least one")
    if isinstance(transcriber, CTCModel):
        if language is not None or task != "transcribe":
            raise InputError(f"the model has one language, and no choice of {language or task!r}", "leave it out")
        words = list(transcribe_stream(model, [wave]))
        whole = Segment(0.0, round(len(wave) / MEL.rate, 2), " ".join(word.text for word in words))
        return Transcript(segmented(words) if timestamps else (whole,) * bool(words))
    tokenizer = words_of(model)
    tokens = whisper_tokens(model, tokenizer)
    if tokens.languages and language is None:
        language = _detect_language(model, tokens, _frames(transcriber, wave))
    start = _start(tokens, language, task, timestamps)
    segments = tuple(_windows(transcriber, wave, tokenizer, tokens, start, timestamps))
    return Transcript(segments, language or "")


# ---- CTC models ------------------------------------------------------------------------------------------------------


def transcribe_stream(
    model: nn.Module,
    chunks: Iterable[Tensor],
    *,
    rate: int = RATE,
    pause: float | None = None,
    recognizer: RecognizerConfig | None = None,
) -> Iterator[Word]:
    """Yield the words of audio that arrives in chunks (samples,) from −1 to 1 at `rate`, each as soon as it is final.

    `pause` is the number of seconds without a character that end a word; None: the model's own. The words and their
    times do not depend on how the audio is split, and they equal those of `transcribe`.
    """
    recognizer = recognizer_config(model) if recognizer is None else recognizer
    stream, decoder = CTCStream(model, recognizer), word_decoder(recognizer, pause=pause)
    resampler = Resampler(rate, stream.rate)
    for chunk in chunks:
        for rows in stream.feed(resampler.feed(chunk)):
            yield from decoder.feed(rows)
    for rows in (*stream.feed(resampler.finish()), *stream.finish()):
        yield from decoder.feed(rows)
    yield from decoder.finish(stream.samples / stream.rate)


def word_decoder(recognizer: RecognizerConfig, *, pause: float | None = None) -> GreedyWordDecoder | BeamWordDecoder:
    """Return a beam search decoder if the model has an n-gram model, else a greedy one."""
    search = recognizer.search if pause is None else replace(recognizer.search, pause=pause, first=pause)
    charset, seconds, rate = recognizer.charset, recognizer.seconds, recognizer.mel.rate
    if recognizer.ngram is None:
        return GreedyWordDecoder(charset, seconds, rate=rate, pause=search.pause)
    return BeamWordDecoder(charset, seconds, recognizer.ngram, search, rate=rate)


def segmented(words: Iterable[Word], apart: float = APART) -> tuple[Segment, ...]:
    """Group words with less than `apart` seconds between them into segments."""
    groups: list[list[Word]] = []
    for word in words:
        if not groups or word.start - groups[-1][-1].end >= apart:
            groups.append([])
        groups[-1].append(word)
    return tuple(Segment(group[0].start, group[-1].end, " ".join(word.text for word in group)) for group in groups)


# ---- Whisper ---------------------------------------------------------------------------------------------------------


def _start(tokens: WhisperTokens, language: str | None, task: str, timestamps: bool) -> list[int]:
    start = [tokens.start]
    if tokens.languages:
        if language not in tokens.languages:
            known = ", ".join(tokens.languages)
            raise InputError(f"the model does not know the language {language!r}", f"choose one of {known}")
        if task not in tokens.tasks:
            raise InputError(f"the model has no task {task!r}", f"choose one of {', '.join(tokens.tasks)}")
        start += [tokens.languages[str(language)], tokens.tasks[task]]
    elif language not in (None, "en") or task != "transcribe":
        raise InputError(f"the model transcribes English, not {language or task!r}", "leave the option out")
    return start if timestamps else [*start, tokens.silent]


def _frames(model: SpeechGenerator, wave: Tensor) -> Tensor:
    """Compute the frames (frames, bands) of one window, padded with silence."""
    mel = replace(MEL, bands=model.bands)
    samples = model.window * mel.hop
    return whisper_log_mel(pad(wave[:samples].float().cpu(), (0, max(0, samples - len(wave)))), mel)


def _detect_language(model: nn.Module, tokens: WhisperTokens, frames: Tensor) -> str:
    device = device_of(model)
    with torch.inference_mode():
        logits = model(frames[None].to(device), torch.tensor([[tokens.start]], device=device))[0, -1]
    return max(tokens.languages, key=lambda name: float(logits[tokens.languages[name]]))


def _windows(
    model: SpeechGenerator, wave: Tensor, words: Words, tokens: WhisperTokens, start: list[int], timestamps: bool
) -> Iterator[Segment]:
    at, window, length = 0, model.window * MEL.hop, model.context_length or 448
    stopping = Stopping(max_new_tokens=min(length // 2, length - len(start)))
    rules = TimestampRules(tokens, timestamps=timestamps)
    while at < len(wave):
        piece = wave[at : at + window]
        session = model.session(start=tuple(start), ends=(tokens.end,))
        (answer,) = generate_ids(
            session,
            [_frames(model, piece)],
            stopping=stopping,
            constraints=tokens.constraints,
            processors=[rules],
            processed_logprobs=True,
        )
        assert isinstance(session, MemorySession)
        empty = _no_speech(session, tokens) > NO_SPEECH and answer.score / len(answer.tokens) < UNSURE
        found, ended = split_segments(answer.body, tokens, len(piece) / MEL.rate)
        for first, last, ids in found:
            text = words.decode([token for token in ids if token < tokens.end])
            if not empty and text.strip():
                yield Segment(round(at / MEL.rate + first, 2), round(at / MEL.rate + last, 2), text.strip())
        step = round(ended * MEL.rate) if not empty and ended is not None else 0
        at += step if 0 < step < window else window


def _no_speech(session: MemorySession, tokens: WhisperTokens) -> float:
    """Probability of <|nospeech|> after the start token; 0 if the model has no such token."""
    if tokens.nothing is None:
        return 0.0
    first = session.start.tolist().index(tokens.start)
    return float(session.start_logits[0, first].float().softmax(-1)[tokens.nothing])


def split_segments(
    tokens: tuple[int, ...], special: WhisperTokens, seconds: float
) -> tuple[list[tuple[float, float, tuple[int, ...]]], float | None]:
    """Return (start, end, tokens) of each segment between timestamps, and the second at which the next window starts.

    None: the window is complete. A window that ends in a pair of timestamps was cut within a sentence, and the next one
    starts there.
    """
    time = lambda token: min((token - special.times) * TICK, seconds)  # a model may generate times after the end
    is_time = [token >= special.times for token in tokens]
    cuts = [i for i in range(1, len(tokens)) if is_time[i - 1] and is_time[i]]
    alone = len(tokens) >= 2 and is_time[-1] and not is_time[-2]  # a single timestamp at the end: no speech follows
    if not cuts:
        times = [token for token in tokens if token >= special.times]
        start = time(times[0]) if times and is_time[0] else 0.0
        end = time(times[-1]) if len(times) > 1 and times[-1] > times[0] else seconds
        return [(start, end, tokens)], None
    bounds = [0, *cuts, *([len(tokens)] if alone else [])]
    pieces = [tokens[a:b] for a, b in pairwise(bounds)]
    found = [(time(piece[0]), time(piece[-1]), piece) for piece in pieces]
    return found, None if alone else time(tokens[cuts[-1] - 1])
