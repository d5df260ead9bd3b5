"""Live audio becomes final words."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import pad

from glassformer.core.audio import MelConfig, log_mel
from glassformer.data.recordings import Recordings
from glassformer.data.sources import fetch
from glassformer.errors import InputError
from glassformer.models import ConvNet1d, Decoder, Recurrent, Speech, decoder
from glassformer.models.sequence import stack_frames
from glassformer.pipelines.loading import load
from glassformer.pipelines.speech.charset import RecognizerConfig
from glassformer.pipelines.speech.ctc_stream import CTCStream, ctc_rows
from glassformer.pipelines.speech.local_agreement import LocalAgreement, normalized_words
from glassformer.pipelines.speech.words import Word
from glassformer.pipelines.transcribe import transcribe, transcribe_stream
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


def transcript(text: str, start: float = 0.0) -> list[Word]:
    return [Word(word, start + i, start + i + 1, 0.0) for i, word in enumerate(text.split())]


def texts(words: list[Word]) -> str:
    return " ".join(word.text for word in words)


def test_words_are_final_once_two_transcripts_agree() -> None:
    agreement = LocalAgreement()
    assert agreement.update(transcript("he was"), 1.0) == []
    first = agreement.update(transcript("He was not an"), 2.0)
    assert texts(first) == "He was"
    assert {word.known for word in first} == {2.0}
    assert texts(agreement.update(transcript("he was not and ill"), 3.0)) == "not"
    assert texts(agreement.finish(transcript("he was not an ill-disposed man"), 4.0)) == "an ill-disposed man"


def test_a_revision_of_final_words_neither_repeats_nor_drops_the_next_ones() -> None:
    agreement = LocalAgreement()
    for _ in range(2):
        agreement.update(transcript("one two three four five"), 1.0)
    assert texts(agreement.finish(transcript("so one two three four five six"), 2.0)) == "six"
    assert texts(agreement.finish(transcript("two three four five six"), 2.0)) == "six"


def test_audio_that_was_cut_is_forgotten() -> None:
    agreement = LocalAgreement()
    for _ in range(2):
        agreement.update(transcript("one two three"), 3.0)
    agreement.cut(2.0)
    assert texts(agreement.final) == "three"
    assert texts(agreement.finish(transcript("three four", start=2.0), 4.0)) == "four"


def test_case_and_punctuation_do_not_prevent_agreement() -> None:
    assert normalized_words("Woman,") == normalized_words("woman")
    assert normalized_words("don't") == "don't"
    assert normalized_words("…") == "…"


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12, unique=True), st.lists(st.integers(0, 12)))
def test_growing_transcripts_give_every_word_once(words: list[str], ends: list[int]) -> None:
    agreement, whole = LocalAgreement(), transcript(" ".join(words))
    found = [word for end in sorted(ends) for word in agreement.update(whole[:end], float(end))]
    found += agreement.finish(whole, 12.0)
    assert [word.text for word in found] == words


ROW = 0.04
LIVE_RECOGNIZER = RecognizerConfig(mel=MelConfig(bands=8, high=4000.0), stack=4)


@pytest.fixture(scope="module")
def talker() -> Speech:
    """A random network whose letters change often: nearly every row says something else."""
    model = Speech(speech_models.transformer(LIVE_RECOGNIZER, width=16, depth=1, count=2), seed=5).eval()
    frames = log_mel(torch.randn(16_000, generator=torch.Generator().manual_seed(0)) / 10, LIVE_RECOGNIZER.mel)
    return speech_models.normalise_stem(model, frames[None].float())


@pytest.mark.parametrize("rate", [8_000, pytest.param(16_000, marks=pytest.mark.slow)])
def test_live_equals_offline_transcription(talker: Speech, rate: int) -> None:
    wave = torch.randn(rate, generator=torch.Generator().manual_seed(7)) / 10
    wave[rate // 4 : rate // 2] = 0
    whole = list(transcribe_stream(talker, [wave], rate=rate, pause=ROW, recognizer=LIVE_RECOGNIZER))
    assert len(whole) > 1
    assert all(0 <= word.start < word.end <= word.known <= 1.001 for word in whole)

    @settings(max_examples=8)
    @given(st.lists(st.integers(0, rate), max_size=5))
    def same(cuts: list[int]) -> None:
        pieces = wave.tensor_split(sorted(cuts))
        assert list(transcribe_stream(talker, pieces, rate=rate, pause=ROW, recognizer=LIVE_RECOGNIZER)) == whole

    same()


def test_words_come_before_the_sound_ends(talker: Speech) -> None:
    """The first word is given while pieces are still being asked for."""
    asked = 0

    def pieces() -> Any:
        nonlocal asked
        for piece in torch.randn(3 * 16_000, generator=torch.Generator().manual_seed(1)).split(800):
            asked += 1
            yield piece / 10

    word = next(iter(transcribe_stream(talker, pieces(), recognizer=LIVE_RECOGNIZER)))
    assert asked == -(-round(word.known * 16_000) // 800) < 60


def test_nothing(talker: Speech) -> None:
    assert list(transcribe_stream(talker, [], recognizer=LIVE_RECOGNIZER)) == []


@pytest.mark.slow
def test_a_file_with_times_and_without() -> None:
    """Without, all of it is one segment."""
    wave = pad(torch.cat([held_out().wave(i) for i in (0, 1)]), (0, 16_000))
    model = load("listener")
    timed, plain = transcribe(model, wave), transcribe(model, wave, timestamps=False)
    assert plain.segments == ((0.0, round(len(wave) / 16_000, 2), timed.text),)
    assert timed.segments[-1].end < plain.segments[0].end
    assert transcribe(model, torch.zeros(16_000), timestamps=False).segments == ()


def held_out() -> Recordings:
    """The real recordings that the shipped listener was not trained on."""
    return Recordings.open(fetch("asterisk-en") / "test.tsv", longest=120)


@pytest.mark.slow
def test_the_shipped_listener_transcribes_the_same_live_and_offline() -> None:
    """Every third held-out recording, cut into pieces of an odd length, at its own 8 kHz too."""
    from glassformer.data.audio import read_sound

    model, recordings = load("listener"), held_out()
    for i in range(0, len(recordings), 3):
        text = transcribe(model, recordings.wave(i)).text
        assert " ".join(word.text for word in transcribe_stream(model, recordings.wave(i).split(1111))) == text
        own = read_sound(recordings.file(i), 8000)
        assert " ".join(word.text for word in transcribe_stream(model, own.split(333), rate=8000)) == text
