"""state_t, logits_t = model(token_t, state_{t−1}): models that speak from a state and keep no keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.decoding.speaker import device_of, padded_right, quietly, require_prompt
from glassformer.errors import ConfigError, InputError
from glassformer.models.convolutional_sequence import ConvNet1d
from glassformer.models.ends import Tokens
from glassformer.models.recurrent import Recurrent
from glassformer.models.recurrent_seq2seq import RecurrentSeq2Seq, select

# what a stream carries from piece to piece: tensors (b, …), in tuples in tuples
State = Any


def chosen(state: State, rows: Tensor) -> State:
    """The rows of every tensor of a state."""
    return state[rows] if isinstance(state, Tensor) else tuple(chosen(part, rows) for part in state)


def joined(states: Sequence[State]) -> State:
    """States of single rows as one of a batch."""
    if isinstance(states[0], Tensor):
        return torch.cat(list(states))
    return tuple(joined(parts) for parts in zip(*states, strict=True))


class StreamSpeaker:
    """A recurrent or causal convolutional language model, by its `stream`. States know no padding: prompts go alone."""

    def __init__(self, model: Recurrent | ConvNet1d, *, ends: Sequence[int] = ()) -> None:
        config = model.config
        if not isinstance(config.reads, Tokens) or config.reads.vocabulary != config.classes:
            fact = f"a {type(model).__name__} reads {config.reads} and answers {config.classes} classes"
            raise ConfigError(fact, "only a model that answers the tokens it reads can go on from its answer")
        self.model, self.ends = model, tuple(ends)
        self.vocabulary = config.classes
        self.context: int | None = None

    def beginning(self, prompt: Tensor) -> Tensor:
        require_prompt(prompt, None)
        return prompt

    def prime(self, prompts: Sequence[Tensor], room: int) -> Tensor:
        device = device_of(self.model)
        with quietly(self.model):
            heard = [self.model.stream(prompt.to(device, torch.long)[None]) for prompt in prompts]
        self.state: State = joined([state for _, state in heard])
        return torch.cat([logits[:, -1] for logits, _ in heard])

    def step(self, tokens: Tensor) -> Tensor:
        with quietly(self.model):
            logits, self.state = self.model.stream(tokens.to(device_of(self.model))[:, None], self.state)
        return logits[:, -1]

    def reorder(self, rows: Tensor) -> None:
        self.state = chosen(self.state, rows.to(device_of(self.model)))


class RecurrentSeq2SeqSpeaker:
    """source → states Z, once; start and the answer, token by token → decoder. Sources are token ids, or frames."""

    def __init__(self, model: RecurrentSeq2Seq, *, start: int, end: int) -> None:
        self.model = model
        self.vocabulary = model.config.vocabulary
        self.context: int | None = None
        self.ends: tuple[int, ...] = (end,)
        self.start = torch.tensor([start])

    def beginning(self, prompt: Tensor) -> Tensor:
        if isinstance(self.model.config.reads, Tokens):
            require_prompt(prompt, None, "source")
        elif prompt.dim() != 2 or not len(prompt):
            raise InputError(f"a source of frames has shape {tuple(prompt.shape)}", "give (frames, features)")
        return self.start

    def prime(self, prompts: Sequence[Tensor], room: int) -> Tensor:
        device = device_of(self.model)
        with quietly(self.model):
            self.memory = self.model.encode(*padded_right(prompts, device))
        self.states = self.memory.states
        return self.step(self.start.expand(len(prompts)))

    def step(self, tokens: Tensor) -> Tensor:
        with quietly(self.model):
            logits, self.states = self.model.decode(tokens.to(self.memory.X.device)[:, None], self.memory, self.states)
        return logits[:, -1]

    def reorder(self, rows: Tensor) -> None:
        rows = rows.to(self.memory.X.device)
        self.memory, self.states = self.memory.select(rows), select(self.states, rows)
