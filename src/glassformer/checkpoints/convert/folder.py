"""Write a converted model to a temporary folder, verify that it loads, then move it into place."""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from glassformer.checkpoints.loading import load_folder
from glassformer.checkpoints.weights import ONE
from glassformer.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Converted:
    """The contents of a converted folder: weights under Hugging Face names, JSON files by name, and files to copy."""

    tensors: Mapping[str, Tensor]
    texts: Mapping[str, Any] = field(default_factory=dict)  # name → JSON value, or text written verbatim
    copies: tuple[Path, ...] = ()


def write_folder(found: Converted, folder: Path) -> Path:
    """Write the folder and verify that a model loads from it; nothing is left behind on failure."""
    with new_folder(folder) as part:
        tensors = {name: tensor.detach().clone().contiguous() for name, tensor in found.tensors.items()}
        save_file(tensors, part / ONE, metadata={"format": "pt"})
        for name, content in found.texts.items():
            text = content if isinstance(content, str) else json.dumps(content, indent=1, ensure_ascii=False) + "\n"
            (part / name).write_text(text, encoding="utf-8")
        for path in found.copies:
            shutil.copyfile(path, part / path.name)
        load_folder(part)
    return folder


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill, which is moved to `folder` only on success."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} already exists", "choose another path, or remove it first")
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        part.mkdir(parents=True)
        yield part
        if folder.exists():
            folder.rmdir()
        os.replace(part, folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error.strerror or error})", "choose another place") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def optional(name: str, what: str) -> Any:
    """Import a library of the extra [convert]."""
    try:
        return importlib.import_module(name)
    except ImportError:
        fact = f"{what} needs the package {name}, which is not installed"
        raise InputError(fact, f"pip install {name} (or glassformer[convert]), then convert again") from None
