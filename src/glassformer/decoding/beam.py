"""argmax over answers of Σ log p(token_t | …) / length^α, searched among the `width` best beginnings at each length.

The length is of the answer alone, its end token included; α = 0 is the plain sum, a larger α favours longer answers.
Candidates, endings and the rule that ends the search are those of Hugging Face's `generate(num_beams=…)`, so that
published models answer as published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.decoding.choose import ban, penalise, require_penalty, require_tokens, seen_by
from glassformer.decoding.plan import Plan, make_plan
from glassformer.decoding.speaker import Prompt, Speaker
from glassformer.decoding.stopping import UNTIL_THE_END, Answer, Ending, Stopping
from glassformer.errors import ConfigError

EarlyStopping = bool | Literal["never"]


class Rule(NamedTuple):
    """`early_stopping`: True ends at `width` finished answers; False when the best open beginning, were it to end now,
    would not be among them; "never" when it could not be even at the length that suits it best."""

    width: int
    length_penalty: float
    early_stopping: EarlyStopping


class Beginning(NamedTuple):
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    total: float


class Search:
    """The beams of one prompt: beginnings that go on, answers that have ended, best first."""

    def __init__(self, rule: Rule, stopping: Stopping, limit: int, ends: tuple[int, ...]) -> None:
        self.rule, self.stopping, self.limit, self.ends = rule, stopping, limit, ends
        self.open = [Beginning((), (), 0.0)]
        self.finished: list[Answer] = []

    def advance(self, logprobs: Tensor) -> list[tuple[int, int]]:
        """Takes log p (beams, v); gives (beam, token) for each beginning that goes on, nothing when the search is over.

        An end may take `width` places, and each further end token as many: that many more candidates leave enough to
        go on. Only an ending among the best `width` candidates counts.
        """
        width = self.rule.width
        totals = logprobs + logprobs.new_tensor([[beginning.total] for beginning in self.open])
        count = min(max(2, 1 + len(self.ends)) * width, totals.numel())
        best = totals.flatten().topk(count)
        going: list[tuple[int, Beginning]] = []
        for place, (total, index) in enumerate(zip(best.values.tolist(), best.indices.tolist(), strict=True)):
            if total == -math.inf:
                break
            beam, token = divmod(index, logprobs.shape[1])
            parent = self.open[beam]
            child = Beginning((*parent.tokens, token), (*parent.logprobs, total - parent.total), total)
            ended = self.stopping.ending(child.tokens, self.limit, self.ends)
            if ended is None and len(going) < width:
                going.append((beam, child))
            elif ended is not None and place < width:
                self._finish(child, ended)
        self.open = [] if self._over([child for _, child in going]) else [child for _, child in going]
        return [(beam, child.tokens[-1]) for beam, child in going] if self.open else []

    def _finish(self, said: Beginning, ended: Ending) -> None:
        score = said.total / len(said.tokens) ** self.rule.length_penalty
        self.finished.append(Answer(tokens=said.tokens, logprobs=said.logprobs, ended=ended, score=score))
        self.finished = sorted(self.finished, key=lambda answer: -answer.score)[: self.rule.width]

    def _over(self, going: list[Beginning]) -> bool:
        width, penalty, early = self.rule
        if not going or len(self.finished) < width:
            return not going
        length = self.limit if early == "never" and penalty > 0 else len(going[0].tokens)
        return early is True or going[0].total / length**penalty <= self.finished[-1].score


def beam(
    model: nn.Module | Speaker,
    prompts: Sequence[Prompt] | Tensor,
    *,
    width: int,
    length_penalty: float = 1.0,
    early_stopping: EarlyStopping = False,
    stopping: Stopping = UNTIL_THE_END,
    repetition_penalty: float = 1.0,
    banned: tuple[int, ...] = (),
) -> list[list[Answer]]:
    """For each prompt up to `width` answers, best first.

    `logprobs` are those the search added up: with a penalty on repetition, after it.
    """
    if width < 1:
        raise ConfigError(f"a beam of width {width}", "keep at least 1 beginning")
    if not math.isfinite(length_penalty):
        raise ConfigError(f"length_penalty is {length_penalty}", "choose a number; 0 adds log-probabilities up plainly")
    if early_stopping not in (True, False, "never"):
        raise ConfigError(f"early_stopping is {early_stopping!r}", 'choose True, False or "never"')
    require_penalty(repetition_penalty)
    require_tokens("banned", banned)
    plan = make_plan(model, prompts, stopping, banned)
    rule = Rule(width, length_penalty, early_stopping)
    searches = [Search(rule, stopping, limit, plan.ends) for limit in plan.limits]
    if searches:
        _search(plan, searches, stopping, repetition_penalty, banned)
    return [search.finished for search in searches]


def _search(
    plan: Plan, searches: list[Search], stopping: Stopping, penalty: float, banned: tuple[int, ...]
) -> None:
    speaker, length = plan.speaker, 0
    seen = seen_by(plan.beginnings, speaker.vocabulary) if penalty != 1 else None
    logits = speaker.prime(plan.prompts, max(plan.limits))
    while True:
        logprobs = (logits if logits.dtype == torch.float64 else logits.float()).log_softmax(-1)
        if seen is not None:
            seen = seen.to(logprobs.device)
            logprobs = penalise(logprobs, seen, penalty)
        logprobs = ban(logprobs, (*banned, *plan.early(stopping, length)))
        rows, tokens, first = [], [], 0
        for search in searches:
            beams = len(search.open)
            for row, token in search.advance(logprobs[first : first + beams]):
                rows.append(first + row)
                tokens.append(token)
            first += beams
        searches = [search for search in searches if search.open]
        if not searches:
            return
        kept, new, length = torch.tensor(rows), torch.tensor(tokens), length + 1
        if seen is not None:
            seen = seen[kept.to(seen.device)].scatter(1, new.to(seen.device)[:, None], True)
        speaker.reorder(kept)
        logits = speaker.step(new)
