"""token_t ~ p(· | prompt, token_{<t}) until the answer ends: greedy decoding or sampling, at once or token by token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from glassformer.decoding.constraints import Constraints, LogitsProcessor, Row, apply_processors
from glassformer.decoding.prepare import Prepared, Prompt, prepare_decoding
from glassformer.decoding.sampling import GREEDY, Sampling, Seed, choose_tokens, generators, seen_by
from glassformer.decoding.stopping import UNTIL_THE_END, Answer, Ending, Stopping
from glassformer.models.sessions import Session

NO_CONSTRAINTS = Constraints()


class GeneratedToken(NamedTuple):
    """One token of one row's answer, its log-probability under the model, and whether it ended the answer."""

    row: int
    token: int
    logprob: float
    ended: Ending | None


def generate_steps(
    model: nn.Module | Session,
    prompts: Sequence[Prompt] | Tensor,
    *,
    sampling: Sampling = GREEDY,
    stopping: Stopping = UNTIL_THE_END,
    constraints: Constraints = NO_CONSTRAINTS,
    processors: Sequence[LogitsProcessor] = (),
    processed_logprobs: bool = False,
    seed: Seed = 0,
) -> Iterator[GeneratedToken]:
    """Yield every token of every row as it is generated. Arguments are validated immediately, not at the first token.

    `processed_logprobs`: return log-probabilities after constraints and processors instead of the model's own.
    """
    banned = {*sampling.banned, *constraints.always_banned}
    prepared = prepare_decoding(model, prompts, stopping, banned, constraints.tokens)
    every = (*((constraints,) if constraints else ()), *processors)
    return _steps(prepared, sampling, stopping, every, processed_logprobs, generators(seed, len(prepared.prompts)))


def _steps(
    prepared: Prepared,
    sampling: Sampling,
    stopping: Stopping,
    processors: Sequence[LogitsProcessor],
    processed_logprobs: bool,
    randomness: list[torch.Generator],
) -> Iterator[GeneratedToken]:
    if not prepared.prompts:
        return
    session, rows = prepared.session, list(range(len(prepared.prompts)))
    answers: list[list[int]] = [[] for _ in rows]
    prefixes = [prefix.tolist() for prefix in prepared.prefixes] if processors else []
    state = lambda: [Row(prefixes[row], answers[row], prepared.limits[row]) for row in rows]
    seen = seen_by(prepared.prefixes, session.vocabulary) if sampling.repetition_penalty != 1 else None
    logits = session.prefill(prepared.prompts, max(prepared.limits))
    while True:
        tokens, logprobs = choose_tokens(
            logits,
            sampling,
            [randomness[row] for row in rows],
            seen=seen,
            banned=prepared.early_ends(stopping, len(answers[rows[0]])),
            process=lambda scores: apply_processors(scores, processors, state),
            processed_logprobs=processed_logprobs,
        )
        going = []
        for i, (row, token, logprob) in enumerate(zip(rows, tokens.tolist(), logprobs.tolist(), strict=True)):
            answers[row].append(token)
            ended = stopping.ending(answers[row], prepared.limits[row], prepared.ends)
            yield GeneratedToken(row, token, logprob, ended)
            if ended is None:
                going.append(i)
        if not going:
            return
        if seen is not None:
            seen.scatter_(1, tokens[:, None], True)
        if len(going) < len(rows):  # drop finished rows from the batch
            left = torch.tensor(going)
            session.reorder(left)
            rows, tokens, seen = [rows[i] for i in going], tokens[left], None if seen is None else seen[left]
        logits = session.step(tokens)


def generate_ids(
    model: nn.Module | Session,
    prompts: Sequence[Prompt] | Tensor,
    *,
    sampling: Sampling = GREEDY,
    stopping: Stopping = UNTIL_THE_END,
    constraints: Constraints = NO_CONSTRAINTS,
    processors: Sequence[LogitsProcessor] = (),
    processed_logprobs: bool = False,
    seed: Seed = 0,
) -> list[Answer]:
    """Generate one answer for each prompt of token ids, independent of the other prompts in the batch.

    Row i of a sampled batch equals a single row sampled with `seed + i`.
    """
    tokens: list[list[int]] = [[] for _ in prompts]
    logprobs: list[list[float]] = [[] for _ in prompts]
    endings: dict[int, Ending] = {}
    for row, token, logprob, ended in generate_steps(
        model,
        prompts,
        sampling=sampling,
        stopping=stopping,
        constraints=constraints,
        processors=processors,
        processed_logprobs=processed_logprobs,
        seed=seed,
    ):
        tokens[row].append(token)
        logprobs[row].append(logprob)
        if ended is not None:
            endings[row] = ended
    return [
        Answer(tokens=tuple(tokens[row]), logprobs=tuple(logprobs[row]), ended=endings[row], score=sum(logprobs[row]))
        for row in range(len(tokens))
    ]


def stream_ids(
    model: nn.Module | Session,
    prompt: Prompt,
    *,
    sampling: Sampling = GREEDY,
    stopping: Stopping = UNTIL_THE_END,
    constraints: Constraints = NO_CONSTRAINTS,
    seed: Seed = 0,
) -> Iterator[int]:
    """Yield the tokens of one answer as they are generated, including the end token; stop iterating to stop early."""
    steps = generate_steps(
        model, [prompt], sampling=sampling, stopping=stopping, constraints=constraints, seed=seed
    )
    return (token for _, token, _, _ in steps)
