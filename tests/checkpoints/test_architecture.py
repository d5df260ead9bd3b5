"""What timm's names and shapes say; whatever they leave open is asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.checkpoints.architecture import heads_of, parsed, places, pooled, require_shown, shape
from glassformer.checkpoints.fields import Fields
from glassformer.errors import CheckpointError, ConfigError


def of(table: int = 5, fc_norm: bool = False, **raw: Any) -> Fields:
    shapes: dict[str, tuple[int, ...]] = {"pos_embed": (1, table, 12), "big": (10**6,), "flat": (1, 0, 2)}
    return Fields(raw, shapes | ({"fc_norm.weight": (12,)} if fc_norm else {}), lambda name: torch.zeros(1))


@pytest.mark.parametrize(
    ("name", "width", "heads"),
    [
        ("vit_tiny_patch16_224", 192, 3),
        ("vit_base_patch16_224.augreg_in21k_ft_in1k", 768, 12),
        ("vit_base_patch16_224_miil.in21k", 768, 12),
        ("deit_small_distilled_patch16_224.fb_in1k", 384, 6),
        ("deit3_huge_patch14_224", 1280, 16),  # heads 80 wide: width / 64 would be wrong
        ("vit_giant_patch14_dinov2", 1536, 24),
        ("vit_giant_patch14_clip_224", 1408, 16),  # 88 wide
        ("vit_small_patch14_reg4_dinov2.lvd142m", 384, 6),
        ("vit_base_patch32_clip_quickgelu_224", 768, 12),
        ("vit_medium_patch16_gap_240", 512, 8),
    ],
)
def test_names(name: str, width: int, heads: int) -> None:
    found = parsed(name)
    assert heads_of(of(architecture=name), width) == heads
    assert (found["distilled"] is not None) == ("distilled" in name)
    assert (found["clip"] is not None, found["quick"] is not None) == ("clip" in name, "quickgelu" in name)


@pytest.mark.parametrize(
    "name",
    [
        "vit_base_patch16_rpn_224",  # norms stand elsewhere, under the same names
        "vit_base_patch16_siglip_224",
        "vit_relpos_base_patch16_224",
        "vit_small_patch16_18x2_224",
        "vit_base_r50_s16_224",
        "resnet50",
        "model",
        None,
    ],
)
def test_other_names_are_refused(name: object) -> None:
    with pytest.raises(ConfigError, match="the architecture is"):
        parsed(name)


def test_heads_are_never_guessed() -> None:
    with pytest.raises(ConfigError, match=r"no 'base' of timm is 896 wide: say its heads .* model_args\.num_heads"):
        heads_of(of(architecture="vit_base_patch16_240"), 896)
    assert heads_of(of(architecture="vit_base_patch16_240", model_args={"num_heads": 14}), 896) == 14


def test_arguments_that_do_not_show() -> None:
    require_shown(of(model_args={"img_size": 256, "num_heads": 3}))
    with pytest.raises(ConfigError, match="'act_layer' in model_args"):
        require_shown(of(model_args={"act_layer": "silu"}))


@pytest.mark.parametrize(
    ("table", "prefix", "raw", "expected"),
    [
        (5, 1, {}, ((2, 2), True)),
        (4, 1, {}, ((2, 2), False)),
        (11, 2, {}, ((3, 3), True)),
        (9, 2, {}, ((3, 3), False)),
        (9, 0, {}, ((3, 3), True)),
        (2, 1, {}, ((1, 1), True)),
        (9, 1, {"model_args": {"img_size": [8, 16]}}, ((2, 4), True)),
        (8, 1, {"pretrained_cfg": {"input_size": [3, 16, 8]}}, ((4, 2), False)),
        (16, 1, {"model_args": {"img_size": [8, 32]}}, ((2, 8), False)),
    ],
)
def test_grids(table: int, prefix: int, raw: dict[str, Any], expected: object) -> None:
    assert places(of(table, **raw), prefix, (4, 4)) == expected


def test_grids_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="7 places, which do not fit a square image"):
        places(of(7), 1, (4, 4))
    with pytest.raises(ConfigError, match="5 places, which do not fit images of 16×16"):
        places(of(5, model_args={"img_size": 16}), 1, (4, 4))
    for name in ("flat", "big", "absent"):
        with pytest.raises(CheckpointError, match=f"weight {name}"):
            shape(of(), name, 3)


def test_pooling() -> None:
    assert pooled(of(), 1) == "token"
    assert pooled(of(), 0) == pooled(of(fc_norm=True), 1) == pooled(of(global_pool="avg"), 1) == "avg"
    assert pooled(of(global_pool="avg", model_args={"global_pool": "token"}), 1) == "token"
    with pytest.raises(ConfigError, match="global_pool is 'map'"):
        pooled(of(global_pool="map"), 1)
