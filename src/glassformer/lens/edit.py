"""`with edit(model, "decoder.2.attention.A", zero_head(3)): …`: change one quantity during the forward pass.

An edit is a function from the quantity to its replacement; gradients flow through it. A layer computes attention
explicitly only if its S or A is edited. Outside the block, and in other threads, the model is unchanged bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from glassformer.errors import InputError, ShapeError
from glassformer.lens.paths import Names, QuantityName, attention_layers, axes_of, match, taps
from glassformer.lens.trace import Run
from glassformer.nn.tap import attached

Edit = Callable[[Tensor], Tensor]


@contextmanager
def edit(model: nn.Module, pattern: str, change: Edit | Tensor | float) -> Iterator[None]:
    """Inside the block, replace the quantities that match the pattern by a function of them, a tensor or a number.

    Only forward passes of the current thread or task are edited. `….beta` names the scale β of an attention layer and
    takes a number. With a TransformerLens name, the function receives and returns TransformerLens's axis order.

    >>> model, tokens = gf.load("tiny:decoder"), torch.tensor([[3, 1, 4, 1, 5]])
    >>> with gf.edit(model, "decoder.0.attention.A", gf.lens.zero_head(1)), gf.trace(model, "*.A") as trace:
    ...     logits = model(tokens)
    >>> trace["decoder.0.attention.A"][0, 1].sum().item()
    0.0
    """
    if pattern.rpartition(".")[2] == "beta":
        with _beta(model, pattern, change):
            yield
        return
    known = taps(model)
    if not (callable(change) or isinstance(change, Tensor | int | float)):
        raise InputError(f"{pattern} cannot be replaced by {change!r}", "give a function, a tensor or a number")
    function = change if callable(change) else replace(change)
    names = Names.of(model).find(pattern)
    with attached((known[name.path].editors, _checked(name, function)) for name in names):
        yield


@contextmanager
def _beta(model: nn.Module, pattern: str, change: Edit | Tensor | float) -> Iterator[None]:
    if not isinstance(change, int | float):
        raise InputError(f"β of {pattern} cannot be replaced by a {type(change).__name__}", "give a number")
    known = {f"{path}.beta": layer for path, layer in attention_layers(model).items()}
    places = [known[path].beta_editors for path in match((pattern,), list(known))]
    with attached((editors, lambda _: float(change)) for editors in places):
        yield


def _checked(name: QuantityName, change: Edit) -> Edit:
    """Wrap a change to check its result. The change receives S and A themselves, and copies of other quantities."""
    path, order = name
    private = path.rpartition(".")[2] in ("S", "A")

    def editor(old: Tensor) -> Tensor:
        value = old if order is None else old.permute(order)
        after = change(value if private else value.clone())
        if not isinstance(after, Tensor):
            raise InputError(f"an edit of {path} returned a {type(after).__name__}", "return the new tensor")
        if after.shape != value.shape:
            axes = " ".join(axis.rpartition(".")[2] for axis in axes_of(path))
            raise ShapeError(
                f"an edit of {path} ({axes}) changed its shape from {tuple(value.shape)} to {tuple(after.shape)}",
                "keep the shape",
            )
        return after if order is None else after.permute([order.index(axis) for axis in range(len(order))])

    return editor


def replace(value: Tensor | float) -> Edit:
    """Return an edit that replaces a quantity by a tensor, or every entry by a number."""
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
    """Return an edit that sets the given heads to 0: their outputs in H, or their weights in A."""
    return at_heads(torch.zeros_like, *heads)


def at_heads(change: Edit, *heads: int) -> Edit:
    """Return an edit that applies the change to the given heads only."""

    def editor(old: Tensor) -> Tensor:
        outside = [head for head in heads if not 0 <= head < old.shape[1]]
        if outside or old.dim() != 4:
            fact = f"there is no head {outside[0] if outside else heads[0]}"
            raise InputError(
                fact, f"heads are 0 to {old.shape[1] - 1}" if outside else "choose a quantity that has heads"
            )
        chosen = torch.zeros(old.shape[1], dtype=torch.bool, device=old.device)
        chosen[list(heads)] = True
        return torch.where(chosen[:, None, None], change(old), old)

    return editor


def patch(run: Run, path: str, *heads: int) -> Edit:
    """Return an edit that inserts the values of another run, for the given heads or all: activation patching."""
    return _from(run[path], path, heads)


def freeze(run: Run, path: str, *heads: int) -> Edit:
    """Return an edit that fixes the weights A to those of another run, whatever the scores; gradients stop there."""
    return _from(run[path].detach(), path, heads)


def _from(value: Tensor, path: str, heads: tuple[int, ...]) -> Edit:
    def put(old: Tensor) -> Tensor:
        return _put(value, old, f"the run it is patched from, at {path}")

    return at_heads(put, *heads) if heads else put
