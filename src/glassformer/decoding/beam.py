"""argmax over answers of Σ log p(token_t | …) / length^α: beam search over the `width` best hypotheses of each length.

The length counts only the answer, including its end token; α = 0 is the plain sum, a larger α favours longer answers.
Candidate selection, end tokens and the stopping rule follow Hugging Face's `generate(num_beams=…)`, so that published
models reproduce their published outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.decoding.constraints import Constraints, LogitsProcessor, Row, apply_processors
from glassformer.decoding.generate import NO_CONSTRAINTS
from glassformer.decoding.prepare import Prepared, Prompt, prepare_decoding
from glassformer.decoding.sampling import ban, penalise, require_penalty, seen_by
from glassformer.decoding.stopping import UNTIL_THE_END, Answer, Ending, Stopping
from glassformer.errors import ConfigError
from glassformer.models.sessions import Session

EarlyStopping = bool | Literal["never"]
MOST_BEAMS = 1024


class BeamSettings(NamedTuple):
    """Width, length penalty and stopping rule of a beam search.

    `early_stopping`: True stops at `width` finished answers; False stops when the best open hypothesis, were it to end
    now, would not be among them; "never" stops when it could not be even at its most favourable length.
    """

    width: int
    length_penalty: float
    early_stopping: EarlyStopping


class Beam(NamedTuple):
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    total: float


class BeamSearch:
    """The beams of one prompt: open hypotheses and finished answers, best first."""

    def __init__(self, rule: BeamSettings, stopping: Stopping, limit: int, ends: tuple[int, ...]) -> None:
        self.rule, self.stopping, self.limit, self.ends = rule, stopping, limit, ends
        self.open = [Beam((), (), 0.0)]
        self.finished: list[Answer] = []

    def advance(self, best: Sequence[tuple[Sequence[float], Sequence[int]]]) -> list[tuple[int, int]]:
        """Take the best log p and tokens of each beam; return (beam, token) for each open hypothesis, [] at the end.

        Each end token may take up to `width` candidates; as many extra ones are kept, so that enough hypotheses remain
        open. An answer that ends counts only if it is among the best `width` candidates.
        """
        width = self.rule.width
        candidates = [
            (parent.total + logprob, beam, token)
            for beam, (parent, (logprobs, tokens)) in enumerate(zip(self.open, best, strict=True))
            for logprob, token in zip(logprobs, tokens, strict=True)
        ]
        candidates.sort(key=lambda one: -one[0])
        going: list[tuple[int, Beam]] = []
        for place, (total, beam, token) in enumerate(candidates[: candidate_count(width, self.ends)]):
            if total == -math.inf:
                break
            parent = self.open[beam]
            child = Beam((*parent.tokens, token), (*parent.logprobs, total - parent.total), total)
            ended = self.stopping.ending(child.tokens, self.limit, self.ends)
            if ended is None and len(going) < width:
                going.append((beam, child))
            elif ended is not None and place < width:
                self._finish(child, ended)
        self.open = [] if self._over([child for _, child in going]) else [child for _, child in going]
        return [(beam, child.tokens[-1]) for beam, child in going] if self.open else []

    def _finish(self, beam: Beam, ended: Ending) -> None:
        score = beam.total / len(beam.tokens) ** self.rule.length_penalty
        self.finished.append(Answer(tokens=beam.tokens, logprobs=beam.logprobs, ended=ended, score=score))
        self.finished = sorted(self.finished, key=lambda answer: -answer.score)[: self.rule.width]

    def _over(self, going: list[Beam]) -> bool:
        width, penalty, early = self.rule
        if not going or len(self.finished) < width:
            return not going
        length = self.limit if early == "never" and penalty > 0 else len(going[0].tokens)
        return early is True or going[0].total / length**penalty <= self.finished[-1].score


def candidate_count(width: int, ends: Sequence[int]) -> int:
    """Number of candidates for `width` hypotheses: each end token may take up to `width` of them."""
    return max(2, 1 + len(ends)) * width


def beam_search(
    model: nn.Module | Session,
    prompts: Sequence[Prompt] | Tensor,
    *,
    num_beams: int,
    length_penalty: float = 1.0,
    early_stopping: EarlyStopping = False,
    stopping: Stopping = UNTIL_THE_END,
    repetition_penalty: float = 1.0,
    constraints: Constraints = NO_CONSTRAINTS,
    renormalize: bool = False,
) -> list[list[Answer]]:
    """Return up to `num_beams` answers for each prompt, best first.

    `logprobs` are the values summed by the search, after the repetition penalty if there is one. With `renormalize`,
    probabilities are rescaled to sum to 1 after the constraints are applied.
    """
    if not 1 <= num_beams <= MOST_BEAMS:
        raise ConfigError(f"num_beams is {num_beams}", f"choose 1 to {MOST_BEAMS}")
    if not math.isfinite(length_penalty):
        raise ConfigError(
            f"length_penalty is {length_penalty}", "choose a number; 0 ranks by the sum of log-probabilities"
        )
    if early_stopping not in (True, False, "never"):
        raise ConfigError(f"early_stopping is {early_stopping!r}", 'choose True, False or "never"')
    require_penalty(repetition_penalty)
    prepared = prepare_decoding(model, prompts, stopping, constraints.always_banned, constraints.tokens)
    rule = BeamSettings(num_beams, length_penalty, early_stopping)
    searches = [BeamSearch(rule, stopping, limit, prepared.ends) for limit in prepared.limits]
    if searches:
        _search(prepared, searches, stopping, repetition_penalty, constraints, renormalize)
    return [search.finished for search in searches]


def _search(
    prepared: Prepared,
    searches: list[BeamSearch],
    stopping: Stopping,
    penalty: float,
    constraints: Constraints,
    renormalize: bool,
) -> None:
    session, length = prepared.session, 0
    count = candidate_count(searches[0].rule.width, prepared.ends)
    seen = seen_by(prepared.prefixes, session.vocabulary) if penalty != 1 else None
    processors: tuple[LogitsProcessor, ...] = (constraints,) if constraints else ()
    prefixes = {id(search): prefix.tolist() for search, prefix in zip(searches, prepared.prefixes, strict=True)}
    logits = session.prefill(prepared.prompts, max(prepared.limits))
    while True:
        logits = logits if logits.dtype == torch.float64 else logits.float()
        banned = set(prepared.early_ends(stopping, length))
        if seen is None and not processors and not renormalize:  # log p of the candidates alone
            logprobs, tokens_of = logits.log_softmax(-1).topk(min(count + len(banned), logits.shape[-1]))
            if banned:
                logprobs = logprobs.masked_fill(torch.isin(tokens_of, tokens_of.new_tensor(list(banned))), -math.inf)
        else:
            logprobs = logits.log_softmax(-1)
            if seen is not None:
                seen = seen.to(logprobs.device)
                logprobs = penalise(logprobs, seen, penalty)
            logprobs = ban(logprobs, banned)
            state = [Row(prefixes[id(one)], open.tokens, one.limit) for one in searches for open in one.open]
            logprobs = apply_processors(logprobs, processors, lambda state=state: state)  # type: ignore[misc]
            logprobs = logprobs.log_softmax(-1) if renormalize else logprobs
            logprobs, tokens_of = logprobs.topk(min(count, logprobs.shape[-1]))
        candidates = list(zip(logprobs.tolist(), tokens_of.tolist(), strict=True))
        rows, tokens, first = [], [], 0
        for search in searches:
            beams = len(search.open)
            for row, token in search.advance(candidates[first : first + beams]):
                rows.append(first + row)
                tokens.append(token)
            first += beams
        searches = [search for search in searches if search.open]
        if not searches:
            return
        kept, new, length = torch.tensor(rows), torch.tensor(tokens), length + 1
        if seen is not None:
            seen = seen[kept.to(seen.device)].scatter(1, new.to(seen.device)[:, None], True)
        session.reorder(kept)
        logits = session.step(new)
