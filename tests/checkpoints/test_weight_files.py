"""Files of weights: headers, shards, memory mapping, layouts; hostile files are refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.torch import save, save_file
from torch import Tensor

from glassformer.checkpoints.header import read_header
from glassformer.checkpoints.layouts import Interleaved, Joined, Layout, Reshaped, RowRange, Same, Transposed
from glassformer.checkpoints.weights import INDEX, open_weights
from glassformer.core.rotary import rotary_angles, rotate
from glassformer.errors import CheckpointError

# Tensors come from the file without a copy, from the shards that an index names, and never from a pickle.


WEIGHTS_TENSORS = {
    "a": torch.arange(6.0).view(2, 3),
    "b": torch.ones(5, dtype=torch.int8),  # leaves what follows at an odd place
    "c": torch.full((3,), 2.5, dtype=torch.bfloat16),
    "d": torch.zeros(0, 3),
    "e": torch.tensor(7, dtype=torch.int64),
}


def test_every_tensor_is_what_was_saved(tmp_path: Path) -> None:
    save_file(WEIGHTS_TENSORS, tmp_path / "model.safetensors")
    weights = open_weights(tmp_path)
    assert set(weights) == set(WEIGHTS_TENSORS)
    assert weights.numbers == sum(tensor.numel() for tensor in WEIGHTS_TENSORS.values())
    for name, tensor in WEIGHTS_TENSORS.items():
        assert torch.equal(weights.read(name), tensor)


def test_unaligned_tensors_are_read_too(tmp_path: Path) -> None:
    """The format lets a header have any length; then nothing after it is aligned."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode()
    header += b" " * (1 - len(header) % 4)
    data = torch.tensor([1.0, 2.0, 3.0]).numpy().tobytes()
    (tmp_path / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    weights = open_weights(tmp_path / "m.safetensors")
    assert weights.entries["w"].start % 4
    assert weights.read("w").tolist() == [1, 2, 3]


def test_writing_changes_no_file_and_release_loses_nothing(tmp_path: Path) -> None:
    big = torch.arange(50_000.0)
    save_file({"big": big, "small": torch.ones(3)}, tmp_path / "model.safetensors")
    before = (tmp_path / "model.safetensors").read_bytes()
    weights = open_weights(tmp_path)
    tensor = weights.read("big")
    weights.release("big")
    assert torch.equal(tensor, big)
    tensor += 1
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert tensor.data_ptr() == weights.read("big").data_ptr()


def sharded(folder: Path) -> dict[str, str]:
    names = sorted(WEIGHTS_TENSORS)
    places = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(names)}
    for shard in set(places.values()):
        save_file({name: WEIGHTS_TENSORS[name] for name in names if places[name] == shard}, folder / shard)
    return places


