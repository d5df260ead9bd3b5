from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.checkpoints import load_folder
from glassformer.data.audio import read_sound
from glassformer.data.registry import fetch
from glassformer.data.sources import open_data
from glassformer.data.sources.table import fetch as fetch_data
from glassformer.errors import InputError
from glassformer.models import Decoder, Whisper, decoder
from glassformer.pipelines.speech.whisper import WhisperTokens
from glassformer.pipelines.transcribe import WhisperBuffer, split_segments, start_tokens, transcribe, transcribe_stream

CODES = WhisperTokens(
    start=51, end=50, silent=99, never=(), not_first=(), latest_first=50, languages={}, tasks={}, nothing=None
)
MANY = WhisperTokens(
    start=51,
    end=50,
    silent=99,
    never=(),
    not_first=(),
    latest_first=50,
    languages={"en": 52, "fr": 53},
    tasks={"transcribe": 54, "translate": 55},
    nothing=None,
)


def times(*found: tuple[float, float, tuple[int, ...]]) -> list[Any]:
    return [(pytest.approx(start), pytest.approx(end), tokens) for start, end, tokens in found]


def test_pieces_between_times() -> None:
    at = lambda seconds: 100 + round(seconds / 0.02)
    one = (at(0), 1, 2, at(3))
    assert split_segments(one, CODES, 30.0) == (times((0, 3, one)), None)  # one piece; nothing after it
    open_ended = (at(0.5), 1, 2)
    assert split_segments(open_ended, CODES, 12.0) == (times((0.5, 12, open_ended)), None)
    first, second = (at(0), 1, at(2)), (at(2), 2, at(4))
    assert split_segments((*first, *second), CODES, 30.0) == (times((0, 2, first), (2, 4, second)), None)
    cut = (*first, at(2), 3)  # the window ends within a sentence: it is heard again
    assert split_segments(cut, CODES, 30.0) == (times((0, 2, first)), pytest.approx(2))
    assert split_segments((1, 2), CODES, 30.0) == (times((0, 30, (1, 2))), None)  # without times


def test_what_a_transcript_begins_with(refused: Any) -> None:
    assert start_tokens(CODES, None, "transcribe", True) == [51]
    assert start_tokens(CODES, "en", "transcribe", False) == [51, 99]
    assert start_tokens(MANY, "fr", "translate", True) == [51, 53, 55]
    english, unknown = "the model transcribes English, not 'fr'", "the model does not know the language 'xx'"
    refused(InputError, english, lambda: start_tokens(CODES, "fr", "transcribe", True))
    refused(InputError, unknown, lambda: start_tokens(MANY, "xx", "transcribe", True))


def test_what_is_refused(refused: Any) -> None:
    model = Decoder(decoder.tiny())
    refused(InputError, "this Decoder cannot transcribe speech", lambda: transcribe(model, torch.zeros(100)))


def test_samples_may_be_an_array() -> None:
    model = gf.load("listener")
    wave = read_sound(sorted((open_data("asterisk-en") / "audio").iterdir())[0])
    said = transcribe(model, wave).text
    assert said
    assert transcribe(model, wave.numpy()).text == said
    assert transcribe(model, (32767 * wave.numpy()).round().astype(np.int16)).text == said


def words(text: str) -> list[str]:
    return re.sub(r"[^a-z ]", "", text.lower().replace("-", " ").replace("mr.", "mister")).split()


