"""All that can be fetched by name: published weights and datasets, in one table."""

from __future__ import annotations

from pathlib import Path

from glassformer.checkpoints.fetch import WEIGHTS, Item
from glassformer.checkpoints.fetch import fetch as fetch_item
from glassformer.checkpoints.registry import Say
from glassformer.tasks.sources.images import IMAGES
from glassformer.tasks.sources.pairs import PAIRS
from glassformer.tasks.sources.speech import SPEECH
from glassformer.tasks.sources.text import TEXT

DATASETS: dict[str, Item] = {**IMAGES, **PAIRS, **SPEECH, **TEXT}
ITEMS: dict[str, Item] = {**WEIGHTS, **DATASETS}


def fetch(name: str, say: Say = lambda _: None) -> Path:
    """The folder of weights or of a dataset; fetched and made if it is not there yet."""
    return fetch_item(name, say, ITEMS)
