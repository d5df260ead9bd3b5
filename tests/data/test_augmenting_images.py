from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import scipy.special
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from torch import Tensor
from torch.nn.functional import cross_entropy

from glassformer.data import augment_images as augment
from glassformer.data.augment_images import CHANGES, Mixed, mixed_targets, mixup, rand_augment, warp
from glassformer.errors import ConfigError

ALL = (augment.crop, augment.flip, augment.affine, augment.erase, augment.rand_augment)


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some(b: int = 6, c: int = 3, h: int = 8, w: int = 10, seed: int = 0) -> Tensor:
    return torch.rand(b, c, h, w, generator=random(seed))


@pytest.mark.parametrize("change", ALL)
def test_a_function_of_the_generator_alone(change: Any) -> None:
    images = some(32)
    before = images.clone()
    first = change(images, random(1))
    assert torch.equal(first, change(images, random(1)))
    assert not torch.equal(first, change(images, random(2)))
    assert torch.equal(images, before)
    assert first.shape == images.shape
    assert first.dtype == images.dtype
    assert 0 <= first.min() <= first.max() <= 1


@pytest.mark.parametrize("change", ALL)
def test_grey_images_too(change: Any) -> None:
    assert change(some(c=1), random()).shape == (6, 1, 8, 10)


@given(st.integers(0, 4), st.integers(0, 1000))
def test_a_crop_is_a_window_of_the_padded_image(margin: int, seed: int) -> None:
    images = some()
    cropped = augment.crop(images, random(seed), margin=margin, fill=0.5)
    wide = np.pad(images.numpy(), ((0, 0), (0, 0), (margin, margin), (margin, margin)), constant_values=0.5)
    places = range(2 * margin + 1)
    for before, after in zip(wide, cropped.numpy(), strict=True):
        assert any((before[:, y : y + 8, x : x + 10] == after).all() for y in places for x in places)


def test_crops_reach_every_place() -> None:
    dot = torch.zeros(2000, 1, 5, 5)
    dot[:, :, 2, 2] = 1
    cropped = augment.crop(dot, random(), margin=2)
    assert cropped.sum((0, 1)).min() > 2000 / 25 / 2


def test_a_flip_exchanges_left_and_right_of_half() -> None:
    images = some(1000, 1, 2, 3)
    flipped = augment.flip(images, random())
    turned = (flipped == torch.tensor(images.numpy()[..., ::-1].copy())).all(-1).all(-1).flatten()
    same = (flipped == images).all(-1).all(-1).flatten()
    assert bool((turned ^ same).all())
    assert 430 < int(turned.sum()) < 570
    assert torch.equal(augment.flip(images, random(), share=0), images)
    assert torch.equal(augment.flip(images, random(), share=1), images.flip(-1))


@given(st.floats(-40, 40), st.floats(-0.3, 0.3), st.floats(-0.3, 0.3))
def test_a_warp_is_scipys(degrees: float, down: float, right: float) -> None:
    """x′(p) = x(R p + m) about the middle, by scipy.ndimage.affine_transform in pixels of a rectangle."""
    image, a = some(1, 1, 9, 13), math.radians(degrees)
    theta = torch.tensor([[[math.cos(a), -math.sin(a), right], [math.sin(a), math.cos(a), down]]])
    ours = warp(image, theta, 0.25)[0, 0].numpy()
    R = np.array([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]])  # rows first
    middle, move = np.array([4.0, 6.0]), np.array([down * 9 / 2, right * 13 / 2])
    padded = np.pad(image[0, 0].numpy(), 20, constant_values=0.25)
    offset = middle + 20 - R @ (middle + 20) + move
    theirs = scipy.ndimage.affine_transform(padded, R, offset, order=1)[20:-20, 20:-20]
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_an_affine_of_nothing_changes_nothing() -> None:
    images = some()
    still = augment.affine(images, random(), degrees=0, shift=0, scale=0, shear=0)
    torch.testing.assert_close(still, images, atol=1e-5, rtol=0)


def test_an_erased_part_is_a_rectangle() -> None:
    images = torch.full((400, 1, 16, 16), 2.0)
    erased = augment.erase(images, random(), share=0.5)[:, 0] != 2
    some = erased.any(-1).any(-1)
    assert 150 < int(some.sum()) < 250
    for hole in erased[some].numpy():
        rows, columns = hole.any(1), hole.any(0)
        assert (hole == rows[:, None] & columns).all()
        assert hole.mean() <= 0.33 + 2 * 16 / 256, "up to a third, and what rounding adds"


# ---- mixup -----------------------------------------------------------------------------------------------------------


