"""The same data, or other? How many rows, and a hash of what is in them, wherever they lie and whenever they came.

Quick for large folders: of pictures the names, the classes and the sizes of the files count, of recordings the names,
the sentences and how long each is; nothing is decoded. Sentences count letter by letter.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any

from glassformer.tasks.data.faults import Fault
from glassformer.tasks.data.images import Images
from glassformer.tasks.data.order import spread
from glassformer.tasks.data.recordings import Recordings
from glassformer.tasks.data.text import Blocks

FILES = 100_000  # of more pictures the sizes of so many are looked at, evenly spread: a look may go over a network
PIECES, PIECE = 1000, 1 << 18  # of a longer text so many stretches of so many tokens

Fingerprint = dict[str, Any]  # JSON: {"count": …, "contents": …}


def of_rows(n: int, row: Callable[[int], object]) -> Fingerprint:
    """Of n rows of anything that JSON can hold; those that cannot be read are passed over."""
    return {"count": n, "contents": digest(_read(n, row))}


def digest(rows: Iterable[object]) -> str:
    """16 hexadecimal digits. As JSON, in which no two lists of rows look alike."""
    found = blake2b(digest_size=8)
    for row in rows:
        found.update(json.dumps(row).encode() + b"\n")
    return found.hexdigest()


def of_images(images: Images) -> Fingerprint:
    looked = set(spread(len(images), FILES))

    def row(i: int) -> tuple[str, int, int]:
        name = images.files[i]
        return name, images.label(i), _size(os.path.join(images.root, name)) if i in looked else 0

    about = {"count": len(images), "shape": list(images.shape), "classes": digest(images.labels)}
    return about | of_rows(len(images), row)


def of_recordings(recordings: Recordings) -> Fingerprint:
    lengths = recordings.lengths
    return of_rows(len(recordings), lambda i: (*recordings.rows[i], int(lengths[i])))


def of_blocks(blocks: Blocks) -> Fingerprint:
    found = blake2b(digest_size=8)
    for i in spread(-(-blocks.tokens // PIECE), PIECES):
        ids = blocks.ids(i * PIECE, min((i + 1) * PIECE, blocks.tokens))
        found.update(ids.numpy().astype("<u4").tobytes())
    return {"tokens": blocks.tokens, "length": blocks.length, "contents": found.hexdigest()}


def of_tokenizer(tokenizer: Any) -> Fingerprint:
    """Its tokens in their order: unlike its file, that is the same for every version of the library."""
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda pair: (pair[1], pair[0]))
    return {"count": len(tokens), "contents": digest(tokens)}


def _read(n: int, row: Callable[[int], object]) -> Iterator[object]:
    for i in range(n):
        try:
            yield row(i)
        except Fault:  # counted when it is needed
            continue


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
