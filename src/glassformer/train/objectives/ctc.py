"""loss = −log p(letters | frames), CTC: streaming speech recognition from recordings with transcripts."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import ctc_loss, pad
from torch.nn.utils.rnn import pad_sequence

from glassformer.checkpoints import save
from glassformer.core.audio import MelConfig, log_mel
from glassformer.data import remarks
from glassformer.data.augment_audio import SPEEDS, AudioAugmentation, change_speed, silence
from glassformer.data.faults import Fault, Faults
from glassformer.data.fingerprint import of_recordings
from glassformer.data.order import Batches, bucketed
from glassformer.data.recordings import Recordings
from glassformer.data.stream import Window
from glassformer.errors import InputError
from glassformer.models import ConvNet1d, Recurrent, Speech
from glassformer.models.protocols import device_of
from glassformer.models.speech import BLANK
from glassformer.pipelines.metrics import error_rate
from glassformer.pipelines.speech.charset import (
    LETTERS,
    Charset,
    RecognizerConfig,
    needs_english,
    normalize_transcript,
    recognizer_config,
    spoken,
)
from glassformer.pipelines.speech.ctc_stream import LogitRows, ctc_rows
from glassformer.pipelines.transcribe import word_decoder
from glassformer.train.args import TrainArgs
from glassformer.train.examined import Examined, examine_transcripts
from glassformer.train.objective import Batch, TaskObjective
from glassformer.train.objectives import speech_models

MEL = MelConfig(bands=40, low=80.0, high=4000.0)  # telephone bandwidth, which all recordings cover
STACK = 4  # frames per row of logits: one row every 40 ms
AUGMENT = AudioAugmentation()
AFTER = 5  # rows of silence after each recording without a loss: the lookahead of chunks and convolutions


class Part(NamedTuple):
    """Recordings that are used `times` times per epoch, each time at one of these `speeds`."""

    recordings: Recordings
    times: int = 1
    speeds: tuple[float, ...] = SPEEDS


class CTC(TaskObjective):
    """CTC objective on batches of recordings of similar length, up to `batch_seconds` in total.

    Evaluated by word error rate. Each recording is followed by `AFTER` rows of silence without a loss. Otherwise the
    network would learn to end the last word where the recording ends, which it never sees in a stream. `slope` rewards
    early emission (`early_ctc`). `keep` caches the frames of every recording and speed in memory, which suits hours of
    audio but not weeks.
    """

    better: ClassVar[Literal["lower"]] = "lower"

    def __init__(
        self,
        parts: Sequence[Part | Recordings],
        val: Recordings,
        recognizer: RecognizerConfig | None = None,
        *,
        batch_seconds: float = 60.0,
        augment: AudioAugmentation | None = AUGMENT,
        slope: float = 0.0,
        seed: int = 0,
        keep: bool = False,
    ) -> None:
        self.val, self.batch_seconds, self.augment, self.seed, self.keep = val, batch_seconds, augment, seed, keep
        self.slope = slope
        self.recognizer = RecognizerConfig(mel=MEL, stack=STACK) if recognizer is None else recognizer
        self.faults = Faults()
        self.val_count = 0
        for i in range(len(val)):
            try:
                self.val_count += bool(spelled(val.sentence(i), self.recognizer, val.name(i)))
            except Fault as fault:
                self.faults.note(fault)
        self._use([part if isinstance(part, Part) else Part(part) for part in parts])
        if not self._places:
            raise InputError("there are no training recordings", "give recordings with transcripts")
        if not self._rows:
            fact = f"none of the {len(self._places):,} recordings can be used"
            raise InputError(fact, "; ".join(self.faults.summary()))

    def _use(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self._kept: dict[tuple[int, float], Tensor] = {}
        self._places = [(p, i) for p, part in enumerate(self.parts) for i in range(len(part.recordings))]
        frames = np.concatenate([np.zeros(0, dtype=np.int32), *(part.recordings.lengths for part in self.parts)])
        self._usable = self._find_usable(frames)
        self._rows = [row for row in self._usable for _ in range(self.parts[self._places[row][0]].times)]
        self._frames = frames[self._rows]

    def _find_usable(self, frames: NDArray[np.int32]) -> list[int]:
        """Return the rows with a known length and a transcript in the alphabet; the others are counted as faults.

        They are found now, so that they do not fill a batch that would appear entirely faulty.
        """

        def check(row: int) -> int:
            p, i = self._places[row]
            recordings = self.parts[p].recordings
            spelled(recordings.sentence(i), self.recognizer, recordings.name(i))
            if not frames[row]:
                recordings.wave(i)  # raises the reason
            return row

        found = self.faults.each(range(len(self._places)), check)
        self.faults.check()
        return [row for row in found if frames[row]]

    def refill(self, window: Window) -> None:
        super().refill(window)
        self._use([Part(self.train)])

    def summary(self) -> str:
        return f"{len(self._usable):,} recordings, {self.val_count:,} for validation"

    def save(self, model: nn.Module, folder: str | Path) -> Path:
        return save_speech(model, folder, self.recognizer)

    def fingerprint(self) -> dict[str, object]:
        recognizer = {"symbols": "".join(self.recognizer.charset.names), "mel": asdict(self.recognizer.mel)}
        parts = {
            str(i): {"times": part.times, "speeds": part.speeds, "data": of_recordings(part.recordings)}
            for i, part in enumerate(self.parts)
        }
        return {
            "parts": parts,
            "val": of_recordings(self.val),
            "batch_seconds": self.batch_seconds,
            "augment": None if self.augment is None else asdict(self.augment),
            "slope": self.slope,
            "seed": self.seed,
            "recognizer": recognizer | {"stack": self.recognizer.stack},
        }

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        batches = bucketed(self._frames, int(100 * self.batch_seconds), self.seed, number)
        return _Mapped(batches, self._rows)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        random = torch.Generator().manual_seed(seed)
        examples = self.faults.each(rows, lambda row: self._example(row, random))
        self.faults.check()
        return collated(examples) if examples else None

    def count(self, batch: Batch) -> float:
        return float(batch["sizes"].sum())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """−Σ log p(target | frames), with a bonus for early emission; predictions are counted per letter."""
        logits, rows = ctc_rows(model, batch["frames"], batch["lengths"], self.recognizer)
        return early_ctc(logits.float(), rows - AFTER, batch["targets"], batch["sizes"], self.slope)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return word and character error rates and the loss per letter on the validation recordings."""
        pairs, rows = transcripts(model, self.val, self.recognizer, self.faults)
        total = count = 0.0
        for row in rows:
            for example in Faults().each([row], self._val_example):  # a transcript that cannot be aligned has no loss
                batch = {name: x.to(device_of(model)) for name, x in collated([example]).items()}
                total, count = total + float(self.loss(model, batch).detach()), count + self.count(batch)
        return {
            "wer": error_rate((hypothesis.split(), reference.split()) for hypothesis, reference in pairs),
            "cer": error_rate(pairs),
            **({"loss": total / count} if count else {}),
        }

    def _val_example(self, row: int) -> SpeechExample:
        """Return a validation recording as in training, without augmentation."""
        frames = log_mel(self.val.wave(row), self.recognizer.mel).float()
        target = target_of(self.val.sentence(row), len(frames), self.recognizer, self.val.name(row))
        return SpeechExample(self._padded(frames), target)

    def examine(self, model: nn.Module) -> Examined:
        pairs, rows = transcripts(model, self.val, self.recognizer, self.faults)
        return examine_transcripts(pairs, rows, self.val)

    def _example(self, row: int, random: torch.Generator) -> SpeechExample:
        p, i = self._places[row]
        recordings, _, speeds = self.parts[p]
        factor = 1.0 if self.augment is None else speeds[int(torch.randint(len(speeds), (), generator=random))]
        mel, plain = self.recognizer.mel, self._features(row, factor)
        frames = self._padded(plain)
        if self.augment is not None:
            frames = self.augment(frames, mel, random)
        target = target_of(recordings.sentence(i), len(plain), self.recognizer, recordings.name(i))
        return SpeechExample(frames, target)

    def _padded(self, frames: Tensor) -> Tensor:
        """Append `AFTER` rows of silence."""
        return pad(frames, (0, 0, 0, AFTER * self.recognizer.stack), value=silence(self.recognizer.mel))

    def _features(self, row: int, factor: float) -> Tensor:
        """Return log-mel frames, cached in half precision if `keep`."""
        kept = self._kept.get((row, factor))
        if kept is not None:
            return kept.float()
        p, i = self._places[row]
        frames = log_mel(change_speed(self.parts[p].recordings.wave(i), factor), self.recognizer.mel).float()
        if self.keep:
            self._kept[row, factor] = frames.half()
        return frames

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_kept": {}}  # each worker has its own cache


