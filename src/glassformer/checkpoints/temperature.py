"""The temperature of a calibrated classifier, moved into its last layer for programs without calibration."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from glassformer.checkpoints.origin import origin_of
from glassformer.checkpoints.weights import open_weights
from glassformer.errors import CheckpointError

FILE = "calibration.safetensors"
FOLDED = (
    "The last layer is divided by the temperature {:.4g} of the calibration: its logits give calibrated probabilities."
)


def fold_temperature(model: nn.Module) -> float | None:
    """W ← W/T, b ← b/T in the classification head, so that its logits are calibrated; return T, or None without one."""
    origin = origin_of(model)
    path = None if origin is None else origin.file(FILE)
    if path is None:
        return None
    try:
        temperature = float(open_weights(path).metadata["temperature"])
    except (KeyError, ValueError):
        raise CheckpointError(f"{path} cannot be read", "save the model again") from None
    with torch.no_grad():
        for name in model.head_names:  # type: ignore[union-attr]
            for weight in model.get_submodule(name).parameters():
                weight.data = weight.data / temperature  # a new tensor: the loaded one may be a read-only file
    return temperature


def write_folded(source: Path, out: Path) -> None:
    """Write a calibration for a model whose temperature was folded; nothing if it had only a temperature."""
    weights = open_weights(source)
    tensors = {name: weights.read(name).clone() for name in weights}
    if tensors:
        save_file(tensors, out, metadata={**weights.metadata, "temperature": "1.0"})
