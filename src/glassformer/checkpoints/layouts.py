"""ours ↔ theirs: how our weights are laid out in a published file, as invertible mappings.

Every layout is a permutation of numbers, so `write` applies to gradients as it does to weights, and `write` on the meta
device returns the shapes a file must have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

Shape = tuple[int, ...]


class Layout(Protocol):
    """`write` converts our tensors to theirs; `read` converts theirs to ours, as views where possible."""

    def write(self, ours: Sequence[Tensor], config: Any) -> list[Tensor]: ...

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], config: Any) -> list[Tensor]: ...


@dataclass(frozen=True)
class Same:
    """theirs = ours."""

    def write(self, ours: Sequence[Tensor], config: Any) -> list[Tensor]:
        return list(ours)

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], config: Any) -> list[Tensor]:
        return list(theirs)


@dataclass(frozen=True)
class Transposed:
    """theirs = oursᵀ: GPT-2 stores its matrices as [in, out]."""

    def write(self, ours: Sequence[Tensor], config: Any) -> list[Tensor]:
        return [W.mT for W in ours]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], config: Any) -> list[Tensor]:
        return [W.mT for W in theirs]


@dataclass(frozen=True)
class Joined:
    """theirs = [ours₁ | ours₂ | …], concatenated along rows, transposed if stored as [in, out]: q|k|v in one matrix."""

    transposed: bool = False

    def write(self, ours: Sequence[Tensor], config: Any) -> list[Tensor]:
        whole = torch.cat(list(ours))
        return [whole.mT if self.transposed else whole]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], config: Any) -> list[Tensor]:
        (whole,) = theirs
        return list((whole.mT if self.transposed else whole).split([shape[0] for shape in shapes]))


@dataclass(frozen=True)
class Reshaped:
    """The same numbers in the same order, in a different shape derived from the model's config."""

    shape: Callable[[Any], Shape]

    def write(self, ours: Sequence[Tensor], config: Any) -> list[Tensor]:
        return [W.reshape(self.shape(config)) for W in ours]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], config: Any) -> list[Tensor]:
        return [W.reshape(shape) for W, shape in zip(theirs, shapes, strict=True)]


@dataclass(frozen=True)
class RowRange:
    """theirs are the rows of ours, each reshaped to the same shape: DeiT's two tokens."""

    shape: Callable[[Any], Shape]

    def write(self, ours: Sequence[Tensor], config: Any) -> list[Tensor]:
        (whole,) = ours
        return [row.reshape(self.shape(config)) for row in whole]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], config: Any) -> list[Tensor]:
        return [torch.stack([one.reshape(-1) for one in theirs])]


@dataclass(frozen=True)
class Interleaved:
    """ours rotates columns (i, i + d/2) of a head, theirs (2i, 2i + 1): the rows of W_Q and W_K are permuted.

    `heads` returns the number of heads of W. Hugging Face's Llama uses our order; Meta's files and GGUF use theirs.
    """

    heads: Callable[[Any], int]

    def write(self, ours: Sequence[Tensor], config: Any) -> list[Tensor]:
        return [_regroup(W, self.heads(config), (2, -1)) for W in ours]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], config: Any) -> list[Tensor]:
        return [_regroup(W, self.heads(config), (-1, 2)) for W in theirs]


def _regroup(W: Tensor, heads: int, pairs: tuple[int, int]) -> Tensor:
    return W.unflatten(0, (heads, -1)).unflatten(1, pairs).transpose(1, 2).reshape(W.shape)
