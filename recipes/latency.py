"""Word error rate, latency and cost of live transcription."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from glassformer.core.audio import RATE
from glassformer.data.faults import Fault
from glassformer.data.recordings import Recordings
from glassformer.pipelines.metrics import error_rate
from glassformer.pipelines.speech.charset import RecognizerConfig, normalize_transcript
from glassformer.pipelines.speech.words import Word
from glassformer.pipelines.transcribe import transcribe_stream

PIECE = 640  # samples that come at once: 40 ms
AFTER = 1.0  # seconds of silence after each recording, for a stream does not end with the last word
TICK = RATE // 50  # samples of 20 ms
FAINT = 10**-1.75  # 35 dB below the loudest: speech is over


@dataclass(frozen=True)
class Told:
    """A transcribed recording: reference, words with their times, duration, and processor time."""

    meant: str
    words: tuple[Word, ...]
    seconds: float
    spent: float
    over: float  # when the speaking was over

    @property
    def said(self) -> str:
        return " ".join(word.text for word in self.words)


def told(model: nn.Module, recordings: Recordings, recognizer: RecognizerConfig | None = None) -> list[Told]:
    """Transcribe every usable recording live, in pieces of 40 ms followed by silence, and count processor time."""
    found = []
    for i in range(len(recordings)):
        try:
            wave = recordings.wave(i)
        except Fault:
            continue
        begun = time.process_time()
        words = tuple(transcribe_stream(model, pad(wave, (0, int(AFTER * RATE))).split(PIECE), recognizer=recognizer))
        spent = time.process_time() - begun
        found.append(Told(normalize_transcript(recordings.sentence(i)), words, len(wave) / RATE, spent, over(wave)))
    return found


def loud(wave: Tensor) -> Tensor:
    """Return, for each 20 ms, whether its level is within 35 dB of the loudest."""
    level = pad(wave, (0, -len(wave) % TICK)).reshape(-1, TICK).square().mean(1).sqrt()
    return level > FAINT * level.max()


def over(wave: Tensor) -> float:
    """Return the end of the last loud 20 ms in seconds."""
    return float(loud(wave).nonzero().max() + 1) * TICK / RATE


def summary(heard: Sequence[Told]) -> dict[str, float]:
    """WER and CER; how long after the end of the sound its last word was given, and the word of those that say one; how
    long after its last letter any word, and the first; CPU seconds for a second of sound.

    Where a word of many ends is not known without a recogniser; `letter_before_sound` is how long before the end of the
    sound the last letter of last words stands, in the median: by so much the last letter comes too early for an end.
    """
    given = [one for one in heard if one.words]
    last = torch.tensor([one.words[-1].known - one.over for one in given])
    single = torch.tensor([one.words[0].known - one.over for one in given if len(one.meant.split()) == 1])
    every = torch.tensor([word.latency for one in given for word in one.words])
    first = torch.tensor([one.words[0].latency for one in given])
    found: dict[str, float] = {
        "recordings": len(heard),
        "seconds": round(sum(one.seconds for one in heard), 1),
        "words": sum(len(one.meant.split()) for one in heard),
        "wer": round(error_rate((one.said.split(), one.meant.split()) for one in heard), 4),
        "cer": round(error_rate((one.said, one.meant) for one in heard), 4),
        "real_time_factor": round(sum(one.spent for one in heard) / sum(one.seconds + AFTER for one in heard), 4),
    }
    if given:
        before = torch.tensor([one.over - one.words[-1].end for one in given])
        found["letter_before_sound_median"] = round(float(before.median()), 3)
    latencies = {"after_sound": last, "of_single_words": single, "after_last_letter": every, "of_first_words": first}
    for name, values in latencies.items():
        found |= {f"latency_{name}_{what}": value for what, value in delays(values).items()}
    return found


def delays(values: Tensor) -> dict[str, float]:
    """Return the median, the 95th percentile and the share of at most half a second; {} without delays."""
    if not len(values):
        return {}
    found = {"median": values.quantile(0.5), "95": values.quantile(0.95)}
    found["within_half_a_second"] = (values <= 0.5).float().mean()
    return {name: round(float(value), 3) for name, value in found.items()}
