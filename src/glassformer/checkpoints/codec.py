"""frozen config ↔ JSON: each dataclass becomes an object with its `type`, decoded strictly by its annotations."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from glassformer.core.rotary import LinearScaling, Llama3Scaling
from glassformer.errors import ConfigError, GlassError

# the values a field annotated as a callable may hold
CALLABLES: tuple[type, ...] = (LinearScaling, Llama3Scaling)


def encode(value: Any) -> Any:
    """Encode a config as JSON-compatible values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__} | {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple | list):
        return [encode(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ConfigError(f"a config contains {value!r}", "only numbers, strings and configs can be saved")


def decode(kind: Any, value: Any, where: str = "config") -> Any:
    """Decode a value of the annotated type; a ConfigError reports where it does not match."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _union(get_args(kind), value, where)
    if origin is Literal:
        return _require(value in get_args(kind) and not isinstance(value, list | dict), value, where, kind)
    if origin is tuple:
        return _tuple(get_args(kind), value, where)
    if origin is Callable:
        return _union(CALLABLES, value, where)
    if is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, value, where)
    if kind is float:
        return float(_require(type(value) in (int, float), value, where, kind))
    if kind is None or kind is types.NoneType:
        return _require(value is None, value, where, kind)
    if kind in (int, bool, str):
        return _require(type(value) is kind, value, where, kind)
    raise TypeError(f"{where}: a config cannot have a field of {kind}")


def _require(holds: bool, value: Any, where: str, kind: Any) -> Any:
    if not holds:
        wanted = getattr(kind, "__name__", str(kind))
        raise ConfigError(f"{where} is {str(value)[:60]!r}", f"it must be {wanted}")
    return value


def _union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    """Select a dataclass by its `type`, and any other value by the first alternative that matches."""
    if isinstance(value, dict):
        for kind in kinds:
            if get_origin(kind) is Callable:
                return decode(kind, value, where)
            if is_dataclass(kind) and getattr(kind, "__name__", "") == value.get("type"):
                return decode(kind, value, where)
        raise ConfigError(f"{where} is a {str(value.get('type'))[:60]!r}", f"it must be one of {_names(kinds)}")
    for kind in kinds:
        try:
            return decode(kind, value, where)
        except ConfigError:
            continue
    raise ConfigError(f"{where} is {str(value)[:60]!r}", f"it must be one of {_names(kinds)}")


def _names(kinds: tuple[Any, ...]) -> str:
    return ", ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)


def _tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    items = _require(isinstance(value, list), value, where, tuple)
    if kinds and kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(items)
    _require(len(items) == len(kinds), value, where, tuple)
    return tuple(decode(kind, one, f"{where}[{i}]") for i, (kind, one) in enumerate(zip(kinds, items, strict=True)))


def _dataclass(kind: type, value: Any, where: str) -> Any:
    _require(isinstance(value, dict) and value.get("type") == kind.__name__, value, where, kind)
    hints = get_type_hints(kind)
    known = {f.name for f in fields(kind)}
    for name in value.keys() - known - {"type"}:
        remedy = f"a {kind.__name__} has {', '.join(sorted(known))}"
        raise ConfigError(f"{where} has a field {str(name)[:60]!r}", remedy)
    given = {name: decode(hints[name], one, f"{where}.{name}") for name, one in value.items() if name != "type"}
    try:
        return kind(**given)
    except GlassError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where} is not a valid {kind.__name__} ({error})", "give it all required fields") from None
