"""The claims by number; each module is loaded when its experiment is first requested."""

from __future__ import annotations

import importlib

from glassformer.errors import InputError
from glassformer.lab.experiment import Experiment

_MODULES = (
    "c01_limits",
    "c02_scale",
    "c03_hard",
    "c04_key_noise",
    "c05_zero_mean",
    "c06_query_noise",
    "c07_key_scale",
    "c08_first_order",
    "c09_masked_row",
    "c10_heads_cost",
    "c11_convolution",
    "c12_permutation",
    "c13_sinusoids",
    "c14_longer",
    "c15_identity",
    "c16_orthogonal",
    "c17_permutations",
    "c18_diagonal",
    "c19_band",
    "c20_causal",
    "c21_streaming",
    "c22_path",
    "c23_cost",
    "c24_count",
    "c25_alone",
    "c26_residual",
    "c27_decoder",
    "c28_patches",
    "c29_resolution",
    "c30_shifts",
    "c31_data",
    "c32_transport",
)


def numbers() -> tuple[int, ...]:
    return tuple(int(name[1:3]) for name in _MODULES)


def claim(number: int) -> Experiment:
    """Return the experiment of a claim."""
    for name in _MODULES:
        if int(name[1:3]) == number:
            found: Experiment = importlib.import_module(f"{__name__}.{name}").CLAIM
            return found
    raise InputError(f"there is no claim {number}", f"choose a number from {min(numbers())} to {max(numbers())}")
