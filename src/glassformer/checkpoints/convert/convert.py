"""Conversion of other formats, detected by a file's content and not by its name."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Literal

from glassformer.checkpoints.convert.folder import Converted, write_folder
from glassformer.checkpoints.convert.gguf import MAGIC, read_gguf
from glassformer.checkpoints.convert.llama2c import llama2c_sizes, read_llama2c
from glassformer.checkpoints.convert.pickled import SHARDS, read_pickled, read_shards, unpickled
from glassformer.checkpoints.convert.whisper import is_whisper, read_whisper
from glassformer.errors import InputError

Kind = Literal["shards", "gguf", "llama2.c", "torch"]


def kind_of(source: Path) -> Kind:
    """Return the format of a file or folder; raise an error if it cannot be converted."""
    if source.is_dir() and (source / SHARDS).is_file():
        return "shards"
    if not source.is_file():
        raise InputError(f"there is no file {source}", "give a .bin, .pt or .gguf file")
    with source.open("rb") as file:
        start = file.read(16)
    if start.startswith(MAGIC):
        return "gguf"
    if llama2c_sizes(source) is not None:
        return "llama2.c"
    if zipfile.is_zipfile(source) or start[:1] == b"\x80":  # torch.save: a zip since 1.6, a pickle before
        return "torch"
    if start[8:9] == b"{":
        raise InputError(f"{source} is already a safetensors file", "load it, or the folder that it is in")
    fact = f"{source} is neither a PyTorch file, nor GGUF, nor llama2.c's"
    raise InputError(fact, "give a .bin, .pt or .gguf file")


def convert(source: str | Path, folder: str | Path, *, tokenizer: str | Path | None = None) -> Path:
    """Convert another format of a published model to a folder that `load` reads.

    `tokenizer` is the vocabulary for formats that store it separately: llama2.c's tokenizer.bin, Whisper's .tiktoken.
    It is found automatically if it is beside the weights.
    """
    source, folder = Path(source), Path(folder)
    words = None if tokenizer is None else Path(tokenizer)
    return write_folder(_read(source, words), folder)


def _read(source: Path, tokenizer: Path | None) -> Converted:
    kind = kind_of(source)
    content = unpickled(source) if kind == "torch" else None
    if content is not None and is_whisper(content):
        return read_whisper(content, source, tokenizer)
    if kind == "llama2.c":
        return read_llama2c(source, tokenizer)
    if tokenizer is not None:
        raise InputError(
            f"the tokenizer {tokenizer} has no effect on {source}", "--tokenizer is for llama2.c and Whisper files only"
        )
    if kind == "gguf":
        return read_gguf(source)
    if kind == "shards":
        return read_shards(source)
    if source.name.startswith("pytorch_model-") and source.with_name(SHARDS).is_file():
        raise InputError(f"{source.name} is one shard of several", f"convert the folder {source.parent}")
    return read_pickled(source, content)
