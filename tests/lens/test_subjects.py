"""What our models promise in their configs is what they hear, and their streams say what they say offline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
import torch
from torch import Tensor, nn

from glassformer.errors import InputError
from glassformer.lens.leaks import find_leaks
from glassformer.lens.subjects import subject
from glassformer.models import (
    ConvNet1d,
    Decoder,
    Encoder,
    Frames,
    Recurrent,
    Tokens,
    convolutional_sequence,
    decoder,
    encoder,
    recurrent,
    speech,
)
from glassformer.models.speech import Speech
from glassformer.nn.streaming import Chunks

THREE, NINE = Frames(features=3), Tokens(vocabulary=9)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "make",
    [
        lambda seed: ConvNet1d(convolutional_sequence.tiny(THREE, 4), seed=seed),
        lambda seed: ConvNet1d(convolutional_sequence.tiny(NINE, 4, causal=False), seed=seed),
        lambda seed: Recurrent(recurrent.tiny(NINE, 4), seed=seed),
        lambda seed: Recurrent(recurrent.tiny(THREE, 4, cell="gru"), seed=seed),
        lambda seed: Decoder(decoder.tiny(), seed=seed),
        lambda seed: Decoder(decoder.tiny_modern(), seed=seed),
        lambda seed: Encoder(encoder.tiny(), seed=seed),
    ],
    ids=["causal", "centred", "lstm", "gru", "decoder", "modern decoder", "encoder"],
)
def test_our_models_keep_their_promises(make, seed: int) -> None:  # type: ignore[no-untyped-def]
    model = make(seed)
    report = subject(model, frames=20, seed=seed).find_leaks(pieces=(1, 3), seed=seed)
    assert report.clean, str(report)
    streams = isinstance(model, Decoder | Recurrent) or (isinstance(model, ConvNet1d) and model.config.causal)
    assert [s.piece for s in report.streamed] == ([1, 3] if streams else [])


def test_convolutions_hear_as_far_as_they_say() -> None:
    model = ConvNet1d(convolutional_sequence.tiny(THREE, 4))
    report = subject(model).find_leaks(pieces=(5,))
    assert report.back == (model.config.receptive_field - 1, True)
    assert report.ahead == (0, True)


def test_speech_from_sound_to_logits() -> None:
    """Measured latency is the one that the config works out, and so is the stream's own wait."""
    model = Speech(speech.tiny(), seed=1)
    report = subject(model, seed=1).find_leaks(pieces=(1, 5), seed=1)
    assert report.clean, str(report)
    latency = model.config.latency
    assert report.latency == (latency.frames * 4, True)
    assert report.latency_seconds == pytest.approx(latency.seconds)
    assert report.streamed[0].waited == latency.frames * 4


def test_a_speech_cache_that_loses_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    window = Chunks.window.fget
    monkeypatch.setattr(Chunks, "window", property(lambda self: window(self) - 1))
    report = subject(Speech(speech.tiny()), frames=40).find_leaks(pieces=(4,))
    assert {leak.kind for leak in report.leaks} == {"stream"}


def test_a_speech_mask_that_is_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask that shows one vector more than the config says, in both the stream and offline."""
    mask = Chunks.mask

    def wider(self: Chunks, *args: object, **more: object) -> Tensor:
        return mask(Chunks(chunk=self.chunk, left=self.left, right=self.right + 1), *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Chunks, "mask", wider)
    found = subject(Speech(speech.tiny()), frames=32)
    report = find_leaks(found.encoder, found.example, declared=found.declared)
    assert [leak.kind for leak in report.leaks] == ["lookahead"]


def test_a_decoder_cache_that_loses_a_token() -> None:
    model = Decoder(decoder.tiny(), seed=1)
    found = subject(model, frames=12)

    def loses(pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        cache = model.cache(12)
        for number, piece in enumerate(pieces):
            yield model(piece, cache=cache)
            if number == 1:
                for block in cache:
                    for part in block.own.kept():
                        part[:, :, 3] = 0

    report = find_leaks(found.encoder, found.example, streaming=loses, pieces=(3,))
    assert [(leak.kind, leak.output) for leak in report.leaks] == [("stream", 6)]


def test_mistakes() -> None:
    with pytest.raises(InputError, match="what a Linear may hear is not known"):
        subject(nn.Linear(2, 2))
    with pytest.raises(InputError, match="answers once, pooled by last"):
        subject(Recurrent(recurrent.tiny(NINE, 4, "last")))
    with pytest.raises(InputError, match="an example of 0 frames"):
        subject(Decoder(decoder.tiny()), frames=0)


def test_examples_have_the_models_number_type() -> None:
    model = ConvNet1d(convolutional_sequence.tiny(THREE, 4)).double()
    assert subject(model).example.dtype == torch.float64
