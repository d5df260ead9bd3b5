"""Tracing and editing: every quantity of a forward pass can be read and changed by its path."""

from __future__ import annotations

from glassformer.lens import construct
from glassformer.lens.distances import (
    HeadDistances,
    HeadMap,
    entropy,
    head_distances,
    head_map,
    jensen_shannon,
    on_grid,
    on_line,
)
from glassformer.lens.edit import at_heads, edit, freeze, patch, replace, zero, zero_head
from glassformer.lens.flow import cls_to_patches, gradient_rollout, max_flow, rollout
from glassformer.lens.head_null import Score
from glassformer.lens.heads import HeadScores, repeated_tokens, score_heads, score_paths
from glassformer.lens.heads2d import GridScores, score_image_heads
from glassformer.lens.headtable import HeadRow, HeadTable
from glassformer.lens.leaks import Declared, Leak, LeakReport, LeakTest, find_leaks, leak_test
from glassformer.lens.margin import Margins, margins, margins_of, smallest_change
from glassformer.lens.nearest import Near, NearTable, nearest_heads, nearest_pairs
from glassformer.lens.on_paper import PaperRow, on_paper, paper_row
from glassformer.lens.paths import AXES, attention_layers, taps
from glassformer.lens.perturb import (
    Change,
    Moments,
    Noise,
    move_key,
    move_query,
    noise_on_key,
    noise_on_query,
    order_of_error,
    scale_key,
)
from glassformer.lens.receptive import Field, receptive_field
from glassformer.lens.sensitivity import Jacobians, Layer, jacobians, layer_at
from glassformer.lens.sweep import Sweep, sweep
from glassformer.lens.trace import Run, trace

__all__ = [
    "AXES",
    "Change",
    "Declared",
    "Field",
    "GridScores",
    "HeadDistances",
    "HeadMap",
    "HeadRow",
    "HeadScores",
    "HeadTable",
    "Jacobians",
    "Layer",
    "Leak",
    "LeakReport",
    "LeakTest",
    "Margins",
    "Moments",
    "Near",
    "NearTable",
    "Noise",
    "PaperRow",
    "Run",
    "Score",
    "Sweep",
    "at_heads",
    "attention_layers",
    "cls_to_patches",
    "construct",
    "edit",
    "entropy",
    "find_leaks",
    "freeze",
    "gradient_rollout",
    "head_distances",
    "head_map",
    "jacobians",
    "jensen_shannon",
    "layer_at",
    "leak_test",
    "margins",
    "margins_of",
    "max_flow",
    "move_key",
    "move_query",
    "nearest_heads",
    "nearest_pairs",
    "noise_on_key",
    "noise_on_query",
    "on_grid",
    "on_line",
    "on_paper",
    "order_of_error",
    "paper_row",
    "patch",
    "receptive_field",
    "repeated_tokens",
    "replace",
    "rollout",
    "scale_key",
    "score_heads",
    "score_image_heads",
    "score_paths",
    "smallest_change",
    "sweep",
    "taps",
    "trace",
    "zero",
    "zero_head",
]