def build(
    args: TrainArgs, base: nn.Module | None, train: Recordings, val: Recordings, faults: Faults
) -> tuple[nn.Module, CTC]:
    """Build a streaming speech recogniser, from scratch or from `base`, and its objective."""
    args.reject("a streaming speech recogniser", "language")
    augment = args.augmented(AudioAugmentation)
    if base is not None:
        model: nn.Module = base
        recognizer = recognizer_config(base)
        notes = _language_notes(args, recognizer, train)
        recognizer = replace(recognizer, ngram=None)  # another language or other prompts: the n-grams would mislead
    else:
        recognizer = RecognizerConfig(mel=MEL, stack=STACK, charset=alphabet_of(train))
        notes = (f"alphabet: {' '.join(recognizer.charset.names).strip()}",)
        read_out = sum(needs_english(train.sentence(i)) for i in range(len(train)))
        if read_out and recognizer.charset == LETTERS:
            notes += (f"{read_out:,} transcripts have digits or symbols, which are spelled out in English",)
        model = _new_model(args, recognizer)
    objective = CTC([train], val, recognizer, batch_seconds=args.batch_size or 60, augment=augment, seed=args.seed)
    transformer = base is None and args.one_of("transformer", "rnn", "cnn") == "transformer"
    if transformer and (some := objective.batch(objective.epoch(0)[0], args.seed)):
        speech_models.normalise_stem(cast(Speech, model), some["frames"])
    objective.faults.remember(faults)
    objective.understood = (
        train.rows.described(),
        *remarks.examples(train.rows, lambda i: f"{train.name(i)} → {remarks.short(train.sentence(i))}"),
        *remarks.small_validation(objective.val_count),
        *remarks.duplicate_files(train, val, "recordings"),
    )
    objective.train, objective.notes = train, notes
    objective.default_lr = 1e-3 if base is None else 2e-4
    return model, objective


