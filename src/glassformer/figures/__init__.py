"""One function per figure: takes arrays and returns a matplotlib figure that displays itself in a notebook."""

from __future__ import annotations

from glassformer.figures.arcs import arcs
from glassformer.figures.attention import alignment, attention_map
from glassformer.figures.confusion import confusion_matrix
from glassformer.figures.curves import sensitivity_curves
from glassformer.figures.grids import head_table, patching_sweep
from glassformer.figures.layer import heads_of_layer
from glassformer.figures.learning import learning_curves
from glassformer.figures.pictures import image_overlay, spectrogram_attention
from glassformer.figures.plane import head_map
from glassformer.figures.scores import score_by_coordinate
from glassformer.figures.style import to_bytes

__all__ = [
    "alignment",
    "arcs",
    "attention_map",
    "confusion_matrix",
    "head_map",
    "head_table",
    "heads_of_layer",
    "image_overlay",
    "learning_curves",
    "patching_sweep",
    "score_by_coordinate",
    "sensitivity_curves",
    "spectrogram_attention",
    "to_bytes",
]
