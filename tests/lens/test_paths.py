from __future__ import annotations

import pytest
import torch

from glassformer.errors import InputError
from glassformer.lens import edit, trace
from glassformer.lens.paths import Names, axes_of, layers, match, taps
from glassformer.models import Decoder, DecoderConfig, Encoder, Seq2Seq, decoder, encoder, seq2seq
from glassformer.nn import BlockConfig, FeedForwardConfig, NormConfig, Rotary, heads
from glassformer.nn.text import TextConfig

KNOWN = list(taps(Decoder(decoder.tiny())))
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])


def llama() -> Decoder:
    """Rotary positions, grouped heads, RMSNorm and SwiGLU."""
    block = BlockConfig(
        attention=heads(16, 4, kv_heads=2, biases=""),
        ffn=FeedForwardConfig(width=16, hidden=24, activation="silu", gated=True, bias=False),
        norm=NormConfig(kind="rms", eps=1e-6),
    )
    text = TextConfig(vocabulary=20, depth=2, block=block, relative=Rotary(width=4), last_norm=block.norm)
    return Decoder(DecoderConfig(text=text, length=16), seed=3).double().eval()


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


def test_a_path_that_names_nothing_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no quantity is called 'decoder.1.atention.A': .*decoder.1.attention.A"):
        match(("decoder.1.atention.A",), KNOWN)


def test_axes() -> None:
    assert axes_of("decoder.1.cross.A") == ["decoder.b", "decoder.cross.h", "decoder.t", "memory"]
    assert axes_of("encoder.1.X")[:2] == ["encoder.b", "encoder.t"]
    assert axes_of("decoder.embed.E") == []


# ---- names of TransformerLens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alias", "ours"),
    [
        ("blocks.1.attn.hook_pattern", "decoder.1.attention.A"),
        ("blocks.0.attn.hook_z", "decoder.0.attention.H"),
        ("blocks.0.attn.hook_q", "decoder.0.attention.Q0"),
        ("blocks.0.attn.hook_result", "decoder.0.attention.HO"),
        ("blocks.0.hook_resid_mid", "decoder.0.R"),
        ("blocks.1.mlp.hook_post", "decoder.1.ffn.F"),
        ("blocks.1.ln2.hook_scale", "decoder.1.ffn_residual.norm.sigma"),
        ("ln_final.hook_normalized", "decoder.norm.Y"),
        ("hook_embed", "decoder.embed.T"),
    ],
)
def test_names_of_transformer_lens(alias: str, ours: str) -> None:
    assert [name.path for name in Names.of(Decoder(decoder.tiny())).find(alias)] == [ours]


def test_aliases_of_an_encoder_decoder() -> None:
    names = Names.of(Seq2Seq(seq2seq.tiny()))
    found = lambda pattern: [name.path for name in names.find(pattern)]
    assert found("decoder.0.cross_attn.hook_pattern") == ["decoder.0.cross.A"]
    assert found("encoder.*.attn.hook_q") == ["encoder.0.attention.Q0", "encoder.1.attention.Q0"]
    assert found("decoder.1.hook_cross_attn_out") == ["decoder.1.cross.O"]


@torch.no_grad()
def test_values_under_an_alias_have_the_axes_and_the_stage_that_transformer_lens_has() -> None:
    """TransformerLens: q, k, v, z are (batch, position, head, width), q and k before the rotation, rot_q after it."""
    model = llama()
    with trace(model) as run:
        model(TOKENS)
    layer, block = model.decoder.get_submodule("0.attention"), model.decoder.get_submodule("0")
    X = block.attention_residual.norm(run["blocks.0.hook_resid_pre"])
    close = torch.testing.assert_close
    close(run["blocks.0.attn.hook_q"], layer.WQ(X).unflatten(-1, (4, 4)))
    close(run["blocks.0.attn.hook_k"], layer.WK(X).unflatten(-1, (2, 4)))
    assert run["blocks.0.attn.hook_v"].shape == (1, 7, 2, 4)
    assert run["blocks.0.attn.hook_rot_q"].shape == (1, 7, 4, 4)
    assert not torch.allclose(run["blocks.0.attn.hook_rot_q"], run["blocks.0.attn.hook_q"])
    close(run["blocks.0.attn.hook_rot_q"][:, :1], run["blocks.0.attn.hook_q"][:, :1])  # position 0 is not turned
    assert run["blocks.0.attn.hook_pattern"].shape == (1, 4, 7, 7)
    close(run["blocks.0.attn.hook_result"].sum(2), run["blocks.0.hook_attn_out"])
    ffn = block.ffn_residual.norm(run["blocks.0.hook_resid_mid"])
    close(run["blocks.0.mlp.hook_pre"], block.ffn.W1(ffn))
    close(run["blocks.0.mlp.hook_pre_linear"], block.ffn.W3(ffn))
    scale = (run["blocks.0.hook_resid_mid"].square().mean(-1, keepdim=True) + 1e-6).sqrt()
    close(run["blocks.0.ln2.hook_scale"], scale)


@torch.no_grad()
def test_edits_through_an_alias_take_and_return_its_axes() -> None:
    model = llama()
    seen: list[tuple[int, ...]] = []

    def without_head_1(z: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(z.shape))
        z[:, :, 1] = 0  # TransformerLens's code writes in place
        return z

    with edit(model, "blocks.1.attn.hook_z", without_head_1):
        found = model(TOKENS)
    with edit(model, "decoder.1.attention.H", lambda H: H * torch.tensor([1.0, 0, 1, 1])[:, None, None]):
        torch.testing.assert_close(found, model(TOKENS))
    assert seen == [(1, 7, 4, 4)]


@pytest.mark.parametrize(
    ("model", "alias", "why"),
    [
        (Encoder(encoder.tiny()), "blocks.0.hook_resid_mid", 'encoder.0.R" is after the norm'),
        (Encoder(encoder.tiny()), "blocks.0.hook_resid_post", 'encoder.0.O" is after the last norm'),
        (Seq2Seq(seq2seq.tiny()), "decoder.0.hook_resid_mid", "after the norm of attention"),
        (Decoder(decoder.tiny()), "blocks.0.attn.hook_rot_q", "no rotary positions"),
        (Decoder(decoder.tiny()), "blocks.0.mlp.hook_pre_linear", "not gated"),
        (Decoder(decoder.tiny()), "hook_pos_embed", "not repeated over the batch"),
        (llama(), "blocks.0.ln1.hook_normalized", "before the gain"),
    ],
)
def test_aliases_that_would_lie_are_refused(model: torch.nn.Module, alias: str, why: str) -> None:
    with pytest.raises(InputError, match=why), trace(model, alias):
        pass
