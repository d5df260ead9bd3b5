"""max |ours − theirs| / max |theirs| of every quantity, in float32 and float64: rounding errors shrink, bugs remain.

The same input is run through Hugging Face's class and through ours; the first quantity that differs is reported.
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

from glassformer.checkpoints.families import FAMILIES
from glassformer.checkpoints.family import Family, Quantity
from glassformer.checkpoints.float64 import Float64Mode
from glassformer.checkpoints.loading import load_folder
from glassformer.checkpoints.origin import origin_of
from glassformer.checkpoints.rules import fill, layer_index
from glassformer.checkpoints.samples import ParitySample, random_sample
from glassformer.core.fused import Pattern
from glassformer.errors import CheckpointError, ConfigError, InputError
from glassformer.models.protocols import context_length
from glassformer.models.vit import ViT
from glassformer.nn.attention import weights_of
from glassformer.nn.positions import Learned, Relative
from glassformer.nn.tap import Tap, attached
from glassformer.nn.text import TextStack

Key = tuple[str, int | str]  # a module, and which of its outputs
SINGLE, EXACT = 1e-3, 1e-9  # tolerances in float32 and float64; more than rounding
TOKENS, LONGEST = 12, 600  # input length: default and maximum


class ParityRow(NamedTuple):
    """One quantity: its name in our model and in theirs, and the difference in float32 and float64."""

    ours: str
    theirs: str
    single: float
    exact: float

    @property
    def differs(self) -> bool:
        return not (self.single <= SINGLE and self.exact <= EXACT)


@dataclass(frozen=True)
class ParityReport:
    """All compared quantities, in the order in which our model computes them."""

    family: str
    peer: str
    rows: tuple[ParityRow, ...]
    lengths: tuple[int, ...] = ()
    """Lengths of the inputs that were compared, in tokens; () for images."""
    untried: tuple[str, ...] = ()
    """Input sizes at which the model changes its behaviour and that were not tried."""

    @property
    def first(self) -> ParityRow | None:
        """The first quantity that differs by more than rounding, or None."""
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
            where = f", inputs of {', '.join(map(str, self.lengths))} tokens" if self.lengths else ""
            lines.append(f"equal: {len(self.rows)} quantities, at most {worst.exact:.1e} apart in float64{where}")
            lines += [f"not tried: {what}" for what in self.untried]
        else:
            lines.append(f"differs first at {first.ours}: by {first.exact:.1e} in float64, more than rounding")
        return "\n".join(lines)


def parity(folder: str | Path, *, seed: int = 0) -> ParityReport:
    """Compare our model of a published folder with Hugging Face's class for it."""
    transformers = _transformers()
    model = load_folder(folder)
    origin = origin_of(model)
    if origin is None or origin.family not in FAMILIES:
        raise ConfigError(f"{folder} does not belong to a published family", "compare a published folder")
    family = FAMILIES[origin.family]
    if not family.architectures:
        fact = f"transformers has no class for the family {family.name}"
        raise ConfigError(fact, "compare a folder that Hugging Face's own class reads")
    lengths, untried = lengths_to_compare(model)
    tests = [random_sample(model, length=length, seed=seed) for length in lengths or (TOKENS,)]
    single = _worst(family, model, hugging_face(transformers, origin.raw, folder, torch.float32), tests)
    with Float64Mode():
        peer = hugging_face(transformers, origin.raw, folder, torch.float64)
    exact = _worst(family, load_folder(folder, dtype=torch.float64, check=False), peer, tests)
    if not exact:
        raise ConfigError(f"no quantity of {type(peer).__name__} is known", "give the family its quantities")
    whole = "output"  # the output of the model itself
    rows = (ParityRow(a or whole, b or whole, single[a, b], error) for (a, b), error in exact.items())
    untried = (*untried, *_untried_images(model))
    return ParityReport(family.name, type(peer).__name__, tuple(rows), lengths, untried)


