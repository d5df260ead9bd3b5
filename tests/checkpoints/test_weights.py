"""Tensors come from the file without a copy, from the shards that an index names, and never from a pickle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from glassformer.checkpoints.weights import INDEX, open_weights
from glassformer.errors import CheckpointError

TENSORS = {
    "a": torch.arange(6.0).view(2, 3),
    "b": torch.ones(5, dtype=torch.int8),  # leaves what follows at an odd place
    "c": torch.full((3,), 2.5, dtype=torch.bfloat16),
    "d": torch.zeros(0, 3),
    "e": torch.tensor(7, dtype=torch.int64),
}


def test_every_tensor_is_what_was_saved(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "model.safetensors")
    weights = open_weights(tmp_path)
    assert set(weights) == set(TENSORS)
    assert weights.numbers == sum(tensor.numel() for tensor in TENSORS.values())
    for name, tensor in TENSORS.items():
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
    names = sorted(TENSORS)
    places = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(names)}
    for shard in set(places.values()):
        save_file({name: TENSORS[name] for name in names if places[name] == shard}, folder / shard)
    return places


def write_index(folder: Path, weight_map: object) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_shards(tmp_path: Path) -> None:
    write_index(tmp_path, sharded(tmp_path))
    weights = open_weights(tmp_path)
    for name, tensor in TENSORS.items():
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
