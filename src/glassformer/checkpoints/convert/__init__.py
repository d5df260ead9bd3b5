"""Other forms of a published model → a folder with config.json, model.safetensors and tokenizer.json."""

from __future__ import annotations

from glassformer.checkpoints.convert.choose import convert, kind_of

__all__ = ["convert", "kind_of"]