def alphabet_of(recordings: Recordings) -> Charset:
    """Return the characters of the transcripts, or the English alphabet if it covers them."""
    sentences = (recordings.sentence(i) for i in range(len(recordings)))
    letters = {letter for text in sentences if not needs_english(text) for letter in normalize_transcript(text)}
    if letters <= set(LETTERS.names):
        return LETTERS
    return Charset((" ", *sorted(letters - {" "})))


def _language_notes(args: TrainArgs, recognizer: RecognizerConfig, train: Recordings) -> tuple[str, ...]:
    """Return notes on transcripts outside the model's alphabet and on its dropped n-gram model."""
    known, notes = set(recognizer.charset.names), []
    unknown = [set(normalize_transcript(train.sentence(i))) - known for i in range(len(train))]
    if any(unknown):
        letters = " ".join(sorted(set().union(*unknown)))
        count = sum(map(bool, unknown))
        fact = f"{count:,} of {len(train):,} transcripts have letters that {args.from_} lacks ({letters})"
        remedy = "leave out --from to learn the alphabet of your transcripts"
        if 2 * count > len(train):
            raise InputError(fact, remedy)
        notes.append(f"{fact} and are left out; {remedy}")
    if recognizer.ngram is not None:
        notes.append(f"the letter n-gram model of {args.from_} is not kept: it was learned from other transcripts")
    return tuple(notes)


def _new_model(args: TrainArgs, recognizer: RecognizerConfig) -> nn.Module:
    match args.one_of("transformer", "rnn", "cnn"):
        case "rnn":
            args.reject("--arch rnn", "heads")
            config = speech_models.gru(recognizer, width=args.width or 336, layers=args.depth or 3)
            return Recurrent(config, seed=args.seed)
        case "cnn":
            args.reject("--arch cnn", "heads")
            return ConvNet1d(
                speech_models.convolution(recognizer, width=args.width or 224, blocks=args.depth or 7), seed=args.seed
            )
    size = {"width": args.width or 160, "depth": args.depth or 7, "count": args.heads or 4}
    return Speech(speech_models.transformer(recognizer, **size), seed=args.seed)


MAX_BONUS = 1.0  # nats: otherwise the ends of a long recording would outweigh its content


