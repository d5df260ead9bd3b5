"""Published models in our own modules: loaded with every weight accounted for, proved equal, and given back."""

from __future__ import annotations

from glassformer.checkpoints.compare import Compared, Report, parity
from glassformer.checkpoints.export import published_weights
from glassformer.checkpoints.families import FAMILIES, recognise
from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.loading import Published, load, open_published
from glassformer.checkpoints.native import save
from glassformer.checkpoints.origin import Origin, origin_of
from glassformer.checkpoints.preprocess import Preprocess, open_image, read_preprocess

__all__ = [
    "FAMILIES",
    "Compared",
    "Family",
    "Origin",
    "Preprocess",
    "Published",
    "Quantity",
    "Report",
    "load",
    "open_image",
    "open_published",
    "origin_of",
    "parity",
    "published_weights",
    "read_preprocess",
    "recognise",
    "save",
]
