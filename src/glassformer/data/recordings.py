"""Speech recordings with transcripts, in the formats of Common Voice (TSV) and LibriSpeech (folders)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.core.audio import RATE
from glassformer.data.audio import read_sound
from glassformer.data.faults import Fault, Faults
from glassformer.data.packed import LineIndex, Strings, raw_lines
from glassformer.errors import InputError

PATH_COLUMNS, SENTENCE_COLUMNS = ("path", "file", "filename", "audio"), ("sentence", "text", "transcript")
BESIDE = ("", "clips", "audio", "wavs")  # folders beside the table that its paths may be relative to
SUFFIXES = (".flac", ".wav", ".mp3", ".ogg", ".opus")
LONGEST, SHORTEST = 30.0, 0.1  # seconds
QUIET = 1e-3  # peak amplitude below which a recording is silent: 60 dB below full scale


class Listed(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, i: int) -> tuple[str, str]:
        """Return the audio file of row i (relative to the root) and its transcript."""


class Recordings:
    """A speech dataset with `wave(i)` at 16 kHz, `sentence(i)` and `seconds(i)` for row i.

    `faults` are the rows skipped when the dataset was opened.

    Audio is read on demand and not cached. An unreadable, silent, too short or too long recording raises Fault; the
    header is read first, so that an hour-long file among sentences is never loaded.
    """

    def __init__(self, root: Path, rows: Listed, faults: Faults, *, longest: float, shortest: float, quiet: float):
        self.root, self.rows, self.faults = root, rows, faults
        self.longest, self.shortest, self.quiet = longest, shortest, quiet
        self.known = np.full(len(rows), np.nan, dtype=np.float32)

    @classmethod
    def open(
        cls, path: str | Path, *, longest: float = LONGEST, shortest: float = SHORTEST, quiet: float = QUIET
    ) -> Recordings:
        """Open a TSV with columns path and sentence (audio beside it, or in clips/ or audio/ there), or a folder in
        LibriSpeech format: *.trans.txt files with lines of NAME SENTENCE, and NAME.flac beside each."""
        path, faults = Path(path), Faults()
        if not 0 <= shortest < longest:
            raise InputError(f"recordings from {shortest:g} to {longest:g} s", "choose a shortest below the longest")
        rows: Listed = _Folder(path, faults) if path.is_dir() else _Table(path, faults)
        faults.check(1)
        if not len(rows):
            raise InputError(f"{path} has no recordings", "give rows of a path and its sentence")
        root = path if path.is_dir() else path.parent
        return cls(root, rows, faults, longest=longest, shortest=shortest, quiet=quiet)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, rows: NDArray[np.int64]) -> Recordings:
        limits = {"longest": self.longest, "shortest": self.shortest, "quiet": self.quiet}
        return Recordings(self.root, _Part(self.rows, rows), Faults(), **limits)

    def file(self, i: int) -> Path:
        """Return the path of the audio file of row i. Raises Fault if it does not exist."""
        name, _ = self.rows[i]
        for suffix in ("",) if Path(name).suffix.lower() in SUFFIXES else ("", *SUFFIXES):
            for folder in BESIDE:
                if (found := self.root / folder / f"{name}{suffix}").is_file():
                    return found
        raise Fault("missing recording", name)

    def sentence(self, i: int) -> str:
        return self.rows[i][1]

    def seconds(self, i: int) -> float:
        """Return the duration from the file's header, which is read once."""
        import soundfile

        if np.isnan(self.known[i]):
            path = self.file(i)
            try:
                info = soundfile.info(str(path))
            except (RuntimeError, OSError):  # libsndfile's errors are RuntimeErrors
                raise Fault("unreadable recording", self._name(path)) from None
            self.known[i] = info.frames / info.samplerate
        return float(self.known[i])

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Length of every row in frames of 10 ms, for `order.bucketed`. Reads the header of every file; rows that are
        unreadable or too long are 0 (and counted as faults when they are read)."""
        return np.array([self._frames(i) for i in range(len(self))], dtype=np.int32)

    def wave(self, i: int) -> Tensor:
        """Return (samples,) float32 from −1 to 1 at 16 kHz, with channels mixed to mono."""
        seconds, path = self.seconds(i), self.file(i)
        name = self._name(path)
        if seconds > self.longest:
            raise Fault(f"recording of more than {self.longest:g} s", name)
        if seconds < self.shortest:
            raise Fault(f"recording of less than {self.shortest:g} s", name)
        try:
            wave = read_sound(path, RATE)
        except InputError:
            raise Fault("unreadable recording", name) from None
        if not bool(torch.isfinite(wave).all()):
            raise Fault("recording with samples that are not numbers", name)
        if float(wave.abs().max()) < self.quiet:
            raise Fault("silent recording", name)
        return wave

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def _frames(self, i: int) -> int:
        try:
            seconds = self.seconds(i)
        except Fault:
            return 0
        return round(100 * seconds) if seconds <= self.longest else 0


class _Part:
    """A subset of the rows of a list."""

    def __init__(self, whole: Listed, rows: NDArray[np.int64]) -> None:
        self.whole, self.rows = whole, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> tuple[str, str]:
        return self.whole[int(self.rows[i])]


# ---- Common Voice ----------------------------------------------------------------------------------------------------


class _Table:
    """A TSV with a header; only the positions of its lines are held in memory."""

    def __init__(self, path: Path, faults: Faults) -> None:
        self.path = path
        header = next((line for _, _, line in raw_lines(path)), b"").decode("utf-8", "replace")
        columns = [name.strip().lower() for name in header.split("\t")]
        self.at = tuple(_column(columns, wanted, path) for wanted in (PATH_COLUMNS, SENTENCE_COLUMNS))
        self.rows = LineIndex(path, self._places(len(columns), faults))

    def _places(self, width: int, faults: Faults) -> Iterator[tuple[int, int, int]]:
        for number, offset, line in islice(raw_lines(self.path), 1, None):
            reason = self._wrong(line, width)
            if reason:
                faults.count(Fault(reason, f"{self.path.name} line {number}"))
            else:
                faults.good()
                yield number, offset, len(line)

    def _wrong(self, line: bytes, width: int) -> str:
        if not line.strip():
            return "empty line"
        try:
            parts = line.decode("utf-8").split("\t")
        except UnicodeDecodeError:
            return "not UTF-8"
        if len(parts) != width:
            return f"wrong number of columns (not {width})"
        return "" if all(parts[i].strip() for i in self.at) else "empty path or sentence"

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> tuple[str, str]:
        parts = self.rows[i].split("\t")
        try:
            return parts[self.at[0]].strip(), parts[self.at[1]].strip()
        except IndexError:
            raise Fault("line that changed since the file was opened", self.rows.place(i)) from None


def _column(columns: list[str], wanted: tuple[str, ...], path: Path) -> int:
    found = [columns.index(name) for name in wanted if name in columns]
    if not found:
        fact = f"{path} has no column {wanted[0]}, but {', '.join(columns)[:80] or 'nothing'}"
        raise InputError(fact, "name the columns path and sentence in its first line, separated by TABs")
    return found[0]


# ---- LibriSpeech -----------------------------------------------------------------------------------------------------


class _Folder:
    """A LibriSpeech folder: 84/121123/84-121123.trans.txt has lines "84-121123-0000 GO DO YOU HEAR", with the audio in
    84-121123-0000.flac."""

    def __init__(self, root: Path, faults: Faults) -> None:
        texts = sorted(root.rglob("*.trans.txt"))
        if not texts:
            fact = f"{root} has no *.trans.txt, in it or below"
            raise InputError(fact, "give a folder of LibriSpeech's kind, or a TSV with the columns path and sentence")
        found = [pair for text in texts for pair in self._lines(text, root, faults)]
        self.names, self.sentences = Strings(name for name, _ in found), Strings(said for _, said in found)

    def _lines(self, path: Path, root: Path, faults: Faults) -> Iterator[tuple[str, str]]:
        for number, _, line in raw_lines(path):
            place = f"{path.relative_to(root)} line {number}"
            try:
                name, _, said = line.decode("utf-8").strip().partition(" ")
            except UnicodeDecodeError:
                faults.count(Fault("not UTF-8", place))
                continue
            if not said.strip():
                faults.count(Fault("empty sentence" if name else "empty line", place))
                continue
            faults.good()
            yield str((path.parent / name).relative_to(root)), said.strip()

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> tuple[str, str]:
        return self.names[i], self.sentences[i]
