"""Export a loaded model to the Hugging Face layout, with the names and bits it was loaded from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn

from glassformer.checkpoints.bind import bind
from glassformer.checkpoints.convert.folder import new_folder
from glassformer.checkpoints.families import FAMILIES
from glassformer.checkpoints.loading import load, open_published
from glassformer.checkpoints.native import CARD, COMPANIONS, replace_file, write_weights
from glassformer.checkpoints.origin import Origin, origin_of
from glassformer.checkpoints.sentence import PREFIX
from glassformer.checkpoints.weights import ONE
from glassformer.errors import ConfigError

ALONG = (*COMPANIONS, "modules.json", "config_sentence_transformers.json")


def published_weights(model: nn.Module, family: str | None = None) -> dict[str, Tensor]:
    """Return the weights in the family's layout, under the names they were loaded from or the family's usual names."""
    origin = origin_of(model)
    name = family or (origin.family if origin is not None else "")
    if name not in FAMILIES:
        raise ConfigError(f"this model is of no published family ({name!r})", f"choose one of {', '.join(FAMILIES)}")
    own = origin.names if origin is not None and origin.family == name else None
    binding = bind(FAMILIES[name], model, model.config, own)
    tensors = binding.write({key: weight.detach() for key, weight in model.named_parameters()})
    return {own[key] if own is not None else key: tensor for key, tensor in tensors.items()}


def save_published(
    model: nn.Module, folder: str | Path, config: Mapping[str, Any] | None = None, names: Sequence[str] = ()
) -> Path:
    """Save a fine-tuned model in the layout of its published family, as `transformers` loads it.

    `config` replaces entries of config.json (None removes one). `names` chooses among the names that a family has for
    one weight. Each file is replaced atomically.
    """
    origin, folder = origin_of(model), Path(folder)
    if origin is None or origin.family not in FAMILIES:
        raise ConfigError("this model is of no published family", "save it with `save`")
    binding = bind(FAMILIES[origin.family], model, model.config, names or None)
    tensors = binding.write({key: weight.detach() for key, weight in model.named_parameters()})
    own = {name: tensor.contiguous().clone() for name, tensor in tensors.items() if not name.startswith(PREFIX)}
    raw = {name: value for name, value in {**origin.raw, **(config or {})}.items() if value is not None}
    classifies = bool(getattr(model.config, "classes", 0))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be created ({error.strerror})", "choose another folder") from None
    replace_file(folder / ONE, lambda path: write_weights(path, own, {"format": "pt"}))
    _replace_json(folder / "config.json", {**raw, "dtype": "float32", "torch_dtype": None})
    if origin.generation:
        _replace_json(folder / "generation_config.json", origin.generation)
    for name in COMPANIONS if classifies else ALONG:
        source = origin.file(name)
        if source is not None and source.resolve() != (folder / name).resolve():
            replace_file(folder / name, partial(shutil.copyfile, source))
    if not classifies and origin.folder.resolve() != folder.resolve():
        _write_modules(folder, origin, {name: one for name, one in tensors.items() if name.startswith(PREFIX)})
    return folder


def _replace_json(path: Path, content: Mapping[str, Any]) -> None:
    kept = {name: value for name, value in content.items() if value is not None}
    text = json.dumps(kept, indent=2, ensure_ascii=False) + "\n"
    replace_file(path, lambda place: place.write_text(text, encoding="utf-8"))


def export(folder: str | Path, out: str | Path) -> Path:
    """Write a model of a published family, from a published folder or one written by `save`, to `out`.

    Weights from a published folder keep their own dtype, and copies of tied weights are included.
    """
    folder, out = Path(folder), Path(out)
    model = load(folder)
    origin = origin_of(model)
    if origin is None or not origin.family or not origin.raw:
        raise ConfigError(f"{folder} is of no published family", "it has no layout but our own: use it as it is")
    tensors = published_weights(model)
    if not (origin.folder / CARD).is_file():
        weights = open_published(folder).weights
        tensors = {name: tensor.to(weights.entries[name].dtype) for name, tensor in tensors.items()}
        tensors |= {
            name: weights.read(name) for name in weights if name not in tensors
        }  # copies, and tensors that are not weights
    with new_folder(out) as part:
        _write(part, origin, tensors)
        load(part)
    return out


def _write(part: Path, origin: Origin, tensors: dict[str, Tensor]) -> None:
    own = {name: tensor.contiguous().clone() for name, tensor in tensors.items() if not name.startswith(PREFIX)}
    save_file(own, part / ONE, metadata={"format": "pt"})
    (part / "config.json").write_text(
        json.dumps(dict(origin.raw), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    if origin.generation:
        text = json.dumps(dict(origin.generation), indent=2, ensure_ascii=False) + "\n"
        (part / "generation_config.json").write_text(text, encoding="utf-8")
    for name in ALONG:
        source = origin.file(name)
        if source is not None:
            shutil.copyfile(source, part / name)
    _write_modules(part, origin, {name: tensor for name, tensor in tensors.items() if name.startswith(PREFIX)})


def _write_modules(part: Path, origin: Origin, dense: dict[str, Tensor]) -> None:
    """Write the folders listed in modules.json: their configs, and the weights of a Dense module."""
    path = origin.file("modules.json")
    for module in json.loads(path.read_text(encoding="utf-8")) if path is not None else []:
        place = part / str(module.get("path", ""))
        source = origin.folder / place.name
        if place == part or not source.is_dir():
            continue
        place.mkdir(exist_ok=True)
        if (source / "config.json").is_file():
            shutil.copyfile(source / "config.json", place / "config.json")
        if str(module.get("type", "")).endswith("Dense"):
            own = {name.removeprefix(PREFIX): tensor.contiguous().clone() for name, tensor in dense.items()}
            save_file(own, place / ONE, metadata={"format": "pt"})
