"""Speech recordings with transcripts: tables as of Common Voice or LJSpeech, LibriSpeech folders, Python datasets."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.core.audio import RATE
from glassformer.data.audio import as_samples, read_sound
from glassformer.data.faults import Fault
from glassformer.data.rows import Row, RowDataset, Rows, Source, name_of, open_rows
from glassformer.errors import InputError

LONGEST, SHORTEST = 30.0, 0.1  # seconds
QUIET = 1e-3  # peak amplitude below which a recording is silent: 60 dB below full scale


class Recordings(RowDataset):
    """A speech dataset with `wave(i)` at 16 kHz, `sentence(i)` and `seconds(i)` for row i.

    `faults` are the rows skipped when the dataset was opened.

    Audio is read on demand and not cached. An unreadable, silent, too short or too long recording raises Fault; the
    header is read first, so that an hour-long file among sentences is never loaded.
    """

    def __init__(self, rows: Rows, *, longest: float, shortest: float, quiet: float):
        self.rows = rows
        self.longest, self.shortest, self.quiet = longest, shortest, quiet
        self.known = np.full(len(rows), np.nan, dtype=np.float32)

    @classmethod
    def open(
        cls,
        path: Source,
        columns: Mapping[str, str] | None = None,
        *,
        longest: float = LONGEST,
        shortest: float = SHORTEST,
        quiet: float = QUIET,
    ) -> Recordings:
        """Open a table of audio files and transcripts (audio beside it, or in clips/, audio/ or wavs/ there), or a
        LibriSpeech folder: *.trans.txt files with lines of NAME SENTENCE, and NAME.flac beside each.

        `columns` may name the columns of `audio` and `transcript`."""
        if not 0 <= shortest < longest:
            raise InputError(
                f"shortest is {shortest:g} s and longest is {longest:g} s", "choose a shortest below the longest"
            )

        def check(row: Row) -> str:
            sentence, sound = row["transcript"], row["audio"]
            if not isinstance(sentence, str) or not sentence.strip():
                return "empty sentence"
            return "empty path" if sound is None or (isinstance(sound, str) and not sound.strip()) else ""

        rows = open_rows(path, ("audio", "transcript"), given=columns, check=check)
        rows.require_some(f"{name_of(path)} has no recordings", "give rows of a path and its sentence")
        return cls(rows, longest=longest, shortest=shortest, quiet=quiet)

    def part(self, rows: NDArray[np.int64]) -> Recordings:
        return Recordings(self.rows.part(rows), longest=self.longest, shortest=self.shortest, quiet=self.quiet)

    def like(self, source: Source) -> Recordings:
        limits = {"longest": self.longest, "shortest": self.shortest, "quiet": self.quiet}
        return Recordings.open(source, self.rows.given, **limits)

    def name(self, i: int) -> str:
        """Return the name of the audio file of row i as the data states it, or the location of a row without one."""
        sound = self.rows[i]["audio"]
        sound = sound.get("path") if isinstance(sound, dict) else sound
        return sound if isinstance(sound, str) and sound else self.rows.place(i)

    def file(self, i: int) -> Path:
        """Return the path of the audio file of row i. Raises Fault if it does not exist."""
        found = self.rows.locate(self.name(i), "audio")
        if found is None:
            raise Fault("missing recording", self.name(i))
        return found

    def _sound(self, i: int) -> Path | io.BytesIO:
        """Return the audio file of row i, or its content if the data has bytes or samples (at 16 kHz unless stated)."""
        sound: Any = self.rows[i]["audio"]
        parts = sound if isinstance(sound, dict) else {"bytes": sound, "array": sound}
        if isinstance(parts.get("bytes"), bytes):
            return io.BytesIO(parts["bytes"])
        samples = parts.get("array")
        if isinstance(samples, np.ndarray | Tensor):
            return _encoded(as_samples(samples), int(parts.get("sampling_rate") or RATE))
        return self.file(i)

    def sentence(self, i: int) -> str:
        return str(self.rows[i]["transcript"]).strip()

    def seconds(self, i: int) -> float:
        """Return the duration from the file's header, which is read once."""
        import soundfile

        if np.isnan(self.known[i]):
            sound = self._sound(i)
            try:
                info = soundfile.info(str(sound) if isinstance(sound, Path) else sound)
            except (RuntimeError, OSError):  # libsndfile's errors are RuntimeErrors
                raise Fault("unreadable recording", self._name(sound, i)) from None
            self.known[i] = info.frames / info.samplerate
        return float(self.known[i])

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Length of every row in frames of 10 ms, for `order.bucketed`. Reads the header of every file; rows that are
        unreadable or too long are 0 (and counted as faults when they are read)."""
        return np.array([self._frames(i) for i in range(len(self))], dtype=np.int32)

    def wave(self, i: int) -> Tensor:
        """Return (samples,) float32 from −1 to 1 at 16 kHz, with channels mixed to mono."""
        seconds, sound = self.seconds(i), self._sound(i)
        name = self._name(sound, i)
        if seconds > self.longest:
            raise Fault(f"recording of more than {self.longest:g} s", name)
        if seconds < self.shortest:
            raise Fault(f"recording of less than {self.shortest:g} s", name)
        try:
            wave = read_sound(sound, RATE)
        except InputError:
            raise Fault("unreadable recording", name) from None
        if not bool(torch.isfinite(wave).all()):
            raise Fault("recording with samples that are not numbers", name)
        if float(wave.abs().max()) < self.quiet:
            raise Fault("silent recording", name)
        return wave

    def _name(self, sound: Path | io.BytesIO, i: int) -> str:
        if not isinstance(sound, Path):
            return self.name(i)
        return str(sound.relative_to(self.root)) if sound.is_relative_to(self.root) else str(sound)

    def _frames(self, i: int) -> int:
        try:
            seconds = self.seconds(i)
        except Fault:
            return 0
        return round(100 * seconds) if seconds <= self.longest else 0


def _encoded(samples: NDArray[np.float32], rate: int) -> io.BytesIO:
    """Return samples, (n,) or (channels, n), as a WAV file in memory."""
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, samples.T, rate, format="WAV", subtype="FLOAT")
    file.seek(0)
    return file
