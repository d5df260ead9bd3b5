from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.decoding import Constraints, Stopping, beam_search, generate_ids
from glassformer.errors import ConfigError
from glassformer.models import Decoder, Seq2Seq, decoder

PROMPTS = [[3, 4, 5, 6], [7], [9, 12, 3], [2, 2]]
searches = st.fixed_dictionaries(
    {
        "num_beams": st.integers(2, 4),
        "length_penalty": st.sampled_from([-1.0, 0.0, 0.6, 1.0, 2.0]),
        "early_stopping": st.sampled_from([False, True, "never"]),
        "repetition_penalty": st.sampled_from([1.0, 1.5]),
    }
)
ends_of = st.sampled_from([(), (3,), (6,), (13,), (3, 6), (13, 0), (4,), (2,)])


def require_equal(twins: Any, prompt: list[int], search: Any, ends: tuple[int, ...], least: int, banned: Any) -> Any:
    """Every hypothesis in order, with its score."""
    width, penalty = search["num_beams"], search["length_penalty"]
    theirs = twins.theirs.generate(
        torch.tensor([prompt]),
        num_beams=width,
        num_return_sequences=width,
        length_penalty=penalty,
        early_stopping=search["early_stopping"],
        repetition_penalty=search["repetition_penalty"],
        max_new_tokens=8,
        min_new_tokens=least,
        eos_token_id=list(ends) or None,
        suppress_tokens=list(banned) or None,
        do_sample=False,
        output_scores=True,
        return_dict_in_generate=True,
    )
    stopping = Stopping(max_new_tokens=8, min_new_tokens=least, ends=ends)
    constraints = Constraints(suppress_tokens=tuple(banned))
    (answers,) = beam_search(twins.ours, [prompt], stopping=stopping, constraints=constraints, **search)
    start = theirs.sequences.shape[1] - max(len(answer.tokens) for answer in answers)
    assert len(answers) == width
    for answer, row, score in zip(answers, theirs.sequences.tolist(), theirs.sequences_scores, strict=True):
        assert list(answer.tokens) == row[start : start + len(answer.tokens)]
        assert answer.score == pytest.approx(float(score), abs=1e-4)
        assert sum(answer.logprobs) == pytest.approx(answer.score * len(answer.tokens) ** penalty)
    return [answer.tokens for answer in answers]


@settings(max_examples=10)
@given(searches, ends_of, st.integers(0, 3), st.sampled_from(PROMPTS))
def test_beams_equal_hugging_face(
    gpt2: Any, marian: Any, search: Any, ends: tuple[int, ...], least: int, prompt: list[int]
) -> None:
    """A decoder, and an encoder-decoder that never says its padding."""
    require_equal(gpt2, prompt, search, ends, least, ())
    require_equal(marian, prompt, search, ends, least, (14,))


def test_each_way_to_stop_equals_hugging_face(gpt2: Any) -> None:
    """Where the three find different answers."""
    search = {"num_beams": 3, "length_penalty": 1.0, "repetition_penalty": 1.0}
    found = [
        require_equal(gpt2, [9, 12, 3], {**search, "early_stopping": early}, (3,), 0, ())
        for early in (False, True, "never")
    ]
    assert found[0] != found[1] != found[2] != found[0]


@pytest.mark.parametrize("width", [2, 3])
def test_many_end_tokens_equal_hugging_face(gpt2: Any, width: int) -> None:
    """They take the best places, and enough candidates must be left to go on."""
    search = {"num_beams": width, "length_penalty": 2.0, "early_stopping": "never", "repetition_penalty": 1.0}
    for prompt in PROMPTS:
        require_equal(gpt2, prompt, search, (3, 6, 13, 4), 0, ())


