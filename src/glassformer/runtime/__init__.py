"""What makes a model fast on this machine: packed and int8 products, and the measurements that choose them."""

from __future__ import annotations

from glassformer.runtime.bench import Measured, bench
from glassformer.runtime.machine import Machine, machine
from glassformer.runtime.measure import card, interleaved
from glassformer.runtime.precision import PRECISIONS, Choice, Precision, choose, precision_of, prepare

__all__ = [
    "PRECISIONS",
    "Choice",
    "Machine",
    "Measured",
    "Precision",
    "bench",
    "card",
    "choose",
    "interleaved",
    "machine",
    "precision_of",
    "prepare",
]
