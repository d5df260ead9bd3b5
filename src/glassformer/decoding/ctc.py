"""p(tokens) = Σ over alignments π that collapse to them of Π_t p_t(π_t): decoding of CTC outputs.

An alignment assigns a token or the blank to each frame; collapsing merges repeats, then drops blanks. Graves et al.
2006; prefix beam search: Hannun et al. 2014. Both decoders accept frames as they arrive, in chunks of any size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.errors import ConfigError, InputError, ShapeError


class CTCToken(NamedTuple):
    """A token and the frame at which it begins."""

    token: int
    frame: int


@dataclass(frozen=True, kw_only=True)
class CTCHypothesis:
    """A decoded transcript.

    `logprob` is that of the single best alignment (greedy), or of all alignments that were kept (prefix beam).
    """

    emitted: tuple[CTCToken, ...]
    logprob: float

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(token for token, _ in self.emitted)

    @property
    def frames(self) -> tuple[int, ...]:
        return tuple(frame for _, frame in self.emitted)


def log_probabilities(logits: Tensor, blank: int, first: int) -> Tensor:
    """log softargmax of each frame (t, v), in double precision; log-probabilities are left unchanged."""
    if logits.dim() != 2:
        raise ShapeError(f"CTC logits have shape {tuple(logits.shape)}", "give one utterance, (frames, tokens)")
    if not 0 <= blank < logits.shape[1]:
        raise ConfigError(
            f"the blank {blank} is outside the vocabulary of {logits.shape[1]}", "give the id of the model's blank"
        )
    wrong = (logits.isnan() | logits.isposinf()).any(-1) | logits.isneginf().all(-1)
    if wrong.any():
        fact = f"the logits of frame {first + int(wrong.nonzero()[0])} are NaN, +∞ or all −∞"
        raise InputError(fact, "check the model's output")
    return logits.detach().to("cpu", torch.float64).log_softmax(-1)


class CTCGreedy:
    """Greedy CTC decoding: the most likely token of each frame, repeats merged and blanks dropped. Tokens are final."""

    def __init__(self, *, blank: int = 0) -> None:
        self.blank = blank
        self._reset()

    def _reset(self) -> None:
        self.frame, self.logprob, self._last = 0, 0.0, self.blank

    def feed(self, logits: Tensor) -> list[CTCToken]:
        """Return the tokens that begin in these frames (t, v)."""
        best, tokens = log_probabilities(logits, self.blank, self.frame).max(-1)
        emitted = []
        for token in tokens.tolist():
            if token not in (self.blank, self._last):
                emitted.append(CTCToken(token, self.frame))
            self._last = token
            self.frame += 1
        self.logprob += float(best.sum())
        return emitted

    def finish(self) -> list[CTCToken]:
        """End the utterance and reset the decoder. Greedy decoding has no pending tokens."""
        self._reset()
        return []


class Path(NamedTuple):
    """The alignments of a prefix that end in the blank, or in its last token.

    `total` is their log-probability, `best` that of the best one, and `frames` are where its tokens begin.
    """

    total: float = -math.inf
    best: float = -math.inf
    frames: tuple[int, ...] = ()

    def advance(self, logprob: float, begins: int | None = None) -> Path:
        """Advance by one frame; with `begins`, a new token begins at that frame."""
        frames = self.frames if begins is None else (*self.frames, begins)
        return Path(self.total + logprob, self.best + logprob, frames)


NO_PATH = Path()


def merge_paths(one: Path, two: Path) -> Path:
    """log(eᵃ + eᵇ) of the totals, and the better of the two best alignments."""
    if two is NO_PATH:
        return one
    if one is NO_PATH:
        return two
    better = two if two.best > one.best else one
    return Path(_add(one.total, two.total), better.best, better.frames)


def _add(a: float, b: float) -> float:
    low, high = (a, b) if a < b else (b, a)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


class Beams(NamedTuple):
    """The alignments of a prefix that end in the blank, and those that end in its last token."""

    blank: Path = NO_PATH
    token: Path = NO_PATH

    @property
    def all(self) -> Path:
        return merge_paths(self.blank, self.token)

    @property
    def total(self) -> float:
        """Log-probability of the prefix, over all its alignments."""
        return _add(self.blank.total, self.token.total)

    def without(self, count: int, logprob: float = 0.0) -> Beams:
        """Drop the frames of the first `count` tokens and subtract `logprob`."""
        drop = lambda path: Path(path.total - logprob, path.best - logprob, path.frames[count:])
        return Beams(drop(self.blank), drop(self.token))


Prefixes = dict[tuple[int, ...], Beams]
EMPTY: Prefixes = {(): Beams(blank=Path(0.0, 0.0))}


def extend(
    prefixes: Prefixes,
    tokens: Mapping[tuple[int, ...], Sequence[tuple[int, float]]],
    blank: float,
    frame: int,
    *,
    before: int | None = None,
    never_twice: int | None = None,
) -> Prefixes:
    """Advance by one frame: every prefix stays (by the blank or by repeating its last token) or is extended by a token.

    `tokens` are (token, log-probability) pairs for each prefix, without the blank. `before` is the token that precedes
    every prefix and with which a repetition would merge; the token `never_twice` cannot follow itself.
    """
    following: Prefixes = {}

    def add(prefix: tuple[int, ...], *, blank: Path = NO_PATH, token: Path = NO_PATH) -> None:
        old = following.get(prefix)
        if old is None:
            following[prefix] = Beams(blank, token)
        else:
            following[prefix] = Beams(merge_paths(old.blank, blank), merge_paths(old.token, token))

    for prefix, beams in prefixes.items():
        either, last = beams.all, prefix[-1] if prefix else before
        add(prefix, blank=either.advance(blank))
        for token, logprob in tokens[prefix]:
            if token != last:
                add((*prefix, token), token=either.advance(logprob, frame))
                continue
            add(prefix, token=beams.token.advance(logprob))
            if token != never_twice and beams.blank.total > -math.inf:  # separated by a blank
                add((*prefix, token), token=beams.blank.advance(logprob, frame))
    return following


class CTCPrefixBeam:
    """CTC prefix beam search over the `width` most likely prefixes, each summed over its alignments.

    The search is exact as long as there are at most `width` prefixes. `feed` returns the tokens that have become final,
    that is, those shared by all remaining prefixes; their frames are those of the best alignment at that moment.
    `candidates` limits each frame to its most likely tokens, for speed; `prune` drops prefixes that are more than this
    many nats below the best, so that tokens become final sooner.
    """

    def __init__(
        self, *, width: int, blank: int = 0, candidates: int | None = None, prune: float = math.inf
    ) -> None:
        if width < 1 or (candidates is not None and candidates < 1):
            raise ConfigError(f"width is {width} and candidates is {candidates}", "keep at least 1 of each")
        if not prune > 0:
            raise ConfigError(f"prune is {prune}", "choose a positive number of nats (10 is usual), or infinity")
        self.width, self.blank, self.candidates, self.prune = width, blank, candidates, prune
        self._reset()

    def _reset(self) -> None:
        self.frame = 0
        self.certain: list[CTCToken] = []
        # Prefixes without the final tokens, except the last one, which a repeat may still merge with.
        self._prefixes: Prefixes = dict(EMPTY)

    def feed(self, logits: Tensor) -> list[CTCToken]:
        """Take frames (t, v) and return the tokens that they made final."""
        before = len(self.certain)
        for row in log_probabilities(logits, self.blank, self.frame):
            self._advance(row)
            self._settle()
            self.frame += 1
        return self.certain[before:]

    def finish(self) -> list[CTCToken]:
        """Return the rest of the best transcript and reset the decoder."""
        rest = self.hypotheses()[0].emitted[len(self.certain) :]
        self._reset()
        return list(rest)

    def hypotheses(self) -> list[CTCHypothesis]:
        """All prefixes in the beam, best first: the final tokens followed by those that may still change."""
        kept = self.certain[: len(self.certain) - self._overlap]
        return [self._transcript(kept, prefix, beams.all) for prefix, beams in self._prefixes.items()]

    @property
    def _overlap(self) -> int:
        """Number of final tokens that the prefixes still contain."""
        return min(1, len(self.certain))

    def _transcript(self, kept: Iterable[CTCToken], prefix: tuple[int, ...], path: Path) -> CTCHypothesis:
        settled = self.certain[len(self.certain) - self._overlap :]
        new = map(CTCToken, prefix[len(settled) :], path.frames[len(settled) :])
        return CTCHypothesis(emitted=(*kept, *settled, *new), logprob=path.total)

    def _advance(self, row: Tensor) -> None:
        """Extend every prefix by this frame and keep the best `width`."""
        count = len(row) if self.candidates is None else min(self.candidates, len(row))
        best = zip(*(part.tolist() for part in row.topk(count)), strict=True)
        tokens = [(int(token), p) for p, token in best if token != self.blank and p > -math.inf]
        following = extend(self._prefixes, dict.fromkeys(self._prefixes, tokens), float(row[self.blank]), self.frame)
        ranked = sorted(((beams.total, prefix) for prefix, beams in following.items()), key=lambda r: (-r[0], r[1]))
        least = ranked[0][0] - self.prune
        possible = [prefix for total, prefix in ranked[: self.width] if total > least]
        self._prefixes = {prefix: following[prefix] for prefix in possible}

    def _settle(self) -> None:
        """Move the tokens shared by all prefixes to the final ones."""
        prefixes = list(self._prefixes)
        low, high = min(prefixes), max(prefixes)  # a common prefix of these two is common to all
        common = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
        if common <= self._overlap:
            return
        frames = self._prefixes[prefixes[0]].all.frames
        drop = common - 1
        self.certain += map(CTCToken, prefixes[0][self._overlap : common], frames[self._overlap : common])
        self._prefixes = {prefix[drop:]: beams.without(drop) for prefix, beams in self._prefixes.items()}


def ctc_greedy(logits: Tensor, *, blank: int = 0) -> CTCHypothesis:
    """Decode logits (t, v) greedily: the best alignment, collapsed."""
    reader = CTCGreedy(blank=blank)
    emitted = reader.feed(logits)
    return CTCHypothesis(emitted=tuple(emitted), logprob=reader.logprob)


def ctc_prefix_beam(
    logits: Tensor, *, width: int, blank: int = 0, candidates: int | None = None, prune: float = math.inf
) -> list[CTCHypothesis]:
    """Return up to `width` of the most likely transcripts of logits (t, v), best first."""
    reader = CTCPrefixBeam(width=width, blank=blank, candidates=candidates, prune=prune)
    reader.feed(logits)
    return reader.hypotheses()
