"""Oracle: Hugging Face's own rules for times, on random logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.models import Whisper, whisper
from glassformer.tasks.hearing import Codes, Listener, _keep_time

CODES = Codes(
    start=11, end=10, silent=13, never=(3,), not_first=(4, 10), latest_first=3, languages={}, tasks={}, nothing=12
)
SIZE = 24  # words 0 … 9, end, start, nospeech, notimestamps, ten times


@given(st.integers(0, 2**30), st.lists(st.booleans(), max_size=6), st.floats(0, 6))
@settings(max_examples=60)
def test_times_as_hugging_face_keeps_them(seed: int, kinds: list[bool], scale: float) -> None:
    import transformers

    generator = torch.Generator().manual_seed(seed)
    said: list[int] = []
    for is_time in kinds:  # times that do not go back
        low = max([CODES.times, *(token for token in said if token >= CODES.times)])
        said.append(int(torch.randint(low, SIZE, (), generator=generator)) if is_time else 5)
    config = transformers.GenerationConfig(
        no_timestamps_token_id=CODES.silent,
        eos_token_id=CODES.end,
        bos_token_id=CODES.end,
        max_initial_timestamp_index=CODES.latest_first,
    )
    rules = transformers.generation.logits_process.WhisperTimeStampLogitsProcessor(config, begin_index=1)
    logits = scale * torch.randn(SIZE, generator=generator)
    expected = rules(torch.tensor([[CODES.start, *said]]), logits[None].clone())[0]
    _keep_time(logits, said, CODES)
    assert torch.equal(logits.isfinite(), expected.isfinite())


def test_a_listener_says_what_it_may() -> None:
    from dataclasses import replace

    model = Whisper(replace(whisper.tiny(), target=replace(whisper.tiny().target, vocabulary=SIZE)), seed=1).eval()
    listener = Listener(model, CODES, [CODES.start], timed=True)
    frames = torch.randn(2, model.config.frames, model.config.embed.bands)
    first = listener.prime(list(frames), 5)
    assert first.isfinite().nonzero()[:, 1].unique().tolist() == [14, 15, 16, 17]
    assert len(listener.nothing) == 2
    second = listener.step(torch.tensor([15, 16]))
    assert not second[:, 3].isfinite().any()
    assert second[:, 4].isfinite().any()
    listener.reorder(torch.tensor([1, 1]))
    assert listener.said == [[16], [16]]
    third = listener.step(torch.tensor([5, 5]))
    torch.testing.assert_close(third[0], third[1])
    with pytest.raises(InputError, match="frames of shape"):
        listener.beginning(torch.zeros(3))


def test_going_on_is_as_starting_over(unchecked: Any) -> None:
    """With the cache, and without it."""
    from dataclasses import replace

    model = Whisper(replace(whisper.tiny(), target=replace(whisper.tiny().target, vocabulary=SIZE)), seed=1).eval()
    frames = torch.randn(1, model.config.frames, model.config.embed.bands)
    listener = Listener(model, CODES, [CODES.start, CODES.silent], timed=False)
    listener.prime(list(frames), 5)
    listener.step(torch.tensor([5]))
    found = listener.step(torch.tensor([6]))[0]
    whole = model(frames, torch.tensor([[CODES.start, CODES.silent, 5, 6]]))[0, -1]
    kept = found.isfinite()
    torch.testing.assert_close(found[kept], whole[kept])
