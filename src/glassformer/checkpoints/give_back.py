"""A loaded model as the folder that it came as: Hugging Face's layout, name for name and bit for bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from glassformer.checkpoints.convert.folder import new_folder
from glassformer.checkpoints.export import published_weights
from glassformer.checkpoints.loading import load, open_published
from glassformer.checkpoints.native import CARD, COMPANIONS
from glassformer.checkpoints.origin import Origin, origin_of
from glassformer.checkpoints.sentence import PREFIX
from glassformer.checkpoints.weights import ONE
from glassformer.errors import ConfigError

ALONG = (*COMPANIONS, "modules.json", "config_sentence_transformers.json")


def export(folder: str | Path, out: str | Path) -> Path:
    """What `load` made of a published folder, or of a model of a published family that `save` wrote, given back.

    A published folder is given back with every weight in its own dtype, copies of tied ones included.
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
        }  # copies, and what is no weight
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
    """The folders that modules.json names: their configs, and the weights of a Dense one."""
    path = origin.file("modules.json")
    for module in json.loads(path.read_text(encoding="utf-8")) if path is not None else []:
        place = part / str(module.get("path", ""))
        source = origin.folder / place.name
        if place == part or not source.is_dir():
            continue
        place.mkdir()
        if (source / "config.json").is_file():
            shutil.copyfile(source / "config.json", place / "config.json")
        if str(module.get("type", "")).endswith("Dense"):
            own = {name.removeprefix(PREFIX): tensor.contiguous().clone() for name, tensor in dense.items()}
            save_file(own, place / ONE, metadata={"format": "pt"})
