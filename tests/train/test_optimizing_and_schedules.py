"""Oracles: torch.optim.AdamW one weight at a time, torch's clipping, torch's schedulers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LambdaLR, LinearLR, SequentialLR

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
from glassformer.train.args import TrainArgs
from glassformer.train.optimizer import adamw, clip_gradients, lr_at, make_contiguous, set_lr, split_by_decay

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
    decayed, others = split_by_decay(model)
    assert {id(weight) for weight in (*decayed, *others)} == {id(weight) for weight in model.parameters()}
    assert len(decayed) + len(others) == len(list(model.parameters()))
    assert all(weight.dim() >= 2 for weight in decayed)
    assert decayed


def names(model: nn.Module, weights: list[nn.Parameter]) -> set[str]:
    chosen = {id(weight) for weight in weights}
    return {name for name, weight in model.named_parameters() if id(weight) in chosen}


def test_positions_and_learned_tokens_do_not_decay() -> None:
    model = ViT(vit.tiny(), seed=0)
    rests = names(model, split_by_decay(model)[1])
    assert {"positions", "prefix"} <= rests
    assert not any(name.endswith("WQ.weight") for name in rests)
    text = Encoder(encoder.tiny(), seed=0)
    kept = names(text, split_by_decay(text)[1])
    assert any("positions" in name for name in kept), kept
    assert not any(name.endswith("embed.table.weight") for name in kept), "words are not positions"


def test_views_with_gaps_are_trained_like_others() -> None:
    """W_Q of GPT-2 is every third part of the rows of one matrix."""
    whole = torch.randn(6, 12, generator=torch.Generator().manual_seed(0))
    layer, plain = nn.Linear(6, 4), nn.Linear(6, 4)
    layer.weight, plain.weight = nn.Parameter(whole[:, 4:8].mT), nn.Parameter(whole[:, 4:8].mT.clone())
    plain.bias.data.copy_(layer.bias.data)
    make_contiguous(layer)
    before = whole.clone()
    for model in (layer, plain):
        model(torch.ones(2, 6)).square().sum().backward()
    adamw(layer, TrainArgs(lr=0.1, weight_decay=0.0)).step()
    torch.optim.AdamW(plain.parameters(), lr=0.1, weight_decay=0.0).step()
    torch.testing.assert_close(layer.weight, plain.weight)
    assert torch.equal(whole, before), "its neighbours are left alone"


def test_frozen_weights_are_left_out() -> None:
    model = nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    assert names(model, [weight for group in split_by_decay(model) for weight in group]) == {"weight"}


def test_a_few_steps_are_torchs_own() -> None:
    """In double precision against the plain loop over weights, decay and all."""
    ours, theirs = (nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 2)).double() for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    mine = adamw(ours, TrainArgs(lr=0.01, weight_decay=0.3, betas=(0.8, 0.95)))
    groups = [
        {"params": [w for w in theirs.parameters() if w.dim() == 2], "weight_decay": 0.3},
        {"params": [w for w in theirs.parameters() if w.dim() == 1], "weight_decay": 0.0},
    ]
    other = torch.optim.AdamW(groups, betas=(0.8, 0.95), foreach=False, fused=False)
    X = torch.randn(7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for step in range(4):
        for model, optimizer in ((ours, mine), (theirs, other)):
            optimizer.zero_grad()
            model(X).square().sum().backward()
            set_lr(optimizer, 0.01 / (step + 1))
            optimizer.step()
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("length", [0.0, 0.5, 1e6])
def test_clipping(length: float) -> None:
    weights = [nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(2))]
    grads = [torch.randn(4, 3), torch.randn(3), None]
    for weight, grad in zip(weights, grads, strict=True):
        weight.grad = None if grad is None else grad.clone()
    norm = clip_gradients(weights, length)
    flat = torch.cat([grad.flatten() for grad in grads if grad is not None])
    torch.testing.assert_close(norm, flat.norm())
    others = [nn.Parameter(weight.detach().clone()) for weight in weights]
    for weight, grad in zip(others, grads, strict=True):
        weight.grad = None if grad is None else grad.clone()
    nn.utils.clip_grad_norm_(others, length or float("inf"))
    for one, two in zip(weights[:2], others[:2], strict=True):
        torch.testing.assert_close(one.grad, two.grad)


RATE = 0.2


def stepped(make: Any, steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    scheduler = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def warmed(optimizer: Any, after: Any, warmup: int) -> Any:
    """Up from RATE/warmup to RATE, then `after`."""
    first = LinearLR(optimizer, start_factor=1 / warmup, end_factor=1.0, total_iters=warmup - 1)
    return SequentialLR(optimizer, [first, after], [warmup])


def ours(steps: int, **more: Any) -> list[float]:
    args = TrainArgs(**{"lr": RATE, "warmup": 0, "steps": steps} | more)
    return [lr_at(step, args) for step in range(steps)]


@given(st.integers(2, 30), st.integers(1, 60), st.floats(0, 1))
@pytest.mark.filterwarnings("ignore:.*scheduler:UserWarning")
def test_cosine(warmup: int, rest: int, floor: float) -> None:
    steps = warmup + rest

    def make(o: Any) -> Any:
        return warmed(o, CosineAnnealingLR(o, T_max=rest, eta_min=floor * RATE), warmup)

    mine = ours(steps, warmup=warmup, min_lr_ratio=floor)
    assert mine == pytest.approx(stepped(make, steps), rel=1e-9, abs=1e-12)


def test_cosine_without_warming_up() -> None:
    mine = ours(50)
    assert mine == pytest.approx(stepped(lambda o: CosineAnnealingLR(o, T_max=50), 50), rel=1e-9)
    assert mine[0] == RATE


@given(st.integers(0, 30), st.integers(1, 60))
def test_inverse_square_root(warmup: int, rest: int) -> None:
    """Vaswani's min(s^-½, s·warmup^-3/2), scaled to 1 at its top."""
    w = max(warmup, 1)

    def noam(step: int) -> float:
        return math.sqrt(w) * min((step + 1) ** -0.5, (step + 1) * w**-1.5)

    mine = ours(warmup + rest, schedule="inverse_sqrt", warmup=warmup)
    assert mine == pytest.approx(stepped(lambda o: LambdaLR(o, noam), warmup + rest), rel=1e-9)


@pytest.mark.filterwarnings("ignore:.*scheduler:UserWarning")
def test_constant() -> None:
    mine = ours(20, schedule="constant", warmup=5)
    assert mine == pytest.approx(stepped(lambda o: warmed(o, ConstantLR(o, factor=1.0), 5), 20))


def test_floor_of_the_inverse_square_root() -> None:
    mine = ours(100, lr=1.0, schedule="inverse_sqrt", warmup=1, min_lr_ratio=0.25)
    assert min(mine) == 0.25
    assert mine[15] == pytest.approx(0.25)
    assert mine[14] > 0.25


def test_warmup_stable_decay_is_that_of_transformers() -> None:
    from transformers import get_wsd_schedule

    def make(o: Any) -> Any:
        return get_wsd_schedule(o, 0, 30, num_training_steps=100, decay_type="linear", min_lr_ratio=0.0)

    mine = ours(100, schedule="wsd")
    assert mine == pytest.approx(stepped(make, 100), rel=1e-9)
    assert mine[:70] == ours(200, schedule="wsd")[:70]  # before the decay the number of steps does not matter
