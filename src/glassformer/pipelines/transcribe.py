"""audio → text with timestamps, by Whisper or a CTC model.

Whisper runs in windows of 30 s, each starting where the speech of the previous one ended; as audio arrives, it
transcribes a growing buffer again and again, and the words that two passes agree on are final. A CTC model runs word by
word, from a recording or as the audio arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad

from glassformer.core.audio import RATE, MelConfig, whisper_log_mel
from glassformer.data.audio import Resampler, as_samples, read_sound
from glassformer.decoding import Stopping, generate_ids
from glassformer.errors import InputError
from glassformer.models.protocols import CTCModel, SpeechGenerator, device_of, require
from glassformer.models.sessions import MemorySession
from glassformer.pipelines.speech.charset import RecognizerConfig, recognizer_config
from glassformer.pipelines.speech.ctc_stream import CTCStream
from glassformer.pipelines.speech.local_agreement import LocalAgreement
from glassformer.pipelines.speech.whisper import TICK, TimestampRules, WhisperTokens, whisper_tokens
from glassformer.pipelines.speech.words import BeamWordDecoder, GreedyWordDecoder, Word
from glassformer.pipelines.tokenizers import TextTokenizer, tokenizer_of

MEL = MelConfig()
NO_SPEECH, UNSURE = 0.6, -1.0  # a window is skipped above this probability of no speech and below this log-probability
PASS = 1.0  # seconds of new audio between two passes of Whisper over a stream
LONG = 12.0  # seconds of audio from which a stream drops segments that are final
SILENT = 5.0  # seconds without a word after which a stream forgets all but the last pass
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
    audio: str | Path | Tensor | NDArray[Any],
    *,
    language: str | None = None,
    task: Literal["transcribe", "translate"] = "transcribe",
    timestamps: bool = True,
) -> Transcript:
    """Transcribe an audio file or samples at 16 kHz.

    Args:
        language: spoken language, for example en. A multilingual Whisper detects it by default; a CTC model has one.
        task: transcribe, or translate into English (Whisper).
        timestamps: whether to find the start and end of each segment. Otherwise each window of Whisper is one segment;
            for a CTC model, the whole recording is.

    >>> gf.transcribe(gf.load("listener"), torch.zeros(16_000)).text
    ''
    """
    transcriber = require(model, "transcribe")
    if isinstance(audio, np.ndarray):
        audio = torch.from_numpy(as_samples(audio))
    wave = audio if isinstance(audio, Tensor) else read_sound(audio)
    if wave.dim() != 1 or not len(wave):
        raise InputError(f"the audio has shape {tuple(wave.shape)}", "give (samples,), at least one")
    if isinstance(transcriber, CTCModel):
        if language is not None or task != "transcribe":
            raise InputError(
                f"the model has one language and one task, so {language or task!r} cannot be chosen", "leave it out"
            )
        words = list(transcribe_stream(model, [wave]))
        whole = Segment(0.0, round(len(wave) / MEL.rate, 2), " ".join(word.text for word in words))
        return Transcript(segmented(words) if timestamps else (whole,) * bool(words))
    tokenizer = tokenizer_of(model)
    tokens = whisper_tokens(model, tokenizer)
    if tokens.languages and language is None:
        language = detect_language(model, tokens, window_frames(wave, transcriber.window, transcriber.bands))
    start = start_tokens(tokens, language, task, timestamps)
    segments = tuple(_windows(transcriber, wave, tokenizer, tokens, start, timestamps))
    return Transcript(segments, language or "")


# ---- streams ---------------------------------------------------------------------------------------------------------


def transcribe_stream(
    model: nn.Module,
    chunks: Iterable[Tensor],
    *,
    rate: int = RATE,
    pause: float | None = None,
    recognizer: RecognizerConfig | None = None,
) -> Iterator[Word]:
    """Yield the words of audio that arrives in chunks (samples,) from −1 to 1 at `rate`, each as soon as it is final.

    The words of a CTC model equal those of `transcribe`, however the audio is split; `pause` is the
    number of seconds without a character that end one of them (None: the model's own). Whisper transcribes its buffer
    once per second of audio, or once per chunk if chunks are longer; its words may differ from those of `transcribe`,
    and their times are interpolated within Whisper's segments.
    """
    if not isinstance(require(model, "transcribe"), CTCModel):
        if pause is not None or recognizer is not None:
            raise InputError("pause and recognizer are settings of CTC models", "leave them out")
        yield from _whisper_stream(model, chunks, rate)
        return
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


def segmented(words: Iterable[Word]) -> tuple[Segment, ...]:
    """Group words with less than APART seconds between them into segments."""
    groups: list[list[Word]] = []
    for word in words:
        if not groups or word.start - groups[-1][-1].end >= APART:
            groups.append([])
        groups[-1].append(word)
    return tuple(Segment(group[0].start, group[-1].end, " ".join(word.text for word in group)) for group in groups)


# ---- Whisper ---------------------------------------------------------------------------------------------------------


def start_tokens(tokens: WhisperTokens, language: str | None, task: str, timestamps: bool) -> list[int]:
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


def window_frames(wave: Tensor, window: int, bands: int) -> Tensor:
    """Compute the frames (window, bands) of the beginning of a recording, padded with silence."""
    mel = replace(MEL, bands=bands)
    samples = window * mel.hop
    return whisper_log_mel(pad(wave[:samples].float().cpu(), (0, max(0, samples - len(wave)))), mel)


def detect_language(model: nn.Module, tokens: WhisperTokens, frames: Tensor) -> str:
    device = device_of(model)
    with torch.inference_mode():
        logits = model(frames[None].to(device), torch.tensor([[tokens.start]], device=device))[0, -1]
    return max(tokens.languages, key=lambda name: float(logits[tokens.languages[name]]))


def _windows(
    model: SpeechGenerator,
    wave: Tensor,
    words: TextTokenizer,
    tokens: WhisperTokens,
    start: list[int],
    timestamps: bool,
) -> Iterator[Segment]:
    at, window = 0, model.window * MEL.hop
    while at < len(wave):
        body = _decoded(model, wave[at : at + window], tokens, start, timestamps)
        found, ended = split_segments(body, tokens, min(window, len(wave) - at) / MEL.rate)
        yield from _spoken(found, words, tokens, at / MEL.rate)
        step = round(ended * MEL.rate) if body and ended is not None else 0
        at += step if 0 < step < window else window


def _decoded(
    model: SpeechGenerator, piece: Tensor, tokens: WhisperTokens, start: list[int], timestamps: bool
) -> tuple[int, ...]:
    """Return the tokens of one window; none if it is probably without speech."""
    length = model.context_length or 448
    session = model.session(start=tuple(start), ends=(tokens.end,))
    (answer,) = generate_ids(
        session,
        [window_frames(piece, model.window, model.bands)],
        stopping=Stopping(max_new_tokens=min(length // 2, length - len(start))),
        constraints=tokens.constraints,
        processors=[TimestampRules(tokens, timestamps=timestamps)],
        processed_logprobs=True,
    )
    assert isinstance(session, MemorySession)
    empty = _no_speech(session, tokens) > NO_SPEECH and answer.score / len(answer.tokens) < UNSURE
    return () if empty else answer.body


def _spoken(
    found: Iterable[tuple[float, float, tuple[int, ...]]], words: TextTokenizer, tokens: WhisperTokens, offset: float
) -> Iterator[Segment]:
    """Yield the segments that have text, with `offset` seconds added to their times."""
    for first, last, ids in found:
        text = words.decode([token for token in ids if token < tokens.end]).strip()
        if text:
            yield Segment(round(offset + first, 2), round(offset + last, 2), text)


def _whisper_stream(model: nn.Module, chunks: Iterable[Tensor], rate: int) -> Iterator[Word]:
    buffer = WhisperBuffer(model)
    resampler = Resampler(rate, MEL.rate)
    for chunk in chunks:
        yield from buffer.feed(resampler.feed(chunk))
    yield from buffer.feed(resampler.finish())
    yield from buffer.finish()


class WhisperBuffer:
    """The audio that is not final yet, with its last transcript."""

    def __init__(self, model: nn.Module) -> None:
        speech = require(model, "transcribe")
        assert isinstance(speech, SpeechGenerator)
        self.model, self.speech, self.words = model, speech, tokenizer_of(model)
        self.tokens = whisper_tokens(model, self.words)
        self.start: list[int] | None = None
        self.wave, self.waiting = torch.zeros(0), torch.zeros(0)
        self.offset = 0  # samples dropped before the buffer
        self.agreement = LocalAgreement()

    @property
    def received_seconds(self) -> float:
        """Seconds of audio that were transcribed at least once."""
        return (self.offset + len(self.wave)) / MEL.rate

    def feed(self, samples: Tensor) -> Iterator[Word]:
        """Add samples; a pass runs after every PASS seconds of audio, and a chunk that is longer is one pass."""
        self.waiting = torch.cat([self.waiting, samples.float().cpu()])
        step, room = int(PASS * MEL.rate), self.speech.window * MEL.hop
        while len(self.waiting) >= step:
            count = min(len(self.waiting), max(step, room - len(self.wave)))
            self.wave, self.waiting = torch.cat([self.wave, self.waiting[:count]]), self.waiting[count:]
            segments = self._transcribed()
            yield from self.agreement.update(_timed(segments), round(self.received_seconds, 3))
            yield from self._trim(segments)

    def finish(self) -> Iterator[Word]:
        """End the audio: every word of the last transcript is final."""
        self.wave, self.waiting = torch.cat([self.wave, self.waiting]), self.waiting[:0]
        if len(self.wave):
            yield from self.agreement.finish(_timed(self._transcribed()), round(self.received_seconds, 3))

    def _transcribed(self) -> list[Segment]:
        """Return the segments of the buffer, with the text after the last complete one."""
        if self.start is None:
            language = None
            if self.tokens.languages:
                frames = window_frames(self.wave, self.speech.window, self.speech.bands)
                language = detect_language(self.model, self.tokens, frames)
            self.start = start_tokens(self.tokens, language, "transcribe", True)
        seconds = len(self.wave) / MEL.rate
        body = _decoded(self.speech, self.wave, self.tokens, self.start, True)
        found, ended = split_segments(body, self.tokens, seconds)
        rest = body[sum(len(ids) for _, _, ids in found) :]
        if ended is not None and rest:
            found = [*found, (ended, seconds, rest)]
        return list(_spoken(found, self.words, self.tokens, self.offset / MEL.rate))

    def _trim(self, segments: Sequence[Segment]) -> Iterator[Word]:
        """Shorten a long buffer after a segment whose words are final, or all of it before it exceeds a window."""
        final, count, end = len(self.agreement.final), 0, None
        seconds = len(self.wave) / MEL.rate
        for segment in segments[:-1] if seconds > LONG else ():
            count += len(segment.text.split())
            if count > final:
                break
            end = segment.end
        longest = self.speech.window * MEL.hop / MEL.rate
        if end is None and segments and seconds + PASS > longest:
            yield from self.agreement.finish(_timed(segments), round(self.received_seconds, 3))
            end = self.received_seconds
        elif not segments and seconds > SILENT:
            end = self.received_seconds - PASS
        if end is not None:
            samples = min(len(self.wave), max(0, round(end * MEL.rate) - self.offset))
            self.wave, self.offset = self.wave[samples:], self.offset + samples
            self.agreement.cut(end)


def _timed(segments: Iterable[Segment]) -> list[Word]:
    """Split segments into words, with times in proportion to the characters."""
    found = []
    for segment in segments:
        pieces, at, total = segment.text.split(), 0, max(1, len(segment.text))
        for piece in pieces:
            times = (segment.start + (segment.end - segment.start) * x / total for x in (at, at + len(piece)))
            start, end = (round(time, 3) for time in times)
            found.append(Word(piece, start, end, end))
            at += len(piece) + 1
    return found


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