def lengths_to_compare(model: nn.Module) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return input lengths that cover each change in a text model's behaviour, and the changes that they do not cover.

    A sliding window hides earlier tokens; distances beyond T5's limit share a bucket; learned positions end. Inputs
    have at most LONGEST tokens and fit the model's context.
    """
    texts = [part.config for part in model.modules() if isinstance(part, TextStack)]
    if not texts:
        return (), ()
    changes: dict[str, int] = {}
    for text in texts:
        if text.window is not None:
            changes[f"a sliding window of {text.window} tokens"] = text.window + 5
        if isinstance(text.relative, Relative):
            changes[f"relative positions beyond {text.relative.limit} tokens"] = text.relative.limit + 5
        if isinstance(text.positions, Learned):
            changes[f"the last of {text.positions.length} learned positions"] = text.positions.length
    most = min(LONGEST, context_length(model) or LONGEST)
    tried = {min(TOKENS, most), *(length for length in changes.values() if length <= most)}
    return tuple(sorted(tried)), tuple(what for what, length in changes.items() if length > most)


def _untried_images(model: nn.Module) -> Iterator[str]:
    """Yield the image sizes that are not compared: all but that of the config."""
    for size in sorted({part.config.image for part in model.modules() if isinstance(part, ViT)}):
        other = f"images of another size than {size[0]} × {size[1]}"
        yield f"{other}, for which position embeddings are interpolated"


def _worst(
    family: Family, model: nn.Module, peer: nn.Module, tests: list[ParitySample]
) -> dict[tuple[str, str], float]:
    """Return the largest difference of each quantity over all inputs; NaN propagates."""
    found: dict[tuple[str, str], float] = {}
    for test in tests:
        for key, error in _differences(family, model, peer, test).items():
            before = found.get(key, 0.0)
            found[key] = error if not error <= before else before
    return found


def _differences(family: Family, model: nn.Module, peer: nn.Module, test: ParitySample) -> dict[tuple[str, str], float]:
    exact = next(model.parameters()).dtype == torch.float64
    pairs = list(paired(family, model, peer))
    exactly = Float64Mode() if exact else nullcontext()
    with torch.no_grad(), record_values(peer, [(theirs, item) for _, theirs, item in pairs]) as given, exactly:
        try:
            peer(**test.given(peer))
        except Exception as error:  # theirs
            raise _failed(type(peer).__name__, error) from error
    with torch.no_grad(), record_values(model, [(ours, 0) for ours, *_ in pairs]) as own:
        test.ours(model)
    found = {}
    for ours, value in own.items():  # in the order of computation
        for name, theirs, item in pairs:
            if (name, 0) == ours and (theirs, item) in given:
                real = test.real.get(name.partition(".")[0])
                found[name, theirs] = relative_error(value, given[theirs, item], real)
    return found


def paired(family: Family, model: nn.Module, peer: nn.Module) -> Iterator[Quantity]:
    """Iterate over the quantities that both models have, layer by layer."""
    ours, theirs = dict(model.named_modules()), dict(peer.named_modules())
    for quantity in family.quantities:
        for name in ours:
            i = layer_index(quantity.ours, name)
            if i is None:
                continue
            other = fill(quantity.theirs, i)
            for usual in (other, other.removeprefix(family.prefix)):
                if usual in theirs:
                    yield Quantity(name, usual, quantity.item)
                    break


@contextmanager
def record_values(model: nn.Module, wanted: Iterable[Key]) -> Iterator[dict[Key, Tensor]]:
    """Record the values of the named taps and module outputs while the model runs: (name, item) → value."""
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
            taps.append((module.watchers, partial(keep, key)))
        else:
            hooks.append(module.register_forward_hook(lambda _m, _x, value, key=key: keep(key, value)))
    try:
        with attached(taps):
            yield found
    finally:
        for hook in hooks:
            hook.remove()


def relative_error(ours: Tensor, theirs: Tensor, real: Tensor | None) -> float:
    """max |ours − theirs| / max |theirs| over rows that are not padding; NaN if either contains NaN."""
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
    """Load the folder with Hugging Face's own class."""
    names = raw.get("architectures") or ["AutoModel"]
    kind = getattr(transformers, names[0], transformers.AutoModel)
    try:
        with _quiet(transformers):
            peer = kind.from_pretrained(folder, dtype=dtype, attn_implementation="eager", local_files_only=True)
    except Exception as error:  # theirs
        raise _failed(kind.__name__, error) from error
    return peer.eval()


def _failed(name: str, error: Exception) -> CheckpointError:
    first = (str(error).strip().splitlines() or [""])[0][:120]
    fact = f"Hugging Face's {name} fails on this folder ({type(error).__name__}: {first})"
    return CheckpointError(fact, "there is nothing to compare with; check the folder's config.json")


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Disable the progress bar of transformers."""
    logging = transformers.utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
