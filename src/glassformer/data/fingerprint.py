"""Fingerprints of datasets: the number of rows and a hash of their content, independent of location and time.

Fast for large folders, since nothing is decoded: images are compared by name, class and file size, recordings by name,
transcript and duration, text by content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any

from glassformer.data.faults import Fault
from glassformer.data.images import Images
from glassformer.data.order import spread
from glassformer.data.recordings import Recordings
from glassformer.data.text import Blocks

FILES = 100_000  # file sizes read per dataset, evenly spaced: each may be a network request
PIECES, PIECE = 1000, 1 << 18  # a longer text is sampled in this many pieces of this many tokens

Fingerprint = dict[str, Any]  # JSON: {"count": …, "contents": …}


def of_rows(n: int, row: Callable[[int], object]) -> Fingerprint:
    """Fingerprint of n JSON-serialisable rows; unreadable rows are skipped."""
    return {"count": n, "contents": digest(_read(n, row))}


def digest(rows: Iterable[object]) -> str:
    """Hash rows to 16 hexadecimal digits, serialised as JSON so that different rows never have the same encoding."""
    found = blake2b(digest_size=8)
    for row in rows:
        found.update(json.dumps(row).encode() + b"\n")
    return found.hexdigest()


def of_images(images: Images) -> Fingerprint:
    looked = set(spread(len(images), FILES))

    def row(i: int) -> tuple[str, int, int]:
        name = images.files[i]
        path = images.rows.locate(name, "image") if i in looked else None
        return name, images.label(i), 0 if path is None else path.stat().st_size

    about = {"count": len(images), "shape": list(images.shape), "classes": digest(images.labels)}
    return about | of_rows(len(images), row)


def of_recordings(recordings: Recordings) -> Fingerprint:
    lengths = recordings.lengths
    return of_rows(len(recordings), lambda i: (recordings.name(i), recordings.sentence(i), int(lengths[i])))


def of_blocks(blocks: Blocks) -> Fingerprint:
    found = blake2b(digest_size=8)
    for i in spread(-(-blocks.tokens // PIECE), PIECES):
        ids = blocks.ids(i * PIECE, min((i + 1) * PIECE, blocks.tokens))
        found.update(ids.numpy().astype("<u4").tobytes())
    return {"tokens": blocks.tokens, "length": blocks.length, "contents": found.hexdigest()}


def of_tokenizer(tokenizer: Any) -> Fingerprint:
    """Fingerprint the vocabulary in id order; unlike the tokenizer's file, it is the same for all library versions."""
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda pair: (pair[1], pair[0]))
    return {"count": len(tokens), "contents": digest(tokens)}


def _read(n: int, row: Callable[[int], object]) -> Iterator[object]:
    for i in range(n):
        try:
            yield row(i)
        except Fault:  # counted when the row is used
            continue
