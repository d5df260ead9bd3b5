"""y = x: an identity whose name is a quantity's symbol, through which it can be watched and edited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

Watcher = Callable[[Any], None]
Editor = Callable[[Any], Any]


class Tap(nn.Module):
    """Where a quantity passes by. Its path in the model is the quantity's name: `encoder.3.attention.Q`.

    Editors see the quantity first, in the order they came, and return what goes on; watchers see what goes on.
    """

    whole = 0  # how many watchers will read all of it, and want it at once where it could come late

    def __init__(self) -> None:
        super().__init__()
        self.watchers: list[Watcher] = []
        self.editors: list[Editor] = []

    def forward(self, x: Any) -> Any:
        for edit in self.editors:
            x = edit(x)
        for watch in self.watchers:
            watch(x)
        return x

    # Past nn.Module.__call__ and its hooks: a tap that nobody uses costs two attribute look-ups.
    __call__ = forward

    @property
    def watched(self) -> bool:
        return bool(self.watchers)

    @property
    def edited(self) -> bool:
        return bool(self.editors)

    def extra_repr(self) -> str:
        return f"watchers={len(self.watchers)}, editors={len(self.editors)}" if self.watchers or self.editors else ""
