from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.decoding import Sampling, Stopping, generate_ids, generate_steps, stream_ids
from glassformer.decoding.stopping import Ending
from glassformer.models import Decoder, Seq2Seq

prompts_of = st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=8), min_size=1, max_size=3)
samplings = st.sampled_from(
    [
        Sampling(temperature=0.0),
        Sampling(),
        Sampling(temperature=1.7, top_k=5, repetition_penalty=1.3),
        Sampling(top_p=0.8, min_p=0.05, banned=(4,)),
        Sampling(temperature=0.0, repetition_penalty=2.0),
    ]
)
stoppings = st.builds(
    Stopping,
    max_new_tokens=st.sampled_from([None, 7]),
    min_new_tokens=st.integers(0, 3),
    ends=st.sampled_from([(), (3,), (1, 7)]),
    stops=st.sampled_from([(), ((2,), (5, 6))]),
)


def limited(stopping: Stopping) -> Stopping:
    """A translator's context is 512: short enough answers for a test."""
    return Stopping(max_new_tokens=6, min_new_tokens=stopping.min_new_tokens, ends=stopping.ends, stops=stopping.stops)


@settings(max_examples=10)
@given(prompts_of, samplings, stoppings, st.integers(0, 1000))
def test_a_batch_answers_as_one_by_one(
    plain: Decoder, translator: Seq2Seq, prompts: Any, sampling: Sampling, stopping: Stopping, seed: int
) -> None:
    for model, until in ((plain, stopping), (translator, limited(stopping))):
        together = generate_ids(model, prompts, sampling=sampling, stopping=until, seed=seed)
        for i, prompt in enumerate(prompts):
            (alone,) = generate_ids(model, [prompt], sampling=sampling, stopping=until, seed=seed + i)
            assert together[i].tokens == alone.tokens
            assert together[i].ended == alone.ended
            assert together[i].logprobs == pytest.approx(alone.logprobs, abs=1e-9)


@settings(max_examples=8)
@given(prompts_of, samplings, stoppings)
def test_with_a_cache_as_without(
    plain: Decoder, translator: Seq2Seq, prompts: Any, sampling: Sampling, stopping: Stopping
) -> None:
    for model, until in (
        (plain, stopping),
        (translator, limited(stopping)),
    ):
        answers = [
            generate_ids(model.session(cached=cached), prompts, sampling=sampling, stopping=until)  # type: ignore[operator]
            for cached in (True, False)
        ]
        assert [a.tokens for a in answers[0]] == [a.tokens for a in answers[1]]


def test_greedy_is_argmax_again_and_again(plain: Decoder) -> None:
    tokens = [3, 1]
    (answer,) = generate_ids(plain, [tokens])
    logprobs = []
    while len(tokens) < plain.config.length:
        with torch.no_grad():
            row = plain(torch.tensor([tokens]))[0, -1].log_softmax(-1)
        tokens.append(int(row.argmax()))
        logprobs.append(float(row.max()))
    assert answer.tokens == tuple(tokens[2:])
    assert answer.logprobs == pytest.approx(logprobs, abs=1e-9)
    assert answer.score == pytest.approx(sum(logprobs), abs=1e-9)
    assert answer.ended == Ending("length", 0)


def test_greedy_equals_hugging_face(gpt2: Any, marian: Any) -> None:
    """A batch of unequal prompts, with a penalty on repetition, least lengths and end tokens."""
    prompts = [[3, 4, 5, 6], [7, 2], [9, 12, 3]]
    for penalty, ends, least in ((1.0, (0, 3), 0), (1.8, (6,), 3), (0.7, (13,), 0)):
        common = {"min_new_tokens": least, "repetition_penalty": penalty, "eos_token_id": list(ends)}
        how: Any = {
            "sampling": Sampling(temperature=0.0, repetition_penalty=penalty),
            "stopping": Stopping(max_new_tokens=9, min_new_tokens=least, ends=ends),
        }
        for twins in (gpt2, marian):
            answers = generate_ids(twins.ours, prompts, **how)
            for prompt, answer in zip(prompts, answers, strict=True):
                (theirs,) = twins.theirs.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=9, **common)
                start = len(prompt) if twins is gpt2 else 1
                assert list(answer.tokens) == theirs[start:].tolist()


def test_streamed_tokens_equal_generated_ones(plain: Decoder) -> None:
    how: Any = {"sampling": Sampling(), "stopping": Stopping(max_new_tokens=8), "seed": 3}
    (answer,) = generate_ids(plain, [[1, 2]], **how)
    assert tuple(stream_ids(plain, [1, 2], **how)) == answer.tokens
    passes: list[int] = []
    hook = plain.decoder.register_forward_hook(lambda *_: passes.append(1))
    coming = stream_ids(plain, [1, 2], **how)
    assert not passes
    assert (next(coming), next(coming)) == answer.tokens[:2]
    assert len(passes) == 2, "the third has not been thought of yet"
    assert torch.is_grad_enabled(), "between tokens, gradients are the caller's business"
    hook.remove()


