"""Fast inference on this machine: packed and int8 kernels, engines, and the measurements that choose between them."""

from __future__ import annotations

from glassformer.runtime.bench import Measured, bench
from glassformer.runtime.engines import ENGINES, engine_of, use_engine
from glassformer.runtime.machine import Machine, machine
from glassformer.runtime.measure import card, interleaved
from glassformer.runtime.precision import PRECISIONS, Choice, Precision, choose, precision_of, prepare

__all__ = [
    "ENGINES",
    "PRECISIONS",
    "Choice",
    "Machine",
    "Measured",
    "Precision",
    "bench",
    "card",
    "choose",
    "engine_of",
    "interleaved",
    "machine",
    "precision_of",
    "prepare",
    "use_engine",
]
