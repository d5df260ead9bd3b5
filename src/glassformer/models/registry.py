"""Registry of architectures by name, used by `save` and `load`."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any, TypeVar, get_type_hints

from torch import nn

from glassformer.errors import ConfigError

M = TypeVar("M", bound=type[nn.Module])
_ARCHITECTURES: dict[str, tuple[type[nn.Module], type]] = {}


def register(architecture: M) -> M:
    """Class decorator that registers an architecture, so that its models can be saved and loaded by class name.

    The class takes its config, a frozen dataclass, as its first argument: `def __init__(self, config: MyConfig, …)`.
    """
    config: Any = get_type_hints(architecture.__init__).get("config")
    name = architecture.__name__
    if not (isinstance(config, type) and is_dataclass(config)):
        raise ConfigError(f"{name}.__init__ takes no config", "annotate its argument config with a dataclass")
    known = _ARCHITECTURES.get(name)
    if known is not None and known[0].__module__ != architecture.__module__:
        raise ConfigError(f"the name {name} is taken by {known[0].__module__}", "choose another name for the class")
    _ARCHITECTURES[name] = (architecture, config)
    return architecture


def architecture(name: str) -> tuple[type[nn.Module], type]:
    """Return the class of this name and its config class."""
    if name not in _ARCHITECTURES:
        known = ", ".join(sorted(_ARCHITECTURES))
        remedy = f"import the module that registers it (models.register); registered are {known}"
        raise ConfigError(f"there is no architecture {name[:60]!r}", remedy)
    return _ARCHITECTURES[name]
