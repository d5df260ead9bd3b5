"""ours ↔ theirs: how the numbers of our weights lie in a published file, as data that works in both directions.

Every layout is a permutation of numbers, so gradients go through `write` as weights do, and `write` on shapes alone
(the meta device) says what shape a file must have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

Shape = tuple[int, ...]


class Layout(Protocol):
    """`write` makes their tensors from ours; `read` ours from theirs, as views of them where that is possible."""

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
    """theirs = oursᵀ: GPT-2 keeps its matrices as [in, out]."""

    def write(self, ours: Sequence[Tensor], config: Any) -> list[Tensor]:
        return [W.mT for W in ours]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], config: Any) -> list[Tensor]:
        return [W.mT for W in theirs]


@dataclass(frozen=True)
class Joined:
    """theirs = [ours₁ | ours₂ | …], one below the other, then transposed if they keep [in, out]: q|k|v in one."""

    transposed: bool = False

    def write(self, ours: Sequence[Tensor], config: Any) -> list[Tensor]:
        whole = torch.cat(list(ours))
        return [whole.mT if self.transposed else whole]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], config: Any) -> list[Tensor]:
        (whole,) = theirs
        return list((whole.mT if self.transposed else whole).split([shape[0] for shape in shapes]))


@dataclass(frozen=True)
class Stacked:
    """ours = [theirs₁ | theirs₂ | …], one below the other, each of the same size."""

    parts: int

    def write(self, ours: Sequence[Tensor], config: Any) -> list[Tensor]:
        (whole,) = ours
        return list(whole.chunk(self.parts))

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], config: Any) -> list[Tensor]:
        return [torch.cat(list(theirs))]


@dataclass(frozen=True)
class Reshaped:
    """The same numbers in the same order under another shape, which follows from the model's config."""

    shape: Callable[[Any], Shape]

    def write(self, ours: Sequence[Tensor], config: Any) -> list[Tensor]:
        return [W.reshape(self.shape(config)) for W in ours]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], config: Any) -> list[Tensor]:
        return [W.reshape(shape) for W, shape in zip(theirs, shapes, strict=True)]


@dataclass(frozen=True)
class Rows:
    """theirs are the rows of ours, each in the same shape: DeiT's two tokens."""

    shape: Callable[[Any], Shape]

    def write(self, ours: Sequence[Tensor], config: Any) -> list[Tensor]:
        (whole,) = ours
        return [row.reshape(self.shape(config)) for row in whole]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], config: Any) -> list[Tensor]:
        return [torch.stack([one.reshape(-1) for one in theirs])]


@dataclass(frozen=True)
class Interleaved:
    """ours turns columns (i, i + d/2) of a head, theirs (2i, 2i + 1): rows of W_Q and W_K in another order.

    `heads` says how many heads W has. Hugging Face's Llama is as ours; Meta's files and GGUF are as theirs.
    """

    heads: Callable[[Any], int]

    def write(self, ours: Sequence[Tensor], config: Any) -> list[Tensor]:
        return [_regroup(W, self.heads(config), (2, -1)) for W in ours]

    def read(self, theirs: Sequence[Tensor], shapes: Sequence[Shape], config: Any) -> list[Tensor]:
        return [_regroup(W, self.heads(config), (-1, 2)) for W in theirs]


def _regroup(W: Tensor, heads: int, pairs: tuple[int, int]) -> Tensor:
    return W.unflatten(0, (heads, -1)).unflatten(1, pairs).transpose(1, 2).reshape(W.shape)
