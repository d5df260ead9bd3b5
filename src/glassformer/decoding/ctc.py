"""p(tokens) = Σ over alignments π that collapse to them of Π_t p_t(π_t): reading what a CTC head says of each frame.

An alignment names a token or the blank for each frame; collapsing merges repeats, then drops blanks. Graves et al.
2006; prefix beam search: Hannun et al. 2014. Both readers take frames as they arrive, in pieces of any size.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.errors import ConfigError, InputError, ShapeError


class Heard(NamedTuple):
    """A token, and the frame at which it begins."""

    token: int
    frame: int


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """`logprob` is of the one best alignment (greedy), or of all that were followed (prefix beam)."""

    heard: tuple[Heard, ...]
    logprob: float

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(token for token, _ in self.heard)

    @property
    def frames(self) -> tuple[int, ...]:
        return tuple(frame for _, frame in self.heard)


def log_probabilities(logits: Tensor, blank: int, first: int) -> Tensor:
    """log softargmax of each frame (t, v), in double precision; log-probabilities stay what they are."""
    if logits.dim() != 2:
        raise ShapeError(f"CTC logits have shape {tuple(logits.shape)}", "give one utterance, (frames, tokens)")
    if not 0 <= blank < logits.shape[1]:
        raise ConfigError(f"the blank {blank} is not among the {logits.shape[1]} tokens", "name the model's blank")
    wrong = (logits.isnan() | logits.isposinf()).any(-1) | logits.isneginf().all(-1)
    if wrong.any():
        raise InputError(f"frame {first + int(wrong.nonzero()[0])} has no probabilities", "look for NaN in the model")
    return logits.detach().to("cpu", torch.float64).log_softmax(-1)


class CTCGreedy:
    """The likeliest token of each frame, repeats merged and blanks dropped; nothing that was said is taken back."""

    def __init__(self, *, blank: int = 0) -> None:
        self.blank = blank
        self._reset()

    def _reset(self) -> None:
        self.frame, self.logprob, self._last = 0, 0.0, self.blank

    def feed(self, logits: Tensor) -> list[Heard]:
        """The tokens that begin in these frames (t, v)."""
        best, tokens = log_probabilities(logits, self.blank, self.frame).max(-1)
        heard = []
        for token in tokens.tolist():
            if token not in (self.blank, self._last):
                heard.append(Heard(token, self.frame))
            self._last = token
            self.frame += 1
        self.logprob += float(best.sum())
        return heard

    def finish(self) -> list[Heard]:
        """The utterance is over; a new one may begin. Greedy reading never holds anything back."""
        self._reset()
        return []


class Path(NamedTuple):
    """The sum over alignments of a prefix with one kind of last frame, and the best of them: where each token began."""

    total: float = -math.inf
    best: float = -math.inf
    frames: tuple[int, ...] = ()

    def onward(self, logprob: float, begins: int | None = None) -> Path:
        """One frame more; with `begins`, a new token begins at it."""
        frames = self.frames if begins is None else (*self.frames, begins)
        return Path(self.total + logprob, self.best + logprob, frames)


def merged(one: Path, two: Path) -> Path:
    """log(eᵃ + eᵇ) of the sums, and the better of the best."""
    better = two if two.best > one.best else one
    return Path(_add(one.total, two.total), better.best, better.frames)


def _add(a: float, b: float) -> float:
    low, high = (a, b) if a < b else (b, a)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


class Beams(NamedTuple):
    """A prefix's alignments that end in the blank, and those that end in its last token."""

    blank: Path = Path()
    token: Path = Path()

    @property
    def all(self) -> Path:
        return merged(self.blank, self.token)


