"""Datasets by name: `open_data("tatoeba-en-fr")` returns the fetched dataset's folder, or the embedded subset's."""

from __future__ import annotations

from glassformer.data.sources.opening import embedded, embedded_part, open_data, unpack
from glassformer.data.sources.table import DATASETS, ITEMS, fetch

__all__ = ["DATASETS", "ITEMS", "embedded", "embedded_part", "fetch", "open_data", "unpack"]
