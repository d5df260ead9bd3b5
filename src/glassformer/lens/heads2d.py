"""Head scores of image models on the grid of patches, and the mean attention distance.

offset (dy, dx), row, column, local k×k, CLS, global (entropy near uniform), each compared with its null (see
`head_null`), for queries that are patches. Mean distance = Σ_s A_ts |p_t − p_s| over patches, in pixels (Dosovitskiy et
al. 2021, figure 7); A is rescaled to sum to 1 over the patches, so that attention to CLS does not count as short-range.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.lens.head_null import AttentionRows
from glassformer.lens.heads import HeadScores, LayerTally, offset_name, score_paths
from glassformer.lens.headtable import HeadTable
from glassformer.lens.trace import trace
from glassformer.models.protocols import PatchModel

REACH, WIDTHS = 3, (3, 5)  # in patches


class GridScores(HeadScores):
    """Head scores on a grid: `prefix` tokens (CLS first, then registers) precede the patches in row-major order."""

    def __init__(
        self,
        grid: tuple[int, int],
        *,
        prefix: int = 1,
        patch: tuple[int, int] = (1, 1),
        reach: int = REACH,
        widths: Sequence[int] = WIDTHS,
    ) -> None:
        super().__init__(reach=reach, widths=widths)
        if min(*grid, *patch) < 1 or prefix < 0:
            raise ConfigError(f"grid is {grid} and prefix is {prefix}", "choose sizes of at least 1")
        self.grid, self.prefix, self.patch = grid, prefix, patch
        span = range(-reach, reach + 1)
        self.places = [(dy, dx) for dy in span for dx in span]
        inside = [w for w in sorted(widths) if w <= max(grid)]
        near = {w: [o for o in self.places if max(map(abs, o)) <= w // 2] for w in inside}
        self.windows = {f"local {w}×{w}": window for w, window in near.items()}

    columns: Sequence[str] = ("self", "CLS", "registers", "row", "column", "global", "distance")

    def groups(self) -> list[list[str]]:
        points = [offset_name(o) for o in self.places]
        return [[*points, "CLS", "registers"], ["row", "column"], *([name] for name in self.windows), ["global"]]

    def observe(self, layer: LayerTally, rows: AttentionRows, tokens: Tensor | None, real: Tensor | None) -> None:
        (height, width), start = self.grid, self.prefix
        s = rows.A.shape[-1]
        if s != start + height * width:
            raise ShapeError(
                f"there are {s} keys, but {start} + {height} × {width} positions", "give the grid of these images"
            )
        rows.use = rows.use & (rows.where >= start)
        y, x = self._yx(rows.where)
        layer.offsets(rows, {o: self._key(y + o[0], x + o[1])[None] for o in self.places}, self.windows)
        key = torch.arange(s, device=rows.where.device)
        key_y, key_x = self._yx(key)
        is_patch = key >= start
        layer.add("row", rows.within(((key_y == y[:, None]) & is_patch)[None]))
        layer.add("column", rows.within(((key_x == x[:, None]) & is_patch)[None]))
        layer.add("global", rows.entropy())
        if start:
            layer.add("CLS", rows.at(torch.zeros_like(rows.where)[None]))
        if start > 1:
            layer.add("registers", rows.within(((key > 0) & ~is_patch).expand(1, len(y), s)))
        down, across = (key_y - y[:, None]) * self.patch[0], (key_x - x[:, None]) * self.patch[1]
        layer.add("distance", rows.mean_of(torch.hypot(down.double(), across.double()), is_patch.expand(len(y), s)))

    def local_label(self, window: str, explained: bool, kernel: Mapping[Any, float]) -> str:
        return window.replace("local", "convolution") if explained else window

    def _yx(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        place = (tokens - self.prefix).clamp_min(0)
        return place // self.grid[1], place % self.grid[1]

    def _key(self, y: Tensor, x: Tensor) -> Tensor:
        inside = (y >= 0) & (y < self.grid[0]) & (x >= 0) & (x < self.grid[1])
        return torch.where(inside, self.prefix + y * self.grid[1] + x, -1)


@torch.no_grad()
def score_image_heads(
    model: nn.Module, images: Iterable[Tensor], *, reach: int = REACH, widths: Sequence[int] = WIDTHS
) -> HeadTable:
    """Score the heads of a vision model over batches (b, c, H, W) of one size; distances are in pixels.

    `reach` is the largest offset that is scored along each axis, `widths` are the sides of local windows, in patches.
    """
    if not isinstance(model, PatchModel):
        raise InputError(f"a {type(model).__name__} has no patches", "give a vision Transformer")
    scores: GridScores | None = None
    for image in images:
        grid = model.patch_grid((image.shape[-2], image.shape[-1]))
        if scores is None:
            prefix, patch = len(model.prefix_names), model.patch_size
            scores = GridScores(grid, prefix=prefix, patch=patch, reach=reach, widths=widths)
        elif grid != scores.grid:
            raise ShapeError(f"the images have {scores.grid} and {grid} patches", "score one size at a time")
        with trace(model, *score_paths(model)) as run:
            model(image)
        scores.add(run)
    if scores is None:
        raise InputError("no images were given", "give at least one")
    return scores.table()
