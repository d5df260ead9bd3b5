"""p = softargmax(logits / T), restricted to the most likely tokens: sampling of the next token.

Top-k: Fan, Lewis, Dauphin 2018; top-p: Holtzman et al. 2020; min-p: Nguyen et al. 2024; repetition penalty: Keskar et
al. 2019. They are applied in this order: penalty, banned tokens, constraints and processors, temperature, top-k, top-p,
min-p.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.errors import ConfigError, InputError

Seed = int | torch.Generator | Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Sampling parameters. Temperature 0 is greedy decoding."""

    temperature: float = 1.0
    top_k: int | None = None  # the k most likely tokens; None: all
    top_p: float = 1.0  # the smallest set of most likely tokens whose probabilities reach p
    min_p: float = 0.0  # tokens at least p times as likely as the most likely one
    repetition_penalty: float = 1.0
    banned: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ConfigError(f"temperature is {self.temperature}", "choose 0 (greedy) or a positive number")
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k is {self.top_k}", "keep at least 1 token, or None for all")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is {self.top_p}", "choose a probability above 0 and at most 1 (keeps all)")
        if not 0 <= self.min_p <= 1:
            raise ConfigError(
                f"min_p is {self.min_p}", "choose a fraction of the highest probability, from 0 (keeps all) to 1"
            )
        require_penalty(self.repetition_penalty)
        require_tokens("banned", self.banned)


def require_penalty(penalty: float) -> None:
    if not 0 < penalty < math.inf:
        raise ConfigError(f"repetition_penalty is {penalty}", "choose 1 (none), or more to repeat less")


def require_tokens(name: str, tokens: object) -> None:
    """Check that `tokens` is a sequence of token ids."""
    if not isinstance(tokens, tuple | list) or not all(isinstance(t, int) and t >= 0 for t in tokens):
        raise ConfigError(f"{name} is {tokens!r}", "give a tuple of token ids, whole numbers from 0")


GREEDY = Sampling(temperature=0.0)


def generators(seed: Seed, rows: int) -> list[torch.Generator]:
    """Return one generator per row, so that a row's samples do not depend on the batch.

    Row i is seeded with `seed + i`, the i-th element of a sequence, or the i-th number drawn from a passed generator.
    """
    if isinstance(seed, torch.Generator):
        seeds = [int(torch.randint(2**62, (), generator=seed, device=seed.device)) for _ in range(rows)]
    elif isinstance(seed, int):
        seeds = [seed + i for i in range(rows)]
    else:
        seeds = list(seed)
    if len(seeds) != rows:
        raise ConfigError(f"there are {len(seeds)} seeds for {rows} prompts", "give one seed, or one for each prompt")
    return [torch.Generator().manual_seed(s) for s in seeds]


def seen_by(prefixes: Iterable[Tensor], vocabulary: int) -> Tensor:
    """seen[b, v]: whether token v occurs in prefix b."""
    rows = list(prefixes)
    seen = torch.zeros(len(rows), vocabulary, dtype=torch.bool)
    for i, tokens in enumerate(rows):
        outside = tokens[(tokens < 0) | (tokens >= vocabulary)]
        if outside.numel():
            fact = f"token {int(outside[0])} is outside the vocabulary of {vocabulary}"
            raise InputError(fact, f"use token ids from 0 to {vocabulary - 1}")
        seen[i, tokens.cpu()] = True
    return seen


def penalise(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """logit / penalty if it is positive, else logit · penalty, for tokens that occurred before."""
    return torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def ban(logits: Tensor, tokens: Iterable[int]) -> Tensor:
    """logit = −∞ for these tokens."""
    which = sorted(set(tokens))
    return logits.index_fill(-1, torch.tensor(which, device=logits.device), -math.inf) if which else logits


def top_k(logits: Tensor, k: int) -> Tensor:
    """Keep the k largest logits and any equal to the k-th."""
    least = logits.topk(min(k, logits.shape[-1])).values[..., -1:]
    return logits.masked_fill(logits < least, -math.inf)


def top_p(logits: Tensor, p: float) -> Tensor:
    """Keep a token if the total probability of the more likely ones is below p; the most likely one is always kept."""
    ordered, order = logits.sort(dim=-1, descending=True)
    probability = ordered.softmax(-1)
    likelier = probability.cumsum(-1) - probability
    likelier[..., 0] = 0.0  # exactly, regardless of rounding
    goes = likelier >= p
    return logits.masked_fill(goes.scatter(-1, order, goes), -math.inf)  # back in vocabulary order


def min_p(logits: Tensor, p: float) -> Tensor:
    """Keep a token if its probability is at least p · max, that is, logit ≥ max + log p."""
    probability = logits.softmax(-1)
    return logits.masked_fill(probability < p * probability.amax(-1, keepdim=True), -math.inf)


def filter_logits(logits: Tensor, sampling: Sampling) -> Tensor:
    """logits / T, with −∞ outside top-k, top-p and min-p."""
    logits = logits / sampling.temperature
    if sampling.top_k is not None:
        logits = top_k(logits, sampling.top_k)
    if sampling.top_p < 1:
        logits = top_p(logits, sampling.top_p)
    return min_p(logits, sampling.min_p) if sampling.min_p > 0 else logits


def draw_tokens(logits: Tensor, randomness: Sequence[torch.Generator]) -> Tensor:
    """token = the first at which Σ p exceeds u, u uniform on [0, 1), with a separate generator for each row."""
    sums = logits.softmax(-1).cumsum(-1)
    u = torch.stack([torch.rand((), generator=g, dtype=logits.dtype) for g in randomness])[:, None]
    whole = sums[:, -1:]
    below = torch.minimum(u * whole, torch.nextafter(whole, torch.zeros_like(whole)))  # guards against rounding
    return torch.searchsorted(sums, below, right=True)[:, 0]


class Chosen(NamedTuple):
    """The tokens (b,) and the model's own log-probability of each: log softargmax(logits), before any processing."""

    tokens: Tensor
    logprobs: Tensor


def choose_tokens(
    logits: Tensor,
    sampling: Sampling,
    randomness: Sequence[torch.Generator],
    *,
    seen: Tensor | None = None,
    banned: Iterable[int] = (),
    process: Callable[[Tensor], Tensor] = lambda scores: scores,
    processed_logprobs: bool = False,
) -> Chosen:
    """Choose the next token for each row of logits (b, v).

    Sampling runs in double precision on the CPU, so that a seed gives the same result on every device.
    `processed_logprobs`: log-probabilities are taken after `process` instead of before.
    """
    greedy = sampling.temperature == 0
    raw = logits.detach().to("cpu", torch.float32 if greedy and logits.dtype == torch.float32 else torch.float64)
    changed = raw if seen is None else penalise(raw, seen, sampling.repetition_penalty)
    changed = process(ban(changed, (*sampling.banned, *banned)))
    best, tokens = changed.max(-1)
    if bool(best.isneginf().any()):
        raise ConfigError("the constraints leave no token to choose", "ban fewer, or allow n-grams to repeat")
    if not greedy:
        tokens = draw_tokens(filter_logits(changed, sampling), randomness)
    judged = changed if processed_logprobs else raw
    return Chosen(tokens, judged.gather(-1, tokens[:, None])[:, 0] - judged.logsumexp(-1))
