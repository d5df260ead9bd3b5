from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from glassformer.checkpoints import load
from glassformer.checkpoints.convert import convert
from glassformer.checkpoints.convert.pickled import SHARDS
from glassformer.errors import CheckpointError, InputError


@pytest.fixture
def pickled(tiny: Path, tmp_path: Path) -> Path:
    """The tiny folder as it was before safetensors."""
    folder = tmp_path / "old"
    folder.mkdir()
    torch.save(load_file(tiny / "model.safetensors"), folder / "pytorch_model.bin")
    for name in ("config.json",):
        (folder / name).write_text((tiny / name).read_text())
    (folder / "vocab.json").write_text("{}")
    return folder


def require_same(one: Path, other: Path) -> None:
    ours, theirs = load(one).state_dict(), load(other).state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_file_and_what_stands_beside_it(tiny: Path, pickled: Path, tmp_path: Path) -> None:
    made = convert(pickled / "pytorch_model.bin", tmp_path / "new")
    require_same(made, tiny)
    assert (made / "vocab.json").read_text() == "{}"
    assert sorted(path.name for path in made.iterdir()) == ["config.json", "model.safetensors", "vocab.json"]


@pytest.mark.parametrize("nest", ["state_dict", "model"])
def test_weights_inside_of_a_training_run(tiny: Path, pickled: Path, tmp_path: Path, nest: str) -> None:
    path = pickled / "pytorch_model.bin"
    weights = torch.load(path, weights_only=True)
    torch.save({nest: {f"module.{name}": weight for name, weight in weights.items()}, "epoch": 3}, path)
    require_same(convert(path, tmp_path / "new"), tiny)


def test_shards(tiny: Path, pickled: Path, tmp_path: Path, refused: Any) -> None:
    weights = torch.load(pickled / "pytorch_model.bin", weights_only=True)
    (pickled / "pytorch_model.bin").unlink()
    places = {}
    for i, name in enumerate(weights):
        places[name] = f"pytorch_model-{i % 2}.bin"
    for shard in sorted(set(places.values())):
        torch.save({name: weights[name] for name in weights if places[name] == shard}, pickled / shard)
    (pickled / SHARDS).write_text(json.dumps({"weight_map": places}))
    require_same(convert(pickled, tmp_path / "new"), tiny)
    one = pickled / "pytorch_model-1.bin"
    refused(InputError, "pytorch_model-1.bin is one shard of several", lambda: convert(one, tmp_path / "more"))
    one.unlink()
    refused(CheckpointError, f'{SHARDS} points to "pytorch_model-1.bin"', lambda: convert(pickled, tmp_path / "more"))


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("ran"),))


def test_no_code_of_a_file_runs(pickled: Path, tmp_path: Path, refused: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    path = pickled / "pytorch_model.bin"
    torch.save({"weight": Hostile()}, path)
    refused(CheckpointError, f"{path} holds more than weights", lambda: convert(path, tmp_path / "new"))
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "new").exists()


def test_what_is_refused(pickled: Path, tmp_path: Path, refused: Any) -> None:
    path, new = pickled / "pytorch_model.bin", tmp_path / "new"
    (pickled / "config.json").rename(pickled / "away.json")
    refused(InputError, f"there is no {pickled / 'config.json'}", lambda: convert(path, new))
    (pickled / "away.json").rename(pickled / "config.json")
    torch.save([1, 2], path)
    refused(CheckpointError, f"{path} holds no names with tensors", lambda: convert(path, new))
    path.write_bytes(b"\x80\x02 not a pickle")
    refused(CheckpointError, f"{path}", lambda: convert(path, new))
