from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d, max_pool2d

from glassformer.checkpoints import load, save
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.lens import edit, trace
from glassformer.models import Hybrid, HybridConfig, StemConfig, hybrid
from glassformer.models.convolutional import BatchNorm, GroupNorm

# Hassani et al. 2021, table 1
PUBLISHED = {hybrid.cct_2: 0.28, hybrid.cct_7: 3.76}


def image(rows: int = 8, columns: int = 8, seed: int = 0) -> Tensor:
    return torch.randn(2, 3, rows, columns, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("size", PUBLISHED, ids=lambda size: size.__name__)
def test_published_sizes(size: type[HybridConfig]) -> None:
    with torch.device("meta"):
        model = Hybrid(size())
    millions = sum(weight.numel() for weight in model.parameters()) / 1e6
    assert millions == pytest.approx(PUBLISHED[size], abs=0.006)
    assert model(torch.zeros(1, 3, 32, 32, device="meta")).shape == (1, 10)


@torch.no_grad()
def test_tokens_are_convolutions_and_positions() -> None:
    model = Hybrid(hybrid.tiny()).eval()
    X = image()
    for layer in model.stem:
        X = max_pool2d(conv2d(X, layer.W.weight, padding=1).relu(), 3, stride=2, padding=1)
    expected = X.permute(0, 2, 3, 1).reshape(2, 4, 16) + model.positions
    torch.testing.assert_close(model.tokens(image()), expected)


@torch.no_grad()
def test_what_the_head_sees_is_a_weighted_mean_of_tokens() -> None:
    model = Hybrid(hybrid.tiny(), seed=1).eval()
    with trace(model) as run:
        y = model(image())
    a, X = run["pool.a"], model.features(image())
    assert a.shape == (2, 4)
    torch.testing.assert_close(a.sum(-1), torch.ones(2))
    torch.testing.assert_close(y, model.head(torch.einsum("bn,bnm->bm", a, X)))
    mean = Hybrid(replace(hybrid.tiny(), pool="mean")).eval()
    torch.testing.assert_close(mean(image()), mean.head(mean.features(image()).mean(1)))


@torch.no_grad()
def test_attention_is_watched_and_edited_as_in_a_vit() -> None:
    model = Hybrid(hybrid.tiny()).eval()
    with trace(model) as run:
        plain = model(image())
    A = run["encoder.0.attention.A"]
    assert A.shape == (2, 2, 4, 4)
    torch.testing.assert_close(A.sum(-1), torch.ones(2, 2, 4))
    with edit(model, "encoder.0.attention.A", lambda A: torch.eye(4).expand_as(A)):
        changed = model(image())
    assert not torch.allclose(plain, changed)


@torch.no_grad()
def test_another_size_has_another_grid_of_tokens() -> None:
    model = Hybrid(hybrid.tiny()).eval()
    assert model.tokens(image(12, 10)).shape == (2, 9, 16)  # 12/4 and 10/4, both 3 when rounded up
    assert model.config.stem.grid((12, 10)) == (3, 3)
    assert model(image(12, 10)).shape == (2, 5)


@pytest.mark.parametrize("norm", [None, BatchNorm(), GroupNorm(groups=4)], ids=str)
def test_saved_and_loaded(norm: BatchNorm | GroupNorm | None, tmp_path: object) -> None:
    config = replace(hybrid.tiny(), stem=StemConfig(widths=(8, 16), halves=(True, False), norm=norm))
    model = Hybrid(config, seed=3)
    model(image())  # running statistics, if it keeps any
    save(model.eval(), str(tmp_path))
    again = load(str(tmp_path))
    assert isinstance(again, Hybrid)
    assert again.config == config
    assert torch.equal(again(image()), model(image()))


@torch.no_grad()
def test_a_convolution_that_changes_no_shape_adds_what_it_was_given() -> None:
    stem = StemConfig(widths=(8, 8, 8, 16), halves=(False, False, True, False), residual=True)
    model = Hybrid(replace(hybrid.tiny(), stem=stem, image=(8, 8)), seed=3)
    with trace(model) as run:
        model(image())
    X = image()
    for i, (adds, halve) in enumerate([(False, False), (True, False), (False, True), (False, False)]):
        Y = conv2d(X, model.state_dict()[f"stem.{i}.W.weight"], padding=1).relu()
        Y = max_pool2d(Y, 3, stride=2, padding=1) if halve else Y
        X = X + Y if adds else Y
        torch.testing.assert_close(run[f"stem.{i}.C"], X)


def test_every_weight_gets_a_gradient() -> None:
    model = Hybrid(hybrid.tiny())
    model(image()).square().sum().backward()
    missing = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    # a bias of the pooling's scores moves all of them alike, and a bias of keys too: softargmax does not see it
    assert [name for name in missing if not name.endswith(("pool.W.bias", "WK.bias"))] == []


def test_mistakes_are_told() -> None:
    with pytest.raises(ConfigError, match="8 channels to blocks that are 16 wide"):
        replace(hybrid.tiny(), stem=StemConfig(widths=(4, 8), halves=(True, True)))
    with pytest.raises(ConfigError, match="halve"):
        StemConfig(widths=(4, 8), halves=(True,))
    with pytest.raises(ConfigError, match="3 groups"):
        StemConfig(widths=(4, 8), halves=(True, True), norm=GroupNorm(groups=3))
    with pytest.raises(ConfigError, match="pool"):
        replace(hybrid.tiny(), pool="cls")  # type: ignore[arg-type]
    model = Hybrid(hybrid.tiny())
    with pytest.raises(ShapeError, match=r"\(1, 1, 8, 8\)"):
        model(torch.zeros(1, 1, 8, 8))
    with pytest.raises(InputError, match="uint8"):
        model(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
