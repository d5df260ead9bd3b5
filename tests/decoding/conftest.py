"""Models with something to say: large random weights, so that probabilities are far from equal; and published twins."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from glassformer.models import Decoder, Seq2Seq, Seq2SeqConfig, decoder, seq2seq
from glassformer.nn import BlockConfig, FeedForwardConfig, Sinusoidal, heads
from glassformer.nn.text import TextConfig

Lively = Callable[..., Any]


def _lively(model: nn.Module, scale: float = 0.5, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    model.double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64) * scale)
    return model.eval()


@pytest.fixture(scope="session")
def lively() -> Lively:
    return _lively


@pytest.fixture(scope="session")
def plain(lively: Lively) -> Decoder:
    return lively(Decoder(decoder.plain(vocabulary=12, width=8, depth=1, count=2, length=16)))


@pytest.fixture(scope="session")
def translator(lively: Lively) -> Seq2Seq:
    return lively(Seq2Seq(seq2seq.vaswani(vocabulary=12, width=8, depth=1, count=2, hidden=16)), 0.6)


class Twins(NamedTuple):
    """The same weights, here and at Hugging Face."""

    ours: Any
    theirs: Any


def _linear(ours: nn.Module, weight: torch.Tensor, bias: torch.Tensor) -> None:
    ours.get_parameter("weight").copy_(weight)
    ours.get_parameter("bias").copy_(bias)


def _norm(ours: nn.Module, theirs: nn.Module) -> None:
    ours.get_parameter("gamma").copy_(theirs.weight)
    ours.get_parameter("beta").copy_(theirs.bias)


@pytest.fixture(scope="session")
def gpt2() -> Twins:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=15, n_positions=32, n_embd=8, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    theirs = _lively(GPT2LMHeadModel(config), 0.6)
    theirs.generation_config.pad_token_id = 1
    ours = Decoder(decoder.plain(vocabulary=15, width=8, depth=2, count=2, length=32)).double().eval()
    with torch.no_grad():
        ours.decoder.embed.table.weight.copy_(theirs.transformer.wte.weight)
        ours.decoder.embed.positions.table.weight.copy_(theirs.transformer.wpe.weight)
        _norm(ours.decoder.norm, theirs.transformer.ln_f)
        for block, h in zip(ours.decoder.blocks(), theirs.transformer.h, strict=True):
            _norm(block.attention_residual.norm, h.ln_1)
            _norm(block.ffn_residual.norm, h.ln_2)
            parts = zip(h.attn.c_attn.weight.T.chunk(3), h.attn.c_attn.bias.chunk(3), strict=True)
            for name, (weight, bias) in zip(("WQ", "WK", "WV"), parts, strict=True):
                _linear(getattr(block.attention, name), weight, bias)
            _linear(block.attention.WO, h.attn.c_proj.weight.T, h.attn.c_proj.bias)
            _linear(block.ffn.W1, h.mlp.c_fc.weight.T, h.mlp.c_fc.bias)
            _linear(block.ffn.W2, h.mlp.c_proj.weight.T, h.mlp.c_proj.bias)
    return Twins(ours, theirs)


def _marian_config() -> Seq2SeqConfig:
    attention = heads(8, 2)
    ffn = FeedForwardConfig(width=8, hidden=16, activation="silu")

    def side(block: BlockConfig) -> TextConfig:
        positions = Sinusoidal(layout="halves")
        return TextConfig(vocabulary=15, depth=2, block=block, positions=positions, scale=math.sqrt(8))

    return Seq2SeqConfig(
        source=side(BlockConfig(attention=attention, ffn=ffn, place="post")),
        target=side(BlockConfig(attention=attention, cross=attention, ffn=ffn, place="post")),
        start=14,
        end=0,
        pad=14,
        head_bias=True,
        length=32,
    )


@pytest.fixture(scope="session")
def marian() -> Twins:
    from transformers import MarianConfig, MarianMTModel

    side = {"layers": 2, "ffn_dim": 16, "attention_heads": 2}
    config = MarianConfig(
        vocab_size=15,
        d_model=8,
        max_position_embeddings=32,
        activation_function="swish",
        scale_embedding=True,
        pad_token_id=14,
        eos_token_id=0,
        decoder_start_token_id=14,
        forced_eos_token_id=None,
        **{f"{end}_{name}": value for end in ("encoder", "decoder") for name, value in side.items()},
    )
    theirs = MarianMTModel(config)
    positions = theirs.model.encoder.embed_positions.weight.clone()
    _lively(theirs, 0.6, seed=3)
    ours = Seq2Seq(_marian_config()).double().eval()
    with torch.no_grad():
        for side_name in ("encoder", "decoder"):
            their_side, our_side = getattr(theirs.model, side_name), getattr(ours, side_name)
            their_side.embed_positions.weight.copy_(positions)
            for block, layer in zip(our_side.blocks(), their_side.layers, strict=True):
                pairs = [("attention", layer.self_attn, layer.self_attn_layer_norm)]
                if side_name == "decoder":
                    pairs.append(("cross", layer.encoder_attn, layer.encoder_attn_layer_norm))
                for name, attention, norm in pairs:
                    for W, letter in (("WQ", "q"), ("WK", "k"), ("WV", "v"), ("WO", "out")):
                        linear = getattr(attention, f"{letter}_proj")
                        _linear(getattr(getattr(block, name), W), linear.weight, linear.bias)
                    _norm(getattr(block, f"{name}_residual").norm, norm)
                _linear(block.ffn.W1, layer.fc1.weight, layer.fc1.bias)
                _linear(block.ffn.W2, layer.fc2.weight, layer.fc2.bias)
                _norm(block.ffn_residual.norm, layer.final_layer_norm)
        ours.encoder.embed.table.weight.copy_(theirs.model.shared.weight)
        theirs.final_logits_bias.copy_(torch.linspace(-1, 1, 15))
        ours.word_head.bias.copy_(theirs.final_logits_bias[0])
    return Twins(ours, theirs)
