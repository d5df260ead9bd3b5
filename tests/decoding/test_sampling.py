from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding.sampling import (
    GREEDY,
    Sampling,
    ban,
    choose,
    cut,
    draw,
    generators,
    min_p,
    penalise,
    seen_by,
    top_k,
    top_p,
)
from glassformer.errors import ConfigError

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
    assert torch.equal(cut(logits, sampling), all_of_them(none, logits))


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


def test_the_likeliest_always_stays() -> None:
    logits = logits_of(0, 4, 9)
    for kept in (top_k(logits, 1), top_p(logits, 1e-300), min_p(logits, 1.0)):
        assert torch.equal(kept.isfinite().sum(-1), torch.ones(4, dtype=torch.long))
        assert torch.equal(kept.argmax(-1), logits.argmax(-1))


def test_draws_follow_the_probabilities() -> None:
    """Frequencies of 20,000 draws by χ²; what was cut is never drawn."""
    logits = torch.tensor([[0.0, 1.0, -math.inf, 2.0, -1.0, 0.5, -math.inf]], dtype=torch.float64)
    n = 20_000
    tokens = draw(logits.expand(n, -1), [torch.Generator().manual_seed(7)] * n)
    counts = torch.bincount(tokens, minlength=7).double()
    expected = n * logits.softmax(-1)[0]
    assert counts[2] == counts[6] == 0
    possible = expected > 0
    chi2 = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    assert chi2 < 18.5  # 4 degrees of freedom: exceeded once in a thousand


def test_greedy_is_the_limit_of_low_temperature() -> None:
    logits = logits_of(1, 5, 20)
    cold = choose(logits, Sampling(temperature=1e-6), generators(0, 5))
    greedy = choose(logits, GREEDY, [])
    assert torch.equal(cold.tokens, greedy.tokens)
    assert torch.equal(greedy.tokens, logits.argmax(-1))
    torch.testing.assert_close(greedy.logprobs, logits.log_softmax(-1).amax(-1))


def test_logprobs_are_the_models_own() -> None:
    """Whatever the choice did to the logits."""
    logits = logits_of(2, 3, 10)
    changed = Sampling(temperature=0.0, banned=tuple(logits.argmax(-1).tolist()), repetition_penalty=3.0)
    tokens, logprobs = choose(logits, changed, [], seen=torch.ones(3, 10, dtype=torch.bool), banned=(9,))
    assert not set(tokens.tolist()) & {*changed.banned, 9}
    torch.testing.assert_close(logprobs, logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0])


def test_half_precision_draws_as_its_value_does() -> None:
    logits = logits_of(3, 4, 50).bfloat16()
    one, two = (choose(l, Sampling(), generators(5, 4)).tokens for l in (logits, logits.double()))
    assert torch.equal(one, two)


def test_seeds_of_rows() -> None:
    def first(gs: list[torch.Generator]) -> list[float]:
        return [float(torch.rand((), generator=g)) for g in gs]

    assert first(generators(5, 3)) == first(generators([5, 6, 7], 3))
    assert first(generators(5, 3))[1:] == first(generators(6, 2))
    together, apart = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    assert first(generators(together, 3)) == [first(generators(apart, 1))[0] for _ in range(3)]
    with pytest.raises(ConfigError, match="2 seeds for 3 prompts: give one seed, or one for each"):
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
