from __future__ import annotations

import pytest
import torch

from glassformer.core.audio import log_mel
from glassformer.models import ConvNet1d, Recurrent, Speech
from glassformer.pipelines.speech.charset import RecognizerConfig
from glassformer.train.objectives import speech_models
from glassformer.train.objectives.ctc import MEL, STACK

RECOGNIZER = RecognizerConfig(mel=MEL, stack=STACK)


def test_three_of_one_size() -> None:
    models = (
        Speech(speech_models.transformer(RECOGNIZER)),
        Recurrent(speech_models.gru(RECOGNIZER)),
        ConvNet1d(speech_models.convolution(RECOGNIZER)),
    )
    sizes = [sum(weight.numel() for weight in model.parameters()) for model in models]
    assert max(sizes) < 1.03 * min(sizes)
    assert 2 * max(sizes) < 5e6  # bytes, in half precision


def test_the_listener_is_in_time() -> None:
    config = speech_models.transformer(RECOGNIZER)
    assert config.latency.seconds == pytest.approx(0.23)
    assert config.seconds == pytest.approx(0.04)
    assert config.embed.factor == STACK


def test_steadied_channels() -> None:
    wave = torch.randn(3, 16_000, generator=torch.Generator().manual_seed(0)) / 10
    frames = log_mel(wave, MEL).float()
    model = Speech(speech_models.transformer(RECOGNIZER, width=16, depth=1), seed=1)
    small = model.embed(frames).detach().std()
    speech_models.normalise_stem(model, frames)
    X = model.embed(frames).detach()
    assert float(small) < 0.1 < 0.4 < float(X.std())  # what comes in is of the size that blocks add
    for name, weight in model.named_parameters():
        assert torch.isfinite(weight).all(), name
