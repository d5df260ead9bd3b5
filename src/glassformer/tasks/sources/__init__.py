"""Datasets by name: `open_data("tatoeba-en-fr")` is a folder, the whole if it was fetched, else the embedded part."""

from __future__ import annotations

from glassformer.tasks.sources.opening import embedded, open_data, unpack
from glassformer.tasks.sources.table import DATASETS, ITEMS, fetch

__all__ = ["DATASETS", "ITEMS", "embedded", "fetch", "open_data", "unpack"]
