from __future__ import annotations

import numpy as np
import pytest

from glassformer.errors import InputError, ShapeError
from glassformer.figures import image_overlay, spectrogram_attention
from glassformer.figures.pictures import outline

Y, X = np.mgrid[0:48, 0:64] / 64
PICTURE = np.stack([X, Y, 1 - X], -1)
BUMP = np.exp(-((np.arange(6)[:, None] - 1) ** 2 + (np.arange(8) - 5) ** 2) / 3)


@pytest.mark.golden
def test_overlay(golden_picture) -> None:
    fig = image_overlay(PICTURE, BUMP, title="rollout to CLS")
    plain, lit = fig.axes[:2]
    assert (plain.images[0].get_array() == PICTURE).all()
    shown = np.asarray(lit.images[0].get_array())
    light = shown.sum(-1) / PICTURE.sum(-1)
    assert np.unravel_index(light.argmax(), light.shape) == (8, 40)  # the corner of patch (1, 5)
    assert light.max() == pytest.approx(1)
    assert light[-1, 0] == pytest.approx(0.2 + 0.8 * BUMP[-1, 0] / BUMP.max())
    assert lit.collections  # the outline
    golden_picture("image_overlay", fig)


def test_a_panel_for_each_head() -> None:
    fig = image_overlay(PICTURE[..., 0], np.stack([BUMP, BUMP.T.reshape(6, 8)]), ["layer 0", "layer 1"])
    assert [ax.get_title() for ax in fig.axes if ax.images] == ["the picture", "layer 0", "layer 1"]


def test_the_outline_is_the_border_of_the_cells_inside() -> None:
    inside = np.zeros((3, 4), dtype=bool)
    inside[1, 2] = True
    sides = {tuple(sorted(line)) for line in outline(inside)}
    assert sides == {((2, 1), (3, 1)), ((2, 2), (3, 2)), ((2, 1), (2, 2)), ((3, 1), (3, 2))}
    assert len(outline(np.ones((3, 4), dtype=bool))) == 14


@pytest.mark.golden
def test_spectrogram(golden_picture, labels_of, weights) -> None:
    sound = np.random.default_rng(0).random((100, 16))
    A = weights(3, 25)
    fig = spectrogram_attention(sound, A, query=10)
    top, strip = fig.axes[:2]
    assert top.images[0].get_array().shape == (16, 100)
    assert top.images[0].get_extent()[:2] == [0, 1.0]
    assert (strip.images[0].get_array() == A).all()
    assert strip.lines[0].get_xdata()[0] == pytest.approx(0.42)
    assert labels_of(strip, "y") == ["0", "1", "2"]
    golden_picture("spectrogram_attention", fig)


def test_mistakes(refused) -> None:
    refused(InputError, "colours from 0 to 255", lambda: image_overlay([[0, 255]], BUMP))
    refused(InputError, "weights from 0 to 0", lambda: image_overlay(PICTURE, np.zeros((2, 2))))
    refused(ShapeError, "an image of shape (2, 2, 4)", lambda: image_overlay(np.zeros((2, 2, 4)), BUMP))
    refused(ShapeError, "1 names for 2 maps", lambda: image_overlay(PICTURE, np.ones((2, 2, 2)), ["a"]))
    refused(InputError, "there is no query 3", lambda: spectrogram_attention(np.ones((9, 2)), np.ones((1, 3)), query=3))
    refused(
        InputError,
        "seconds must be above 0",
        lambda: spectrogram_attention(np.ones((9, 2)), np.ones((1, 3)), seconds=0),
    )
