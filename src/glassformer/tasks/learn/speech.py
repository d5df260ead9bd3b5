"""loss = −log p(letters | frames), CTC: recordings with their transcripts → a recogniser that streams."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from glassformer.checkpoints import save
from glassformer.core.audio import MelConfig, log_mel
from glassformer.errors import InputError
from glassformer.tasks.data.augment_audio import faster
from glassformer.tasks.data.faults import Fault, Faults
from glassformer.tasks.data.fingerprint import of_recordings
from glassformer.tasks.data.order import Batches, bucketed
from glassformer.tasks.data.recordings import Recordings
from glassformer.tasks.ears import Rows, answers
from glassformer.tasks.learn.early import early_ctc
from glassformer.tasks.learn.unlike import SPEEDS, Changed, silence
from glassformer.tasks.live import reader_of
from glassformer.tasks.symbols import Hearing, spoken
from glassformer.tasks.training.lesson import Batch
from glassformer.tasks.word_errors import error_rate

MEL = MelConfig(bands=40, low=80.0, high=4000.0)  # what a telephone carries: no band is empty for some recordings only
STACK = 4  # a vector every 40 ms
CHANGED = Changed()
AFTER = 5  # rows of silence after each recording in which nothing is learned: chunks and convolutions hear so far


class Part(NamedTuple):
    """Recordings that an epoch hears `times` times each, at one of these `speeds`."""

    recordings: Recordings
    times: int = 1
    speeds: tuple[float, ...] = SPEEDS


class SpeechLesson:
    """Batches of recordings of like length, up to `seconds` in all; measured by the word error rate of `held`.

    After each recording come `AFTER` rows of silence that the loss leaves out: the last rows hear that nothing
    follows, which live they never do, and a network would learn to end the last word there. `slope` is how many nats
    an alignment gains that speaks a row earlier (`early_ctc`). `keep` holds the frames of every recording and speed in
    memory: right for hours of sound, not for weeks.
    """

    better: ClassVar[Literal["lower"]] = "lower"

    def __init__(
        self,
        parts: Sequence[Part | Recordings],
        held: Recordings,
        hearing: Hearing | None = None,
        *,
        seconds: float = 60.0,
        changed: Changed | None = CHANGED,
        slope: float = 0.0,
        seed: int = 0,
        keep: bool = False,
    ) -> None:
        self.parts = [part if isinstance(part, Part) else Part(part) for part in parts]
        self.held, self.seconds, self.changed, self.seed, self.keep = held, seconds, changed, seed, keep
        self.slope = slope
        self.hearing = Hearing(mel=MEL, stack=STACK) if hearing is None else hearing
        self.faults = Faults()
        self._kept: dict[tuple[int, float], Tensor] = {}
        self._places = [(p, i) for p, part in enumerate(self.parts) for i in range(len(part.recordings))]
        if not self._places:
            raise InputError("there are 0 recordings to learn from", "give some")
        frames = np.concatenate([part.recordings.lengths for part in self.parts])
        self._leave_out(np.flatnonzero(frames == 0))
        self._rows = [
            row for row, (p, _) in enumerate(self._places) if frames[row] for _ in range(self.parts[p].times)
        ]
        self._frames = frames[self._rows]

    def _leave_out(self, rows: NDArray[np.int64]) -> None:
        """What no frames are known of is tried at once: together in one batch, it would seem that all is faulty."""
        self.faults.good(len(self._places) - len(rows))
        for p, i in (self._places[row] for row in rows):
            self.faults.each([i], self.parts[p].recordings.wave)
        self.faults.check()
        if len(rows) == len(self._places):
            fact = f"none of {len(rows):,} recordings can be used"
            raise InputError(fact, "; ".join(self.faults.told()))

    def about(self) -> dict[str, object]:
        hearing = {"symbols": "".join(self.hearing.symbols.names), "mel": asdict(self.hearing.mel)}
        parts = {
            str(i): {"times": part.times, "speeds": part.speeds, "data": of_recordings(part.recordings)}
            for i, part in enumerate(self.parts)
        }
        return {
            "parts": parts,
            "held": of_recordings(self.held),
            "seconds": self.seconds,
            "changed": None if self.changed is None else asdict(self.changed),
            "slope": self.slope,
            "seed": self.seed,
            "hearing": hearing | {"stack": self.hearing.stack},
        }

    def epoch(self, number: int) -> Sequence[Sequence[int]]:
        batches = bucketed(self._frames, int(100 * self.seconds), self.seed, number)
        return _Renamed(batches, self._rows)

    def batch(self, rows: Sequence[int], seed: int) -> Batch | None:
        random = torch.Generator().manual_seed(seed)
        examples = self.faults.each(rows, lambda row: self._example(row, random))
        self.faults.check()
        return collated(examples) if examples else None

    def weigh(self, batch: Batch) -> float:
        return float(batch["sizes"].sum())

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """−Σ log p(target | frames), early alignments weighing more; the weight is the number of letters."""
        logits, rows = answers(model, batch["frames"], batch["lengths"], self.hearing)
        return early_ctc(logits.float(), rows - AFTER, batch["targets"], batch["sizes"], self.slope)

    def measure(self, model: nn.Module) -> dict[str, float]:
        """Word and letter error rates of the held-out recordings."""
        pairs = transcripts(model, self.held, self.hearing, self.faults)
        return {
            "wer": error_rate((said.split(), meant.split()) for said, meant in pairs),
            "cer": error_rate(pairs),
        }

    def _example(self, row: int, random: torch.Generator) -> Example:
        p, i = self._places[row]
        recordings, _, speeds = self.parts[p]
        factor = 1.0 if self.changed is None else speeds[int(torch.randint(len(speeds), (), generator=random))]
        mel, after = self.hearing.mel, AFTER * self.hearing.stack
        frames = pad(self._heard(row, factor), (0, 0, 0, after), value=silence(mel))
        if self.changed is not None:
            frames = self.changed(frames, mel, random)
        target = fitting(recordings.sentence(i), len(frames) - after, self.hearing, f"recording {i}")
        return Example(frames, target)

    def _heard(self, row: int, factor: float) -> Tensor:
        """Frames, kept in half precision if they are kept: what is lost is far below any noise."""
        kept = self._kept.get((row, factor))
        if kept is not None:
            return kept.float()
        p, i = self._places[row]
        frames = log_mel(faster(self.parts[p].recordings.wave(i), factor), self.hearing.mel).float()
        if self.keep:
            self._kept[row, factor] = frames.half()
        return frames

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_kept": {}}  # a worker reads for itself


class Example(NamedTuple):
    frames: Tensor
    target: Tensor


def fitting(sentence: str, frames: int, hearing: Hearing, place: str) -> Tensor:
    """The letters of a transcript, a space after each word; a Fault if the sound is too short or too long for them.

    The last word has its space too: so a network learns to say that a word is over before the next one begins.
    """
    text = spoken(sentence)
    if not text:
        raise Fault("transcript without a word", place)
    try:
        target = torch.tensor(hearing.symbols.encode(text + " "))
    except InputError:
        raise Fault("transcript with letters that are not among the symbols", place) from None
    need = len(target) + int((target[1:] == target[:-1]).sum())
    seconds = frames * hearing.mel.hop / hearing.mel.rate
    if need > -(-frames // hearing.stack):
        raise Fault("recording too short for its transcript", place)
    if seconds > 4 + len(text):  # a letter a second
        raise Fault("recording too long for its transcript", place)
    return target


def collated(examples: Sequence[Example]) -> Batch:
    """Padded to the longest, each with its length."""
    frames, targets = zip(*examples, strict=True)
    return {
        "frames": pad_sequence(list(frames), batch_first=True),
        "lengths": torch.tensor([len(one) for one in frames]),
        "targets": pad_sequence(list(targets), batch_first=True),
        "sizes": torch.tensor([len(one) for one in targets]),
    }


class _Renamed(Sequence[Sequence[int]]):
    """Batches of places in a list of rows, as batches of rows."""

    def __init__(self, batches: Batches, rows: Sequence[int]) -> None:
        self.batches, self.rows = batches, rows

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, i: int) -> Sequence[int]:  # type: ignore[override]
        return [self.rows[place] for place in self.batches[i]]


@torch.no_grad()
def transcripts(model: nn.Module, recordings: Recordings, hearing: Hearing, faults: Faults) -> list[tuple[str, str]]:
    """(said, meant) of every recording that can be used, each heard at once."""
    training, found = model.training, []
    model.eval()
    for i in range(len(recordings)):
        try:
            frames = log_mel(recordings.wave(i), hearing.mel).float()
        except Fault as fault:
            faults.note(fault)  # no reason to end a training
            continue
        logits, _ = answers(model, frames[None], torch.tensor([len(frames)]), hearing)
        reader = reader_of(hearing)
        words = [*reader.feed(Rows(logits[0], len(frames) * hearing.mel.hop)), *reader.finish(0.0)]
        found.append((" ".join(word.text for word in words), spoken(recordings.sentence(i))))
    model.train(training)
    if not found:
        raise InputError("none of the held-out recordings can be used", "; ".join(faults.told()) or "give some")
    return found


def save_speech(model: nn.Module, folder: str | Path, hearing: Hearing, *, half: bool = False) -> Path:
    """A folder from which `load` gives a model that `transcribe` and `listen` use; weights as float16 with `half`."""
    folder = save(deepcopy(model).half() if half else model, folder)
    hearing.save(folder)
    return folder
