from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import ctc_loss

from glassformer.core.audio import log_mel
from glassformer.decoding import CTCGreedy, CTCPrefixBeam, ctc_greedy, ctc_prefix_beam
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.models import Speech, speech


def logits_of(seed: int, t: int, v: int) -> torch.Tensor:
    return torch.randn(t, v, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2


def starts(alignment: tuple[int, ...], blank: int) -> list[tuple[int, int]]:
    """The collapsed tokens, each with the frame at which its run begins."""
    runs = [(token, i) for i, token in enumerate(alignment) if i == 0 or token != alignment[i - 1]]
    return [(token, i) for token, i in runs if token != blank]


def brute_force(logits: torch.Tensor, blank: int) -> tuple[dict[tuple[int, ...], float], dict[tuple[int, ...], Any]]:
    """p of each transcript as the sum over all v^t alignments, and the frames of its best alignment."""
    P = logits.softmax(-1)
    total: defaultdict[tuple[int, ...], float] = defaultdict(float)
    best: dict[tuple[int, ...], tuple[float, tuple[int, ...]]] = {}
    for alignment in itertools.product(range(P.shape[1]), repeat=len(P)):
        p = math.prod(float(P[i, token]) for i, token in enumerate(alignment))
        emitted = starts(alignment, blank)
        tokens = tuple(token for token, _ in emitted)
        total[tokens] += p
        if p > best.get(tokens, (0.0, ()))[0]:
            best[tokens] = p, tuple(frame for _, frame in emitted)
    return dict(total), {tokens: frames for tokens, (_, frames) in best.items()}


def probability(logits: torch.Tensor, tokens: tuple[int, ...], blank: int) -> float:
    """log p(tokens) by torch."""
    targets = torch.tensor([tokens], dtype=torch.long).reshape(1, -1)
    loss = ctc_loss(
        logits.log_softmax(-1)[:, None], targets, [len(logits)], [len(tokens)], blank=blank, reduction="sum"
    )
    return -float(loss)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(2, 4), st.data())
def test_wide_prefix_beam_is_the_sum_over_all_alignments(seed: int, t: int, v: int, data: st.DataObject) -> None:
    blank = data.draw(st.integers(0, v - 1))
    logits = logits_of(seed, t, v)
    totals, frames = brute_force(logits, blank)
    found = ctc_prefix_beam(logits, width=10_000, blank=blank)
    assert {transcript.tokens for transcript in found} == set(totals)
    assert sum(math.exp(transcript.logprob) for transcript in found) == pytest.approx(1.0)
    assert [x.logprob for x in found] == sorted((x.logprob for x in found), reverse=True)
    for transcript in found:
        assert transcript.logprob == pytest.approx(math.log(totals[transcript.tokens]), abs=1e-9)
        assert transcript.logprob == pytest.approx(probability(logits, transcript.tokens, blank), abs=1e-9)
        assert transcript.frames == frames[transcript.tokens]


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 12))
def test_a_narrow_beam_finds_part_of_the_probability(seed: int, t: int, width: int) -> None:
    """Never more than torch says the transcript has, whatever the beam leaves out."""
    logits = logits_of(seed, t, 6)
    best = ctc_prefix_beam(logits, width=width)[0]
    exact = probability(logits, best.tokens, 0)
    assert best.logprob <= exact + 1e-9
    alone = CTCPrefixBeam(width=width)
    alone.feed(logits)
    assert alone.hypotheses()[0] == best
    assert len(alone.hypotheses()) <= width


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 6), min_size=1, max_size=8), st.integers(1, 8))
def test_pieces_equal_the_whole(seed: int, pieces: list[int], width: int) -> None:
    logits = logits_of(seed, sum(pieces), 5)
    greedy, prefix = CTCGreedy(blank=2), CTCPrefixBeam(width=width, blank=2, candidates=3)
    for reader, whole in (
        (greedy, ctc_greedy(logits, blank=2)),
        (prefix, ctc_prefix_beam(logits, width=width, blank=2, candidates=3)[0]),
    ):
        for _ in range(2):  # a reader that has finished begins anew
            emitted = [one for piece in logits.split(pieces) for one in reader.feed(piece)]
            emitted += reader.finish()
            assert tuple(emitted) == whole.emitted


@given(st.integers(0, 10_000), st.integers(0, 40))
def test_greedy_is_the_collapsed_argmax(seed: int, t: int) -> None:
    logits = logits_of(seed, t, 4)
    best, path = logits.log_softmax(-1).max(-1)
    transcript = ctc_greedy(logits, blank=0)
    assert list(transcript.emitted) == starts(tuple(path.tolist()), 0)
    assert transcript.logprob == pytest.approx(float(best.sum()), abs=1e-9)


def peaked(alignment: list[int], v: int = 4) -> torch.Tensor:
    return 12 * torch.nn.functional.one_hot(torch.tensor(alignment), v).double()


