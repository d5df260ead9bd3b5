"""Plain text, tokenized in a stream into a memory-mapped file of ids, and files with one sentence per line."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.archives import is_archive, unpacked
from glassformer.data.faults import Fault, Faults
from glassformer.data.packed import unreadable
from glassformer.data.rows import Row, RowDataset, Rows, Source, name_of, open_rows
from glassformer.data.tables import SUFFIXES
from glassformer.data.webdataset import is_shard, shards_of
from glassformer.errors import InputError
from glassformer.files import replacing

PIECE = 1 << 16  # characters tokenized as one text
LINE, DOCUMENT = 1 << 20, 1 << 24  # longest line and longest document of a table, in bytes
AT_ONCE = 64  # pieces per call, shared by the tokenizer's threads
CUT = re.compile(r"(?<=\S\n)(?=\S)")  # where words, and so tokens, end in any context
ESCAPED = re.compile("[\udc80-\udcff]")  # bytes that are not valid UTF-8


class Text:
    """Plain-text files in order, read in pieces and never as a whole. UTF-8 without BOM, line endings LF.

    A table is a text as well: one document in each row of its text column, named by `columns` as `line=…`.
    """

    def __init__(self, files: tuple[Path, ...], columns: Mapping[str, str] | None = None) -> None:
        self.files, self.columns, self.faults = files, columns, Faults()

    @classmethod
    def open(cls, files: str | Path | Sequence[str | Path], columns: Mapping[str, str] | None = None) -> Text:
        """Open a file, several files, or the *.txt files of a folder."""
        given = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
        given = [unpacked(path) if is_archive(path) else path for path in given]
        found = [file for path in given for file in (sorted(path.rglob("*.txt")) if path.is_dir() else [path])]
        if not found:
            raise InputError(f"{given[0] if given else 'nothing'} has no *.txt", "give files of plain text")
        missing = [path for path in found if not path.is_file()]
        if missing:
            raise InputError(f"there is no {missing[0]}", "give files of plain text")
        if not any(path.stat().st_size for path in found):
            raise InputError(f"{found[0]} is empty", "give a file of plain text")
        return cls(tuple(found), columns)

    @classmethod
    def of(cls, lines: Lines, folder: Path) -> Text:
        """Keep texts from Python as a file in `folder`, named after its content, and open it."""
        folder.mkdir(parents=True, exist_ok=True)
        beside, digest = folder / f".{os.getpid()}.jsonl", hashlib.sha256()
        try:
            with beside.open("wb") as file:
                for i in range(len(lines)):
                    row = json.dumps({"text": lines.line(i)}).encode() + b"\n"
                    digest.update(row)
                    file.write(row)
            beside.replace(path := folder / f"{digest.hexdigest()[:24]}.jsonl")
        finally:
            beside.unlink(missing_ok=True)
        text = cls((path,))
        text.faults.merge(lines.faults)
        return text

    @property
    def bytes(self) -> int:
        return sum(
            sum(len(piece.encode()) for piece in self._documents(path, Faults()))
            if path.suffix.lower() in SUFFIXES
            else path.stat().st_size
            for path in self.files
        )

    def _documents(self, path: Path, faults: Faults) -> Iterator[str]:
        """Yield the text of every row of a table, each on lines of its own."""
        lines = Lines.open(path, self.columns, longest=DOCUMENT)
        faults.merge(lines.faults)
        return lines.pieces()

    def pieces(self, size: int = PIECE) -> Iterator[str]:
        """Yield the whole text in pieces of about `size` characters, cut between lines, to train a tokenizer on."""
        for path in self.files:
            yield from self.pieces_of(path, size)

    def pieces_of(self, path: Path, size: int = PIECE) -> Iterator[str]:
        """Yield the pieces of one file. Bytes that are not valid UTF-8 become � and are recorded as faults by line."""
        if path.suffix.lower() in SUFFIXES:
            yield from self._documents(path, self.faults)
            return
        rest, number = "", 1
        try:
            # newline=None: CRLF and CR become LF, also where a read ends between the two
            with path.open(encoding="utf-8-sig", errors="surrogateescape", newline=None) as file:
                while part := file.read(size):
                    rest += self._replace_invalid(part, path, number)
                    number += part.count("\n")
                    cut = _last_cut(rest)
                    # a text without line breaks is eventually cut anywhere
                    cut = cut or (len(rest) if len(rest) >= 16 * size else 0)
                    if cut:
                        yield rest[:cut]
                        rest = rest[cut:]
        except OSError as error:
            raise unreadable(path, error) from None
        if rest:
            yield rest
        self.faults.check(1)

    def _replace_invalid(self, part: str, path: Path, number: int) -> str:
        if not ESCAPED.search(part):
            self.faults.count_usable(part.count("\n") + 1)
            return part
        for i, line in enumerate(part.split("\n")):
            if ESCAPED.search(line):
                self.faults.count(Fault("bytes that are not UTF-8", f"{path.name} line {number + i}"))
            else:
                self.faults.count_usable()
        return ESCAPED.sub("\ufffd", part)


def is_table(source: Source) -> bool:
    """Return whether data has rows, and is not plain text."""
    if isinstance(source, str | Path):
        path = Path(source)
        if is_shard(path) or (path.is_dir() and shards_of(path)):
            return True
        if path.is_dir():  # plain text if it has any, else shards of a table
            return not any(path.rglob("*.txt")) and any(one.suffix.lower() in SUFFIXES for one in path.iterdir())
        return path.suffix.lower() in SUFFIXES
    if isinstance(source, list | tuple):
        return all(is_table(one) for one in source)
    return True  # rows of a Python object


def _last_cut(text: str) -> int:
    """Return the last cut, or 0 if there is none. Searches backwards in steps: most texts have one near the end."""
    end, step = len(text), 4096
    while end > 0:
        start = max(0, end - step)
        found = [match.start() for match in CUT.finditer(text, start, end + 1)]  # a cut needs the character after it
        if found:
            return found[-1]
        end = start
    return 0


# ---- blocks of tokens ------------------------------------------------------------------------------------------------


def middle_of(path: Path, characters: int = 200) -> str:
    """Return some text from the middle of a file, from the beginning of a line; "" if no line begins there."""
    with path.open("rb") as file:
        file.seek(path.stat().st_size // 2)
        file.readline(PIECE)
        return file.read(4 * characters).decode("utf-8", "ignore").strip()[:characters]


class Blocks:
    """Row i is tokens[i · length : (i+1) · length + 1]: the inputs and, shifted by one, their targets.

    `tokens` and `bytes` count the whole text: nats per token × tokens / bytes / ln 2 are bits per byte. The ids are
    memory-mapped from a file, or held in memory (`of`).
    """

    def __init__(
        self, path: Path | None, kind: str, length: int, tokens: int, size: int, faults: Faults, *, first: int = 0
    ) -> None:
        self.path, self.kind, self.length, self.tokens, self.bytes = path, kind, length, tokens, size
        self.faults, self.first = faults, first
        self._mapped: NDArray[Any] | None = None

    @classmethod
    def of(cls, lines: Lines, tokenizer: Any, length: int) -> Blocks:
        """Tokenize lines into blocks in memory, for a stream, of which nothing is written to disk."""
        texts = list(lines.pieces())
        encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        ids = np.array([i for one in encoded for i in one.ids], dtype=np.uint32)
        blocks = cls(None, "uint32", length, len(ids), sum(len(text.encode()) for text in texts), lines.faults)
        blocks._mapped = ids
        return blocks

    def __len__(self) -> int:
        return max(0, self.tokens - 1) // self.length

    def block(self, i: int) -> Tensor:
        """Return row i, (length + 1,) int64."""
        if not 0 <= i < len(self):
            raise IndexError(f"block {i} is out of range: there are {len(self)}")
        return self.ids(i * self.length, (i + 1) * self.length + 1)

    def ids(self, start: int, stop: int) -> Tensor:
        """Return any slice of the tokens, for windows that are not aligned to blocks."""
        if self._mapped is None and self.path is not None:
            whole = np.memmap(self.path, dtype=self.kind, mode="r")
            self._mapped = whole[self.first : self.first + self.tokens]
        assert self._mapped is not None
        return torch.from_numpy(self._mapped[start:stop].astype(np.int64))

    def cut(self, share: float) -> tuple[Blocks, Blocks]:
        """Split off the last fraction `share` of the tokens as held-out data; bytes are split in proportion."""
        held = round(share * self.tokens)
        if min(held, self.tokens - held) <= self.length:
            fact = f"{self.tokens} tokens, of which {held} are for validation, are too few for blocks of {self.length}"
            raise InputError(fact, "give more text, or separate validation text")
        parts = ((self.first, self.tokens - held), (self.first + self.tokens - held, held))
        first, last = (self._stretch(start, tokens) for start, tokens in parts)
        return first, last

    def _stretch(self, first: int, tokens: int) -> Blocks:
        size = round(tokens * self.bytes / self.tokens)
        return Blocks(self.path, self.kind, self.length, tokens, size, self.faults, first=first)

    def __getstate__(self) -> dict[str, Any]:
        # a file is memory-mapped again in the receiving process
        return self.__dict__ if self.path is None else {**self.__dict__, "_mapped": None}


def blocks(text: Text, tokenizer: Any, length: int, cache: str | Path, *, end: str | None = None) -> Blocks:
    """Tokenize the text into blocks of `length`. The ids are written to `cache` once and reused as long as neither
    text nor tokenizer changes. `end` is a special token added after each file."""
    if length < 1:
        raise InputError(f"block length must be at least 1, got {length}", "choose at least 1")
    last = None if end is None else tokenizer.token_to_id(end)
    if end is not None and last is None:
        raise InputError(f"the tokenizer has no token {end}", "choose an end token that it has")
    folder, key = Path(cache), _key(text, tokenizer, end)
    card, path = folder / f"{key}.json", folder / f"{key}.ids"
    kind = "uint16" if max(tokenizer.get_vocab().values()) < 1 << 16 else "uint32"  # ids may have gaps
    counts = _known(card, path, kind)
    if counts is None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            counts = {"tokens": _write(path, _encoded(text, tokenizer, last), kind), "bytes": text.bytes, "kind": kind}
            counts["faults"] = [[fault.reason, fault.place] for fault in text.faults]
            with replacing(card) as part:
                part.write_text(json.dumps(counts), encoding="utf-8")
        except OSError as error:
            fact = f"{folder} cannot be written ({error.strerror})"
            raise InputError(fact, "free some disk space, or choose another place") from None
    elif not len(text.faults):
        for reason, place in counts["faults"]:  # reported again, without counting: nothing was read this time
            text.faults.places.setdefault(reason, {})[place] = None
    if counts["tokens"] <= length:
        fact = f"{text.files[0].name} has {counts['tokens']} tokens, too few for a block of {length} and its next token"
        raise InputError(fact, "give more text, or choose shorter blocks")
    return Blocks(path, kind, length, counts["tokens"], counts["bytes"], text.faults)


def _key(text: Text, tokenizer: Any, end: str | None) -> str:
    files = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in text.files]
    content = json.dumps([files, tokenizer.to_str(), end])
    return hashlib.sha256(content.encode()).hexdigest()[:24]


def _known(card: Path, path: Path, kind: str) -> dict[str, Any] | None:
    """Return the cached metadata if the cache is complete, otherwise None."""
    try:
        counts: dict[str, Any] = json.loads(card.read_text(encoding="utf-8"))
        whole = counts["kind"] == kind and path.stat().st_size == counts["tokens"] * np.dtype(kind).itemsize
        return counts if whole else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _encoded(text: Text, tokenizer: Any, last: int | None) -> Iterator[list[int]]:
    for path in text.files:
        pieces = text.pieces_of(path)
        while some := list(islice(pieces, AT_ONCE)):
            for encoded in tokenizer.encode_batch_fast(some, add_special_tokens=False):
                yield encoded.ids
        if last is not None:
            yield [last]


def _write(path: Path, ids: Iterable[list[int]], kind: str) -> int:
    """Write the ids and return their number."""
    tokens = 0
    with replacing(path) as part, part.open("wb") as file:
        for some in ids:
            file.write(np.array(some, dtype=kind).tobytes())
            tokens += len(some)
    return tokens


# ---- lines -----------------------------------------------------------------------------------------------------------


class Lines(RowDataset):
    """Sentences: `line(i)` for row i, and `lengths` in bytes. From a file with one per line, or a column of a table.

    Of files only the positions of the rows are held in memory; empty rows are counted as faults.
    """

    def __init__(self, rows: Rows, lengths: NDArray[np.int32], longest: int = LINE) -> None:
        self.rows, self.lengths, self.longest = rows, lengths, longest

    @classmethod
    def open(cls, path: Source, columns: Mapping[str, str] | None = None, *, longest: int = LINE) -> Lines:
        sizes: list[int] = []

        def check(row: Row) -> str:
            text = row["line"]
            if not isinstance(text, str) or not text.strip():
                return "empty line"
            if (size := len(text.encode())) > longest:
                return f"line of more than {longest:,} bytes"
            sizes.append(size)
            return ""

        rows = open_rows(path, ("line",), given=columns, check=check, strict=False)
        rows.require_some(f"{name_of(path)} has no lines of text", "give a file with a sentence on each line")
        return cls(rows, np.array(sizes, dtype=np.int32), longest)

    def line(self, i: int) -> str:
        return str(self.rows[i]["line"]).strip()

    def pieces(self) -> Iterator[str]:
        """Yield every row on lines of its own, to tokenize."""
        return (self.line(i) + "\n" for i in range(len(self)))

    def part(self, rows: NDArray[np.int64]) -> Lines:
        return Lines(self.rows.part(rows), self.lengths[rows], self.longest)

    def like(self, source: Source) -> Lines:
        return Lines.open(source, self.rows.given, longest=self.longest)
