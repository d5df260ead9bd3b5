"""Convert other formats of a published model to a folder with config.json, model.safetensors and tokenizer.json."""

from __future__ import annotations

from glassformer.checkpoints.convert.convert import convert, kind_of

__all__ = ["convert", "kind_of"]