def errors(ours: list[str], theirs: list[str]) -> int:
    """Words to change, add or leave out."""
    row = list(range(len(theirs) + 1))
    for i, a in enumerate(ours, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(theirs, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


def clips() -> list[tuple[Path, str]]:
    folder = fetch_data("librivox")
    lines = (folder / "transcription").read_text().splitlines()
    found = [re.fullmatch(r"<s> (.*) </s> \((.*)\)", line) for line in lines]
    return [(folder / "audio" / f"{one[2]}.wav", one[1]) for one in found if one]


@pytest.mark.slow
def test_five_clips_with_at_most_two_errors_in_each() -> None:
    model = load_folder(fetch("whisper-tiny.en"))
    for path, text in clips():
        found = transcribe(model, path)
        assert errors(words(found.text), words(text)) <= 2, found.text
        seconds = len(read_sound(path)) / 16000
        assert all(0 <= one.start < one.end <= seconds + 0.01 for one in found.segments)


@pytest.mark.slow
def test_the_tokens_of_hugging_face() -> None:
    import transformers

    from glassformer.core.audio import whisper_log_mel

    folder = fetch("whisper-tiny.en")
    model = load_folder(folder)
    assert isinstance(model, Whisper)
    peer = transformers.WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    for path, _ in clips():
        wave = read_sound(path)
        frames = whisper_log_mel(torch.nn.functional.pad(wave, (0, 480000 - len(wave))))
        said = peer.generate(frames.T[None], return_timestamps=True, do_sample=False, max_new_tokens=200)[0].tolist()
        from glassformer.pipelines.tokenizers import tokenizer_of

        theirs = tokenizer_of(model).decode([token for token in said if token < 50256])
        assert transcribe(model, wave).text == theirs.strip()


@pytest.mark.slow
def test_a_long_recording_in_windows() -> None:
    """The clips one after the other, twice: more than one window, and still nearly every word in its place."""
    model = load_folder(fetch("whisper-tiny.en"))
    pause = torch.zeros(8000)
    parts = [part for path, _ in [*clips(), *clips()] for part in (read_sound(path), pause)]
    found = transcribe(model, torch.cat(parts))
    expected = words(" ".join(text for _, text in [*clips(), *clips()]))
    assert found.segments[-1].end > 40
    assert all(a.end <= b.start + 0.5 for a, b in zip(found.segments, found.segments[1:], strict=False))
    assert errors(words(found.text), expected) <= 0.15 * len(expected), found.text


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Whisper of two languages that hears 2 s at once and knows 20 words, as Hugging Face saves one."""
    import transformers
    from tokenizers import Tokenizer, models

    folder = tmp_path_factory.mktemp("whisper")
    names = ["endoftext", "startoftranscript", "en", "fr", "transcribe", "translate", "nospeech", "notimestamps"]
    special = [f"<|{name}|>" for name in (*names, *(f"{i * 0.02:.2f}" for i in range(101)))]
    letters = [chr(97 + i) for i in range(20)]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate([*letters, *special])}, unk_token="a"))
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    token = tokenizer.token_to_id
    sides = {"layers": 1, "ffn_dim": 24, "attention_heads": 2}
    config = transformers.WhisperConfig(
        vocab_size=len(letters) + len(special),
        num_mel_bins=80,
        d_model=12,
        max_source_positions=100,
        max_target_positions=24,
        pad_token_id=token("<|endoftext|>"),
        bos_token_id=token("<|endoftext|>"),
        eos_token_id=token("<|endoftext|>"),
        decoder_start_token_id=token("<|startoftranscript|>"),
        suppress_tokens=None,
        begin_suppress_tokens=None,
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sides.items()},
    )
    model = transformers.WhisperForConditionalGeneration(config)
    generator = torch.Generator().manual_seed(0)
    for name, weight in model.named_parameters():
        if "encoder.embed_positions" not in name:
            weight.data = (weight.dim() == 1) * ("bias" not in name) + 0.5 * torch.randn(
                weight.shape, generator=generator
            )
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=token("<|startoftranscript|>"),
        eos_token_id=token("<|endoftext|>"),
        no_timestamps_token_id=token("<|notimestamps|>"),
        lang_to_id={"<|en|>": token("<|en|>"), "<|fr|>": token("<|fr|>")},
        task_to_id={"transcribe": token("<|transcribe|>"), "translate": token("<|translate|>")},
        begin_suppress_tokens=[token("<|endoftext|>")],
    )
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    return folder


def test_a_long_recording_is_transcribed_to_its_end(small: Path) -> None:
    model = load_folder(small)
    wave = 0.1 * torch.randn(7 * 16000, generator=torch.Generator().manual_seed(1))  # four windows of 2 s
    found = transcribe(model, wave)
    assert found.language in ("en", "fr")
    assert found == transcribe(model, wave, language=found.language)
    assert found.segments[-1].start > 4
    assert all(0 <= one.start <= one.end <= 7.0 for one in found.segments)
    assert [one.start for one in found.segments] == sorted(one.start for one in found.segments)
    assert found.text == " ".join(one.text for one in found.segments)
    plain = transcribe(model, wave, language="fr", task="translate", timestamps=False)
    assert {(one.start, one.end) for one in plain.segments} <= {(0, 2), (2, 4), (4, 6), (6, 7)}
    assert plain.segments


def test_greedy_words_are_the_models_own(small: Path) -> None:
    """Without times: argmax of the model's logits, step by step."""
    model = load_folder(small)
    wave = 0.1 * torch.randn(2 * 16000, generator=torch.Generator().manual_seed(2))
    from glassformer.core.audio import whisper_log_mel
    from glassformer.pipelines.tokenizers import tokenizer_of

    words = tokenizer_of(model)
    (token,) = words.encode("<|endoftext|>")
    begin = [words.encode(f"<|{name}|>")[0] for name in ("startoftranscript", "en", "transcribe", "notimestamps")]
    tokens = list(begin)
    with torch.no_grad():
        memory = model.encode(whisper_log_mel(wave)[None])
        while len(tokens) < len(begin) + 12:
            logits = model.decode(torch.tensor([tokens]), memory)[0, -1]
            logits[token] = -torch.inf if len(tokens) == len(begin) else logits[token]
            logits[begin[-1] + 1 :] = -torch.inf  # times
            tokens.append(int(logits.argmax()))
            if tokens[-1] == token:
                break
    expected = words.decode([one for one in tokens[len(begin) :] if one < token])
    assert transcribe(model, wave, language="en", timestamps=False).text == expected


def test_a_stream_of_a_small_whisper_ends_and_forgets_what_is_final(small: Path) -> None:
    """More audio than a window holds: the buffer stays within one window, and times never exceed what was heard."""
    model = load_folder(small)
    wave = 0.1 * torch.randn(5 * 16000, generator=torch.Generator().manual_seed(1))
    buffer = WhisperBuffer(model)
    found = []
    for chunk in wave.split(4000):
        found += buffer.feed(chunk)
        assert len(buffer.wave) <= 2 * 16000
    found += buffer.finish()
    assert buffer.received_seconds == 5.0
    assert found
    assert all(0 <= word.start <= word.end <= word.known + 0.01 <= 5.01 for word in found)
    assert found == list(transcribe_stream(model, wave.split(4000)))
    with pytest.raises(InputError, match="settings of CTC models"):
        list(transcribe_stream(model, [wave], pause=0.3))


@pytest.mark.slow
def test_whisper_transcribes_a_recording_that_is_played_as_live() -> None:
    """The first three clips through the pipe of `transcribe --live`, in blocks of 40 ms."""
    waves = [(read_sound(path), text) for path, text in clips()[:3]]
    wave, text = torch.cat([wave for wave, _ in waves]), " ".join(text for _, text in waves)
    found = list(transcribe_stream(load_folder(fetch("whisper-tiny.en")), wave.split(640)))
    expected = words(text)
    assert errors(words(" ".join(word.text for word in found)), expected) <= 0.1 * len(expected), found
    early = [word for word in found if word.known < len(wave) / 16000]
    assert len(early) >= 0.7 * len(found)  # most words are final before the recording ends
    assert [word.known for word in found] == sorted(word.known for word in found)
