"""loss = −Σ log p(token | tokens before it, recording): fine-tuning Whisper on recordings with transcripts.

Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022. Targets are <|startoftranscript|>,
language and task of a multilingual model, <|notimestamps|>, the text and <|endoftext|>, all of which except the first
are predicted, as in Hugging Face's training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.checkpoints import save_published
from glassformer.data import Faults, order, remarks
from glassformer.data.augment_audio import SPEEDS, change_speed
from glassformer.data.faults import Fault
from glassformer.data.fingerprint import of_recordings
from glassformer.data.recordings import Recordings
from glassformer.errors import ConfigError, InputError
from glassformer.models.protocols import SpeechGenerator, device_of, require
from glassformer.pipelines.evaluate import IGNORED, pad_rows
from glassformer.pipelines.metrics import word_error_rate
from glassformer.pipelines.speech.charset import normalize_transcript
from glassformer.pipelines.speech.whisper import whisper_tokens
from glassformer.pipelines.tokenizers import tokenizer_of
from glassformer.pipelines.transcribe import detect_language, start_tokens, transcribe, window_frames
from glassformer.train.args import TrainArgs
from glassformer.train.examined import Examined, examine_transcripts
from glassformer.train.objective import Batch, TaskObjective

LANGUAGE_SAMPLES = 5  # recordings from which the language is detected
VAL_RECORDINGS = 100  # transcribed in an evaluation, evenly spaced


class SpeechToText(TaskObjective):
    """Cross-entropy of transcripts in batches of `batch_size` recordings of one window; evaluated by word error rate.

    `start` are the tokens that every transcript begins with. With `augment`, recordings are played at random speeds.
    """

    batch_unit = "recordings"

    better: ClassVar[Literal["lower"]] = "lower"

    def __init__(
        self,
        train: Recordings,
        val: Recordings,
        model: nn.Module,
        *,
        language: str | None = None,
        augment: bool = True,
        batch_size: int = 8,
        seed: int = 0,
    ) -> None:
        speech = require(model, "transcribe")
        assert isinstance(speech, SpeechGenerator)
        self.train, self.val, self.words = train, val, tokenizer_of(model)
        tokens = whisper_tokens(model, self.words)
        self.start, self.end = start_tokens(tokens, language, "transcribe", timestamps=False), tokens.end
        self.language, self.augment, self.batch_size, self.seed = language, augment, batch_size, seed
        self.window = speech.window, speech.bands, speech.context_length or 448
        self.faults = Faults()

    def summary(self) -> str:
        return f"{len(self.train):,} recordings, {len(self.val):,} for validation"

    def save(self, model: nn.Module, folder: str | Path) -> Path:
        return save_published(model, Path(folder))

    def fingerprint(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("start", "augment", "batch_size", "seed")}
        return {"data": of_recordings(self.train), "val": of_recordings(self.val), **own}

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        return order.batches(len(self.train), self.batch_size, self.seed, number)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        random = torch.Generator().manual_seed(seed)
        found = self.faults.each(rows, lambda row: self._example(row, random))
        self.faults.check()
        return collated(found) if found else None

    def _example(self, row: int, random: torch.Generator) -> tuple[Tensor, list[int]]:
        wave = self.train.wave(row)
        if self.augment:
            wave = change_speed(wave, SPEEDS[int(torch.randint(len(SPEEDS), (), generator=random))])
        return self.frames(wave), self.tokens(self.train, row)

    def frames(self, wave: Tensor) -> Tensor:
        window, bands, _ = self.window
        return window_frames(wave, window, bands)

    def tokens(self, recordings: Recordings, row: int) -> list[int]:
        """Return the tokens of a transcript, with a leading space as in Whisper's own training."""
        text = self.words.encode(f" {recordings.sentence(row)}", special=False)
        found = [*self.start, *text, self.end]
        if len(found) > self.window[2]:
            raise Fault(f"transcript of more than {self.window[2]} tokens", recordings.name(row))
        return found

    def count(self, batch: Batch) -> float:
        return float((batch["target"] != IGNORED).sum())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        chosen = batch["target"] != IGNORED
        logits = model(batch["frames"], batch["tokens"])[chosen].float()
        return cross_entropy(logits, batch["target"][chosen], reduction="sum")

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return the word error rate of `transcribe`, and the loss, on up to `VAL_RECORDINGS` recordings."""
        pairs, rows = self._transcripts(model)
        total = count = 0.0
        for i in rows:
            made = collated([(self.frames(self.val.wave(i)), self.tokens(self.val, i))])
            batch = {name: x.to(device_of(model)) for name, x in made.items()}
            total, count = total + float(self.loss(model, batch)), count + self.count(batch)
        hypotheses, references = zip(*pairs, strict=True)
        return {"wer": word_error_rate(hypotheses, references), "loss": total / count}

    def examine(self, model: nn.Module) -> Examined:
        return examine_transcripts(*self._transcripts(model), self.val)

    def _transcripts(self, model: nn.Module) -> tuple[list[tuple[str, str]], list[int]]:
        """Return (hypothesis, reference) of the validation recordings, and the rows of those that can be used."""
        pairs, rows = [], []
        for i in order.spread(len(self.val), VAL_RECORDINGS):
            try:
                wave, _ = self.val.wave(i), self.tokens(self.val, i)
            except Fault as fault:
                self.faults.note(fault)
                continue
            found = transcribe(model, wave, language=self.language, timestamps=False).text
            pairs.append((normalize_transcript(found), normalize_transcript(self.val.sentence(i))))
            rows.append(i)
        if not rows:
            raise InputError("no validation recording can be used", "; ".join(self.faults.summary()) or "give some")
        return pairs, rows


def collated(examples: Sequence[tuple[Tensor, list[int]]]) -> dict[str, Tensor]:
    """Frames (b, t, bands), and the tokens before and after each prediction, padded on the right."""
    return {
        "frames": torch.stack([frames for frames, _ in examples]),
        "tokens": pad_rows([tokens[:-1] for _, tokens in examples], 0),
        "target": pad_rows([tokens[1:] for _, tokens in examples], IGNORED),
    }


def build(
    args: TrainArgs, model: nn.Module, train: Recordings, val: Recordings, faults: Faults
) -> tuple[nn.Module, SpeechToText]:
    """Build the objective for fine-tuning a Whisper model."""
    args.reject("fine-tuning Whisper", "augmentation", "max_length")
    model.get_parameter("positions").requires_grad_(False)  # sinusoids, which Hugging Face does not train either
    notes = []
    language = args.language
    if language is None and whisper_tokens(model, tokenizer_of(model)).languages:
        language = _language(model, train)
        notes.append(f"language of the recordings: {language} (see --language)")
    objective = SpeechToText(
        train, val, model, language=language, augment=args.augment, batch_size=args.batch_size or 8, seed=args.seed
    )
    objective.faults.remember(faults)
    objective.understood = (
        train.rows.described(),
        *remarks.examples(train.rows, lambda i: f"{train.name(i)} → {remarks.short(train.sentence(i))}"),
        *remarks.small_validation(len(val)),
        *remarks.duplicate_files(train, val, "recordings"),
    )
    objective.notes = tuple(notes)
    objective.default_lr, objective.default_epochs = (1e-3 if args.lora_rank is not None else 1e-5), 5.0
    return model, objective


def _language(model: nn.Module, recordings: Recordings) -> str:
    """Return the language that the model detects most often in a few recordings."""
    speech = require(model, "transcribe")
    assert isinstance(speech, SpeechGenerator)
    tokens, votes = whisper_tokens(model, tokenizer_of(model)), Counter[str]()
    for i in order.spread(len(recordings), LANGUAGE_SAMPLES):
        try:
            frames = window_frames(recordings.wave(i), speech.window, speech.bands)
        except Fault:
            continue
        votes[detect_language(model, tokens, frames)] += 1
    if not votes:
        raise ConfigError("no recording from which to detect the language can be read", "give --language")
    return votes.most_common(1)[0][0]
