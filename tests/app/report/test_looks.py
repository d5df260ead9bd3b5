from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from glassformer import lens
from glassformer.app.report import Seen
from glassformer.app.report.inputs import see
from glassformer.app.report.looks import overlays, pooled
from glassformer.models import Hybrid, ViT, hybrid, vit


def test_overlays(shown) -> None:
    model, seen, run, out = shown("vit")
    with torch.no_grad():  # as the report runs: gradients are switched on where they are needed
        made = overlays(model, run, seen, out)
    assert made.count("<img") == 2
    assert "each head of encoder.2.attention" in made


def test_without_cls_the_mean_is_shown(files) -> None:
    model = ViT(replace(vit.tiny(), prefix=0, pool="mean")).eval()
    seen = see(model, [str(files / "picture.png")])
    with torch.no_grad(), lens.trace(model) as run:
        out = model(*seen.inputs)
        assert "the mean of all tokens" in overlays(model, run, seen, out)


def test_a_hybrid_looks_too(shown) -> None:
    model, seen, run, out = shown("hybrid")
    with torch.no_grad():
        assert overlays(model, run, seen, out).count("<img") == 2


@pytest.mark.parametrize("pool", ["first", "mean", "both"])
def test_how_a_vit_pools(pool: str) -> None:
    model = ViT(replace(vit.tiny(), pool=pool)).eval()
    image = torch.zeros(1, 3, 8, 8)
    weights = pooled(model, Seen(inputs=(image,), title="", grid=model.config.grid))
    features = model.features(image)
    expected = {"first": features[:, 0], "mean": features[:, 1:].mean(1)}
    expected["both"] = (expected["first"] + expected["mean"]) / 2
    torch.testing.assert_close((weights @ features)[:, 0], expected[pool])


@pytest.mark.parametrize("pool", ["attention", "mean"])
def test_how_a_hybrid_pools(pool: str) -> None:
    model = Hybrid(replace(hybrid.tiny(), pool=pool)).eval()
    image = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    features = model.features(image)
    weights = pooled(model, Seen(inputs=(image,), title="", grid=(2, 2)))
    torch.testing.assert_close((weights @ features)[:, 0], model.pool(features))
