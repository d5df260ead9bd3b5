"""Oracle: Hugging Face's own rules for times, on random logits."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.decoding import Sampling, Stopping, generate_ids
from glassformer.models import Whisper, whisper
from glassformer.pipelines.speech.whisper import TimestampRules, WhisperTokens, _keep_time

CODES = WhisperTokens(
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


def test_a_window_is_decoded_by_the_rules() -> None:
    from dataclasses import replace

    model = Whisper(replace(whisper.tiny(), target=replace(whisper.tiny().target, vocabulary=SIZE)), seed=1).eval()
    frames = torch.randn(3, model.config.frames, model.config.embed.bands)
    for timestamps, start in ((True, (CODES.start,)), (False, (CODES.start, CODES.silent))):
        session = model.session(start=start, ends=(CODES.end,))
        answers = generate_ids(
            session,
            list(frames),
            sampling=Sampling(temperature=2.0),
            stopping=Stopping(max_new_tokens=8),
            constraints=CODES.constraints,
            processors=[TimestampRules(CODES, timestamps=timestamps)],
        )
        assert session.start_logits.shape == (3, len(start), SIZE)
        for answer in answers:
            assert 3 not in answer.tokens
            assert answer.tokens[0] not in (4, 10)
            times = [token for token in answer.tokens if token >= CODES.times]
            assert times == sorted(times)
            assert bool(times) == timestamps
            if timestamps:
                assert CODES.times <= answer.tokens[0] <= CODES.times + CODES.latest_first
