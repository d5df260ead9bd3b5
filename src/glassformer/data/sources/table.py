"""Table of everything that can be fetched by name: published weights and datasets."""

from __future__ import annotations

from pathlib import Path

from glassformer.data.packages import Say
from glassformer.data.registry import WEIGHTS, Item
from glassformer.data.registry import fetch as fetch_item
from glassformer.data.sources.images import IMAGES
from glassformer.data.sources.pairs import PAIRS
from glassformer.data.sources.pyodide import PYODIDE
from glassformer.data.sources.speech import SPEECH
from glassformer.data.sources.text import TEXT

DATASETS: dict[str, Item] = {**IMAGES, **PAIRS, **SPEECH, **TEXT}
ITEMS: dict[str, Item] = {**WEIGHTS, **DATASETS, **PYODIDE}


def fetch(name: str, say: Say = lambda _: None) -> Path:
    """Return the folder of weights or of a dataset, fetching and building it if necessary."""
    return fetch_item(name, say, ITEMS)
