"""Export a model to the Hugging Face layout: as it was published, or as the published architecture that equals it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn

from glassformer.checkpoints.bind import bind
from glassformer.checkpoints.convert.folder import new_folder
from glassformer.checkpoints.families import FAMILIES
from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.loading import load_folder, open_published
from glassformer.checkpoints.native import CARD, COMPANIONS, replace_file, write_weights
from glassformer.checkpoints.origin import Origin, origin_of, with_origin
from glassformer.checkpoints.sentence import PREFIX
from glassformer.checkpoints.temperature import FILE as CALIBRATION
from glassformer.checkpoints.temperature import FOLDED, fold_temperature, write_folded
from glassformer.checkpoints.weights import ONE
from glassformer.errors import ConfigError, GlassError

ALONG = (*COMPANIONS, "modules.json", "config_sentence_transformers.json", "README.md")


def published_weights(model: nn.Module, family: str | None = None) -> dict[str, Tensor]:
    """Return the weights in the family's layout, under the names they were loaded from or the family's usual names."""
    origin = origin_of(model)
    name = family or (origin.family if origin is not None else "")
    if name not in FAMILIES:
        raise ConfigError(
            f"this model does not belong to a published family ({name!r})", f"choose one of {', '.join(FAMILIES)}"
        )
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
        raise ConfigError("this model does not belong to a published family", "save it with `save`")
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


def export_model(folder: str | Path, out: str | Path) -> Path:
    """Write a model to `out` in the Hugging Face layout.

    A model of a published family keeps its names, and weights from a published folder their dtype; copies of tied
    weights are included. A model trained from scratch is written as the published architecture that computes the same.
    A calibrated classifier gets its temperature folded into the last layer.
    """
    folder, out = Path(folder), Path(out)
    model = load_folder(folder)
    temperature = fold_temperature(model)
    origin = origin_of(model)
    assert origin is not None
    if not origin.family:
        model = with_origin(model, published_origin(model, origin))
        origin = origin_of(model)
        assert origin is not None
    tensors = published_weights(model)
    if not (origin.folder / CARD).is_file():
        weights = open_published(folder).weights
        tensors = {name: tensor.to(weights.entries[name].dtype) for name, tensor in tensors.items()}
        tensors |= {
            name: weights.read(name) for name in weights if name not in tensors
        }  # copies, and tensors that are not weights
    with new_folder(out) as part:
        _write(part, origin, tensors, temperature)
        load_folder(part)
    return out


def published_origin(model: nn.Module, origin: Origin) -> Origin:
    """Return the origin that a model of ours would have had it been loaded from a published folder.

    The family is one whose config.json for this model reads back as the model's own config, dropout aside.
    """
    config = getattr(model, "config", None)
    for name, family in FAMILIES.items():
        if family.describe is None or family.model is not type(model):
            continue
        raw = family.describe(config)
        try:
            tensors = published_weights(model, name)
            shapes = {key: tuple(tensor.shape) for key, tensor in tensors.items()}
            read = family.config(Fields(raw, shapes, tensors.__getitem__))
        except GlassError:  # the family has no name for one of the weights, or no such config
            continue
        if _without_dropout(read) == _without_dropout(config):
            tokens = {key: value for key, value in origin.generation.items() if key in raw}
            classes = int(getattr(model, "classes", 0) or 0)
            labels = {"id2label": {str(i): f"LABEL_{i}" for i in range(classes)}} if classes else {}
            raw = {key: value for key, value in {**raw, **tokens, **labels, **origin.raw}.items() if value is not None}
            if "id2label" in raw:
                raw["label2id"] = {label: int(i) for i, label in raw["id2label"].items()}
            names = {key: key for key in tensors}
            return replace(origin, family=name, raw={**raw, "dtype": "float32"}, names=names)
    known = ", ".join(name for name, family in FAMILIES.items() if family.describe is not None)
    fact = f"this {type(model).__name__} differs from every published architecture ({known} were compared)"
    raise ConfigError(fact, "load the folder with glassformer, or export it with --onnx")


def _without_dropout(config: Any) -> Any:
    """Return the config as it is at inference."""
    if not is_dataclass(config) or isinstance(config, type):
        return config
    parts = {one.name: _without_dropout(getattr(config, one.name)) for one in fields(config)}
    return replace(config, **parts | ({"dropout": 0.0} if "dropout" in parts else {}))


def _write(part: Path, origin: Origin, tensors: dict[str, Tensor], temperature: float | None) -> None:
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
            (write_folded if name == CALIBRATION else shutil.copyfile)(source, part / name)
    if (part / "README.md").is_file() and origin.raw.get("architectures"):
        _amend_card(part / "README.md", str(origin.raw["architectures"][0]), temperature)
    _write_modules(part, origin, {name: tensor for name, tensor in tensors.items() if name.startswith(PREFIX)})


def _amend_card(path: Path, architecture: str, temperature: float | None) -> None:
    """Say in a card written by `train` that transformers loads the exported folder, with calibrated logits."""
    text = path.read_text(encoding="utf-8")
    program = f'from transformers import {architecture}\n\n{architecture}.from_pretrained(".")  # this folder'
    use = f"```python\n{program}\n```"
    if temperature is not None:
        use += f"\n{FOLDED.format(temperature)}"
    text = text.replace("library_name: glassformer\n", "library_name: transformers\n", 1)
    path.write_text(text.replace("\n\n## Evaluation\n", f"\n{use}\n\n## Evaluation\n", 1), encoding="utf-8")


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
