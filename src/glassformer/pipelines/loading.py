"""Loading models by name: shipped with Glassformer, fetched, small ones with random weights, or a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer import checkpoints
from glassformer.checkpoints.info import ModelInfo, info, info_of
from glassformer.data.packages import cache
from glassformer.errors import InputError
from glassformer.malloc import keep_freed_memory
from glassformer.models.tiny import tiny_model
from glassformer.pipelines.real_inputs import real_sample
from glassformer.runtime import choose, prepare, use_engine
from glassformer.runtime.device import choose_device

HERE = Path(__file__).parents[1] / "checkpoints" / "shipped"
# default model of each verb
DEFAULTS = {
    "classify": "objects",
    "embed": "finder",
    "generate": "writer",
    "transcribe": "listener",
    "translate": "translator",
}


def shipped() -> tuple[str, ...]:
    """Return the names of the models shipped with Glassformer."""
    return tuple(sorted(path.parent.name for path in HERE.glob("*/glassformer.json")))


def find_model(name: str | Path) -> Path:
    """Return the folder of a shipped or fetched model, or the passed folder.

    Names of shipped and fetched models take precedence over a folder of that name, which is `./name` or a `Path`.
    """
    if isinstance(name, Path) and name.exists():
        return name
    if str(name) in shipped():
        return HERE / str(name)
    if _is_fetched(str(name)):
        return cache() / str(name)
    if Path(name).exists():
        return Path(name)
    if str(name).startswith("tiny:"):
        raise InputError(f"{name} has random weights and no folder", "save it with gf.save, or name another model")
    raise InputError(
        f"there is no model {str(name)!r}",
        f"give a folder, a shipped model ({', '.join(shipped())}), or a fetched one (glassformer data list)",
    )


def _is_fetched(name: str) -> bool:
    return "/" not in name and (cache() / name / "fetched.json").is_file()


def as_folder(path: str | Path) -> str:
    """Spell a folder so that `find_model` does not take it for a shipped or fetched model: ./digits."""
    return f"./{path}" if str(path) in shipped() or _is_fetched(str(path)) else str(path)


def describe_model(name: str | Path) -> ModelInfo:
    """Return the facts about a model by any name that `load` takes, without reading its weights."""
    return info_of(tiny_model(str(name))) if str(name).startswith("tiny:") else info(find_model(name))


def load(
    name: str | Path,
    *,
    device: str = "auto",
    precision: str = "fp32",
    engine: str = "torch",
    dtype: torch.dtype = torch.float32,
    check: bool = True,
    seed: int = 0,
) -> nn.Module:
    """Load a model in eval mode.

    Args:
        name: a shipped model, a fetched model, a Hugging Face folder, a folder written by `save`, or tiny:KIND for a
            small model with random weights.
        device: auto (a GPU if there is one), cpu, cuda or mps.
        precision: fp32, bf16, int8, or auto for the fastest that agrees with fp32 on this machine; the choice is
            printed to stderr.
        engine: torch, or onnxruntime or openvino (extras) to compute the blocks in fp32; a pass that is traced or
            edited is always computed by torch.
        dtype: data type of the weights; weights stored in it stay memory-mapped.
        check: whether to check that all weights are finite, which reads all of them.
        seed: random seed of the weights of tiny:KIND.

    On the CPU, loading also lets the process keep freed memory for the next activations (`glassformer.malloc`).

    >>> model = gf.load("writer", precision="int8")
    >>> model.training
    False
    """
    place = choose_device(device)
    if place.type == "cpu":
        keep_freed_memory()
    if str(name).startswith("tiny:"):
        model = tiny_model(str(name), seed=seed).to(dtype)
    else:
        model = checkpoints.load_folder(find_model(name), dtype=dtype, check=check).eval()
    if engine == "torch" and precision == "auto":
        return _fastest(model.to(place))
    if engine == "torch":
        return prepare(model.to(place), precision, _calibration(model) if precision == "int8" else None)
    return use_engine(model.to(place), engine, precision)


def _fastest(model: nn.Module) -> nn.Module:
    """Prepare a model in the fastest precision that agrees with fp32, and say which."""
    try:
        check = real_sample(model, "compare")
    except InputError as error:
        print(f"precision fp32 (no other was compared: {error})", file=sys.stderr)
        return prepare(model, "fp32")
    calibration = _calibration(model)
    choice = choose(model, check.run, compared_on=check.described, calibrated_on=calibration)
    print(choice, file=sys.stderr)
    return prepare(model, choice.precision, calibration)


def _calibration(model: nn.Module) -> Callable[[], Tensor] | None:
    """The call that int8 is calibrated on. Says so if it is not of real input; None if the model has none."""
    try:
        found = real_sample(model, "calibrate")
    except InputError:
        return None  # `prepare` says so
    if not found.real:
        print(f"int8 is calibrated on {found.described}", file=sys.stderr)
    return found.run
