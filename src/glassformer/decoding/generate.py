"""token_t ~ p(· | prompt, token_{<t}), until the answer ends: greedy or sampled, whole or as it comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from glassformer.decoding.choose import GREEDY, Sampling, Seed, choose, generators, seen_by
from glassformer.decoding.plan import Plan, make_plan
from glassformer.decoding.speaker import Prompt, Speaker
from glassformer.decoding.stopping import UNTIL_THE_END, Answer, Ending, Stopping


class Said(NamedTuple):
    """One token of one row's answer, how likely the model held it, and whether it ended the answer."""

    row: int
    token: int
    logprob: float
    ended: Ending | None


def speak(
    model: nn.Module | Speaker,
    prompts: Sequence[Prompt] | Tensor,
    *,
    sampling: Sampling = GREEDY,
    stopping: Stopping = UNTIL_THE_END,
    seed: Seed = 0,
) -> Iterator[Said]:
    """Every token of every row as it comes. Wrong arguments are told at once, not at the first token."""
    plan = make_plan(model, prompts, stopping, sampling.banned)
    return _speak(plan, sampling, stopping, generators(seed, len(plan.prompts)))


def _speak(
    plan: Plan, sampling: Sampling, stopping: Stopping, randomness: list[torch.Generator]
) -> Iterator[Said]:
    if not plan.prompts:
        return
    speaker, rows = plan.speaker, list(range(len(plan.prompts)))
    said: list[list[int]] = [[] for _ in rows]
    seen = seen_by(plan.beginnings, speaker.vocabulary) if sampling.repetition_penalty != 1 else None
    logits = speaker.prime(plan.prompts, max(plan.limits))
    while True:
        early = plan.early(stopping, len(said[rows[0]]))
        tokens, logprobs = choose(logits, sampling, [randomness[row] for row in rows], seen=seen, banned=early)
        going = []
        for i, (row, token, logprob) in enumerate(zip(rows, tokens.tolist(), logprobs.tolist(), strict=True)):
            said[row].append(token)
            ended = stopping.ending(said[row], plan.limits[row], plan.ends)
            yield Said(row, token, logprob, ended)
            if ended is None:
                going.append(i)
        if not going:
            return
        if seen is not None:
            seen.scatter_(1, tokens[:, None], True)
        if len(going) < len(rows):  # rows that have ended cost nothing more
            left = torch.tensor(going)
            speaker.reorder(left)
            rows, tokens, seen = [rows[i] for i in going], tokens[left], None if seen is None else seen[left]
        logits = speaker.step(tokens)


def generate(
    model: nn.Module | Speaker,
    prompts: Sequence[Prompt] | Tensor,
    *,
    sampling: Sampling = GREEDY,
    stopping: Stopping = UNTIL_THE_END,
    seed: Seed = 0,
) -> list[Answer]:
    """One answer for each prompt, the same in any company; row i of a sampled batch is what `seed + i` gives alone."""
    tokens: list[list[int]] = [[] for _ in prompts]
    logprobs: list[list[float]] = [[] for _ in prompts]
    endings: dict[int, Ending] = {}
    for row, token, logprob, ended in speak(model, prompts, sampling=sampling, stopping=stopping, seed=seed):
        tokens[row].append(token)
        logprobs[row].append(logprob)
        if ended is not None:
            endings[row] = ended
    return [
        Answer(tokens=tuple(tokens[row]), logprobs=tuple(logprobs[row]), ended=endings[row], score=sum(logprobs[row]))
        for row in range(len(tokens))
    ]


def stream(
    model: nn.Module | Speaker,
    prompt: Prompt,
    *,
    sampling: Sampling = GREEDY,
    stopping: Stopping = UNTIL_THE_END,
    seed: Seed = 0,
) -> Iterator[int]:
    """The tokens of one answer as they come, the end token included; leaving off early costs nothing more."""
    said = speak(model, [prompt], sampling=sampling, stopping=stopping, seed=seed)
    return (token for _, token, _, _ in said)