def test_mixup_is_its_formula() -> None:
    images, labels = some(16), torch.arange(16) % 4
    mixed = mixup(images, random(), alpha=0.4)
    for i in range(16):
        share, other = float(mixed.share[i]), int(mixed.partner[i])
        torch.testing.assert_close(mixed.images[i], share * images[i] + (1 - share) * images[other])
    assert sorted(mixed.partner.tolist()) == list(range(16))
    targets, logits = mixed_targets(labels, mixed, 4), torch.randn(16, 4, generator=random())
    torch.testing.assert_close(targets.sum(1), torch.ones(16))
    each = cross_entropy(logits, labels, reduction="none")
    other = cross_entropy(logits, labels[mixed.partner], reduction="none")
    by_hand = mixed.share * each + (1 - mixed.share) * other
    torch.testing.assert_close(cross_entropy(logits, targets, reduction="none"), by_hand)


def test_shares_are_beta_distributed() -> None:
    """Kolmogorov and Smirnov's distance from SciPy's distribution: 1.95 / √n has probability 0.001."""
    shares = np.sort(mixup(torch.zeros(3000, 1, 1, 1), random(), alpha=0.7).share.double().numpy())
    distance = np.abs(scipy.special.betainc(0.7, 0.7, shares) - (np.arange(3000) + 0.5) / 3000).max()
    assert distance < 1.95 / math.sqrt(3000)
    mixed: Mixed = mixup(some(), random(5))
    assert torch.equal(mixed.share, mixup(some(), random(5)).share)


def test_what_is_refused(refused: Any) -> None:
    refused(ConfigError, "the alpha of mixup is 0: choose", lambda: mixup(some(), random(), alpha=0))
    refused(
        ConfigError, "the strength of rand_augment is 2: choose", lambda: rand_augment(some(), random(), strength=2)
    )


# ---- RandAugment -----------------------------------------------------------------------------------------------------


def pillow(change: Any, images: Tensor) -> Tensor:
    made = [np.asarray(change(Image.fromarray(x.mul(255).byte().permute(1, 2, 0).numpy()))) for x in images]
    return torch.tensor(np.stack(made)).permute(0, 3, 1, 2) / 255


OF_PILLOW = {
    6: lambda image, m: ImageEnhance.Brightness(image).enhance(1 + 0.9 * m),
    7: lambda image, m: ImageEnhance.Contrast(image).enhance(1 + 0.9 * m),
    8: lambda image, m: ImageEnhance.Color(image).enhance(1 + 0.9 * m),
    10: lambda image, m: ImageOps.posterize(image, 8 - round(4 * abs(m))),
    11: lambda image, m: ImageOps.solarize(image, round(255 * (1 - abs(m)))),
    12: lambda image, m: ImageOps.autocontrast(image),
}


@pytest.mark.parametrize("number", OF_PILLOW)
@pytest.mark.parametrize("m", [-0.8, 0.0, 0.5])
def test_a_change_is_pillows(number: int, m: float) -> None:
    """Within two of 255 levels, for Pillow rounds each step to whole ones."""
    images = (some() * 255).round() / 255
    ours = CHANGES[number](images, torch.full((6, 1, 1, 1), m), 0.5)
    theirs = pillow(lambda image: OF_PILLOW[number](image, m), images)
    assert float((ours - theirs).abs().max()) <= 2.01 / 255


def test_sharpness_is_pillows_inside() -> None:
    images = (some() * 255).round() / 255
    ours = CHANGES[9](images, torch.full((6, 1, 1, 1), -1 / 0.9), 0.5)  # nothing left but the smooth one
    theirs = pillow(lambda image: image.filter(ImageFilter.SMOOTH), images)
    assert float((ours - theirs)[..., 1:-1, 1:-1].abs().max()) <= 1.01 / 255


def test_strength_and_count() -> None:
    images = some(64)
    assert torch.equal(rand_augment(images, random(), count=0), images)
    changes = [float((rand_augment(images, random(), strength=s) - images).abs().mean()) for s in (0.1, 0.5, 1.0)]
    assert changes == sorted(changes)


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_every_change_is_reached_by_its_own_rows(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row gets what it drew: a change that marks its images marks about 1 in 13."""
    marked = list(CHANGES)
    for k in range(len(marked)):
        marked[k] = (lambda x, m, fill: torch.ones_like(x)) if k == number else (lambda x, m, fill: x)
    monkeypatch.setattr(augment, "CHANGES", tuple(marked))
    images = torch.zeros(1300, 1, 1, 1)
    assert 60 < int(rand_augment(images, random(), count=1).sum()) < 145
