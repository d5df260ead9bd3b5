"""Calibrated probabilities, and whether an input is unlike the training data.

p = softmax(logits / T), with the temperature T that minimises the cross-entropy on validation data (Guo et al. 2017).
An input is out of distribution if d² = min_c (x − μ_c)ᵀ Σ⁻¹ (x − μ_c) exceeds the value that 95 % of the validation
data stay below, where x is the input of the classification head (Lee et al. 2018).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from glassformer.checkpoints import origin_of
from glassformer.checkpoints.native import replace_file, write_weights
from glassformer.checkpoints.weights import open_weights
from glassformer.errors import CheckpointError
from glassformer.models.protocols import require

FILE = "calibration.safetensors"
WITHIN = 0.95  # fraction of the validation data that is within the threshold
RIDGE = 1e-3  # added to the diagonal of Σ, relative to its mean


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Temperature, class means (classes, width), a factor (width, width) of Σ⁻¹ = W Wᵀ, and the threshold of d."""

    temperature: float
    means: Tensor
    factor: Tensor
    threshold: float

    def distance(self, features: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
        """d: the Mahalanobis distance to the nearest class mean."""
        x, means = features.float().cpu() @ self.factor, self.means @ self.factor
        return torch.cdist(x, means).amin(1)

    def save(self, folder: str | Path) -> Path:
        numbers = {"temperature": repr(self.temperature), "threshold": repr(self.threshold)}
        tensors = {"means": self.means.contiguous(), "factor": self.factor.contiguous()}
        path = Path(folder) / FILE
        replace_file(path, lambda place: write_weights(place, tensors, numbers))
        return path


def fit_calibration(
    features: Float[Tensor, "n d"],
    y: Int[Tensor, " n"],
    val_features: Float[Tensor, "k d"],
    val_logits: Float[Tensor, "k classes"],
    val_y: Int[Tensor, " k"],
) -> Calibration:
    """Fit means and covariance to training features; temperature and threshold to validation data."""
    means = torch.stack([features[y == c].mean(0) for c in range(val_logits.shape[1])])
    rest = (features - means[y]).double()
    covariance = rest.T @ rest / len(rest)
    covariance += RIDGE * covariance.diagonal().mean() * torch.eye(len(covariance), dtype=torch.float64)
    factor = torch.linalg.cholesky(torch.linalg.inv(covariance)).float()
    temperatures = torch.logspace(-1, 1, 401).tolist()
    best = min(temperatures, key=lambda t: float(cross_entropy(val_logits / t, val_y)))
    made = Calibration(temperature=round(best, 4), means=means.float(), factor=factor, threshold=0.0)
    threshold = float(made.distance(val_features).quantile(WITHIN))
    return Calibration(temperature=made.temperature, means=made.means, factor=factor, threshold=round(threshold, 4))


@contextmanager
def head_inputs(model: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the inputs of the classification head in every forward pass within the context."""
    head = model.get_submodule(require(model, "classify").head_names[0])
    found: list[Tensor] = []
    handle = head.register_forward_pre_hook(lambda _, given: found.append(given[0].detach()))
    try:
        yield found
    finally:
        handle.remove()


def calibration_of(model: nn.Module) -> Calibration | None:
    """Return the calibration in the model's folder, or None."""
    origin = origin_of(model)
    path = None if origin is None else origin.file(FILE)
    return None if path is None else _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: Path, stamp: int) -> Calibration:
    try:
        weights = open_weights(path)
        temperature, threshold = (float(weights.metadata[name]) for name in ("temperature", "threshold"))
        means, factor = (weights.read(name).float().clone() for name in ("means", "factor"))
    except (KeyError, ValueError, SafetensorError):
        raise CheckpointError(f"{path} cannot be read", "save the model again") from None
    fits = means.dim() == 2 and factor.shape == (means.shape[1], means.shape[1])
    if not (fits and 0 < temperature < float("inf") and bool(means.isfinite().all() and factor.isfinite().all())):
        raise CheckpointError(f"{path} is not a calibration", "save the model again")
    return Calibration(temperature=temperature, means=means, factor=factor, threshold=threshold)
