"""max |ours − theirs| / max |theirs| of every quantity, in float32 and float64: rounding falls, a bug stays.

The same input goes through Hugging Face's own class and through ours; the first quantity that differs is named.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.checkpoints.double import Double
from glassformer.checkpoints.families import FAMILIES
from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.loading import load
from glassformer.checkpoints.origin import origin_of
from glassformer.checkpoints.rules import fill, layer
from glassformer.checkpoints.samples import Sample, sample
from glassformer.core.fused import Pattern
from glassformer.errors import ConfigError, InputError
from glassformer.nn.attention import weights_of
from glassformer.nn.tap import Tap

Key = tuple[str, int | str]  # a module, and which of the things that it gives
SINGLE, EXACT = 1e-3, 1e-9  # more than rounding, in float32 and in float64


class Compared(NamedTuple):
    """One quantity: its name with us and with them, and how far they are apart."""

    ours: str
    theirs: str
    single: float
    exact: float

    @property
    def differs(self) -> bool:
        return not (self.single <= SINGLE and self.exact <= EXACT)


@dataclass(frozen=True)
class Report:
    """Every quantity in the order in which our model computes them."""

    family: str
    peer: str
    rows: tuple[Compared, ...]

    @property
    def first(self) -> Compared | None:
        """The first that differs by more than rounding."""
        return next((row for row in self.rows if row.differs), None)

    @property
    def equal(self) -> bool:
        return self.first is None

    def __str__(self) -> str:
        wide = max(len(row.ours) for row in self.rows)
        lines = [f"{'quantity':<{wide}}  float32  float64  {self.peer}"]
        for row in self.rows:
            mark = "  differs" if row.differs else ""
            lines.append(f"{row.ours:<{wide}}  {row.single:.1e}  {row.exact:.1e}  {row.theirs}{mark}")
        first = self.first
        if first is None:
            worst = max(self.rows, key=lambda row: row.exact)
            lines.append(f"equal: {len(self.rows)} quantities, at most {worst.exact:.1e} apart in float64")
        else:
            lines.append(f"differs first at {first.ours}: by {first.exact:.1e} in float64, more than rounding")
        return "\n".join(lines)


def parity(folder: str | Path, *, seed: int = 0) -> Report:
    """Our model of a published folder against Hugging Face's class for it."""
    transformers = _transformers()
    model = load(folder)
    origin = origin_of(model)
    if origin is None or origin.family not in FAMILIES:
        raise ConfigError(f"{folder} is of no published family", "compare a published folder")
    family = FAMILIES[origin.family]
    if not family.architectures:
        fact = f"transformers has no class for the family {family.name}"
        raise ConfigError(fact, "compare a folder that Hugging Face's own class reads")
    test = sample(model, seed=seed)
    single = _differences(family, model, hugging_face(transformers, origin.raw, folder, torch.float32), test)
    with Double():
        peer = hugging_face(transformers, origin.raw, folder, torch.float64)
    exact = _differences(family, load(folder, dtype=torch.float64, check=False), peer, test)
    if not exact:
        raise ConfigError(f"no quantity of {type(peer).__name__} is known", "give the family its quantities")
    whole = "output"  # of the model itself
    rows = (Compared(a or whole, b or whole, single[a, b], error) for (a, b), error in exact.items())
    return Report(family.name, type(peer).__name__, tuple(rows))


def _differences(family: Family, model: nn.Module, peer: nn.Module, test: Sample) -> dict[tuple[str, str], float]:
    exact = next(model.parameters()).dtype == torch.float64
    pairs = list(paired(family, model, peer))
    exactly = Double() if exact else nullcontext()
    with torch.no_grad(), recorded(peer, [(theirs, item) for _, theirs, item in pairs]) as given, exactly:
        peer(**test.given(peer))
    with torch.no_grad(), recorded(model, [(ours, 0) for ours, *_ in pairs]) as own:
        test.ours(model)
    found = {}
    for ours, value in own.items():  # in the order in which they came
        for name, theirs, item in pairs:
            if (name, 0) == ours and (theirs, item) in given:
                real = test.real.get(name.partition(".")[0])
                found[name, theirs] = distance(value, given[theirs, item], real)
    return found


def paired(family: Family, model: nn.Module, peer: nn.Module) -> Iterator[Quantity]:
    """The quantities that both models have, layer by layer."""
    ours, theirs = dict(model.named_modules()), dict(peer.named_modules())
    for quantity in family.quantities:
        for name in ours:
            i = layer(quantity.ours, name)
            if i is None:
                continue
            other = fill(quantity.theirs, i)
            for usual in (other, other.removeprefix(family.prefix)):
                if usual in theirs:
                    yield Quantity(name, usual, quantity.item)
                    break


@contextmanager
def recorded(model: nn.Module, wanted: Iterable[Key]) -> Iterator[dict[Key, Tensor]]:
    """What passes the taps, or comes out of the modules, of these names while the model runs: (name, item) → value."""
    found: dict[Key, Tensor] = {}
    modules = dict(model.named_modules())
    taps, hooks = [], []

    def keep(key: Key, value: Any) -> None:
        if not isinstance(value, Tensor | Pattern):
            value = value.get(key[1]) if isinstance(key[1], str) else value[key[1]]
        if value is not None:
            found.setdefault(key, weights_of(value))

    for key in dict.fromkeys(wanted):
        module = modules[key[0]]
        if isinstance(module, Tap):
            watch = partial(keep, key)
            module.watchers.append(watch)
            taps.append((module, watch))
        else:
            hooks.append(module.register_forward_hook(lambda _m, _x, value, key=key: keep(key, value)))
    try:
        yield found
    finally:
        for tap, watch in taps:
            tap.watchers.remove(watch)
        for hook in hooks:
            hook.remove()


def distance(ours: Tensor, theirs: Tensor, real: Tensor | None) -> float:
    """max |ours − theirs| / max |theirs| over rows that are not padding; not a number if either has one."""
    if ours.shape != theirs.shape:
        return float("inf")
    if real is not None and ours.dim() == 3:
        ours, theirs = ours[real], theirs[real]
    elif real is not None and ours.dim() == 4:  # b h t s
        ours, theirs = ours.movedim(1, 2)[real], theirs.movedim(1, 2)[real]
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(torch.finfo(theirs.dtype).tiny))


def _transformers() -> Any:
    try:
        return importlib.import_module("transformers")
    except ImportError:
        raise InputError("transformers is not installed", "pip install transformers, then compare again") from None


def hugging_face(transformers: Any, raw: Mapping[str, Any], folder: str | Path, dtype: torch.dtype) -> nn.Module:
    """Hugging Face's class with its own reading of the folder."""
    names = raw.get("architectures") or ["AutoModel"]
    kind = getattr(transformers, names[0], transformers.AutoModel)
    with _quiet(transformers):
        peer = kind.from_pretrained(folder, dtype=dtype, attn_implementation="eager", local_files_only=True)
    return peer.eval()


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without its progress bar."""
    logging = transformers.utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