def early_ctc(
    logits: Float[Tensor, "b n v"],
    rows: Int[Tensor, " b"],
    targets: Int[Tensor, "b s"],
    sizes: Int[Tensor, " b"],
    slope: float = 0.0,
) -> Float[Tensor, ""]:
    """loss = −log Σ over alignments of p(alignment) · exp Σ_t w_t, over rows t that emit a symbol; w_t = λ (n/2 − t).

    CTC does not reward early emission, so a network that can wait will wait. Here alignments that emit earlier get more
    weight: Yao et al., "Delay-penalized CTC Implemented Based on Finite State Transducer", 2023, except that every row
    that emits a symbol counts, not only the first, so that torch's CTC loss can compute it.

    The loss is summed over recordings. `slope` is λ in nats per row; 0 is plain CTC.
    """
    t = torch.arange(logits.shape[1], device=logits.device)
    w = (slope * (rows[:, None] / 2 - t)).clamp(-MAX_BONUS, MAX_BONUS)
    symbol = torch.arange(logits.shape[2], device=logits.device) != BLANK
    pushed = logits + w[..., None] * symbol
    loss = ctc_loss(
        pushed.log_softmax(-1).transpose(0, 1), targets, rows, sizes, blank=BLANK, reduction="sum"
    )  # its gradient is correct for normalised rows only; each row's normaliser is common to all alignments
    gained = pushed.logsumexp(-1) - logits.logsumexp(-1)
    return loss - gained.masked_fill(t >= rows[:, None], 0).sum()


class SpeechExample(NamedTuple):
    frames: Tensor
    target: Tensor


def spelled(sentence: str, recognizer: RecognizerConfig, place: str) -> str:
    """Return a transcript in the recognizer's alphabet; raises a Fault if it is empty or has other characters."""
    text = spoken(sentence, recognizer.charset, place)
    if not text:
        raise Fault("empty transcript", place)
    missing = sorted(set(text) - set(recognizer.charset.names))
    if missing:
        raise Fault(f"transcript with {missing[0]!r}, which is not in the alphabet", place)
    return text


def target_of(sentence: str, frames: int, recognizer: RecognizerConfig, place: str) -> Tensor:
    """Return the symbol ids of a transcript, with a space after every word; raises a Fault if it is unusable.

    The last word is also followed by a space, so that the network learns to emit the end of a word before the next one
    begins.
    """
    text = spelled(sentence, recognizer, place)
    target = torch.tensor(recognizer.charset.encode(text + " "))
    need = len(target) + int((target[1:] == target[:-1]).sum())
    seconds = frames * recognizer.mel.hop / recognizer.mel.rate
    if need > -(-frames // recognizer.stack):
        raise Fault("recording too short for its transcript", place)
    if seconds > 4 + len(text):  # one letter per second
        raise Fault("recording too long for its transcript", place)
    return target


def collated(examples: Sequence[SpeechExample]) -> Batch:
    """Collate examples into a batch, padded to the longest recording and transcript."""
    frames, targets = zip(*examples, strict=True)
    return {
        "frames": pad_sequence(list(frames), batch_first=True),
        "lengths": torch.tensor([len(one) for one in frames]),
        "targets": pad_sequence(list(targets), batch_first=True),
        "sizes": torch.tensor([len(one) for one in targets]),
    }


class _Mapped(Sequence[Sequence[int]]):
    """Maps batches of positions in a list of rows to batches of rows."""

    def __init__(self, batches: Batches, rows: Sequence[int]) -> None:
        self.batches, self.rows = batches, rows

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, i: int) -> Sequence[int]:  # type: ignore[override]
        return [self.rows[place] for place in self.batches[i]]


@torch.no_grad()
def transcripts(
    model: nn.Module, recordings: Recordings, recognizer: RecognizerConfig, faults: Faults
) -> tuple[list[tuple[str, str]], list[int]]:
    """Return (hypothesis, reference) for every usable recording, and the rows of those recordings."""
    training, found, rows = model.training, [], []
    model.eval()
    for i in range(len(recordings)):
        try:
            reference = spoken(recordings.sentence(i), recognizer.charset, recordings.name(i))
            frames = log_mel(recordings.wave(i), recognizer.mel).float()
        except Fault as fault:
            faults.note(fault)  # not a reason to end the run
            continue
        logits, _ = ctc_rows(model, frames[None], torch.tensor([len(frames)]), recognizer)
        reader = word_decoder(recognizer)
        words = [*reader.feed(LogitRows(logits[0].cpu(), len(frames) * recognizer.mel.hop)), *reader.finish(0.0)]
        found.append((" ".join(word.text for word in words), reference))
        rows.append(i)
    model.train(training)
    if not found:
        raise InputError("no validation recording can be used", "; ".join(faults.summary()) or "give some")
    return found, rows


def save_speech(model: nn.Module, folder: str | Path, recognizer: RecognizerConfig, *, half: bool = False) -> Path:
    """Save a folder that `transcribe` accepts; `half` stores the weights as float16."""
    folder = save(deepcopy(model).half() if half else model, folder)
    recognizer.save(folder)
    return folder
