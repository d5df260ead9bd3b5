"""The native format: glassformer.json (the config and the origin of the weights) beside model.safetensors."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from glassformer.checkpoints.assemble import assign, empty, require_numbers, restore_buffers
from glassformer.checkpoints.codec import decode, encode
from glassformer.checkpoints.fields import DEEPEST
from glassformer.checkpoints.files import read_object, read_text
from glassformer.checkpoints.origin import Origin, origin_of, with_origin
from glassformer.checkpoints.weights import ONE, open_weights
from glassformer.errors import CheckpointError, ConfigError
from glassformer.files import replacing
from glassformer.models.registry import architecture

CARD = "glassformer.json"
FORMAT = 1
# files a model needs besides its weights to process text, images and audio
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
    "calibration.safetensors",
)


def save(model: nn.Module, folder: str | Path) -> Path:
    """Save a model so that `load` restores it. Each file is replaced atomically, glassformer.json last.

    >>> gf.save(gf.load("tiny:vit"), "mine")
    PosixPath('mine')
    """
    folder = Path(folder)
    config = getattr(model, "config", None)
    kind = type(model).__name__
    if config is None or not is_dataclass(config) or architecture(kind)[1] is not type(config):
        raise ConfigError(f"a {kind} cannot be saved", "register its class with models.register")
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
    replace_file(folder / ONE, lambda path: write_weights(path, tensors, metadata))
    if origin is not None:
        for name in COMPANIONS:
            source = origin.file(name)
            if source is not None and source.resolve() != (folder / name).resolve():
                replace_file(folder / name, partial(shutil.copyfile, source))
    replace_file(folder / CARD, lambda path: path.write_text(text, encoding="utf-8"))
    return folder


def load_native(folder: Path, *, dtype: torch.dtype | None = None, check: bool = True) -> nn.Module:
    """Load a model written by `save`; floating-point weights are converted to `dtype`, or kept as saved."""
    text, card = read_text(folder / CARD), read_object(folder / CARD)
    if card.get("format") != FORMAT:
        raise CheckpointError(f"{CARD} has format {card.get('format')!r}", f"this version supports format {FORMAT}")
    build, config_class = architecture(str(card.get("kind")))
    weights = open_weights(folder)
    if weights.metadata.get("card") != _digest(text):
        raise CheckpointError(f"{CARD} and {ONE} in {folder} were not saved together", "save the model again")
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
    return with_origin(model.eval(), origin_from(folder, card))


def origin_from(folder: Path, card: dict[str, Any]) -> Origin:
    """Return the origin of a model from its glassformer.json."""
    try:
        return Origin(folder=folder, **card.get("origin", {}))
    except TypeError:
        raise CheckpointError(f"the origin in {CARD} cannot be read", "save the model again") from None


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors to save: each parameter once, and the persistent buffers."""
    state = model.state_dict().keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in state}
    return dict(model.named_parameters()) | buffers


def _own(tensor: Tensor) -> Tensor:
    """Return the tensor contiguous and in its own storage, as the format requires."""
    tensor = tensor.detach().contiguous()
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()


def _require_plausible(config: Any, weights: int, numbers: int) -> None:
    """Require that no size exceeds what the file holds: a width appears in some weight, a layer has at least one."""
    for where, size in _sizes(config):
        most = min(weights, DEEPEST) if where == "depth" else numbers
        if where not in ("length", "rate") and size > most:
            fact = f"{where} is {size} in {CARD}, and {ONE} contains {numbers} numbers in {weights} weights"
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


def write_weights(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file whose bytes depend only on its content, with the permissions of any other new file.

    The library writes the entries of `__metadata__` in random order and creates files with mode 0600.
    """
    save_file(dict(tensors), path, metadata=dict(metadata))
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        ordered = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode().ljust(size)
        if len(ordered) == size:  # the same entries in another order
            file.seek(8)
            file.write(ordered)
    probe = path.with_name(f"{path.name}.mode")  # files created by Python have the mode that the umask allows
    try:
        probe.touch()
        path.chmod(stat.S_IMODE(probe.stat().st_mode))
    finally:
        probe.unlink(missing_ok=True)


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Replace a file atomically: an interrupted write leaves the old file intact."""
    try:
        with replacing(path) as part:
            write(part)
    except (OSError, SafetensorError) as error:
        raise _not_written(path, error) from error


def _not_written(path: Path, error: Exception) -> CheckpointError:
    reason = getattr(error, "strerror", None) or str(error)
    return CheckpointError(f"{path} cannot be written ({reason})", "free some space, or choose another folder")
