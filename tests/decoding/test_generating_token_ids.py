"""Greedy and sampled answers: prompts, steps, sampling, stopping."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.decoding import Sampling, Stopping, beam_search, generate_ids, generate_steps, stream_ids
from glassformer.decoding.prepare import as_session, prepare_decoding
from glassformer.decoding.sampling import (
    GREEDY,
    ban,
    choose_tokens,
    draw_tokens,
    filter_logits,
    generators,
    min_p,
    penalise,
    seen_by,
    top_k,
    top_p,
)
from glassformer.decoding.stopping import Answer, Ending
from glassformer.errors import ConfigError, GlassError, InputError
from glassformer.models import Decoder, Seq2Seq, ViT, vit

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


def test_limits(plain: Decoder, translator: Seq2Seq) -> None:
    """All the room of the context, unless a number is given."""
    prompts = [[1, 2, 3], [4]]
    assert prepare_decoding(plain, prompts, Stopping(), ()).limits == [13, 15]
    assert prepare_decoding(plain, prompts, Stopping(max_new_tokens=5), ()).limits == [5, 5]
    plan = prepare_decoding(translator, prompts, Stopping(), ())
    assert plan.limits == [511, 511]
    assert plan.ends == (translator.config.end,)
    assert prepare_decoding(translator, prompts, Stopping(ends=()), ()).ends == ()


def test_a_speaker_is_itself(plain: Decoder) -> None:
    session = plain.session(ends=(3,))
    assert as_session(session) is session
    assert prepare_decoding(session, [[1]], Stopping(), ()).ends == (3,)


@pytest.mark.parametrize(
    ("prompt", "stopping", "banned", "kind", "message"),
    [
        (list(range(12)) * 3, {}, (), InputError, "a prompt of 36 tokens exceeds the model's context of 16"),
        ([1] * 16, {}, (), InputError, "16 tokens fill the model's context of 16: shorten the prompt"),
        ([1] * 4, {"max_new_tokens": 13}, (), InputError, "4 tokens and 13 new ones exceed .* 16: ask for at most 12"),
        ([1] * 4, {"min_new_tokens": 13}, (), InputError, "4 tokens and 13 new ones exceed"),
        ([], {}, (), InputError, "a prompt is empty"),
        ([1], {"ends": (12,)}, (), ConfigError, "token 12 is outside the vocabulary of 12"),
        ([1], {}, (40,), ConfigError, "token 40 is outside the vocabulary of 12"),
        ([1], {}, tuple(range(12)), ConfigError, "all 12 tokens are banned: leave at least one"),
        ([1], {"ends": (0,), "min_new_tokens": 1}, tuple(range(1, 12)), ConfigError, "all 12 tokens are banned"),
    ],
)
def test_what_cannot_end_well_does_not_begin(
    plain: Decoder, prompt: Any, stopping: Any, banned: Any, kind: type[GlassError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        prepare_decoding(plain, [[1], prompt], Stopping(**stopping), banned)


def test_errors_come_before_any_work(plain: Decoder) -> None:
    """Also from iterators, whose first token nobody has asked for yet."""
    work: list[int] = []
    hook = plain.decoder.register_forward_hook(lambda *_: work.append(1))
    far = Stopping(max_new_tokens=100)
    for begin in (
        lambda: generate_ids(plain, [[1]], stopping=far),
        lambda: stream_ids(plain, [1], stopping=far),
        lambda: generate_steps(plain, [[1]], stopping=far),
        lambda: beam_search(plain, [[1]], num_beams=2, stopping=far),
    ):
        with pytest.raises(InputError, match="1 tokens and 100 new ones exceed the model's context of 16"):
            begin()
    hook.remove()
    assert not work


def test_who_does_not_speak() -> None:
    with pytest.raises(ConfigError, match="a ViT does not generate tokens: give a model with session"):
        generate_ids(ViT(vit.tiny()), [[1]])


seeds = st.integers(0, 10_000)


def logits_of(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3


@given(seeds, st.integers(1, 40), st.floats(0.01, 0.99), st.floats(0.01, 1.0), st.floats(0.1, 5.0))
def test_cuts_equal_hugging_face(seed: int, k: int, p: float, share: float, temperature: float) -> None:
    from transformers.generation import logits_process as theirs

    logits = logits_of(seed, 3, 30)
    none = torch.zeros(3, 0, dtype=torch.long)
    assert torch.equal(top_k(logits, k), theirs.TopKLogitsWarper(k)(none, logits))
    assert torch.equal(top_p(logits, p), theirs.TopPLogitsWarper(p)(none, logits))
    assert torch.equal(min_p(logits, share), theirs.MinPLogitsWarper(share)(none, logits))
    all_of_them = theirs.LogitsProcessorList(
        [
            theirs.TemperatureLogitsWarper(temperature),
            theirs.TopKLogitsWarper(k),
            theirs.TopPLogitsWarper(p),
            theirs.MinPLogitsWarper(share),
        ]
    )
    sampling = Sampling(temperature=temperature, top_k=k, top_p=p, min_p=share)
    assert torch.equal(filter_logits(logits, sampling), all_of_them(none, logits))


@given(seeds, st.floats(0.3, 4.0), st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_penalty_and_bans_equal_hugging_face(seed: int, penalty: float, past: list[int]) -> None:
    from transformers.generation import logits_process as theirs

    logits, said = logits_of(seed, 2, 10), torch.tensor([past, past[::-1]])
    assert torch.equal(
        penalise(logits, seen_by(said, 10), penalty), theirs.RepetitionPenaltyLogitsProcessor(penalty)(said, logits)
    )
    assert torch.equal(ban(logits, past), theirs.SuppressTokensLogitsProcessor(past)(said, logits))


def test_ties_at_the_kth_place_stay() -> None:
    kept = top_k(torch.tensor([[1.0, 2.0, 2.0, 0.0, 2.0]]), 2)
    assert kept.tolist() == [[-math.inf, 2.0, 2.0, -math.inf, 2.0]]


@given(seeds, st.floats(0.001, 1.0))
def test_top_p_is_the_smallest_set_that_reaches_p(seed: int, p: float) -> None:
    logits = logits_of(seed, 1, 8)
    probability = logits.softmax(-1)[0]
    stays = ~top_p(logits, p)[0].isinf()
    kept = probability[stays]
    assert kept.sum() >= p - 1e-12
    assert kept.sum() - kept.min() < p
    assert not (~stays).any() or kept.min() >= probability[~stays].max()


def test_top_p_reached_exactly_is_enough() -> None:
    """Two tokens of 1/2 each: one of them reaches 1/2."""
    from transformers.generation.logits_process import TopPLogitsWarper

    even = torch.zeros(1, 2, dtype=torch.float64)
    assert top_p(even, 0.5).isfinite().sum() == 1
    assert TopPLogitsWarper(0.5)(torch.zeros(1, 0), even).isfinite().sum() == 1


def test_the_most_likely_token_always_stays() -> None:
    logits = logits_of(0, 4, 9)
    for kept in (top_k(logits, 1), top_p(logits, 1e-300), min_p(logits, 1.0)):
        assert torch.equal(kept.isfinite().sum(-1), torch.ones(4, dtype=torch.long))
        assert torch.equal(kept.argmax(-1), logits.argmax(-1))


def test_draws_follow_the_probabilities() -> None:
    """Frequencies of 20,000 draws by χ²; what was cut is never drawn."""
    logits = torch.tensor([[0.0, 1.0, -math.inf, 2.0, -1.0, 0.5, -math.inf]], dtype=torch.float64)
    n = 20_000
    tokens = draw_tokens(logits.expand(n, -1), [torch.Generator().manual_seed(7)] * n)
    counts = torch.bincount(tokens, minlength=7).double()
    expected = n * logits.softmax(-1)[0]
    assert counts[2] == counts[6] == 0
    possible = expected > 0
    chi2 = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    assert chi2 < 18.5  # 4 degrees of freedom: exceeded once in a thousand


def test_greedy_is_the_limit_of_low_temperature() -> None:
    logits = logits_of(1, 5, 20)
    cold = choose_tokens(logits, Sampling(temperature=1e-6), generators(0, 5))
    greedy = choose_tokens(logits, GREEDY, [])
    assert torch.equal(cold.tokens, greedy.tokens)
    assert torch.equal(greedy.tokens, logits.argmax(-1))
    torch.testing.assert_close(greedy.logprobs, logits.log_softmax(-1).amax(-1))


def test_logprobs_are_the_models_own() -> None:
    """Whatever the choice did to the logits."""
    logits = logits_of(2, 3, 10)
    changed = Sampling(temperature=0.0, banned=tuple(logits.argmax(-1).tolist()), repetition_penalty=3.0)
    tokens, logprobs = choose_tokens(logits, changed, [], seen=torch.ones(3, 10, dtype=torch.bool), banned=(9,))
    assert not set(tokens.tolist()) & {*changed.banned, 9}
    torch.testing.assert_close(logprobs, logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0])


def test_half_precision_draws_as_its_value_does() -> None:
    logits = logits_of(3, 4, 50).bfloat16()
    one, two = (choose_tokens(l, Sampling(), generators(5, 4)).tokens for l in (logits, logits.double()))
    assert torch.equal(one, two)


def test_seeds_of_rows() -> None:
    def first(gs: list[torch.Generator]) -> list[float]:
        return [float(torch.rand((), generator=g)) for g in gs]

    assert first(generators(5, 3)) == first(generators([5, 6, 7], 3))
    assert first(generators(5, 3))[1:] == first(generators(6, 2))
    together, apart = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    assert first(generators(together, 3)) == [first(generators(apart, 1))[0] for _ in range(3)]
    with pytest.raises(ConfigError, match="there are 2 seeds for 3 prompts: give one seed, or one for each"):
        generators([1, 2], 3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1.0: choose 0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"top_k": 0}, "top_k is 0: keep at least 1"),
        ({"top_p": 0.0}, "top_p is 0.0: choose a probability above 0"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"min_p": -0.1}, "min_p is -0.1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0: choose 1"),
        ({"banned": 3}, "banned is 3: give a tuple of token ids"),
        ({"banned": (-1,)}, r"banned is \(-1,\)"),
    ],
)
def test_bad_values(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Sampling(**wrong)  # type: ignore[arg-type]


def spell(tokens: object) -> str:
    return "".join("abcdefghij"[t] for t in tokens)  # type: ignore[attr-defined]


def test_endings() -> None:
    stopping = Stopping(stops=((1, 2), (0, 1, 2), (5,)))
    assert stopping.ending([3, 9], 5, (9,)) == Ending("end", 1)
    assert stopping.ending([3, 1, 2], 5, (9,)) == Ending("stop", 2)
    assert stopping.ending([0, 1, 2], 5, (9,)) == Ending("stop", 3), "the longest that matches"
    assert stopping.ending([2], 5, (9,)) is None, "longer than the answer"
    assert stopping.ending([3, 3], 2, (9,)) == Ending("length", 0)
    assert stopping.ending([3, 9], 2, (9,)) == Ending("end", 1), "an end token is more than the length"
    assert stopping.ending([3], 2, ()) is None


def test_lists_do_as_well_as_tuples() -> None:
    stopping = Stopping(stops=[[1, 2]], texts=["zz"], decode=spell)  # type: ignore[arg-type]
    assert stopping.ending((1, 2), 5, ()) == Ending("stop", 2)


def test_text_may_begin_inside_a_token() -> None:
    pieces = {0: "Hel", 1: "lo\n", 2: "\nYou"}
    stopping = Stopping(texts=("\n\n",), decode=lambda tokens: "".join(pieces[t] for t in tokens))
    assert stopping.ending([0, 1], 9, ()) is None
    assert stopping.ending([0, 1, 2], 9, ()) == Ending("stop", 0)


def test_nothing_stops_before_min_new() -> None:
    stopping = Stopping(min_new_tokens=3, stops=((1,),), texts=("c",), decode=spell)
    assert stopping.ending([2, 1], 9, ()) is None
    assert stopping.ending([0, 0, 1], 9, ()) == Ending("stop", 1)
    assert stopping.ending([2, 0, 0], 9, ()) == Ending("stop", 0)


def test_body_is_without_the_ending() -> None:
    def answer(ended: Ending) -> Answer:
        return Answer(tokens=(4, 5, 6), logprobs=(0.0, 0.0, 0.0), ended=ended, score=0.0)

    assert answer(Ending("end", 1)).body == (4, 5)
    assert answer(Ending("stop", 3)).body == ()
    assert answer(Ending("length", 0)).body == (4, 5, 6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens is 0: ask for at least 1"),
        ({"min_new_tokens": -1}, "min_new_tokens is -1"),
        ({"min_new_tokens": 5, "max_new_tokens": 4}, r"min_new_tokens is 5: choose 0 to max_new_tokens \(4\)"),
        ({"ends": (1.5,)}, r"ends is \(1.5,\): give a tuple of token ids"),
        ({"stops": (1, 2)}, "a stop sequence is 1: give a tuple of token ids"),
        ({"stops": ((),)}, "none of them empty"),
        ({"texts": "ab", "decode": spell}, "texts 'ab': give tuples"),
        ({"texts": ("",), "decode": spell}, "none of them empty"),
        ({"texts": ("ab",)}, "decode is None: give both or neither"),
        ({"decode": spell}, "give both or neither"),
    ],
)
def test_stopping_bad_values(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Stopping(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("token", [10, 10**9, -1])
def test_a_penalty_on_tokens_outside_the_vocabulary(token: int) -> None:
    with pytest.raises(InputError, match=f"token {token} is outside the vocabulary of 10"):
        seen_by([torch.tensor([1, token])], 10)
