"""Position encodings: sinusoids, relative distances and biases, and resizing of learned tables.

Encodings are computed in float64 and then cast, so that position 10,000 is as accurate as position 1.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import ConfigError, InputError, ShapeError

INTERLEAVED, HALVES = "interleaved", "halves"
Number = float | int


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise an error if the value is not one of the choices."""
    if value not in choices:
        raise ConfigError(f"{name} {value!r} is unknown", f"choose one of {', '.join(choices)}")


# ---- sinusoids -------------------------------------------------------------------------------------------------------


def frequencies(width: int, *, base: Number = 10000.0, divisor: str = "d/2") -> Float[Tensor, " half"]:
    """ω_i = base^(−i / divisor) for i = 0 … ⌈d/2⌉−1, float64; the paper's exponent 2i/d is i / (d/2).

    Whisper divides by d/2 − 1, so its last frequency is exactly 1/base.
    """
    require_choice("divisor", divisor, ("d/2", "d/2-1"))
    if width < 1:
        raise ShapeError(f"width must be at least 1, got {width}", "choose a width of at least 1")
    if divisor == "d/2-1" and (width % 2 or width < 4):
        raise ShapeError(f"width {width} has no divisor d/2-1", "choose an even width of at least 4, or divisor d/2")
    over = width / 2 if divisor == "d/2" else width / 2 - 1
    return base ** (-torch.arange((width + 1) // 2, dtype=torch.float64) / over)


def sinusoidal_at(
    positions: Real[Tensor, "*b"],
    width: int,
    *,
    layout: str = INTERLEAVED,
    base: Number = 10000.0,
    divisor: str = "d/2",
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "*b {width}"]:
    """E[p, 2i] = sin(ω_i p), E[p, 2i+1] = cos(ω_i p): the sinusoids of "Attention is all you need" (2017).

    `halves` puts all sines before all cosines (Marian; Whisper with divisor d/2-1). An odd width has one
    more sine than cosines, as in Marian; the last frequency is then unpaired, so there is no `shift_matrix`.
    """
    require_choice("layout", layout, (INTERLEAVED, HALVES))
    angles = positions.double()[..., None] * frequencies(width, base=base, divisor=divisor).to(positions.device)
    sines, cosines = angles.sin(), angles[..., : width // 2].cos()
    if layout == HALVES:
        return torch.cat([sines, cosines], -1).to(dtype)
    E = angles.new_empty(*positions.shape, width)
    E[..., 0::2], E[..., 1::2] = sines, cosines
    return E.to(dtype)


def sinusoidal(
    n: int,
    width: int,
    *,
    layout: str = INTERLEAVED,
    base: Number = 10000.0,
    divisor: str = "d/2",
    offset: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "{n} {width}"]:
    """Return the encodings of positions offset … offset+n−1, one per row; see `sinusoidal_at`."""
    if n < 0:
        raise ShapeError(f"the number of positions is {n}", "choose 0 or more")
    places = torch.arange(offset, offset + n)
    return sinusoidal_at(places, width, layout=layout, base=base, divisor=divisor, dtype=dtype)


def shift_matrix(
    width: int, shift: Number, *, layout: str = INTERLEAVED, base: Number = 10000.0, divisor: str = "d/2"
) -> Float[Tensor, "{width} {width}"]:
    """R with E[p + shift] = E[p] R for every p: a shift is a fixed linear map that rotates each (sin, cos) pair.

    sin(a+b) = sin a cos b + cos a sin b, cos(a+b) = cos a cos b − sin a sin b; float64.
    """
    require_choice("layout", layout, (INTERLEAVED, HALVES))
    if width % 2:
        raise ShapeError(f"width {width} is odd, and sines and cosines come in pairs", "choose an even width")
    b = shift * frequencies(width, base=base, divisor=divisor)
    i = torch.arange(width // 2)
    sin, cos = (2 * i, 2 * i + 1) if layout == INTERLEAVED else (i, i + width // 2)
    R = torch.zeros(width, width, dtype=torch.float64)
    R[sin, sin], R[cos, sin] = b.cos(), b.sin()
    R[sin, cos], R[cos, cos] = -b.sin(), b.cos()
    return R


def sincos_2d(
    rows: int,
    cols: int,
    width: int,
    *,
    base: Number = 10000.0,
    first: str = "columns",
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "{rows}*{cols} {width}"]:
    """E[(r, c)] = [sin ω c | cos ω c | sin ω r | cos ω r], row by row: the column's encoding first, as in MAE.

    `first="rows"` is [r | c], as in MoCo v3 (whose square grid is transposed) and Hugging Face's 2-D sinusoids.
    """
    require_choice("first", first, ("columns", "rows"))
    if width % 4:
        raise ShapeError(f"width {width} is not a multiple of 4", "choose a multiple of 4")
    down = sinusoidal(rows, width // 2, layout=HALVES, base=base, dtype=dtype).repeat_interleave(cols, 0)
    across = sinusoidal(cols, width // 2, layout=HALVES, base=base, dtype=dtype).repeat(rows, 1)
    return torch.cat([across, down] if first == "columns" else [down, across], -1)


# ---- relative --------------------------------------------------------------------------------------------------------


def relative_distance(
    t: int, s: int | None = None, *, offset: int | None = None, device: torch.device | str | None = None
) -> Int[Tensor, "t s"]:
    """D[i, j] = j − (offset + i): key minus query position, negative for earlier keys.

    Queries are at positions offset … offset+t−1, keys at 0 … s−1. By default the last query is aligned with the last
    key (offset = s − t), which is correct with a cache; without s, the keys end at the last query.
    """
    if s is None:
        s = t + (offset or 0)
    if offset is None:
        offset = s - t
    if t < 0 or s < 0 or offset < 0:
        fact = f"{t} queries over {s} keys would start at position {offset}"
        raise ShapeError(fact, "give at least as many keys as queries, or an offset of 0 or more")
    return torch.arange(s, device=device) - torch.arange(offset, offset + t, device=device)[:, None]


def clipped_buckets(distance: Int[Tensor, "*b"], limit: int) -> Int[Tensor, "*b"]:
    """clip(D, −limit, limit) + limit, in 0 … 2·limit: relative positions of Shaw et al. (2018)."""
    if limit < 0:
        raise ConfigError(f"the clipping distance must be at least 0, got {limit}", "choose a limit of 0 or more")
    return distance.clamp(-limit, limit) + limit


def t5_buckets(
    distance: Int[Tensor, "*b"], *, bidirectional: bool, buckets: int = 32, limit: int = 128
) -> Int[Tensor, "*b"]:
    """Map distances to buckets: one per distance for the first half, then logarithmic up to `limit`; T5 (2019).

    If bidirectional, the upper half of the buckets is for keys after the query; otherwise these share bucket 0.
    Computed in float32 as in the published models, whose bucket boundaries depend on its rounding.
    """
    side = buckets // 2 if bidirectional else buckets
    exact = side // 2
    if exact < 1 or limit <= exact:
        fact = f"{buckets} buckets up to distance {limit} leave no room for both exact and logarithmic ones"
        raise ConfigError(fact, "choose at least 4 buckets and a limit above their number")
    n = distance.abs() if bidirectional else (-distance).clamp(min=0)
    log = torch.log(n.clamp(min=1).float() / exact) / math.log(limit / exact) * (side - exact)
    far = (exact + log.long()).clamp(max=side - 1)
    bucket = torch.where(n < exact, n, far)
    return bucket + side * (distance > 0).long() if bidirectional else bucket


def alibi_slopes(heads: int) -> Float[Tensor, "{heads}"]:  # noqa: F821
    """m_i = 2^(−8 i / n) for i = 1 … n = heads, if heads is a power of two (Press et al., 2021).

    Otherwise the slopes of the next lower power of two, followed by every other slope of twice as many, as published.
    """
    if heads < 1:
        raise ShapeError(f"heads must be at least 1, got {heads}", "choose at least one head")
    n = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * i / n) for i in range(1, n + 1)]
    between = [2 ** (-4 * i / n) for i in range(1, 2 * (heads - n), 2)]
    return torch.tensor(slopes + between)


def alibi(
    heads: int, t: int, s: int | None = None, *, offset: int | None = None, device: torch.device | str | None = None
) -> Float[Tensor, "{heads} t s"]:
    """B[h, i, j] = −m_h |D[i, j]|, added to the scores; with a causal mask this is the published bias."""
    distance = relative_distance(t, s, offset=offset, device=device)
    return -alibi_slopes(heads).to(distance.device)[:, None, None] * distance.abs()


# ---- resizing learned tables -----------------------------------------------------------------------------------------


def _resized(
    grid: Tensor, size: tuple[int, ...], mode: str, *, antialias: bool = False, align_corners: bool = False
) -> Tensor:
    """F.interpolate over (channels, *old size), in at least float32: half precision would round the table twice."""
    wide = grid if grid.dtype == torch.float64 else grid.float()
    out = F.interpolate(wide[None], size=size, mode=mode, antialias=antialias, align_corners=align_corners)
    return out[0].to(grid.dtype)


def interpolate_1d(
    table: Float[Tensor, "old d"], n: int, *, prefix: int = 0, align_corners: bool = False
) -> Float[Tensor, "new d"]:
    """Resize the rows after the first `prefix` linearly to n positions; a table of the same length is unchanged."""
    if n < 1 or not 0 <= prefix < table.shape[0]:
        fact = f"a table of {table.shape[0]} rows, {prefix} of them kept, cannot become {n} positions"
        raise ShapeError(fact, "keep fewer rows than there are, and ask for at least one position")
    if prefix + n == table.shape[0]:
        return table
    rows = _resized(table[prefix:].T, (n,), "linear", align_corners=align_corners).T
    return torch.cat([table[:prefix], rows])


def interpolate_2d(
    table: Float[Tensor, "old d"],
    old: tuple[int, int],
    new: tuple[int, int],
    *,
    prefix: int = 0,
    mode: str = "bicubic",
    antialias: bool = False,
    align_corners: bool = False,
) -> Float[Tensor, "new d"]:
    """Resize the grid part of a table of `prefix` rows (CLS, registers; kept) and a row-major grid of (rows, cols).

    Hugging Face's ViT and DINOv2: the defaults; DINOv2 with registers and timm: antialias; torchvision: align_corners;
    Google's zoom(order=1): bilinear with align_corners; SigLIP 2: bilinear. Only an identical *grid* is returned
    unchanged; the same number of tokens in another shape is resized.
    """
    require_choice("mode", mode, ("bicubic", "bilinear"))
    if prefix < 0 or prefix + old[0] * old[1] != table.shape[0]:
        fact = f"{prefix} rows and a grid of {old[0]}×{old[1]} do not make a table of {table.shape[0]}"
        raise ShapeError(fact, "give the grid and prefix that the table was made for")
    if min(new) < 1:
        raise InputError(f"a grid of {new[0]}×{new[1]} has no cells", "choose at least one row and one column")
    if old == new:
        return table
    grid = table[prefix:].T.unflatten(1, old)
    rows = _resized(grid, new, mode, antialias=antialias, align_corners=align_corners).flatten(1).T
    return torch.cat([table[:prefix], rows])
