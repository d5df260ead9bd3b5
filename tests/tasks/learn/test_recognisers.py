from __future__ import annotations

import pytest
import torch

from glassformer.core.audio import log_mel
from glassformer.models import ConvNet1d, Recurrent, Speech
from glassformer.tasks.learn import recognisers
from glassformer.tasks.learn.speech import MEL, STACK
from glassformer.tasks.symbols import Hearing

HEARING = Hearing(mel=MEL, stack=STACK)


def test_three_of_one_size() -> None:
    models = (
        Speech(recognisers.listener(HEARING)),
        Recurrent(recognisers.gru(HEARING)),
        ConvNet1d(recognisers.convolution(HEARING)),
    )
    sizes = [sum(weight.numel() for weight in model.parameters()) for model in models]
    assert max(sizes) < 1.03 * min(sizes)
    assert 2 * max(sizes) < 5e6  # bytes, in half precision


def test_the_listener_is_in_time() -> None:
    config = recognisers.listener(HEARING)
    assert config.latency.seconds == pytest.approx(0.23)
    assert config.seconds == pytest.approx(0.04)
    assert config.embed.factor == STACK


def test_steadied_channels() -> None:
    wave = torch.randn(3, 16_000, generator=torch.Generator().manual_seed(0)) / 10
    frames = log_mel(wave, MEL).float()
    model = Speech(recognisers.listener(HEARING, width=16, depth=1), seed=1)
    small = model.embed(frames).detach().std()
    recognisers.steadied(model, frames)
    X = model.embed(frames).detach()
    assert float(small) < 0.1 < 0.4 < float(X.std())  # what comes in is of the size that blocks add
    for name, weight in model.named_parameters():
        assert torch.isfinite(weight).all(), name
