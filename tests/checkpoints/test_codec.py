"""Every config goes to JSON and comes back equal; what is not a config is refused with its place."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from glassformer.checkpoints.codec import decode, encode
from glassformer.core.rotary import LinearScaling, Llama3Scaling
from glassformer.errors import ConfigError, GlassError
from glassformer.models import decoder, encoder, seq2seq, vit
from glassformer.models.encoder import DenseConfig
from glassformer.nn import Alibi, Rotary

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
    with pytest.raises(ConfigError, match="only numbers, words and configs"):
        encode(with_rotary(lambda omega: omega))