def test_by_hand() -> None:
    """A blank between them makes two tokens of a repeat; a run is one, and begins where it begins."""
    logits = peaked([0, 1, 1, 0, 1, 2, 2, 0, 3])
    for transcript in (ctc_greedy(logits), ctc_prefix_beam(logits, width=8)[0]):
        assert transcript.tokens == (1, 1, 2, 3)
        assert transcript.frames == (1, 4, 5, 8)


def test_greedy_is_wrong_where_the_sum_is_right() -> None:
    """p(blank) = 0.6 and p(a) = 0.4 in both frames: the best path says nothing (0.36), the sum says a (0.64)."""
    logits = torch.tensor([[0.6, 0.4], [0.6, 0.4]], dtype=torch.float64).log()
    assert ctc_greedy(logits).tokens == ()
    best = ctc_prefix_beam(logits, width=4)[0]
    assert best.tokens == (1,)
    assert math.exp(best.logprob) == pytest.approx(0.64)


def test_certain_tokens_come_early_and_are_forgotten_inside() -> None:
    """A long utterance: tokens are given out on the way, and what a beam holds does not grow with the time."""
    alignment = [0, 1, 2, 3] * 50
    reader = CTCPrefixBeam(width=4, prune=8.0)
    given_out = []
    for row in peaked(alignment):
        given_out += reader.feed(row[None])
        assert max(len(prefix) for prefix in reader._prefixes) < 12
    assert len(given_out) > 140
    best = reader.hypotheses()[0]
    assert best.emitted[: len(given_out)] == tuple(given_out)
    given_out += reader.finish()
    assert [one.token for one in given_out] == [1, 2, 3] * 50
    assert [one.frame for one in given_out] == [i for i, token in enumerate(alignment) if token]


def test_fewer_candidates_are_faster_and_mostly_enough() -> None:
    logits = logits_of(5, 40, 30)
    all_of_them, some = (ctc_prefix_beam(logits, width=6, candidates=n)[0] for n in (None, 10))
    assert some.logprob <= all_of_them.logprob + 1e-9
    assert ctc_prefix_beam(logits, width=6, candidates=500)[0] == all_of_them


def test_pruned_prefixes_are_those_far_below_the_best() -> None:
    logits = logits_of(6, 1, 8)
    found = ctc_prefix_beam(logits, width=100)
    near = [transcript for transcript in found if transcript.logprob > found[0].logprob - 2.0]
    assert 1 <= len(near) < len(found)
    assert ctc_prefix_beam(logits, width=100, prune=2.0) == near


def test_impossible_tokens_are_never_decoded() -> None:
    logits = logits_of(0, 6, 4)
    logits[:, 2] = -math.inf
    assert all(2 not in transcript.tokens for transcript in ctc_prefix_beam(logits, width=1000))


def test_no_frames_give_no_tokens() -> None:
    nothing = torch.zeros(0, 4)
    assert ctc_greedy(nothing).emitted == ()
    assert [(x.emitted, x.logprob) for x in ctc_prefix_beam(nothing, width=3)] == [((), 0.0)]


def test_bad_input() -> None:
    with pytest.raises(ShapeError, match=r"CTC logits have shape \(2, 3, 4\): give one utterance"):
        ctc_greedy(torch.zeros(2, 3, 4))
    with pytest.raises(ConfigError, match="the blank 4 is outside the vocabulary of 4"):
        ctc_prefix_beam(torch.zeros(3, 4), width=2, blank=4)
    with pytest.raises(ConfigError, match="width is 0"):
        ctc_prefix_beam(torch.zeros(3, 4), width=0)
    with pytest.raises(ConfigError, match=r"prune is 0\.0: choose a positive number"):
        ctc_prefix_beam(torch.zeros(3, 4), width=2, prune=0.0)
    reader = CTCGreedy()
    reader.feed(torch.zeros(3, 4))
    broken = torch.zeros(2, 4)
    broken[1, 2] = math.nan
    with pytest.raises(InputError, match="the logits of frame 4 are NaN"):
        reader.feed(broken)


def test_speech_as_it_arrives_reads_as_the_whole(lively: Any) -> None:
    """Sound in pieces → rows of logits as they become final → tokens as they become certain."""
    model = lively(Speech(speech.tiny()))
    t = torch.arange(16_000, dtype=torch.float64) / 16_000
    wave = torch.sin(2 * math.pi * (200 + 3000 * t) * t) * torch.sin(2 * math.pi * 3 * t)  # a rising tone that swells
    with torch.no_grad():
        frames = log_mel(wave[None], model.config.mel).double()
        model.head.bias -= model(frames)[0].mean(0)  # so that no token is the favourite throughout
        logits = model(frames)[0]
    for reader, whole in (
        (CTCGreedy(), ctc_greedy(logits)),
        (CTCPrefixBeam(width=4, prune=3.0), ctc_prefix_beam(logits, width=4, prune=3.0)[0]),
    ):
        listener = model.stream()
        emitted = [one for piece in wave.split(1234) for one in reader.feed(listener.feed(piece))]
        emitted += [*reader.feed(listener.finish()), *reader.finish()]
        assert tuple(emitted) == whole.emitted
        assert len(emitted) > 3
