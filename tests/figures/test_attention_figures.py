"""Figures of attention: maps, layers, arcs, scores by coordinate, images and spectrograms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Arc

from glassformer.errors import GlassError, InputError, ShapeError
from glassformer.figures import (
    alignment,
    arcs,
    attention_map,
    heads_of_layer,
    image_overlay,
    score_by_coordinate,
    spectrogram_attention,
)
from glassformer.figures.arcs import MOST_ARCS
from glassformer.figures.pictures import outline

TEXT = "The quick brown fox , who costs $5 , jumps over the lazy dog near the riverbank today ."
WORDS = TEXT.split()


@pytest.mark.golden
def test_map_of_one_head(golden_picture, labels_of, weights) -> None:
    A = weights(5, 5, causal=True)
    fig = attention_map(A, WORDS[:5], WORDS[:5], title="decoder.0.attention.A, head 0")
    ax = fig.axes[0]
    assert labels_of(ax, "x") == labels_of(ax, "y") == WORDS[:5]
    assert ax.images[0].get_array().shape == (5, 5)
    written = [text.get_text() for text in ax.texts]
    assert len(written) == 25
    assert written[0] == "1.0"
    assert written[5] == f"{A[1, 0]:.2f}".removeprefix("0")
    assert [bar.get_ylabel() for bar in fig.axes[1:]] == ["weight"]
    golden_picture("attention_map", fig)


@pytest.mark.golden
def test_masked_scores_are_hatched_grey(golden_picture) -> None:
    S = np.where(np.tril(np.ones((6, 6), dtype=bool)), np.arange(36.0).reshape(6, 6) - 20, -np.inf)
    fig = attention_map(S, title="S")
    ax = fig.axes[0]
    shown = ax.images[0].get_array()
    assert (np.ma.getmaskarray(shown) == np.isneginf(S)).all()
    assert ax.patch.get_hatch()
    assert sum(text.get_text() == "−∞" for text in ax.texts) == 15
    assert fig.axes[1].get_ylabel() == "score"
    golden_picture("masked_scores", fig)


def test_the_title_of_a_large_map_states_that_it_shows_means() -> None:
    A = np.full((3000, 1100), 1 / 1100)
    fig = attention_map(A)
    assert fig.axes[0].images[0].get_array().shape == (1000, 550)
    assert fig.axes[1].get_ylabel() == "weight, mean of 3 × 2"
    assert not fig.axes[0].texts


@pytest.mark.golden
def test_alignment_frames_the_strongest(golden_picture, labels_of, weights) -> None:
    source, target = ["Das", "ist", "ein", "kleines", "Haus", "."], ["This", "is", "a", "small", "house", "."]
    A = weights(6, 6)
    fig = alignment(A, source, target)
    ax = fig.axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("source", "target")
    assert labels_of(ax, "x") == source
    assert labels_of(ax, "y") == target
    framed = {(round(p.get_y() + 0.46), round(p.get_x() + 0.46)) for p in ax.patches}
    assert framed == set(enumerate(A.argmax(1).tolist()))
    golden_picture("alignment", fig)


def test_mistakes(refused) -> None:
    refused(ShapeError, "A has 3 axes, (1, 1, 1): give 2", lambda: attention_map(np.ones((1, 1, 1))))
    refused(ShapeError, "there are 1 labels for 2 rows: give one for each", lambda: attention_map(np.eye(2), ["a"]))
    with pytest.raises(GlassError):
        alignment(np.eye(3), ["a"], ["b"])


LAYER_TEXT = "The quick brown fox , who costs $5 , jumps over the lazy dog near the riverbank today ."
LAYER_WORDS = LAYER_TEXT.split()


def labels(fig: Figure, kind: str) -> list[str]:
    """Labels of one kind, none of which touches any other text or leaves the page."""
    fig.draw_without_rendering()
    renderer = fig.canvas.get_renderer()
    texts = [text for text in fig.axes[0].texts if text.get_text()]
    boxes = [text.get_window_extent(renderer) for text in texts]
    for (one, a), (other, b) in itertools.combinations(zip(texts, boxes, strict=True), 2):
        assert not a.overlaps(b), f"{one.get_text()!r} touches {other.get_text()!r}"
    for box in boxes:
        assert fig.bbox.x0 <= box.x0 < box.x1 <= fig.bbox.x1
        assert fig.bbox.y0 <= box.y0 < box.y1 <= fig.bbox.y1
    bar = fig.axes[1].get_tightbbox()
    assert bar is not None
    assert bar.x1 <= fig.bbox.x1
    return [text.get_text() for text in texts if text.get_gid() == kind]


@pytest.mark.golden
def test_all_heads_of_a_layer(golden_picture, weights) -> None:
    A = weights(12, 19, 19, causal=True)
    fig = heads_of_layer(A, LAYER_WORDS, LAYER_WORDS, title="decoder.0.attention")
    ax, bar = fig.axes
    assert labels(fig, "title") == [f"head {i}" for i in range(12)]
    assert [(image.get_array() == A[i]).all() for i, image in enumerate(ax.images)] == [True] * 12
    assert {image.norm.vmax for image in ax.images} == {A.max()}  # one scale
    corners = [(image.get_extent()[0], image.get_extent()[3]) for image in ax.images]
    assert len(set(corners)) == 12
    shown = [word.replace("$", r"\$") for word in LAYER_WORDS[::2]]
    assert labels(fig, "y") == shown * 2  # left of the first map of each row
    assert labels(fig, "x") == shown * 6  # under the maps of the last
    assert bar.get_ylabel() == "weight"
    golden_picture("heads_of_layer", fig)


@pytest.mark.variants(5)
@pytest.mark.parametrize("heads", [1, 2, 5, 7, 16])
@pytest.mark.parametrize("size", [(1, 1), (20, 40), (197, 197)])
def test_any_number_of_heads_of_any_size(weights, heads: int, size: tuple[int, int]) -> None:
    fig = heads_of_layer(weights(heads, *size))
    assert len(labels(fig, "title")) == len(fig.axes[0].images) == heads
    assert labels(fig, "x")[0] == labels(fig, "y")[0] == "0"


def test_long_names_stay_on_the_page(weights) -> None:
    long = [f"antidisestablish{i}" for i in range(9)]
    fig = heads_of_layer(weights(6, 9, 9), long, long, title="x" * 200)
    assert labels(fig, "y")[0] == "antidisestabl…"


def test_masked_scores_are_hatched() -> None:
    S = np.where(np.tril(np.ones((2, 4, 4), dtype=bool)), 1.0, -np.inf)
    ax, bar = heads_of_layer(S).axes
    assert [bool(patch.get_hatch()) for patch in ax.patches] == [True, False, True, False]  # and the frames
    assert (np.ma.getmaskarray(ax.images[0].get_array()) == np.isneginf(S[0])).all()
    assert bar.get_ylabel() == "score"


def test_layer_mistakes(refused) -> None:
    refused(ShapeError, "A has 2 axes", lambda: heads_of_layer(np.eye(2)))
    refused(ShapeError, "there are 1 labels for 2 columns", lambda: heads_of_layer(np.ones((1, 2, 2)), None, ["a"]))


ARCS_WORDS = ["The", "quick", "brown", "fox", "jumps", "over", "it", "."]


@pytest.mark.golden
def test_arcs(golden_picture, weights) -> None:
    A = weights(8, 8)
    fig = arcs(A, ARCS_WORDS)
    ax = fig.axes[0]
    drawn = [patch for patch in ax.patches if isinstance(patch, Arc)]
    strong = np.argwhere(A >= 0.05)
    assert len(drawn) == sum(i != j for i, j in strong)
    assert len(ax.lines) == sum(i == j for i, j in strong)
    above = [patch for patch in drawn if patch.theta1 == 0]
    assert len(above) == sum(j < i for i, j in strong)  # looking back
    assert all(patch.get_center()[1] > 0 for patch in above)
    assert [text.get_text() for text in ax.texts[:8]] == ARCS_WORDS
    golden_picture("arcs", fig)


def test_thicker_is_more() -> None:
    A = [[1.0, 0, 0], [0.1, 0.9, 0], [0.6, 0.4, 0]]
    drawn = arcs(A, ["a", "b", "c"]).axes[0].patches
    widths = {round(2 * patch.get_center()[0]): patch.get_linewidth() for patch in drawn}  # i + j
    assert widths[1] < widths[3] < widths[2]


@pytest.mark.parametrize("n", [1, 3, 20, 150])
def test_words_do_not_touch(weights, n: int) -> None:
    fig = arcs(weights(n, n, causal=True), [f"word{i}" for i in range(n)])
    fig.draw_without_rendering()
    renderer = fig.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in fig.axes[0].texts]
    assert len(boxes) > min(n, 20)  # the words and the note
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert len(fig.axes[0].patches) <= MOST_ARCS


def test_arcs_mistakes(refused) -> None:
    refused(ShapeError, "weights have shape (2, 2) for 1 tokens", lambda: arcs(np.eye(2), ["a"]))
    refused(InputError, "least must be above 0", lambda: arcs(np.eye(1), ["a"], least=0))


@pytest.mark.golden
def test_bars_are_the_scores(golden_picture, labels_of) -> None:
    r = np.random.default_rng(3)
    q, K = r.normal(size=8), r.normal(size=(5, 8))
    fig = score_by_coordinate(q, K, ["The", "cat", "sat", "on", "it"], beta=8**-0.5)
    ax, bars, _ = fig.axes
    assert [bar.get_width() for bar in bars.patches] == pytest.approx((K @ q / np.sqrt(8)).tolist())
    assert np.allclose(ax.images[0].get_array(), q * K / np.sqrt(8))
    assert labels_of(ax, "y") == ["The", "cat", "sat", "on", "it"]
    assert len(ax.texts) == 40
    golden_picture("score_by_coordinate", fig)


def test_many_keys_and_coordinates() -> None:
    r = np.random.default_rng(3)
    q, K = r.normal(size=64), r.normal(size=(2000, 64))
    ax, bars, _ = score_by_coordinate(q, K).axes
    assert len(bars.patches) == 1000
    assert bars.patches[0].get_width() == pytest.approx((K[:2] @ q).mean())
    assert not ax.texts


def test_scores_mistakes(refused) -> None:
    refused(ShapeError, "q has 2 coordinates and keys have 3", lambda: score_by_coordinate([1, 2], np.ones((4, 3))))
    refused(InputError, "β is nan", lambda: score_by_coordinate([1.0], [[1.0]], beta=float("nan")))


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


def test_pictures_mistakes(refused) -> None:
    refused(InputError, "colours range from 0 to 255", lambda: image_overlay([[0, 255]], BUMP))
    refused(InputError, "weights range from 0 to 0", lambda: image_overlay(PICTURE, np.zeros((2, 2))))
    refused(ShapeError, "the image has shape (2, 2, 4)", lambda: image_overlay(np.zeros((2, 2, 4)), BUMP))
    refused(ShapeError, "1 names for 2 maps", lambda: image_overlay(PICTURE, np.ones((2, 2, 2)), ["a"]))
    refused(InputError, "there is no query 3", lambda: spectrogram_attention(np.ones((9, 2)), np.ones((1, 3)), query=3))
    refused(
        InputError,
        "seconds must be above 0",
        lambda: spectrogram_attention(np.ones((9, 2)), np.ones((1, 3)), seconds=0),
    )
