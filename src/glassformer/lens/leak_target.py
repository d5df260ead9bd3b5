"""Load the encoder of a leak test by name: a model, or a MODULE:FUNCTION or FILE.py:FUNCTION that returns one."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer.errors import GlassError, InputError
from glassformer.lens.leaks import Declared, LeakTest, leak_test
from glassformer.pipelines.loading import load


def leak_target(
    target: str,
    *,
    frames: int | None = None,
    features: int | None = None,
    tokens: int | None = None,
    device: str = "auto",
    precision: str = "fp32",
    seed: int = 0,
) -> LeakTest:
    """Return the leak test for the encoder that `target` names.

    A function may return an encoder, an encoder and its stream, or a LeakTest. An encoder that does not declare its
    input needs `features` (per frame) or `tokens` (vocabulary size). It stays on the device and in the precision that
    the function chose; `device` and `precision` are for models by name.
    """
    if ":" not in target or target.startswith("tiny:"):
        _require_unused(f"{target}, which declares its input", features=features, tokens=tokens)
        return leak_test(load(target, device=device, precision=precision, seed=seed), frames=frames, seed=seed)
    for option, value, default in (("device", device, "auto"), ("precision", precision, "fp32")):
        if value != default:
            raise InputError(f"--{option} {value} has no effect on {target}", f"choose the {option} in that function")
    made = _call(target)
    if isinstance(made, LeakTest):
        _require_unused(f"{target}, which returns its own example", frames=frames, features=features, tokens=tokens)
        return made
    encoder, stream = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not callable(encoder):
        fact = f"{target} returned {type(encoder).__name__}"
        raise InputError(fact, "return the encoder, or the encoder and its stream")
    if features is None and tokens is None:
        try:
            known = leak_test(encoder, frames=frames, seed=seed)
        except InputError:
            fact = f"the input of {target} is unknown"
            raise InputError(fact, "give --features (per frame) or --tokens (vocabulary size)") from None
        return known if stream is None else known._replace(streaming=stream)
    return _random_input(encoder, stream, 48 if frames is None else frames, features, tokens, seed)


def _require_unused(target: str, **options: int | None) -> None:
    """Raise an error for an option that would have no effect."""
    given = [(name, value) for name, value in options.items() if value is not None]
    if given:
        name, value = given[0]
        raise InputError(f"--{name} {value} has no effect on {target}", "leave it out")


def _random_input(
    encoder: Any, stream: Any, frames: int, features: int | None, tokens: int | None, seed: int
) -> LeakTest:
    """Return a leak test on Gaussian noise in the dtype of the encoder's weights, or on random tokens."""
    for name, size, least in (("frames", frames, 4), ("features", features, 1), ("tokens", tokens, 2)):
        if size is not None and size < least:
            raise InputError(f"{name} must be at least {least}, got {size}", f"choose at least {least}")
    if features is not None and tokens is not None:
        raise InputError("--features and --tokens were both given", "give the one that the encoder takes")
    generator = torch.Generator().manual_seed(seed)
    if features is None:
        assert tokens is not None
        return LeakTest(encoder, torch.randint(tokens, (1, frames), generator=generator), Declared(), stream)
    weights = encoder.parameters() if isinstance(encoder, nn.Module) else ()
    like = next((weight for weight in weights if weight.is_floating_point()), torch.zeros(()))
    return LeakTest(encoder, torch.randn(1, frames, features, generator=generator).to(like), Declared(), stream)


def _call(target: str) -> Any:
    """Call the function of a file, or of a module importable from the working directory, and return its result."""
    place, _, name = target.rpartition(":")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, os.getcwd())
            module = importlib.import_module(place)
        return getattr(module, name)()
    except GlassError:
        raise
    except Exception as error:  # user code may raise anything
        fact = f"{target} failed ({type(error).__name__}: {error})"
        raise InputError(fact, "give MODULE:FUNCTION of a function without arguments") from error
    finally:
        if not place.endswith(".py") and sys.path and sys.path[0] == os.getcwd():
            sys.path.pop(0)
