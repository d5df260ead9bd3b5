"""x′ = T(x; random): image augmentations on (b, c, h, w) floats, with independent random draws for every image.

Pixel values lie between 0 and 1: augment first, then normalise. All randomness comes from the generator that is
passed, so a batch is a function of its seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import affine_grid, conv2d, grid_sample, pad

from glassformer.errors import ConfigError

GREY = (0.299, 0.587, 0.114)


def crop(images: Tensor, random: torch.Generator, *, margin: int = 4, fill: float = 0.0) -> Tensor:
    """Random crop of the original size after padding each side with `margin` pixels of `fill`."""
    b, _, h, w = images.shape
    wide = pad(images, (margin, margin, margin, margin), value=fill)
    top, left = torch.randint(0, 2 * margin + 1, (2, b, 1), generator=random)
    rows, columns = top + torch.arange(h), left + torch.arange(w)
    each = torch.arange(b)[:, None, None]
    return wide.movedim(1, -1)[each, rows[:, :, None], columns[:, None, :]].movedim(-1, 1).contiguous()


def flip(images: Tensor, random: torch.Generator, *, share: float = 0.5) -> Tensor:
    """Flip a random fraction `share` of the images horizontally."""
    turned = torch.rand(len(images), generator=random) < share
    return torch.where(turned[:, None, None, None], images.flip(-1), images)


def affine(
    images: Tensor,
    random: torch.Generator,
    *,
    degrees: float = 10.0,
    shift: float = 0.1,
    scale: float = 0.1,
    shear: float = 0.1,
    fill: float = 0.0,
) -> Tensor:
    """Randomly rotate by ±degrees, shift by ±shift of the side, scale by 1 ± scale and shear by ±shear; for digits."""
    b = len(images)
    u = torch.rand(6, b, generator=random) * 2 - 1
    angle = u[0] * math.radians(degrees)
    size = 1 + u[1] * scale
    cos, sin = angle.cos() / size, angle.sin() / size
    M = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], 1)
    one = torch.ones(b)
    S = torch.stack([torch.stack([one, u[2] * shear], -1), torch.stack([u[3] * shear, one], -1)], 1)
    moves = 2 * shift * torch.stack([u[4], u[5]], -1)  # coordinates run from −1 to 1
    return warp(images, torch.cat([M @ S, moves[:, :, None]], -1), fill)


def warp(images: Tensor, theta: Tensor, fill: float = 0.0) -> Tensor:
    """x′(p) = x(θ (p, 1)) with bilinear interpolation and `fill` outside; θ (b, 2, 3) in coordinates from −1 to 1."""
    _, _, h, w = images.shape
    # rotate in pixel coordinates: in normalised coordinates, rotating a non-square image would shear it
    theta = torch.stack(
        [
            torch.stack([theta[:, 0, 0], theta[:, 0, 1] * h / w, theta[:, 0, 2]], -1),
            torch.stack([theta[:, 1, 0] * w / h, theta[:, 1, 1], theta[:, 1, 2]], -1),
        ],
        1,
    )
    grid = affine_grid(theta.to(images), list(images.shape), align_corners=False)
    return grid_sample(images - fill, grid, mode="bilinear", padding_mode="zeros", align_corners=False) + fill


def erase(images: Tensor, random: torch.Generator, *, share: float = 0.25, most: float = 0.33) -> Tensor:
    """Random erasing: noise in a rectangle of up to `most` of the area, in a fraction `share` of the images.

    Zhong et al., 2017.
    """
    b, _, h, w = images.shape
    u = torch.rand(5, b, generator=random)
    noise = torch.rand(images.shape, generator=random, dtype=images.dtype)
    area, aspect = 0.02 + u[1] * (most - 0.02), torch.exp((u[2] * 2 - 1) * math.log(3.3))
    high, wide = ((area * aspect).sqrt() * h).clamp(1, h), ((area / aspect).sqrt() * w).clamp(1, w)
    top, left = (u[3] * (h - high)).floor(), (u[4] * (w - wide)).floor()
    y, x = torch.arange(h), torch.arange(w)
    rows = (y >= top[:, None]) & (y < top[:, None] + high[:, None])
    columns = (x >= left[:, None]) & (x < left[:, None] + wide[:, None])
    hidden = rows[:, :, None] & columns[:, None, :] & (u[0] < share)[:, None, None]
    return torch.where(hidden[:, None], noise, images)


# ---- mixup -----------------------------------------------------------------------------------------------------------


class Mixed(NamedTuple):
    """Images mixed by `mixup`; the loss is share · loss(y) + (1 − share) · loss(y[partner])."""

    images: Tensor
    partner: Tensor
    share: Tensor


def mixup(images: Tensor, random: torch.Generator, *, alpha: float = 0.2) -> Mixed:
    """x′ = λ x + (1 − λ) x[partner], y likewise; λ ~ Beta(α, α) for each image. Zhang et al., "mixup", 2017."""
    if not alpha > 0:
        raise ConfigError(f"the alpha of mixup is {alpha}", "choose a number above 0, such as 0.2, or leave out mixup")
    partner = torch.randperm(len(images), generator=random)
    draw = np.random.default_rng(int(torch.randint(2**62, (1,), generator=random)))
    share = torch.from_numpy(draw.beta(alpha, alpha, len(images))).to(images.dtype)
    part = share[:, None, None, None]
    return Mixed(part * images + (1 - part) * images[partner], partner, share)


def mixed_targets(labels: Tensor, mixed: Mixed, classes: int) -> Tensor:
    """y′ = λ e(y) + (1 − λ) e(y[partner]), of shape (b, classes), for a loss that takes probabilities."""
    one = torch.nn.functional.one_hot(labels, classes).to(mixed.share.dtype)
    return mixed.share[:, None] * one + (1 - mixed.share[:, None]) * one[mixed.partner]


# ---- RandAugment -----------------------------------------------------------------------------------------------------


def rand_augment(
    images: Tensor, random: torch.Generator, *, count: int = 2, strength: float = 0.3, fill: float = 0.5
) -> Tensor:
    """RandAugment: apply `count` random operations from CHANGES to each image, up to `strength` (0–1) of their range.

    Cubuk et al., "RandAugment", 2019; the operations are batched tensor operations and do not use Pillow.
    """
    if not 0 <= strength <= 1:
        raise ConfigError(f"the strength of rand_augment is {strength}", "choose a number from 0 to 1")
    b = len(images)
    for _ in range(count):
        which = torch.randint(len(CHANGES), (b,), generator=random)
        amount = strength * (torch.rand(b, generator=random) * 2 - 1)
        changed = images.clone()
        for k, change in enumerate(CHANGES):
            rows = (which == k).nonzero().flatten()
            if len(rows):
                changed[rows] = change(images[rows], amount[rows, None, None, None], fill)
        images = changed
    return images


def _blend(plain: Tensor, images: Tensor, m: Tensor) -> Tensor:
    """plain + (1 + 0.9 m)(images − plain), clamped to [0, 1]: brightness, contrast, colour and sharpness."""
    return (plain + (1 + 0.9 * m) * (images - plain)).clamp(0, 1)


def grey(images: Tensor) -> Tensor:
    weights = images.new_tensor(GREY)[:, None, None] if images.shape[1] == 3 else images.new_ones(1, 1, 1)
    return (images * weights).sum(1, keepdim=True)


def _smooth(images: Tensor) -> Tensor:
    c = images.shape[1]
    kernel = images.new_tensor([[1, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13
    return conv2d(pad(images, (1, 1, 1, 1), mode="replicate"), kernel.expand(c, 1, 3, 3), groups=c)


def _linear(m: Tensor, at: int, size: float) -> Tensor:
    """θ = identity with size · m added to entry `at` of its six entries."""
    theta = torch.tensor([1.0, 0, 0, 0, 1, 0]).repeat(len(m), 1)
    theta[:, at] += size * m.flatten()
    return theta.reshape(-1, 2, 3)


def _turn(m: Tensor) -> Tensor:
    angle = m.flatten() * math.radians(30)
    zero = torch.zeros_like(angle)
    rows = [angle.cos(), -angle.sin(), zero, angle.sin(), angle.cos(), zero]
    return torch.stack(rows, -1).reshape(-1, 2, 3)


def _stretch(images: Tensor) -> Tensor:
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    return torch.where(high > low, (images - low) / (high - low).clamp_min(1e-6), images)


def _posterize(images: Tensor, m: Tensor) -> Tensor:
    """Reduce 8 bits per channel to 8 − 4 |m|."""
    levels = 2 ** (8 - (4 * m.abs()).round())
    return ((images * 255 / (256 / levels)).floor() * (256 / levels) / 255).clamp(0, 1)


# (images, m from −1 to 1 of shape (b, 1, 1, 1), fill) → images
CHANGES: tuple[Callable[[Tensor, Tensor, float], Tensor], ...] = (
    lambda x, m, fill: x,
    lambda x, m, fill: warp(x, _turn(m), fill),
    lambda x, m, fill: warp(x, _linear(m, 1, 0.3), fill),  # shear
    lambda x, m, fill: warp(x, _linear(m, 3, 0.3), fill),
    lambda x, m, fill: warp(x, _linear(m, 2, 0.9), fill),  # translate
    lambda x, m, fill: warp(x, _linear(m, 5, 0.9), fill),
    lambda x, m, fill: _blend(torch.zeros_like(x), x, m),  # brightness
    lambda x, m, fill: _blend(grey(x).mean((1, 2, 3), keepdim=True), x, m),  # contrast
    lambda x, m, fill: _blend(grey(x), x, m),  # colour
    lambda x, m, fill: _blend(_smooth(x), x, m),  # sharpness
    lambda x, m, fill: _posterize(x, m),
    lambda x, m, fill: torch.where(x >= 1 - m.abs(), 1 - x, x),  # solarize
    lambda x, m, fill: _stretch(x),  # autocontrast
)
