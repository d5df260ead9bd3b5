"""n | header | data: reading of safetensors headers, with every claim validated before it is trusted.

The header is JSON: name → dtype, shape, and [start, stop) in the data. Nothing is allocated based on its values here.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch

from glassformer.errors import CheckpointError

LONGEST = 100_000_000  # bytes; the format's own limit on the header
MOST_AXES = 64  # torch's limit

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "C64": torch.complex64,
}


class TensorEntry(NamedTuple):
    """One tensor: where its bytes are in the file, and how to read them."""

    file: Path
    start: int
    stop: int
    dtype: torch.dtype
    shape: tuple[int, ...]


class Header(NamedTuple):
    """All tensors by name, and the metadata saved with them."""

    entries: dict[str, TensorEntry]
    metadata: dict[str, str]


def read_header(path: Path) -> Header:
    """Read the header of a safetensors file; raise CheckpointError if the file does not match it exactly."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > LONGEST or 8 + length > size:
            fact = f"{path.name} has {size} bytes and claims a header of {length if size >= 8 else 'unknown length'}"
            raise _broken(fact)
        text = file.read(length)
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        reason = error.args[0] if isinstance(error, _DuplicateError) else "it is not JSON"
        raise _broken(f"the header of {path.name} cannot be read ({reason})") from None
    if not isinstance(header, dict):
        raise _broken(f"the header of {path.name} is a {type(header).__name__}")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(word, str) for word in metadata.values()):
        raise _broken(f"the metadata of {path.name} are not strings")
    entries = {name: _entry(path, name, claim, 8 + length) for name, claim in header.items()}
    _require_exact_cover(path, entries, 8 + length, size)
    return Header(entries, metadata)


class _DuplicateError(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _DuplicateError(f"{twice} occurs twice")
    return found


def _entry(path: Path, name: str, claim: Any, data: int) -> TensorEntry:
    """Parse the entry of one tensor and check that it is consistent in itself."""
    if not isinstance(claim, dict) or set(claim) != {"dtype", "shape", "data_offsets"}:
        raise _broken(f"tensor {name} in {path.name} has no dtype, shape and data_offsets")
    dtype = DTYPES.get(claim["dtype"]) if isinstance(claim["dtype"], str) else None
    if dtype is None:
        raise _broken(f"tensor {name} in {path.name} has dtype {str(claim['dtype'])[:40]}")
    shape, offsets = claim["shape"], claim["data_offsets"]
    if not _counts(shape) or len(shape) > MOST_AXES:
        raise _broken(f"tensor {name} in {path.name} has shape {str(shape)[:60]}")
    if not _counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _broken(f"tensor {name} in {path.name} has data_offsets {str(offsets)[:60]}")
    start, stop = offsets
    if math.prod(shape) * dtype.itemsize != stop - start:
        fact = f"tensor {name} in {path.name} of {claim['dtype']} {_times(shape)} claims {stop - start} bytes"
        raise _broken(fact)
    return TensorEntry(path, data + start, data + stop, dtype, tuple(shape))


def _counts(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(n) is int and 0 <= n < 2**63 for n in numbers)


def _require_exact_cover(path: Path, entries: dict[str, TensorEntry], data: int, size: int) -> None:
    """Require that the tensors cover the data contiguously: no overlap, no gap, no trailing bytes."""
    here, before = data, "the header"
    for name, entry in sorted(entries.items(), key=lambda item: item[1][1:3]):
        if entry.start != here:
            word = "overlaps" if entry.start < here else "leaves a gap after"
            raise _broken(f"tensor {name} in {path.name} {word} {before}")
        if entry.stop > size:
            raise _broken(f"tensor {name} ends {entry.stop - size} bytes after the end of {path.name}")
        here, before = entry.stop, name
    if here != size:
        raise _broken(f"{path.name} has {size - here} bytes that belong to no tensor")


def _times(shape: list[int]) -> str:
    return "×".join(map(str, shape)) or "scalar"


def _broken(fact: str) -> CheckpointError:
    return CheckpointError(fact, "the file is damaged or malicious; download it again")