def every_answer(model: Decoder, prompt: list[int], end: int, limit: int) -> dict[tuple[int, ...], float]:
    """log p of each answer there is: ended by the end token, or `limit` long."""
    every = list(itertools.product(range(model.config.text.vocabulary), repeat=limit))
    with torch.no_grad():
        logprobs = model(torch.tensor([[*prompt, *tokens] for tokens in every])).log_softmax(-1)
    found = {}
    for tokens, rows in zip(every, logprobs[:, len(prompt) - 1 :], strict=True):
        cut = tokens.index(end) + 1 if end in tokens else limit
        found[tokens[:cut]] = sum(float(row[token]) for row, token in zip(rows, tokens[:cut], strict=False))
    return found


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
def test_a_beam_wide_enough_finds_the_best_of_all(lively: Any, penalty: float) -> None:
    model = lively(Decoder(decoder.plain(vocabulary=4, width=8, depth=1, count=2, length=8)), 0.8)
    for prompt in ([1], [2, 3]):
        all_of_them = every_answer(model, prompt, end=0, limit=4)
        scored = sorted(((lp / len(t) ** penalty, t) for t, lp in all_of_them.items()), reverse=True)
        stopping = Stopping(max_new_tokens=4, ends=(0,))
        (answers,) = beam_search(
            model, [prompt], num_beams=300, length_penalty=penalty, early_stopping="never", stopping=stopping
        )
        assert [answer.tokens for answer in answers] == [tokens for _, tokens in scored]
        assert [answer.score for answer in answers] == pytest.approx([score for score, _ in scored], abs=1e-9)


prompts_of = st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=7), min_size=1, max_size=3)


@settings(max_examples=6)
@given(prompts_of, searches, st.sampled_from([(), (3,), (1, 7)]))
def test_a_batch_is_searched_as_one_by_one_and_with_a_cache_as_without(
    plain: Decoder, translator: Seq2Seq, prompts: Any, search: Any, ends: tuple[int, ...]
) -> None:
    stopping = Stopping(max_new_tokens=5, ends=ends, stops=((5, 5),))
    for model in (plain, translator):
        together = beam_search(model, prompts, stopping=stopping, **search)
        alone = [beam_search(model, [prompt], stopping=stopping, **search)[0] for prompt in prompts]
        without = beam_search(model.session(cached=False), prompts, stopping=stopping, **search)  # type: ignore[operator]
        for other in (alone, without):
            assert [[a.tokens for a in row] for row in together] == [[a.tokens for a in row] for row in other]
            assert [[a.ended for a in row] for row in together] == [[a.ended for a in row] for row in other]


def test_a_beam_of_one_that_takes_the_first_end_is_greedy(plain: Decoder) -> None:
    prompts = [[t] for t in range(12)]
    stopping = Stopping(max_new_tokens=8, ends=(3, 7))
    greedy = generate_ids(plain, prompts, stopping=stopping)
    found = beam_search(plain, prompts, num_beams=1, early_stopping=True, stopping=stopping)
    assert [row[0].tokens for row in found] == [answer.tokens for answer in greedy]


def test_a_wider_beam_is_never_greedys_lesser_for_long(plain: Decoder) -> None:
    """Without end tokens and a penalty all answers are equally long: the best found of a wide beam beats greedy's."""
    stopping = Stopping(max_new_tokens=6)
    for prompt in ([1], [4, 2], [8]):
        (greedy,) = generate_ids(plain, [prompt], stopping=stopping)
        (wide,) = beam_search(plain, [prompt], num_beams=64, length_penalty=0.0, stopping=stopping)
        assert wide[0].score >= greedy.score - 1e-9


def test_the_prompt_is_read_once_for_all_beams(plain: Decoder) -> None:
    shapes: list[tuple[int, int]] = []
    hook = plain.decoder.register_forward_hook(lambda m, args, out: shapes.append(tuple(out.shape[:2])))
    beam_search(plain, [[1, 2, 3], [4]], num_beams=4, stopping=Stopping(max_new_tokens=3))
    hook.remove()
    assert shapes == [(2, 3), (8, 1), (8, 1)]


def test_a_beam_wider_than_the_vocabulary(lively: Any) -> None:
    model = lively(Decoder(decoder.plain(vocabulary=3, width=8, depth=1, count=2, length=8)))
    (answers,) = beam_search(model, [[1]], num_beams=5, stopping=Stopping(max_new_tokens=1))
    assert {answer.tokens for answer in answers} == {(0,), (1,), (2,)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_beams": 0}, "num_beams is 0: choose 1 to 1024"),
        ({"num_beams": 2, "length_penalty": float("nan")}, "length_penalty is nan"),
        ({"num_beams": 2, "early_stopping": "soon"}, "early_stopping is 'soon': choose True, False"),
        ({"num_beams": 2, "repetition_penalty": -1.0}, "repetition_penalty is -1.0"),
        (
            {"num_beams": 2, "constraints": Constraints(suppress_tokens=(99,))},
            "token 99 is outside the vocabulary of 12",
        ),
    ],
)
def test_bad_values(plain: Decoder, wrong: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        beam_search(plain, [[1]], **wrong)


def test_no_prompts(plain: Decoder) -> None:
    assert beam_search(plain, [], num_beams=2) == []
