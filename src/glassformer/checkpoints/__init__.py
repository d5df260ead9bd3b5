"""Load, compare and export published checkpoints with Glassformer's own modules; every weight is accounted for."""

from __future__ import annotations

from glassformer.checkpoints.export_folder import published_weights, save_published
from glassformer.checkpoints.families import FAMILIES, recognise
from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.loading import Published, load_folder, open_published, read_origin
from glassformer.checkpoints.native import save
from glassformer.checkpoints.origin import Origin, origin_of
from glassformer.checkpoints.parity import ParityReport, ParityRow, parity
from glassformer.checkpoints.preprocess import Preprocess, open_image, read_preprocess

__all__ = [
    "FAMILIES",
    "Family",
    "Origin",
    "ParityReport",
    "ParityRow",
    "Preprocess",
    "Published",
    "Quantity",
    "load_folder",
    "open_image",
    "open_published",
    "origin_of",
    "parity",
    "published_weights",
    "read_origin",
    "read_preprocess",
    "recognise",
    "save",
    "save_published",
]
