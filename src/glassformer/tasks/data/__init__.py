"""Data as people have it: read when asked for, in a seeded order, with what is broken counted and told."""

from __future__ import annotations

from glassformer.tasks.data import augment_audio, augment_images, bpe, order
from glassformer.tasks.data.faults import Fault, Faults
from glassformer.tasks.data.images import Images
from glassformer.tasks.data.pairs import Pairs
from glassformer.tasks.data.recordings import Recordings
from glassformer.tasks.data.text import Blocks, Lines, Text, blocks
from glassformer.tasks.data.workers import prefetch

__all__ = [
    "Blocks",
    "Fault",
    "Faults",
    "Images",
    "Lines",
    "Pairs",
    "Recordings",
    "Text",
    "augment_audio",
    "augment_images",
    "blocks",
    "bpe",
    "order",
    "prefetch",
]
