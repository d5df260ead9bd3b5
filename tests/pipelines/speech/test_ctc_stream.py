from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.core.audio import MelConfig, log_mel
from glassformer.errors import InputError
from glassformer.models import ConvNet1d, Decoder, Recurrent, Speech, decoder
from glassformer.models.sequence import stack_frames
from glassformer.pipelines.speech.charset import RecognizerConfig
from glassformer.pipelines.speech.ctc_stream import CTCStream, ctc_rows
from glassformer.train.objectives import speech_models

RECOGNIZER = RecognizerConfig(mel=MelConfig(bands=8, high=4000.0), stack=4)
MODELS: dict[str, nn.Module] = {
    "speech": Speech(speech_models.transformer(RECOGNIZER, width=16, depth=2, count=2), seed=1).eval(),
    "gru": Recurrent(speech_models.gru(RECOGNIZER, width=12, layers=2), seed=1).eval(),
    "convolution": ConvNet1d(speech_models.convolution(RECOGNIZER, width=12, blocks=2), seed=1).eval(),
}
SOUND = torch.randn(7_345, generator=torch.Generator().manual_seed(3)) / 10


def heard(model: nn.Module, pieces: list[Tensor]) -> tuple[Tensor, list[int]]:
    ear = CTCStream(model, RECOGNIZER)
    rows = [rows for piece in pieces for rows in ear.feed(piece)] + ear.finish()
    return torch.cat([logits for logits, _ in rows]), [samples for logits, samples in rows for _ in logits]


@pytest.fixture(scope="module", params=MODELS)
def whole(request: pytest.FixtureRequest) -> tuple[nn.Module, Tensor, list[int]]:
    model = MODELS[request.param]
    return model, *heard(model, [SOUND])


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(0, len(SOUND)), max_size=6))
def test_any_cut_gives_the_same_bits(whole: tuple[nn.Module, Tensor, list[int]], cuts: list[int]) -> None:
    model, rows, when = whole
    cut, then = heard(model, list(SOUND.tensor_split(sorted(cuts))))
    assert torch.equal(rows, cut)
    assert when == then


@pytest.mark.parametrize("name", MODELS)
def test_streamed_rows_equal_one_pass(name: str) -> None:
    """Up to rounding: the network as it is trained."""
    frames = log_mel(SOUND, RECOGNIZER.mel).float()
    with torch.no_grad():
        logits, rows = ctc_rows(MODELS[name], frames[None], torch.tensor([len(frames)]), RECOGNIZER)
    streamed, when = heard(MODELS[name], [SOUND])
    assert len(streamed) == int(rows) == -(-len(frames) // 4)
    torch.testing.assert_close(streamed, logits[0], rtol=1e-4, atol=1e-4)
    assert when == sorted(when)
    assert when[-1] == len(SOUND)


@pytest.mark.parametrize("name", MODELS)
def test_padding_changes_nothing(name: str) -> None:
    frames = log_mel(SOUND, RECOGNIZER.mel).float()
    short = frames[:37]
    lengths = torch.tensor([len(frames), 37])
    both = nn.utils.rnn.pad_sequence([frames, short], batch_first=True, padding_value=9.0)
    with torch.no_grad():
        logits, rows = ctc_rows(MODELS[name], both, lengths, RECOGNIZER)
        alone, _ = ctc_rows(MODELS[name], short[None], torch.tensor([37]), RECOGNIZER)
    torch.testing.assert_close(logits[1, : int(rows[1])], alone[0], rtol=1e-4, atol=1e-5)


def test_a_row_is_known_soon() -> None:
    """A row waits for its chunk and for what the convolutions hear ahead, and no longer than that."""
    model = MODELS["speech"]
    assert isinstance(model, Speech)
    _, when = heard(model, [SOUND])
    piece = CTCStream(model, RECOGNIZER).piece
    for row, samples in enumerate(when):
        assert samples <= -(-model.config.horizon(row) // piece) * piece or samples == len(SOUND)


def test_frames_side_by_side() -> None:
    frames = torch.arange(10.0).reshape(1, 5, 2)
    assert stack_frames(frames, 2).tolist() == [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 0]]]


def test_no_audio_and_a_model_that_does_not_stream(refused: Any) -> None:
    assert CTCStream(MODELS["gru"], RECOGNIZER).finish() == []
    refused(InputError, "this Decoder does not stream speech", lambda: CTCStream(Decoder(decoder.tiny()), RECOGNIZER))