class CTCPrefixBeam:
    """The `width` likeliest prefixes, each the sum over its alignments; exact while there are no more prefixes.

    `feed` gives the tokens that have become certain, which every prefix still followed begins with; their frames are
    those of the best alignment at that moment. `candidates` limits each frame to its likeliest tokens, for speed;
    `prune` drops prefixes that are more nats below the best than that, so that tokens become certain sooner.
    """

    def __init__(
        self, *, width: int, blank: int = 0, candidates: int | None = None, prune: float = math.inf
    ) -> None:
        if width < 1 or (candidates is not None and candidates < 1):
            raise ConfigError(f"a beam of width {width} over {candidates} candidates", "keep at least 1 of each")
        if not prune > 0:
            raise ConfigError(f"prune is {prune}", "choose a positive number of nats (10 is usual), or infinity")
        self.width, self.blank, self.candidates, self.prune = width, blank, candidates, prune
        self._reset()

    def _reset(self) -> None:
        self.frame = 0
        self.certain: list[Heard] = []
        # Prefixes without the certain tokens but the last of them, which a repeat may still merge with.
        self._prefixes: dict[tuple[int, ...], Beams] = {(): Beams(blank=Path(0.0, 0.0))}

    def feed(self, logits: Tensor) -> list[Heard]:
        """Takes frames (t, v); gives the tokens of which they made certain."""
        before = len(self.certain)
        for row in log_probabilities(logits, self.blank, self.frame):
            self._advance(row)
            self._settle()
            self.frame += 1
        return self.certain[before:]

    def finish(self) -> list[Heard]:
        """The rest of the best transcript; a new utterance may begin."""
        rest = self.hypotheses()[0].heard[len(self.certain) :]
        self._reset()
        return list(rest)

    def hypotheses(self) -> list[Transcript]:
        """All prefixes that are followed, best first: what is certain, and what may still change."""
        kept = self.certain[: len(self.certain) - self._overlap]
        return [self._transcript(kept, prefix, beams.all) for prefix, beams in self._prefixes.items()]

    @property
    def _overlap(self) -> int:
        """How many certain tokens the prefixes still hold."""
        return min(1, len(self.certain))

    def _transcript(self, kept: Iterable[Heard], prefix: tuple[int, ...], path: Path) -> Transcript:
        settled = self.certain[len(self.certain) - self._overlap :]
        new = map(Heard, prefix[len(settled) :], path.frames[len(settled) :])
        return Transcript(heard=(*kept, *settled, *new), logprob=path.total)

    def _advance(self, row: Tensor) -> None:
        """Each prefix stays (by a blank, or its last token again) or takes a token; then the best `width` are kept."""
        blank = float(row[self.blank])
        count = len(row) if self.candidates is None else min(self.candidates, len(row))
        logprobs, tokens = row.topk(count)
        heard = [(c, p) for c, p in zip(tokens.tolist(), logprobs.tolist(), strict=True) if c != self.blank]
        following: defaultdict[tuple[int, ...], Beams] = defaultdict(Beams)

        def add(prefix: tuple[int, ...], *, blank: Path | None = None, token: Path | None = None) -> None:
            old = following[prefix]
            following[prefix] = Beams(
                old.blank if blank is None else merged(old.blank, blank),
                old.token if token is None else merged(old.token, token),
            )

        for prefix, beams in self._prefixes.items():
            either = beams.all
            add(prefix, blank=either.onward(blank))
            for token, logprob in heard:
                if logprob == -math.inf:
                    continue
                if prefix and token == prefix[-1]:
                    add(prefix, token=beams.token.onward(logprob))
                    add((*prefix, token), token=beams.blank.onward(logprob, self.frame))  # a blank lies between
                else:
                    add((*prefix, token), token=either.onward(logprob, self.frame))
        ranked = sorted(((beams.all.total, prefix) for prefix, beams in following.items()), key=lambda r: (-r[0], r[1]))
        least = ranked[0][0] - self.prune
        possible = [prefix for total, prefix in ranked[: self.width] if total > least]
        self._prefixes = {prefix: following[prefix] for prefix in possible}

    def _settle(self) -> None:
        """Moves the tokens that all prefixes begin with to the certain ones."""
        prefixes = list(self._prefixes)
        low, high = min(prefixes), max(prefixes)  # what these two share, all share
        common = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
        if common <= self._overlap:
            return
        frames = self._prefixes[prefixes[0]].all.frames
        drop = common - 1
        self.certain += map(Heard, prefixes[0][self._overlap : common], frames[self._overlap : common])

        def shorter(path: Path) -> Path:
            return path._replace(frames=path.frames[drop:])

        self._prefixes = {
            prefix[drop:]: Beams(shorter(beams.blank), shorter(beams.token)) for prefix, beams in self._prefixes.items()
        }


def ctc_greedy(logits: Tensor, *, blank: int = 0) -> Transcript:
    """The best alignment of logits (t, v), collapsed."""
    reader = CTCGreedy(blank=blank)
    heard = reader.feed(logits)
    return Transcript(heard=tuple(heard), logprob=reader.logprob)


def ctc_prefix_beam(
    logits: Tensor, *, width: int, blank: int = 0, candidates: int | None = None, prune: float = math.inf
) -> list[Transcript]:
    """The likeliest transcripts of logits (t, v), up to `width` of them, best first."""
    reader = CTCPrefixBeam(width=width, blank=blank, candidates=candidates, prune=prune)
    reader.feed(logits)
    return reader.hypotheses()
