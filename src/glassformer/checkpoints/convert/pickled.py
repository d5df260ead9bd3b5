"""Convert PyTorch .bin and .pt files, read with weights_only=True, which runs no code from the file."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.checkpoints.convert.folder import Converted
from glassformer.checkpoints.files import read_object
from glassformer.checkpoints.native import COMPANIONS
from glassformer.errors import CheckpointError, InputError

NESTS = ("state_dict", "model_state_dict", "model", "module")  # keys under which training loops save the weights
SHARDS = "pytorch_model.bin.index.json"
ALONG = (*COMPANIONS, "generation_config.json")


def unpickled(path: Path) -> Any:
    """Load a file that holds only tensors and plain values."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        fact = f"{path} contains more than weights: loading it would run code"
        raise CheckpointError(fact, "save only its state_dict with torch.save, then convert that file") from None
    except Exception as error:  # zip, storage and pickle each raise their own errors
        first = (str(error).splitlines() or [""])[0][:80]
        raise CheckpointError(f"{path} cannot be read by torch ({first})", "download the file again") from None


def weights_in(content: Any, path: Path) -> dict[str, Tensor]:
    """Return the state_dict, which may be nested in what was saved."""
    for name in NESTS:
        if isinstance(content, dict) and isinstance(content.get(name), dict):
            content = content[name]
    if not isinstance(content, dict) or not all(isinstance(one, Tensor) for one in content.values()) or not content:
        raise CheckpointError(f"{path} is not a state_dict", "save the model's state_dict with torch.save")
    return {str(name).removeprefix("module."): tensor for name, tensor in content.items()}


def read_pickled(path: Path, content: Any = None) -> Converted:
    """Read the weights, the config.json required beside them, and any companion files."""
    config = path.with_name("config.json")
    if not config.is_file():
        raise InputError(f"there is no file {config}", "put the model's config.json beside the weights")
    tensors = weights_in(unpickled(path) if content is None else content, path)
    copies = [path.with_name(name) for name in ("config.json", *ALONG) if path.with_name(name).is_file()]
    return Converted(tensors=tensors, copies=tuple(copies))


def read_shards(folder: Path) -> Converted:
    """Read a folder of pytorch_model-0000i.bin shards with its index."""
    places = read_object(folder / SHARDS).get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(one, str) for one in places.values()):
        raise CheckpointError(f"{SHARDS} has no weight_map", "download it again")
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(places.values())):
        if Path(name).name != name or not (folder / name).is_file():
            raise CheckpointError(
                f"{SHARDS} points to {json.dumps(name)[:60]}, which is missing", "download all shards"
            )
        tensors |= weights_in(unpickled(folder / name), folder / name)
    missing = sorted(places.keys() - tensors.keys())
    if missing:
        raise CheckpointError(f"weight {missing[0]} is in no shard", "download all shards of the checkpoint")
    return read_pickled(folder / SHARDS, tensors)
