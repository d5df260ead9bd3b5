from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.lens import at_heads, edit, trace
from glassformer.lens.construct import convolution, named_kernel, plant
from glassformer.lens.heads import watch
from glassformer.lens.heads2d import GridScores, score_image_heads
from glassformer.lens.routing import Routing
from glassformer.models import ViT, vit

GRID = (6, 6)
PATH = "encoder.1.attention"


def model(seed: int = 0) -> ViT:
    return ViT(vit.plain(24, 4, 16, 2, 2, classes=5), seed=seed).eval()


def images(count: int = 2, seed: int = 0, size: int = 24) -> Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(seed))


def offset(dy: int, dx: int) -> Routing:
    return Routing(name="offset", offsets=((dy, dx),), C=torch.ones(1, 1, 1, dtype=torch.float64))


@pytest.mark.parametrize(
    ("routing", "label"),
    [
        (offset(0, 1), "offset (+0, +1)"),
        (offset(-2, 1), "offset (-2, +1)"),
        (offset(0, 0), "self"),
        (convolution(named_kernel("box", (3, 3)), edges="renormalised"), "convolution 3×3"),
        (convolution(named_kernel("box", (5, 5)), edges="renormalised"), "convolution 5×5"),
    ],
)
def test_planted_offsets_and_windows_are_found(routing: Routing, label: str) -> None:
    net = model()
    with edit(net, f"{PATH}.S", plant(routing, 1, size=GRID, prefix=1)):
        table = score_image_heads(net, [images()])
    assert table.at(f"{PATH}.A", 1).label == label
    assert {row.label for row in table if row.label != label} == {"global"}  # the rest is new, and flat


def test_the_smallest_grid_has_offsets_too() -> None:
    """2 × 2 patches: few rows an image, so several images."""
    net = ViT(vit.tiny(), seed=0).eval()
    with edit(net, f"{PATH}.S", plant(offset(0, 1), 0, size=(2, 2), prefix=1)):
        table = score_image_heads(net, [images(6, size=8), images(6, seed=1, size=8)], reach=1, widths=(3,))
    assert table.at(f"{PATH}.A", 0).label == "offset (+0, +1)"


@pytest.mark.parametrize("label", ["row", "column", "CLS"])
def test_planted_rows_columns_and_sinks_are_found(label: str) -> None:
    y, x = torch.arange(36) // 6, torch.arange(36) % 6
    bonus = torch.zeros(37, 37)
    if label == "CLS":
        bonus[:, 0] = 20
    else:
        place = y if label == "row" else x
        bonus[1:, 1:] = 20.0 * (place == place[:, None])
    net = model()
    with edit(net, f"{PATH}.S", at_heads(lambda S: S + bonus, 0)):
        assert score_image_heads(net, [images()]).at(f"{PATH}.A", 0).label == label


def test_registers_are_found() -> None:
    config = vit.ViTConfig(**{**model().config.__dict__, "registers": 3})
    net = ViT(config, seed=0).eval()
    key = torch.arange(40)
    with edit(net, f"{PATH}.S", at_heads(lambda S: S + 20.0 * ((key > 0) & (key < 4)), 0)):
        assert score_image_heads(net, [images()]).at(f"{PATH}.A", 0).label == "registers"


def sharp(seed: int) -> ViT:
    net = model(seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if ".WQ.weight" in name or ".WK.weight" in name:
                weight.normal_(0, 0.35, generator=generator)
            if name in ("positions", "embed.W.weight"):
                weight.normal_(0, 0.5, generator=generator)
    return net


def test_random_models_score_at_the_null() -> None:
    """At most 3 % of the heads of sharp random models get a label, over 10 seeds."""
    labels = [row.label for seed in range(10) for row in score_image_heads(sharp(seed), [images(4, seed)])]
    assert len(labels) == 40
    assert sum(label != "" for label in labels) <= 0.03 * len(labels), labels


def test_mean_distance_is_that_of_the_paper() -> None:
    """Distances in pixels between patches, weighted by attention among patches, written out."""
    net = sharp(3)
    X = images(2)
    with torch.no_grad(), trace(net, "*.attention.A") as run:
        net(X)
    A = run[f"{PATH}.A"].double().numpy()[:, :, 1:, 1:]
    A = A / A.sum(-1, keepdims=True)
    places = np.array([(4 * (i // 6), 4 * (i % 6)) for i in range(36)])
    D = np.sqrt(((places[:, None] - places[None]) ** 2).sum(-1))
    table = score_image_heads(net, [X[:1], X[1:]])
    for head in (0, 1):
        score = table.at(f"{PATH}.A", head).scores["distance"]
        assert score.value == pytest.approx((A[:, head] * D).sum(-1).mean())
        assert score.null == pytest.approx(D.mean())  # what uniform attention has


def test_one_size_at_a_time() -> None:
    with pytest.raises(ShapeError, match="one size at a time"):
        score_image_heads(model(), [images(), images(size=32)])
    scores = GridScores((5, 5))
    net = model()
    with torch.no_grad(), trace(net, *watch(net)) as run:
        net(images())
    with pytest.raises(ShapeError, match=r"37 keys, but 1 \+ 5 × 5 places"):
        scores.add(run)
    with pytest.raises(ConfigError, match="choose sizes"):
        GridScores((0, 5))
    with pytest.raises(InputError, match="0 images: give at least one"):
        score_image_heads(net, [])


def test_other_sizes_have_their_own_grid() -> None:
    net = model()
    with edit(net, f"{PATH}.S", plant(offset(1, 0), 0, size=(8, 8), prefix=1)):
        assert score_image_heads(net, [images(size=32)]).at(f"{PATH}.A", 0).label == "offset (+1, +0)"
