"""Our own format: glassformer.json (the config, and where the weights came from) beside model.safetensors."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from glassformer import models
from glassformer.checkpoints.assemble import assign, empty, require_numbers, restore_buffers
from glassformer.checkpoints.codec import decode, encode
from glassformer.checkpoints.fields import DEEPEST
from glassformer.checkpoints.files import read_object
from glassformer.checkpoints.origin import Origin, origin_of, with_origin
from glassformer.checkpoints.weights import ONE, open_weights
from glassformer.errors import CheckpointError, ConfigError

CARD = "glassformer.json"
FORMAT = 1
# what a model needs besides its weights to run on words, pictures and sounds
COMPANIONS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "source.spm",
    "target.spm",
    "spiece.model",
    "tokenizer.model",
    "chat_template.jinja",
    "preprocessor_config.json",
    "processor_config.json",
    "sentence_bert_config.json",
    "symbols.json",
    "spelling.npz",
)


def save(model: nn.Module, folder: str | Path) -> Path:
    """Writes a model so that `load` gives the same one. Each file is replaced as a whole; the card comes last."""
    folder = Path(folder)
    config = getattr(model, "config", None)
    kind = type(model).__name__
    if config is None or not is_dataclass(config) or _classes(kind)[1] is not type(config):
        raise ConfigError(f"a {kind} cannot be saved", "save one of the models of glassformer.models")
    card: dict[str, Any] = {"format": FORMAT, "kind": kind, "config": encode(config)}
    origin = origin_of(model)
    if origin is not None:
        names = ("family", "raw", "generation", "names")
        card["origin"] = {name: getattr(origin, name) for name in names}
    text = json.dumps(card, indent=1, ensure_ascii=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_written(folder, error) from None
    tensors = {name: _own(tensor) for name, tensor in _tensors(model).items()}
    metadata = {"format": "pt", "card": _digest(text)}
    replace_file(folder / ONE, lambda path: save_file(tensors, path, metadata=metadata))
    if origin is not None:
        for name in COMPANIONS:
            source = origin.file(name)
            if source is not None and source.resolve() != (folder / name).resolve():
                replace_file(folder / name, partial(shutil.copyfile, source))
    replace_file(folder / CARD, lambda path: path.write_text(text, encoding="utf-8"))
    return folder


def load(folder: Path, *, dtype: torch.dtype | None = None, check: bool = True) -> nn.Module:
    """The model that `save` wrote; floating-point weights in `dtype`, or as they were saved."""
    text = (folder / CARD).read_text(encoding="utf-8")
    card = read_object(folder / CARD)
    if card.get("format") != FORMAT:
        raise CheckpointError(f"{CARD} is of format {card.get('format')!r}", f"this version reads format {FORMAT}")
    build, config_class = _classes(str(card.get("kind")))
    weights = open_weights(folder)
    if weights.metadata.get("card") != _digest(text):
        raise CheckpointError(f"{CARD} and {ONE} in {folder} are not of one save", "save the model again")
    config = decode(config_class, card.get("config"))
    _require_plausible(config, len(weights), weights.numbers)
    model = empty(build, config)
    wanted = _tensors(model)
    for name in wanted.keys() ^ weights.entries.keys():
        word = "is missing" if name in wanted else "has no place in the model"
        raise CheckpointError(f"weight {name} {word}", f"{CARD} and {ONE} do not belong together")
    for name, place in wanted.items():
        value = weights.read(name)
        if value.shape != place.shape:
            fact = f"weight {name} has shape {tuple(value.shape)}, and the config asks for {tuple(place.shape)}"
            raise CheckpointError(fact, f"{CARD} and {ONE} do not belong together")
        if check:
            require_numbers(name, value)
        wanted_dtype = dtype if dtype is not None and value.is_floating_point() else value.dtype
        assign(model, name, value.to(wanted_dtype))
        if wanted_dtype != value.dtype:
            weights.release(name)
    restore_buffers(model, dtype or torch.float32)
    return with_origin(model.eval(), _origin(folder, card.get("origin", {})))


def _origin(folder: Path, card: dict[str, Any]) -> Origin:
    try:
        return Origin(folder=folder, **card)
    except TypeError:
        raise CheckpointError(f"the origin in {CARD} cannot be read", "save the model again") from None


def _classes(kind: str) -> tuple[type[nn.Module], type]:
    """The model of this name and its config, from glassformer.models."""
    if kind in models.__all__ and f"{kind}Config" in models.__all__:
        return getattr(models, kind), getattr(models, f"{kind}Config")
    raise ConfigError(f"there is no model {kind[:60]!r}", "known are the models of glassformer.models")


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """What the file holds: parameters, each once, and buffers that are part of the model's state."""
    state = model.state_dict().keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in state}
    return dict(model.named_parameters()) | buffers


def _own(tensor: Tensor) -> Tensor:
    """Contiguous and alone in its storage, as the format wants it."""
    tensor = tensor.detach().contiguous()
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()


def _require_plausible(config: Any, weights: int, numbers: int) -> None:
    """No size in a config exceeds what the file holds: a width is in some weight, a layer has at least one."""
    for where, size in _sizes(config):
        most = min(weights, DEEPEST) if where == "depth" else numbers
        if where not in ("length", "rate") and size > most:
            fact = f"{where} is {size} in {CARD}, and {ONE} holds {numbers} numbers in {weights} weights"
            raise ConfigError(fact, "the two do not belong together")


def _sizes(config: Any) -> Iterator[tuple[str, int]]:
    for one in fields(config):
        value = getattr(config, one.name)
        if is_dataclass(value):
            yield from _sizes(value)
        elif type(value) is int:
            yield one.name, value
        elif isinstance(value, tuple):
            yield from ((one.name, size) for size in value if type(size) is int)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """The whole new file or the whole old one, whatever happens meanwhile."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(temporary)
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        raise _not_written(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _not_written(path: Path, error: Exception) -> CheckpointError:
    reason = getattr(error, "strerror", None) or str(error)
    return CheckpointError(f"{path} cannot be written ({reason})", "make room, or choose another folder")
