from __future__ import annotations

from pathlib import Path
from typing import Any

from glassformer.checkpoints.convert import convert, kind_of
from glassformer.errors import InputError


def test_what_is_refused(tiny: Path, tmp_path: Path, refused: Any) -> None:
    refused(InputError, f"there is no file {tmp_path / 'x.bin'}", lambda: kind_of(tmp_path / "x.bin"))
    refused(InputError, f"there is no file {tiny}", lambda: kind_of(tiny))
    weights = tiny / "model.safetensors"
    refused(InputError, f"{weights} is safetensors already", lambda: convert(weights, tmp_path / "out"))
    other = tmp_path / "text.bin"
    other.write_text("hello")
    refused(InputError, f"{other} is neither a PyTorch file, nor GGUF, nor llama2.c's", lambda: kind_of(other))
    gguf = tmp_path / "a.gguf"
    gguf.write_bytes(b"GGUF")
    told = lambda: convert(gguf, tmp_path / "out", tokenizer="words")
    refused(InputError, f"{gguf} takes no tokenizer words", told)
