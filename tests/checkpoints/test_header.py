"""A header is believed only if every claim in it holds; the format's own reader is the oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from glassformer.checkpoints.header import read_header
from glassformer.errors import CheckpointError

TENSORS = {"a.weight": torch.arange(6.0).view(2, 3), "b": torch.ones(4, dtype=torch.bfloat16), "c": torch.zeros(0, 3)}


def write(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def one(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"w": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(save(TENSORS, metadata={"format": "pt"}))
    header = read_header(path)
    assert header.metadata == {"format": "pt"}
    assert {name: (e.dtype, e.shape) for name, e in header.entries.items()} == {
        name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in TENSORS.items()
    }


@pytest.mark.parametrize(
    ("header", "data", "said"),
    [
        (b"", b"", "not JSON"),
        (b"[1]", b"", "list"),
        (b"\xff\xfe{}", b"", "not JSON"),
        (b'{"w": {}, "w": {}}', b"", "w is there twice"),
        (b"[" * 100_000, b"", "not JSON"),
        (b'{"w": ' + b"9" * 5000 + b"}", b"", "not JSON"),
        ({"w": 3}, b"", "tensor w"),
        ({"__metadata__": {"a": 1}}, b"", "metadata"),
        (one(dtype="F33"), bytes(8), "dtype F33"),
        (one(dtype=["F32"]), bytes(8), "dtype"),
        (one(dtype="F64"), bytes(8), "8 bytes"),
        (one(shape=[3]), bytes(8), "8 bytes"),
        (one(shape=[-2]), bytes(8), "shape"),
        (one(shape=[2.0]), bytes(8), "shape"),
        (one(shape=[True, 2]), bytes(8), "shape"),
        (one(shape=[2**63]), bytes(8), "shape"),
        (one(shape=[2**62, 2**62]), bytes(8), "8 bytes"),
        (one(shape=[1] * 65), bytes(4), "shape"),
        (one(offsets=[8, 0]), bytes(8), "data_offsets"),
        (one(offsets=[0, 8, 9]), bytes(8), "data_offsets"),
        (one(offsets=[0, "8"]), bytes(8), "data_offsets"),
        (one(offsets=[4, 12]), bytes(12), "leaves a gap after the header"),
        (one(), bytes(7), "w ends 1 bytes behind the end"),
        (one(), bytes(9), "1 bytes that belong to no tensor"),
        (one() | {"v": one()["w"]}, bytes(8), "overlaps"),
    ],
)
def test_hostile_headers_are_refused(tmp_path: Path, header: Any, data: bytes, said: str) -> None:
    path = write(tmp_path / "m.safetensors", header, data)
    with pytest.raises(CheckpointError, match=said):
        read_header(path)
    with pytest.raises(SafetensorError), safe_open(path, "pt") as file:
        file.keys()


@pytest.mark.parametrize("length", [2**64 - 1, 100_000_001, 1000])
@pytest.mark.timeout(60)
def test_a_length_beyond_the_file_is_refused_at_once(tmp_path: Path, length: int) -> None:
    path = write(tmp_path / "m.safetensors", {}, length=length)
    with pytest.raises(CheckpointError, match=str(length)):
        read_header(path)


@pytest.mark.parametrize("size", [0, 7])
def test_files_shorter_than_a_length(tmp_path: Path, size: int) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(bytes(size))
    with pytest.raises(CheckpointError, match=f"{size} bytes"):
        read_header(path)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 300), byte=st.integers(0, 255), cut=st.integers(0, 40))
def test_what_we_accept_the_format_accepts_too(tmp_path: Path, place: int, byte: int, cut: int) -> None:
    """Any byte changed, any end cut off: an error of ours, or the same shapes as the format's own reader finds."""
    data = bytearray(save(TENSORS))
    if place < len(data):
        data[place] = byte
    path = tmp_path / "m.safetensors"
    path.write_bytes(data[: len(data) - cut])
    try:
        entries = read_header(path).entries
    except CheckpointError:
        return
    with safe_open(path, "pt") as file:
        assert {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()} == {  # noqa: SIM118
            name: entry.shape for name, entry in entries.items()
        }
