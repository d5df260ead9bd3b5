"""folder → model: weights are memory-mapped, and every one of them is accounted for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from glassformer.checkpoints import native
from glassformer.checkpoints.assemble import assign, empty, require_numbers, restore_buffers
from glassformer.checkpoints.bind import Binding, bind, require_no_spare
from glassformer.checkpoints.families import recognise
from glassformer.checkpoints.family import Family
from glassformer.checkpoints.fields import Fields
from glassformer.checkpoints.files import read_object
from glassformer.checkpoints.origin import Origin, with_origin
from glassformer.checkpoints.sentence import read_sentence
from glassformer.checkpoints.weights import PICKLES, Weights, open_weights


class Published(NamedTuple):
    """A published folder, parsed and checked, before any weight is loaded into a model."""

    folder: Path
    family: Family
    raw: Mapping[str, Any]
    config: Any
    weights: Weights
    usual: Mapping[str, str]  # the family's usual name of each weight → its name in the file


def load_folder(folder: str | Path, *, dtype: torch.dtype = torch.float32, check: bool = True) -> nn.Module:
    """Load a model from a published folder or file, or from a folder written by `save`, in eval mode.

    `model.origin` records where it came from. Weights already in `dtype` are not copied: they stay memory-mapped from
    the file. `check=False` skips the check for non-finite weights, which reads all of them.
    """
    folder = Path(folder)
    if (folder / native.CARD).is_file():
        return native.load_native(folder, dtype=dtype, check=check)
    published = open_published(folder)
    model = empty(published.family.model, published.config)
    binding = bind(published.family, model, published.config, published.usual)
    _require_all(published, binding)
    _fill(published, binding, dtype, check)
    restore_buffers(model, dtype)
    return with_origin(model.eval(), _origin(published))


def read_origin(folder: Path) -> Origin:
    """Return the origin of the model in a folder without loading its weights."""
    if (folder / native.CARD).is_file():
        return native.origin_from(folder, read_object(folder / native.CARD))
    return _origin(open_published(folder))


def _origin(published: Published) -> Origin:
    settings = published.folder / "generation_config.json"
    return Origin(
        folder=published.folder,
        family=published.family.name,
        raw=published.raw,
        generation=read_object(settings) if settings.is_file() else {},
        names=published.usual,
    )


def open_published(folder: Path) -> Published:
    """Open a folder or safetensors file: determine its family, our config for it, and its weights by name."""
    if folder.suffix in PICKLES:
        open_weights(folder)  # raises, with instructions for converting it
    sentence = read_sentence(folder)
    raw = _read_config(sentence.encoder)
    family = recognise(raw)
    family.require_architecture(raw)
    weights = sentence.join(open_weights(sentence.encoder))
    usual = family.usual(weights)
    shapes = {name: weights.entries[own].shape for name, own in usual.items()}
    config = family.config(Fields(raw, shapes, lambda name: weights.read(usual[name])))
    place = folder.parent if folder.is_file() else folder
    return Published(place, family, raw, sentence.amend(config), weights, usual)


def _read_config(path: Path) -> dict[str, Any]:
    """Read config.json in a folder or beside a file; a standalone timm file is named after its architecture."""
    if not path.is_file():
        return read_object(path / "config.json")
    beside = path.with_name("config.json")
    return read_object(beside) if beside.is_file() else {"architecture": path.stem}


def _require_all(published: Published, binding: Binding) -> None:
    entries = {name: published.weights.entries[own] for name, own in published.usual.items()}
    binding.require_fit(
        {name: entry.shape for name, entry in entries.items()}, {name: entry.dtype for name, entry in entries.items()}
    )
    read = lambda name: published.weights.read(published.usual[name])
    require_no_spare(published.family, binding, entries, read)


def _fill(published: Published, binding: Binding, dtype: torch.dtype, check: bool) -> None:
    """Assign every weight, converting one at a time; the pages of converted weights are released."""
    shapes = {name: tuple(weight.shape) for name, weight in binding.model.named_parameters()}
    for one in binding.bound:
        names = [published.usual[name] for name in one.theirs]
        theirs = [published.weights.read(name) for name in names]
        if check:
            for name, weight in zip(names, theirs, strict=True):
                require_numbers(name, weight)
        ours = one.layout.read(theirs, [shapes[name] for name in one.ours], binding.config)
        for name, weight in zip(one.ours, ours, strict=True):
            assign(binding.model, name, weight.to(dtype))
        if any(weight.dtype != dtype for weight in theirs):
            for name in names:
                published.weights.release(name)
