"""Configs: read from JSON, checked, and derived from timm's names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoints.architecture import head_names_of, parsed, places, pooling_of, require_shown, shape
from glassformer.checkpoints.codec import decode, encode
from glassformer.checkpoints.fields import DEEPEST, Fields
from glassformer.checkpoints.files import LARGEST, inside, read_json, read_object
from glassformer.core.rotary import LinearScaling, Llama3Scaling
from glassformer.errors import CheckpointError, ConfigError, GlassError
from glassformer.models import decoder, encoder, seq2seq, vit
from glassformer.models.encoder import DenseConfig
from glassformer.nn import Alibi, Rotary

# Every config goes to JSON and comes back equal; what is not a config is refused with its place.


LLAMA = decoder.tiny_modern()


def with_rotary(scaling: Any) -> decoder.DecoderConfig:
    return replace(LLAMA, text=replace(LLAMA.text, relative=Rotary(width=4, base=5e5, scaling=scaling)))


@pytest.mark.parametrize(
    "config",
    [
        decoder.tiny(),
        LLAMA,
        with_rotary(LinearScaling(factor=4.0)),
        with_rotary(Llama3Scaling(factor=8.0, low=1.0, high=4.0, trained=8192)),
        replace(LLAMA, text=replace(LLAMA.text, relative=Alibi(heads=4))),
        encoder.bert_base(),
        replace(encoder.tiny(), dense=DenseConfig(width=3, activation=None), normalise=True),
        seq2seq.tiny(),
        seq2seq.tiny_modern(),
        vit.tiny(),
    ],
)
def test_there_and_back(config: Any) -> None:
    text = json.dumps(encode(config))
    assert decode(type(config), json.loads(text)) == config


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("length",), "48", "config.length"),
        (("length",), True, "config.length"),
        (("tied",), 1, "config.tied"),
        (("text", "block", "norm", "eps"), None, "config.text.block.norm.eps"),
        (("text", "block", "place"), "middle", "config.text.block.place"),
        (("text", "block", "place"), ["pre"], "config.text.block.place"),
        (("text", "relative"), {"type": "Learned", "length": 3}, "config.text.relative"),
        (("text", "relative"), 3, "config.text.relative"),
        (("text", "block"), [], "config.text.block"),
        (("text", "wrong"), 3, "wrong"),
        (("text", "block", "attention", "kv_heads"), 3, "3 key/value heads"),
    ],
)
def test_what_is_wrong_is_placed(path: tuple[str, ...], value: Any, said: str) -> None:
    card = json.loads(json.dumps(encode(LLAMA)))
    place = card
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    with pytest.raises(GlassError, match=said):
        decode(type(LLAMA), card)


def test_a_missing_field_is_named() -> None:
    card = encode(LLAMA)
    del card["length"]
    with pytest.raises(ConfigError, match="length"):
        decode(type(LLAMA), card)


def test_tuples_keep_their_length() -> None:
    card = encode(vit.tiny())
    with pytest.raises(ConfigError, match=r"config\.image"):
        decode(vit.ViTConfig, card | {"image": [1, 2, 3]})
    with pytest.raises(ConfigError, match=r"config\.image\[1\]"):
        decode(vit.ViTConfig, card | {"image": [1, "2"]})


def test_only_configs_can_be_saved() -> None:
    with pytest.raises(ConfigError, match="only numbers, strings and configs"):
        encode(with_rotary(lambda omega: omega))


# A field of config.json is of its kind and no larger than the file bears, or it is named.


TABLES = {"table": torch.ones(5, 4), "same": torch.ones(5, 4), "other": torch.zeros(5, 4), "wide": torch.ones(5, 5)}


def of_fields(**raw: Any) -> Fields:
    return Fields(raw, {name: tuple(tensor.shape) for name, tensor in TABLES.items()}, TABLES.__getitem__)


def test_what_is_there() -> None:
    f = of_fields(width=8, eps=1, on=True, act="gelu_new", eos=[7, 8], architectures=["A", "B"], none=None)
    assert (f.size("width"), f.size("absent", 3), f.size("none", 2)) == (8, 3, 2)
    assert (f.number("eps"), f.flag("on", False), f.activation("act", "relu")) == (1.0, True, "gelu_tanh")
    assert (f.token("eos", 0), f.token("absent", 5), f.architecture) == (7, 5, "A")
    assert (f.numbers, of_fields().architecture) == (85, "")
    assert f.has("nothing", "table")
    assert not f.has("nothing")


def test_pairs_and_parts() -> None:
    f = of_fields(image=8, wide=[4, 6], text={"width": 3}, bad={"width": 0})
    assert (f.pair("image"), f.pair("wide"), f.pair("absent", 5)) == ((8, 8), (4, 6), (5, 5))
    assert f.part("text").size("width") == 3
    assert f.part("absent").raw == {}
    with pytest.raises(ConfigError, match="width is 0"):
        f.part("bad").size("width")


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("12", lambda f: f.size("x")),
        (12.0, lambda f: f.size("x")),
        (True, lambda f: f.size("x")),
        (0, lambda f: f.size("x")),
        (-1, lambda f: f.depth("x")),
        (86, lambda f: f.size("x")),
        ([4, 0], lambda f: f.pair("x")),
        ([4, 4, 4], lambda f: f.pair("x")),
        (3, lambda f: f.part("x")),
        (10**9, lambda f: f.size("x")),
        (5, lambda f: f.depth("x")),
        (10**9, lambda f: f.depth("x")),
        (2**40, lambda f: f.count("x")),
        ("1e-5", lambda f: f.number("x")),
        (float("nan"), lambda f: f.number("x")),
        (True, lambda f: f.number("x")),
        (1, lambda f: f.flag("x", False)),
        ("mish", lambda f: f.activation("x", "relu")),
        (["relu"], lambda f: f.activation("x", "relu")),
        ([], lambda f: f.token("x", 0)),
        ("relative", lambda f: f.only("x", "absolute")),
        (None, lambda f: f.size("x")),
    ],
)
def test_what_is_wrong_is_named(value: Any, read: Callable[[Fields], Any]) -> None:
    with pytest.raises(ConfigError, match=r"\bx\b"):
        read(of_fields(x=value))


def test_deeper_than_anything() -> None:
    many = Fields({"x": DEEPEST + 1}, {str(i): (1,) for i in range(2 * DEEPEST)}, TABLES.__getitem__)
    with pytest.raises(ConfigError, match="1001"):
        many.depth("x")


def test_ties() -> None:
    assert of_fields().tied("same", "table", default=True)
    assert of_fields().tied("absent", "table", default=True)
    assert not of_fields().tied("other", "table", default=True)
    assert not of_fields().tied("wide", "table", default=True)
    assert not of_fields(tie_word_embeddings=False).tied("same", "table", default=True)
    assert not of_fields().tied("same", "table", default=False)


# What timm's names and shapes say; whatever they leave open is asked for.


def of_architecture(table: int = 5, fc_norm: bool = False, **raw: Any) -> Fields:
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
    assert head_names_of(of_architecture(architecture=name), width) == heads
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
    with pytest.raises(ConfigError, match=r"timm's 'base' models do not have width 896: set model_args\.num_heads"):
        head_names_of(of_architecture(architecture="vit_base_patch16_240"), 896)
    assert head_names_of(of_architecture(architecture="vit_base_patch16_240", model_args={"num_heads": 14}), 896) == 14


def test_arguments_that_do_not_show() -> None:
    require_shown(of_architecture(model_args={"img_size": 256, "num_heads": 3}))
    with pytest.raises(ConfigError, match="'act_layer' in model_args"):
        require_shown(of_architecture(model_args={"act_layer": "silu"}))


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
    assert places(of_architecture(table, **raw), prefix, (4, 4)) == expected


def test_grids_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="7 positions, which do not fit a square image"):
        places(of_architecture(7), 1, (4, 4))
    with pytest.raises(ConfigError, match="5 positions, which do not fit images of 16×16"):
        places(of_architecture(5, model_args={"img_size": 16}), 1, (4, 4))
    for name in ("flat", "big", "absent"):
        with pytest.raises(CheckpointError, match=f"weight {name}"):
            shape(of_architecture(), name, 3)


def test_pooling() -> None:
    assert pooling_of(of_architecture(), 1) == "token"
    assert (
        pooling_of(of_architecture(), 0)
        == pooling_of(of_architecture(fc_norm=True), 1)
        == pooling_of(of_architecture(global_pool="avg"), 1)
        == "avg"
    )
    assert pooling_of(of_architecture(global_pool="avg", model_args={"global_pool": "token"}), 1) == "token"
    with pytest.raises(ConfigError, match="global_pool is 'map'"):
        pooling_of(of_architecture(global_pool="map"), 1)


# Small JSON files: read, or refused in one line.


def test_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"é": [1]}', encoding="utf-8")
    assert read_object(tmp_path / "a.json") == {"é": [1]}
    (tmp_path / "b.json").write_text("[1]")
    assert read_json(tmp_path / "b.json") == [1]
    with pytest.raises(CheckpointError, match="contains a list"):
        read_object(tmp_path / "b.json")


@pytest.mark.parametrize("data", [b"{", b"\xff\xff", b"[" * 100_000, b"9" * 5000])
def test_not_json(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"is not JSON|is not UTF-8 text"):
        read_json(tmp_path / "a.json")


def test_missing_or_huge(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no"):
        read_json(tmp_path / "a.json")
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(CheckpointError, match=str(LARGEST + 1)):
        read_json(tmp_path / "a.json")


def test_inside(tmp_path: Path) -> None:
    assert inside(tmp_path, "") == tmp_path
    assert inside(tmp_path, "1_Pooling") == tmp_path / "1_Pooling"
    for name in ("..", "../x", "/etc", "a/b", 3, None):
        with pytest.raises(CheckpointError, match="points to"):
            inside(tmp_path, name)
