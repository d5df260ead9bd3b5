from __future__ import annotations

import pytest

from glassformer.errors import InputError
from glassformer.lens.paths import axes_of, layers, match, taps
from glassformer.models import Decoder, Seq2Seq, decoder, seq2seq

KNOWN = list(taps(Decoder(decoder.tiny())))


def test_paths_read_like_the_model() -> None:
    assert "decoder.1.attention.A" in KNOWN
    assert list(layers(Seq2Seq(seq2seq.tiny()))) == [
        "encoder.0.attention",
        "encoder.1.attention",
        "decoder.0.attention",
        "decoder.0.cross",
        "decoder.1.attention",
        "decoder.1.cross",
    ]


def test_wildcards() -> None:
    assert match(("decoder.*.attention.A",), KNOWN) == ["decoder.0.attention.A", "decoder.1.attention.A"]
    assert match(("*",), KNOWN) == KNOWN


@pytest.mark.parametrize(
    ("alias", "ours"),
    [
        ("blocks.1.attn.hook_pattern", "decoder.1.attention.A"),
        ("blocks.0.attn.hook_z", "decoder.0.attention.H"),
        ("blocks.0.hook_resid_mid", "decoder.0.R"),
        ("blocks.1.mlp.hook_post", "decoder.1.ffn.F"),
        ("hook_pos_embed", "decoder.embed.E"),
    ],
)
def test_names_of_transformer_lens(alias: str, ours: str) -> None:
    assert match((alias,), KNOWN) == [ours]


def test_aliases_of_an_encoder_decoder() -> None:
    known = list(taps(Seq2Seq(seq2seq.tiny())))
    assert match(("decoder.0.cross_attn.hook_pattern",), known) == ["decoder.0.cross.A"]
    assert match(("encoder.*.attn.hook_q",), known) == ["encoder.0.attention.Q", "encoder.1.attention.Q"]


def test_a_path_that_names_nothing_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no quantity is called 'decoder.1.atention.A': .*decoder.1.attention.A"):
        match(("decoder.1.atention.A",), KNOWN)


def test_axes() -> None:
    assert axes_of("decoder.1.cross.A") == ["b", "decoder.cross.h", "decoder.t", "memory"]
    assert axes_of("encoder.1.X")[:2] == ["b", "encoder.t"]
    assert axes_of("decoder.embed.E") == []
