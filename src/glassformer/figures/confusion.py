"""Confusion matrix: how often each class was predicted as each other class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from glassformer.errors import ShapeError
from glassformer.figures.labels import shorten_label
from glassformer.figures.style import SEQUENTIAL, array, figure, ink

WRITTEN = 20  # classes up to which the counts are written into the cells


def confusion_matrix(counts: ArrayLike, labels: Sequence[str], *, title: str = "confusion matrix") -> Figure:
    """Draw counts[i, j], the rows of class i that were predicted as class j; the colour is the fraction of row i."""
    C = array(counts, "counts", 2)
    if C.shape != (len(labels), len(labels)):
        raise ShapeError(f"counts of shape {C.shape} for {len(labels)} classes", "give one row and column for each")
    side = min(12.0, 2.4 + 0.34 * len(labels))
    fig = figure(side, side)
    ax = fig.subplots()
    share = C / np.maximum(C.sum(1, keepdims=True), 1)
    image = ax.imshow(share, cmap=SEQUENTIAL, vmin=0, vmax=1)
    places, names = range(len(labels)), [shorten_label(label, 14) for label in labels]
    ax.set_xticks(places, names, rotation=90, fontsize=7)
    ax.set_yticks(places, names, fontsize=7)
    ax.set_xlabel("predicted", fontsize=8)
    ax.set_ylabel("true", fontsize=8)
    for i in places if len(labels) <= WRITTEN else ():
        for j in places:
            if C[i, j]:
                ax.text(j, i, f"{C[i, j]:.0f}", ha="center", va="center", fontsize=7, color=ink(image, share[i, j]))
    fig.suptitle(shorten_label(title, 60), fontsize=10)
    return fig
