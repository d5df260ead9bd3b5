"""Oracles: torch.optim.AdamW one weight at a time, torch's clipping."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.models import (
    Decoder,
    Encoder,
    Hybrid,
    Seq2Seq,
    Speech,
    ViT,
    decoder,
    encoder,
    hybrid,
    seq2seq,
    speech,
    vit,
)
from glassformer.tasks.training.optimise import adamw, clip, set_rate, split
from glassformer.tasks.training.plan import Optimise

MODELS = {
    "vit": lambda: ViT(vit.tiny(), seed=0),
    "encoder": lambda: Encoder(encoder.tiny(), seed=0),
    "decoder": lambda: Decoder(decoder.tiny(), seed=0),
    "seq2seq": lambda: Seq2Seq(seq2seq.tiny(), seed=0),
    "speech": lambda: Speech(speech.tiny(), seed=0),
    "hybrid": lambda: Hybrid(hybrid.tiny(), seed=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_weight_is_in_one_group(name: str) -> None:
    model = MODELS[name]()
    decays, rests = split(model)
    assert {id(weight) for weight in (*decays, *rests)} == {id(weight) for weight in model.parameters()}
    assert len(decays) + len(rests) == len(list(model.parameters()))
    assert all(weight.dim() >= 2 for weight in decays)
    assert decays


def names(model: nn.Module, weights: list[nn.Parameter]) -> set[str]:
    chosen = {id(weight) for weight in weights}
    return {name for name, weight in model.named_parameters() if id(weight) in chosen}


def test_positions_and_learned_tokens_do_not_decay() -> None:
    model = ViT(vit.tiny(), seed=0)
    rests = names(model, split(model)[1])
    assert {"positions", "prefix"} <= rests
    assert not any(name.endswith("WQ.weight") for name in rests)
    text = Encoder(encoder.tiny(), seed=0)
    kept = names(text, split(text)[1])
    assert any("positions" in name for name in kept), kept
    assert not any(name.endswith("embed.table.weight") for name in kept), "words are not positions"


def test_frozen_weights_are_left_out() -> None:
    model = nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    assert names(model, [weight for group in split(model) for weight in group]) == {"weight"}


def test_a_few_steps_are_torchs_own() -> None:
    """In double precision against the plain loop over weights, decay and all."""
    ours, theirs = (nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 2)).double() for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    optimise = Optimise(rate=0.01, decay=0.3, betas=(0.8, 0.95))
    mine = adamw(ours, optimise)
    groups = [
        {"params": [w for w in theirs.parameters() if w.dim() == 2], "weight_decay": 0.3},
        {"params": [w for w in theirs.parameters() if w.dim() == 1], "weight_decay": 0.0},
    ]
    other = torch.optim.AdamW(groups, betas=(0.8, 0.95), foreach=False, fused=False)
    X = torch.randn(7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for step in range(4):
        for model, optimiser in ((ours, mine), (theirs, other)):
            optimiser.zero_grad()
            model(X).square().sum().backward()
            set_rate(optimiser, 0.01 / (step + 1))
            optimiser.step()
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("length", [None, 0.5, 1e6])
def test_clipping(length: float | None) -> None:
    weights = [nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(2))]
    grads = [torch.randn(4, 3), torch.randn(3), None]
    for weight, grad in zip(weights, grads, strict=True):
        weight.grad = None if grad is None else grad.clone()
    norm = clip(weights, length)
    flat = torch.cat([grad.flatten() for grad in grads if grad is not None])
    torch.testing.assert_close(norm, flat.norm())
    others = [nn.Parameter(weight.detach().clone()) for weight in weights]
    for weight, grad in zip(others, grads, strict=True):
        weight.grad = None if grad is None else grad.clone()
    nn.utils.clip_grad_norm_(others, float("inf") if length is None else length)
    for one, two in zip(weights[:2], others[:2], strict=True):
        torch.testing.assert_close(one.grad, two.grad)
