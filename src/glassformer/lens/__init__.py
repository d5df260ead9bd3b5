"""Looking and editing: every quantity of a run by its path."""

from __future__ import annotations

from glassformer.lens import construct
from glassformer.lens.edit import at_heads, edit, freeze, patch, replace, zero, zero_head
from glassformer.lens.heads import HeadScores, repeated, score_heads, watch
from glassformer.lens.heads2d import GridScores, score_image_heads
from glassformer.lens.headtable import HeadRow, HeadTable
from glassformer.lens.nearest import Near, NearTable, nearest, nearest_heads
from glassformer.lens.paths import AXES, layers, taps
from glassformer.lens.sweep import Sweep, sweep
from glassformer.lens.tally import Score
from glassformer.lens.trace import Run, trace

__all__ = [
    "AXES",
    "GridScores",
    "HeadRow",
    "HeadScores",
    "HeadTable",
    "Near",
    "NearTable",
    "Run",
    "Score",
    "Sweep",
    "at_heads",
    "construct",
    "edit",
    "freeze",
    "layers",
    "nearest",
    "nearest_heads",
    "patch",
    "repeated",
    "replace",
    "score_heads",
    "score_image_heads",
    "sweep",
    "taps",
    "trace",
    "watch",
    "zero",
    "zero_head",
]
