"""model → the weights of its published family, under the names and in the layouts that they came in."""

from __future__ import annotations

from torch import Tensor, nn

from glassformer.checkpoints.binding import bind
from glassformer.checkpoints.families import FAMILIES
from glassformer.checkpoints.origin import origin_of
from glassformer.errors import ConfigError


def published_weights(model: nn.Module, family: str | None = None) -> dict[str, Tensor]:
    """Each weight as the family has it: as it was loaded, or in the usual names for a model that was built here."""
    origin = origin_of(model)
    name = family or (origin.family if origin is not None else "")
    if name not in FAMILIES:
        raise ConfigError(f"this model is of no published family ({name!r})", f"choose one of {', '.join(FAMILIES)}")
    own = origin.names if origin is not None and origin.family == name else None
    binding = bind(FAMILIES[name], model, model.config, own)
    tensors = binding.write({key: weight.detach() for key, weight in model.named_parameters()})
    return {own[key] if own is not None else key: tensor for key, tensor in tensors.items()}
