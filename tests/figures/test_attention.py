from __future__ import annotations

import numpy as np
import pytest

from glassformer.errors import GlassError, ShapeError
from glassformer.figures import alignment, attention_map

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
    refused(ShapeError, "1 labels for 2 rows: give one for each", lambda: attention_map(np.eye(2), ["a"]))
    with pytest.raises(GlassError):
        alignment(np.eye(3), ["a"], ["b"])
