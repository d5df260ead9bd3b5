"""Pictures of handwriting become images like MNIST's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageOps

from glassformer.checkpoints.handwriting import is_normalized, normalize_handwriting, otsu


def seven(at: tuple[int, int] = (80, 60), width: int = 14, ink: int = 20, paper: int = 220) -> Image.Image:
    image = Image.new("L", (300, 300), paper)
    x, y = at
    ImageDraw.Draw(image).line([(x, y), (x + 80, y), (x + 30, y + 120)], fill=ink, width=width, joint="curve")
    return image


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image, dtype=np.float64)


@pytest.mark.parametrize("image", [seven(), ImageOps.invert(seven()), seven(width=3), seven(at=(150, 130), paper=150)])
def test_the_result_is_in_the_form_of_mnist(image: Image.Image) -> None:
    made = normalize_handwriting(image)
    assert made.size == (28, 28)
    assert is_normalized(pixels(made))


def test_polarity_size_and_place_do_not_matter() -> None:
    first = pixels(normalize_handwriting(seven()))
    for other in (ImageOps.invert(seven()), seven(at=(10, 150)), seven().resize((600, 600))):
        assert np.abs(pixels(normalize_handwriting(other)) - first).mean() < 8


def test_uneven_light_and_specks_do_not_matter() -> None:
    light = np.linspace(-60, 20, 300)[None, :]
    shaded = np.clip(pixels(seven()) + light, 0, 255)
    shaded[250:253, 20:23] = 30
    made = normalize_handwriting(Image.fromarray(shaded.astype(np.uint8)))
    assert np.abs(pixels(made) - pixels(normalize_handwriting(seven()))).mean() < 12


def test_a_normalized_image_is_left_alone() -> None:
    made = normalize_handwriting(seven())
    assert np.array_equal(pixels(normalize_handwriting(made)), pixels(made))


def test_an_empty_page_has_no_ink() -> None:
    assert not pixels(normalize_handwriting(Image.new("L", (50, 40), 200))).any()


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**31))
def test_any_image_gives_28_by_28(height: int, width: int, seed: int) -> None:
    noise = np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)
    assert normalize_handwriting(Image.fromarray(noise)).size == (28, 28)


def test_the_threshold_of_two_groups_lies_between_them() -> None:
    assert 10 < otsu(np.array([1.0, 2, 10, 200, 205, 210])) < 200