def test_two_streams_of_one_model_do_not_meet(plain: Decoder) -> None:
    stopping = Stopping(max_new_tokens=6)
    one, two = (list(stream_ids(plain, prompt, stopping=stopping)) for prompt in ([1, 2], [3]))
    pairs = zip(stream_ids(plain, [1, 2], stopping=stopping), stream_ids(plain, [3], stopping=stopping), strict=True)
    assert list(pairs) == list(zip(one, two, strict=True))


def test_rows_come_together_and_leave_when_they_have_ended(plain: Decoder) -> None:
    prompts = [[1, 2], [5, 5, 5], [7]]
    stopping = Stopping(max_new_tokens=12, ends=(3, 7))
    answers = generate_ids(plain, prompts, sampling=Sampling(), stopping=stopping, seed=2)
    lengths = [len(answer.tokens) for answer in answers]
    assert len(set(lengths)) > 1, "answers of several lengths, or this shows nothing"
    batches: list[int] = []
    hook = plain.decoder.register_forward_hook(lambda m, args, out: batches.append(len(out)))
    said = list(generate_steps(plain, prompts, sampling=Sampling(), stopping=stopping, seed=2))
    hook.remove()
    assert batches == [sum(length > step for length in lengths) for step in range(max(lengths))]
    for row, answer in enumerate(answers):
        mine = [s for s in said if s.row == row]
        assert tuple(s.token for s in mine) == answer.tokens
        assert [s.ended for s in mine] == [None] * (len(mine) - 1) + [answer.ended]


def test_who_stays_keeps_what_was_seen(plain: Decoder) -> None:
    """A penalty on repetition follows its row when others leave."""
    prompts = [[t, t + 1] for t in range(11)]
    how: Any = {"sampling": Sampling(repetition_penalty=4.0), "stopping": Stopping(max_new_tokens=9, ends=(3, 7))}
    together = generate_ids(plain, prompts, seed=5, **how)
    assert len({len(answer.tokens) for answer in together}) > 3
    for i, prompt in enumerate(prompts):
        assert together[i].tokens == generate_ids(plain, [prompt], seed=5 + i, **how)[0].tokens


def test_stops(plain: Decoder) -> None:
    (whole,) = generate_ids(plain, [[1, 2]], sampling=Sampling(), seed=1, stopping=Stopping(max_new_tokens=10))
    pair = whole.tokens[3:5]
    first = next(i for i in range(9) if whole.tokens[i : i + 2] == pair)
    stopping = Stopping(max_new_tokens=10, stops=(pair,))
    (short,) = generate_ids(plain, [[1, 2]], sampling=Sampling(), seed=1, stopping=stopping)
    assert short.tokens == whole.tokens[: first + 2]
    assert short.body == whole.tokens[:first]
    assert short.ended == Ending("stop", 2)
    spell = lambda tokens: "".join(f"<{t}>" for t in tokens)
    text = Stopping(max_new_tokens=10, texts=(spell(pair),), decode=spell)
    (same,) = generate_ids(plain, [[1, 2]], sampling=Sampling(), seed=1, stopping=text)
    assert same.tokens == short.tokens
    assert same.ended == Ending("stop", 0)


def test_min_new_and_banned(plain: Decoder) -> None:
    free = generate_ids(plain, [[t] for t in range(12)], stopping=Stopping(max_new_tokens=6))
    favourite = free[0].tokens[0]
    held = generate_ids(plain, [[0]], stopping=Stopping(max_new_tokens=6, min_new_tokens=4, ends=(favourite,)))[0]
    assert favourite not in held.tokens[:4]
    without = Sampling(temperature=0.0, banned=(favourite,))
    assert favourite not in generate_ids(plain, [[0]], sampling=without, stopping=Stopping(max_new_tokens=6))[0].tokens


def test_seeds(plain: Decoder) -> None:
    def tokens(seed: Any, n: int = 4) -> list[tuple[int, ...]]:
        answers = generate_ids(plain, [[1]] * n, sampling=Sampling(), stopping=Stopping(max_new_tokens=10), seed=seed)
        return [answer.tokens for answer in answers]

    assert tokens(0) == tokens(0)
    assert tokens(0) != tokens(100)
    assert len(set(tokens(0))) > 1, "the same prompt four times is four samples"
    assert tokens([9, 9, 9, 9]) == tokens(9, 1) * 4
    assert tokens(torch.Generator().manual_seed(1)) == tokens(torch.Generator().manual_seed(1))
    before = torch.random.get_rng_state()
    tokens(0)
    assert torch.equal(before, torch.random.get_rng_state()), "the global generator is left alone"


def test_tensors_and_no_prompts(plain: Decoder) -> None:
    rows = torch.tensor([[1, 2], [3, 4]])
    stopping = Stopping(max_new_tokens=3)
    assert generate_ids(plain, rows, stopping=stopping) == generate_ids(plain, rows.tolist(), stopping=stopping)
    assert generate_ids(plain, []) == []
