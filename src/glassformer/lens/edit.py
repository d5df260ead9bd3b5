"""`with edit(model, "decoder.2.attention.A", zero_head(3)): …`: change a quantity on its way, and nothing else.

An edit is a function from the quantity to what goes on in its place; gradients flow through it. Only an edit of S or A
makes that one layer explicit. Outside the block the model is what it was, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from glassformer.core.memory import again
from glassformer.errors import InputError, ShapeError
from glassformer.lens.paths import axes_of, layers, match, taps
from glassformer.lens.trace import Run

Edit = Callable[[Tensor], Tensor]


@contextmanager
def edit(model: nn.Module, pattern: str, change: Edit | Tensor | float) -> Iterator[None]:
    """While the block runs, what the pattern names goes on as the change says: a function, a tensor, or a number.

    `….beta` names the scale β of an attention layer, which takes a number.
    """
    if pattern.rpartition(".")[2] == "beta":
        with _beta(model, pattern, change):
            yield
        return
    known = taps(model)
    if not (callable(change) or isinstance(change, Tensor | int | float)):
        raise InputError(f"{pattern} cannot become {change!r}", "give a function, a tensor or a number")
    function = change if callable(change) else replace(change)
    added = []
    try:
        for path in match((pattern,), list(known)):
            editor = _checked(path, function)
            known[path].editors.append(editor)
            added.append((known[path], editor))
        with again([]):
            yield
    finally:
        for tap, editor in added:
            tap.editors.remove(editor)


@contextmanager
def _beta(model: nn.Module, pattern: str, change: Edit | Tensor | float) -> Iterator[None]:
    if not isinstance(change, int | float):
        raise InputError(f"β of {pattern} cannot become {type(change).__name__}", "give a number")
    known = {f"{path}.beta": layer for path, layer in layers(model).items()}
    before = {path: known[path].beta for path in match((pattern,), list(known))}
    try:
        for path in before:
            known[path].beta = float(change)
        yield
    finally:
        for path, beta in before.items():
            known[path].beta = beta


def _checked(path: str, change: Edit) -> Edit:
    def editor(value: Tensor) -> Tensor:
        after = change(value)
        if not isinstance(after, Tensor):
            raise InputError(f"an edit of {path} gave {type(after).__name__}", "return the tensor that is to go on")
        if after.shape != value.shape:
            axes = " ".join(axis.rpartition(".")[2] for axis in axes_of(path))
            raise ShapeError(
                f"an edit of {path} ({axes}) made {tuple(value.shape)} into {tuple(after.shape)}", "keep the shape"
            )
        return after

    return editor


def replace(value: Tensor | float) -> Edit:
    """That tensor, or that number everywhere."""
    return lambda old: torch.full_like(old, value) if isinstance(value, int | float) else _put(value, old, "the edit")


def _put(value: Tensor, old: Tensor, whence: str) -> Tensor:
    try:
        return value.to(old).expand_as(old)
    except RuntimeError:
        fact = f"the quantity is {tuple(old.shape)} here and {tuple(value.shape)} in {whence}"
        raise ShapeError(fact, "give one of the same sizes") from None


def zero() -> Edit:
    return replace(0.0)


def zero_head(*heads: int) -> Edit:
    """Those heads to 0: of H what they say, of A whom they look at."""
    return at_heads(torch.zeros_like, *heads)


def at_heads(change: Edit, *heads: int) -> Edit:
    """The change for those heads alone."""

    def editor(old: Tensor) -> Tensor:
        outside = [head for head in heads if not 0 <= head < old.shape[1]]
        if outside or old.dim() != 4:
            fact = f"there is no head {outside[0] if outside else heads[0]}"
            raise InputError(fact, f"heads are 0 to {old.shape[1] - 1}" if outside else "edit what has heads")
        chosen = torch.zeros(old.shape[1], dtype=torch.bool, device=old.device)
        chosen[list(heads)] = True
        return torch.where(chosen[:, None, None], change(old), old)

    return editor


def patch(run: Run, path: str, *heads: int) -> Edit:
    """What another run had at that path, for those heads or all: activation patching."""
    return _from(run[path], path, heads)


def freeze(run: Run, path: str, *heads: int) -> Edit:
    """The weights A that another run had, whatever the scores say now; gradients stop there."""
    return _from(run[path].detach(), path, heads)


def _from(value: Tensor, path: str, heads: tuple[int, ...]) -> Edit:
    def put(old: Tensor) -> Tensor:
        return _put(value, old, f"the run it is patched from, at {path}")

    return at_heads(put, *heads) if heads else put
