"""Apply the rules of a family to one model and one file: map every weight, and check it before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checkpoints.family import Family
from glassformer.checkpoints.layouts import Layout
from glassformer.checkpoints.rules import Rule, fill, layer_index
from glassformer.errors import CheckpointError

WEIGHTS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Bound:
    """One application of a rule: our names, their usual names, and the layout between them."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    layout: Layout


@dataclass
class Binding:
    """The mapping from every weight of a model to its name and layout in a file."""

    model: nn.Module
    config: Any
    bound: list[Bound] = field(default_factory=list)

    def write(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert tensors (weights, or their gradients) from our names to the usual names of the family."""
        out: dict[str, Tensor] = {}
        for one in self.bound:
            parts = one.layout.write([ours[name] for name in one.ours], self.config)
            out.update(zip(one.theirs, parts, strict=True))
        return out

    def require_fit(self, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, torch.dtype]) -> None:
        """Require that every needed weight is present, with the right shape and a floating-point dtype."""
        wanted = self.write({name: weight.to("meta") for name, weight in self.model.named_parameters()})
        ours = {name: " and ".join(one.ours) for one in self.bound for name in one.theirs}
        missing = [name for name in wanted if name not in shapes]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            fact = f"weight {missing[0]}{more} is missing (our {ours[missing[0]]})"
            raise CheckpointError(fact, "download all files of the checkpoint; nothing was loaded")
        for name, weight in wanted.items():
            if shapes[name] != tuple(weight.shape):
                fact = f"weight {name} is {_times(shapes[name])}, and config.json asks for {_times(weight.shape)}"
                raise CheckpointError(f"{fact} (our {ours[name]})", "config.json and weights do not belong together")
            if dtypes[name] not in WEIGHTS:
                kind = str(dtypes[name]).removeprefix("torch.")
                raise CheckpointError(
                    f"weight {name} has dtype {kind}", "use an unquantised checkpoint in 16 or 32 bits"
                )


def bind(family: Family, model: nn.Module, config: Any, names: Iterable[str] | None = None) -> Binding:
    """Map every weight of the model to the usual `names` of a file, or to those of a file yet to be written."""
    present = None if names is None else set(names)
    binding = Binding(model, config)
    own = {name for name, _ in model.named_parameters()}
    done: set[str] = set()
    for name, _ in model.named_parameters():
        if name not in done:
            rule, i = _rule(family, name, own)
            ours = tuple(fill(one, i) for one in rule.ours)
            theirs = tuple(_choice(fill(one, i), present) for one in rule.theirs)
            binding.bound.append(Bound(ours, theirs, rule.layout))
            done.update(ours)
    return binding if present is None else _with_copies(binding, family, present)


def _rule(family: Family, name: str, own: set[str]) -> tuple[Rule, str]:
    """Return the first rule for this name whose other names also exist in the model: W1 alone, or W1 and W3 joined."""
    for rule in family.rules:
        for template in rule.ours:
            i = layer_index(template, name)
            if i is not None and all(fill(one, i) in own for one in rule.ours):
                return rule, i
    raise CheckpointError(
        f"the family {family.name} has no name for weight {name}",
        "a model with this part cannot take this family's weights, nor be exported as one",
    )


def _choice(alternatives: str, present: set[str] | None) -> str:
    names = alternatives.split("|")
    return next((name for name in names if present is not None and name in present), names[0])


def _with_copies(binding: Binding, family: Family, present: set[str]) -> Binding:
    """Read a weight that was omitted because it is tied to another from whichever of its copies is present."""
    needed = {name for one in binding.bound for name in one.theirs}
    swap: dict[str, str] = {}
    for group in family.copies:
        spare = [name for name in group if name in present and name not in needed]
        for name in group:
            if name in needed and name not in present and spare:
                swap[name] = spare[0]
    binding.bound = [Bound(b.ours, tuple(swap.get(name, name) for name in b.theirs), b.layout) for b in binding.bound]
    return binding


def require_no_spare(
    family: Family, binding: Binding, present: Iterable[str], read: Callable[[str], Tensor]
) -> None:
    """Require that any additional weight in the file is an exact copy of one of the model's weights."""
    needed = {name for one in binding.bound for name in one.theirs}
    for name in present:
        if name in needed or any(layer_index(one, name) is not None for one in family.unused):
            continue
        twins = [one for group in family.copies if name in group for one in group if one in needed]
        if not any(_equal(read(name), read(twin)) for twin in twins):
            why = f", and it is not a copy of {twins[0]}" if twins else ""
            raise CheckpointError(
                f"weight {name} has no place in the model that config.json describes{why}",
                "the file contains weights that the model does not use; nothing was loaded",
            )


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


def _times(shape: Iterable[int]) -> str:
    return "×".join(map(str, shape)) or "a single number"
