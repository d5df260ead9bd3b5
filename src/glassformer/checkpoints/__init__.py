"""Published models in our own modules: loaded with every weight accounted for, proved equal, and given back."""

from __future__ import annotations

from glassformer.checkpoints.compare import Compared, Report, parity
from glassformer.checkpoints.export import published_weights
from glassformer.checkpoints.families import FAMILIES, recognise
from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.loading import Published, load, open_published
from glassformer.checkpoints.native import save
from glassformer.checkpoints.origin import Origin, origin_of

__all__ = [
    "FAMILIES",
    "Compared",
    "Family",
    "Origin",
    "Published",
    "Quantity",
    "Report",
    "load",
    "open_published",
    "origin_of",
    "parity",
    "published_weights",
    "recognise",
    "save",
]
