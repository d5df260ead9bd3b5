"""Calibrated probabilities, and whether an input is unlike the training data.

p = softmax(logits / T), with the temperature T that minimises the cross-entropy on validation data (Guo et al. 2017).
An input is out of distribution if d² = min_c (x − μ_c)ᵀ Σ⁻¹ (x − μ_c) exceeds the value that 95 % of the validation
data stay below, where x is the input of the classification head (Lee et al. 2018).
"""

from __future__ import annotations

import math
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
    """Temperature, class means (classes, width), a factor (width, width) of Σ⁻¹ = W Wᵀ, and the threshold of d.

    Without means only the probabilities are calibrated, and no input is called out of distribution.
    """

    temperature: float
    means: Tensor | None = None
    factor: Tensor | None = None
    threshold: float = math.inf

    def distance(self, features: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
        """d: the Mahalanobis distance to the nearest class mean."""
        assert self.means is not None
        assert self.factor is not None
        x, means = features.float().cpu() @ self.factor, self.means @ self.factor
        return torch.cdist(x, means).amin(1)

    def save(self, folder: str | Path) -> Path:
        numbers = {"temperature": repr(self.temperature), "threshold": repr(self.threshold)}
        held = {"means": self.means, "factor": self.factor}
        tensors = {name: tensor.contiguous() for name, tensor in held.items() if tensor is not None}
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
    temperature = fit_temperature(val_logits, val_y)
    made = Calibration(temperature=temperature, means=means.float(), factor=factor)
    threshold = float(made.distance(val_features).quantile(WITHIN))
    return Calibration(temperature=made.temperature, means=made.means, factor=factor, threshold=round(threshold, 4))


def fit_temperature(logits: Float[Tensor, "n classes"], y: Int[Tensor, " n"]) -> float:
    """T = argmin cross-entropy(logits / T, y), from 0.1 to 10 in steps of about 1 %.

    If every row is right, the cross-entropy falls with T to no minimum: T is then the lowest temperature at which the
    mean confidence is not above (n + 1) / (n + 2), Laplace's estimate of the accuracy.
    """
    temperatures: list[float] = torch.logspace(-1, 1, 401).tolist()
    if bool((logits.argmax(-1) == y).all()):
        most = (len(y) + 1) / (len(y) + 2)
        fitting = (t for t in temperatures if float((logits / t).softmax(-1).amax(-1).mean()) <= most)
        return round(next(fitting, temperatures[-1]), 4)
    best: float = min(temperatures, key=lambda t: float(cross_entropy(logits / t, y)))
    return round(best, 4)


def calibration_error(logits: Float[Tensor, "n classes"], y: Int[Tensor, " n"], bins: int = 10) -> float:
    """ECE = Σ_b (n_b/n) |accuracy_b − confidence_b| over equal bins of the highest probability (Guo et al. 2017)."""
    p, x = logits.softmax(-1).max(-1)
    bin_of = (p * bins).long().clamp_max(bins - 1)
    gaps = (x == y).double() - p.double()
    return float(torch.zeros(bins, dtype=torch.float64).index_add(0, bin_of, gaps).abs().sum()) / len(y)


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
        parts = [weights.read(name).float().clone() if name in weights else None for name in ("means", "factor")]
    except (KeyError, ValueError, SafetensorError):
        raise CheckpointError(f"{path} cannot be read", "save the model again") from None
    means, factor = parts
    fits = 0 < temperature < float("inf") and (means is None) == (factor is None)
    if means is not None and factor is not None:
        fits &= means.dim() == 2 and factor.shape == (means.shape[1], means.shape[1])
        fits &= bool(means.isfinite().all() and factor.isfinite().all())
    if not fits:
        raise CheckpointError(f"{path} is not a calibration", "save the model again")
    return Calibration(temperature=temperature, means=means, factor=factor, threshold=threshold)