def write_index(folder: Path, weight_map: object) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_shards(tmp_path: Path) -> None:
    write_index(tmp_path, sharded(tmp_path))
    weights = open_weights(tmp_path)
    for name, tensor in WEIGHTS_TENSORS.items():
        assert torch.equal(weights.read(name), tensor)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"a": "../secret.safetensors"}, "points to"),
        ({"a": "/etc/passwd"}, "points to"),
        ({"a": "model-0.bin"}, "points to"),
        ({"a": 3}, "weight_map|points to"),
        ({"x": "model-9.safetensors"}, "model-9.safetensors .* is missing"),
        ({"a": "model-1.safetensors"}, "weight a is in model-0"),
        ({"x": "model-1.safetensors"}, "weight x is not in model-1"),
    ],
)
def test_hostile_indices(tmp_path: Path, change: dict[str, object], said: str) -> None:
    write_index(tmp_path, {**sharded(tmp_path), **change})
    with pytest.raises(CheckpointError, match=said):
        open_weights(tmp_path)


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense", '{"weight_map": 3}', '{"weight_map": {"a": []}}'])
def test_indices_that_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / INDEX).write_text(text)
    with pytest.raises(CheckpointError, match="weight_map"):
        open_weights(tmp_path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt"])
def test_pickles_are_refused_with_the_command(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x80\x04anything")
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(CheckpointError, match=rf"glassformer convert .*{name} -o FOLDER"):
            open_weights(path)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no model\.safetensors"):
        open_weights(tmp_path)
    with pytest.raises(CheckpointError, match="there is no"):
        open_weights(tmp_path / "nowhere")


def test_two_files_with_one_name(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "m.safetensors")
    weights = open_weights(tmp_path / "m.safetensors")
    assert set(weights | weights.renamed("other.")) == {"a", "other.a"}
    with pytest.raises(CheckpointError, match="weight a is in two files"):
        weights | weights


# A header is believed only if every claim in it holds; the format's own reader is the oracle.


HEADER_TENSORS = {
    "a.weight": torch.arange(6.0).view(2, 3),
    "b": torch.ones(4, dtype=torch.bfloat16),
    "c": torch.zeros(0, 3),
}


def write(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def one(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"w": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(save(HEADER_TENSORS, metadata={"format": "pt"}))
    header = read_header(path)
    assert header.metadata == {"format": "pt"}
    assert {name: (e.dtype, e.shape) for name, e in header.entries.items()} == {
        name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in HEADER_TENSORS.items()
    }


@pytest.mark.parametrize(
    ("header", "data", "said"),
    [
        (b"", b"", "not JSON"),
        (b"[1]", b"", "list"),
        (b"\xff\xfe{}", b"", "not JSON"),
        (b'{"w": {}, "w": {}}', b"", "w occurs twice"),
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
        (one(), bytes(7), "w ends 1 bytes after the end"),
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


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 300), byte=st.integers(0, 255), cut=st.integers(0, 40))
def test_what_we_accept_the_format_accepts_too(tmp_path: Path, place: int, byte: int, cut: int) -> None:
    """Any byte changed, any end cut off: an error of ours, or the same shapes as the format's own reader finds."""
    data = bytearray(save(HEADER_TENSORS))
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


# Every layout is its own inverse, and its shapes are what the published code has.


W = torch.arange(24.0).view(6, 4)


@pytest.mark.parametrize(
    ("layout", "ours", "shapes"),
    [
        (Same(), [W], [(6, 4)]),
        (Transposed(), [W], [(4, 6)]),
        (Joined(), [W, W[:2], W + 1], [(14, 4)]),
        (Joined(transposed=True), [W, W[:2], W + 1], [(4, 14)]),
        (Joined(), [W[0], W[1]], [(8,)]),
        (Reshaped(lambda c: (6, 2, c)), [W], [(6, 2, 2)]),
        (RowRange(lambda c: (1, c, 2)), [W[:2]], [(1, 2, 2), (1, 2, 2)]),
        (Interleaved(lambda c: 1), [W], [(6, 4)]),
        (Interleaved(lambda c: 3), [W], [(6, 4)]),
    ],
)
def test_there_and_back(layout: Layout, ours: Sequence[Tensor], shapes: list[tuple[int, ...]]) -> None:
    theirs = layout.write(ours, 2)
    assert [tuple(tensor.shape) for tensor in theirs] == shapes
    back = layout.read(theirs, [tuple(tensor.shape) for tensor in ours], 2)
    assert all(torch.equal(a, b) for a, b in zip(ours, back, strict=True))
    on_meta = layout.write([tensor.to("meta") for tensor in ours], 2)
    assert [tuple(tensor.shape) for tensor in on_meta] == shapes


@given(heads=st.integers(1, 4), half=st.integers(1, 4), seed=st.integers(0, 99))
def test_interleaved_is_the_other_way_to_turn(heads: int, half: int, seed: int) -> None:
    """Turning pairs (2i, 2i+1) of their queries gives the scores that turning (i, i + d/2) of ours gives."""
    generator = torch.Generator().manual_seed(seed)
    d, m, t = 2 * half, 5, 3
    WQ, WK = (torch.randn(heads * d, m, generator=generator, dtype=torch.float64) for _ in "QK")
    X = torch.randn(t, m, generator=generator, dtype=torch.float64)
    cos, sin = rotary_angles(torch.arange(t), d, dtype=torch.float64)

    def scores(WQ: Tensor, WK: Tensor, layout: str) -> Tensor:
        Q, K = ((X @ W.T).view(t, heads, d).transpose(0, 1) for W in (WQ, WK))
        return rotate(Q, cos, sin, layout=layout) @ rotate(K, cos, sin, layout=layout).mT

    theirs = Interleaved(lambda c: heads).write([WQ, WK], None)
    torch.testing.assert_close(scores(*theirs, "interleaved"), scores(WQ, WK, "halves"))
