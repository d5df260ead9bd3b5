"""Datasets in common formats: rows read on demand in a seeded order, unusable rows left out and reported."""

from __future__ import annotations

from glassformer.data import augment_audio, augment_images, bpe, order
from glassformer.data.chats import Chats
from glassformer.data.faults import Fault, Faults
from glassformer.data.images import Images
from glassformer.data.pairs import Pairs
from glassformer.data.recordings import Recordings
from glassformer.data.stream import Stream
from glassformer.data.text import Blocks, Lines, Text, blocks
from glassformer.data.workers import prefetch

__all__ = [
    "Blocks",
    "Chats",
    "Fault",
    "Faults",
    "Images",
    "Lines",
    "Pairs",
    "Recordings",
    "Stream",
    "Text",
    "augment_audio",
    "augment_images",
    "blocks",
    "bpe",
    "order",
    "prefetch",
]
