"""prefill(prompts) → logits, step(tokens) → logits, reorder(rows): the interface between models and decoding.

A session is a model in the middle of decoding one batch. Architectures return one from `session()`; the classes below
serve models with a key-value cache, with encoder memory, and with a recurrent state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from glassformer.errors import InputError
from glassformer.nn import BlockCache


@runtime_checkable
class Session(Protocol):
    """A model in the middle of decoding. It holds the state of its batch, so every decoding run needs its own."""

    @property
    def vocabulary(self) -> int: ...

    @property
    def context(self) -> int | None:
        """Maximum number of tokens of a prefix and its answer together; None: unlimited."""

    @property
    def ends(self) -> tuple[int, ...]:
        """The model's own end tokens."""

    def prefix(self, prompt: Tensor) -> Tensor:
        """Return the tokens that the answer continues, or raise an error if the prompt is invalid."""

    def prefill(self, prompts: Sequence[Tensor], room: int) -> Tensor:
        """Start anew and return the logits (b, v) after each prompt. At most `room` tokens will follow."""

    def step(self, tokens: Tensor) -> Tensor:
        """Append one token to each row (b,) and return the logits (b, v) of the next."""

    def reorder(self, rows: Tensor) -> None:
        """Continue row i from the state of row rows[i]: beams branch, and finished rows are dropped."""


@contextmanager
def inference(model: nn.Module) -> Iterator[None]:
    """Disable gradients and dropout within the context; the model's mode is restored afterwards."""
    training = [module for module in model.modules() if module.training] if model.training else []
    for module in training:
        object.__setattr__(module, "training", False)  # nn.Module.__setattr__ is slow: it looks for parameters first
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            object.__setattr__(module, "training", True)


def require_prompt(prompt: Tensor, context: int | None, what: str = "prompt") -> None:
    """Check that a prompt has at least one token and fits the context."""
    if prompt.numel() == 0:
        raise InputError(f"a {what} is empty", "begin with at least one token")
    if prompt.dim() != 1 or prompt.is_floating_point() or prompt.dtype == torch.bool:
        kind = str(prompt.dtype).removeprefix("torch.")
        raise InputError(f"a {what} is {kind} of shape {tuple(prompt.shape)}", "give each as a list of token ids")
    if context is not None and len(prompt) > context:
        raise InputError(f"a {what} of {len(prompt)} tokens exceeds the model's context of {context}", "shorten it")


def pad_left(prompts: Sequence[Tensor], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Pad prompts on the left to (b, t), and return the padding mask; None if there is no padding."""
    longest = max(map(len, prompts))
    tokens = torch.zeros(len(prompts), longest, dtype=torch.long)
    real = torch.zeros(len(prompts), longest, dtype=torch.bool)
    for i, prompt in enumerate(prompts):
        tokens[i, longest - len(prompt) :] = prompt
        real[i, longest - len(prompt) :] = True
    return tokens.to(device), None if real.all() else real.to(device)


def pad_right(prompts: Sequence[Tensor], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Pad sources on the right to (b, s, …), and return the padding mask; None if there is no padding."""
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    real = torch.arange(int(lengths.max())) < lengths[:, None]
    source = pad_sequence(list(prompts), batch_first=True).to(device)
    return source, None if real.all() else real.to(device)


class CachedSession:
    """tokens → model(tokens, real, cache=…, last=True): a decoder-only model with a key-value cache.

    Each token is processed once, unless `cached` is False.
    """

    def __init__(
        self, model: Any, *, vocabulary: int, context: int | None, ends: Sequence[int] = (), cached: bool = True
    ) -> None:
        self.model, self.vocabulary, self.context = model, vocabulary, context
        self.ends, self.cached = tuple(ends), cached
        self.device = next(model.parameters()).device

    def prefix(self, prompt: Tensor) -> Tensor:
        require_prompt(prompt, self.context)
        return prompt

    def prefill(self, prompts: Sequence[Tensor], room: int) -> Tensor:
        self.tokens, self.real = pad_left(prompts, self.device)
        self.cache: list[BlockCache] | None = self.model.cache(self.tokens.shape[1] + room) if self.cached else None
        return self._logits(self.tokens)

    def step(self, tokens: Tensor) -> Tensor:
        new = tokens.to(self.device)[:, None]
        self.tokens = torch.cat([self.tokens, new], 1)
        if self.real is not None:
            self.real = torch.cat([self.real, torch.ones_like(new, dtype=torch.bool)], 1)
        return self._logits(new if self.cached else self.tokens)

    def _logits(self, tokens: Tensor) -> Tensor:
        with inference(self.model):
            logits: Tensor = self.model(tokens, self.real, cache=self.cache, last=True)[:, -1]
        return logits

    def reorder(self, rows: Tensor) -> None:
        rows = rows.to(self.device)
        self.tokens = self.tokens[rows]
        self.real = None if self.real is None else self.real[rows]
        for block in self.cache or ():
            block.own.reorder(rows)


class MemorySession:
    """source → model.encode, once; start and the answer so far → model.decode(…, cache=…) → logits of the last.

    `start` may be several tokens, such as language and task; `start` and `ends` default to those of the model's config.
    `check` rejects sources that the model cannot encode.
    """

    def __init__(
        self, model: Any, *, start: Sequence[int], ends: Sequence[int], check: Callable[[Tensor], None], cached: bool
    ) -> None:
        c = model.config
        self.model, self.vocabulary = model, c.target.vocabulary
        self.context: int | None = c.length
        self.start, self.ends = torch.tensor(tuple(start) or (c.start,)), tuple(ends) or (c.end,)
        self.check, self.cached = check, cached
        self.device = next(model.parameters()).device

    def prefix(self, prompt: Tensor) -> Tensor:
        self.check(prompt)
        return self.start

    def prefill(self, prompts: Sequence[Tensor], room: int) -> Tensor:
        with inference(self.model):
            self.memory = self.model.encode(*pad_right(prompts, self.device))
        self.source = torch.arange(len(prompts), device=self.device)  # index of the memory that each row attends to
        self.tokens = self.start.to(self.device).expand(len(prompts), -1)
        self.cache: list[BlockCache] | None = self.model.cache(len(self.start) + room) if self.cached else None
        self.start_logits = self._logits(self.tokens)  # (b, start tokens, v)
        return self.start_logits[:, -1]

    def step(self, tokens: Tensor) -> Tensor:
        new = tokens.to(self.device)[:, None]
        self.tokens = torch.cat([self.tokens, new], 1)
        return self._logits(new if self.cached else self.tokens)[:, -1]

    def _logits(self, tokens: Tensor) -> Tensor:
        with inference(self.model):
            logits: Tensor = self.model.decode(tokens, self.memory, cache=self.cache)
        return logits

    def reorder(self, rows: Tensor) -> None:
        rows = rows.to(self.device)
        self.tokens = self.tokens[rows]
        source = self.source[rows]
        moved = not torch.equal(source, self.source)  # beams of one source share its memory, so usually nothing moves
        for block in self.cache or ():
            block.own.reorder(rows)
            if moved:
                block.memory.reorder(rows)
        if moved:
            self.memory, self.source = self.memory.select(rows), source


State = Any  # what a stream carries from chunk to chunk: nested tuples of tensors (b, …)


def select_state(state: State, rows: Tensor) -> State:
    """Select rows of every tensor of a state."""
    return state[rows] if isinstance(state, Tensor) else tuple(select_state(part, rows) for part in state)


def join_states(states: Sequence[State]) -> State:
    """Concatenate states of single rows to one of a batch."""
    if isinstance(states[0], Tensor):
        return torch.cat(list(states))
    return tuple(join_states(parts) for parts in zip(*states, strict=True))


class StreamSession:
    """A recurrent or causal convolutional language model, run by `stream`. Prompts are unpadded and run one by one."""

    def __init__(self, model: Any, *, vocabulary: int, ends: Sequence[int] = ()) -> None:
        self.model, self.vocabulary, self.ends = model, vocabulary, tuple(ends)
        self.context: int | None = None
        self.device = next(model.parameters()).device

    def prefix(self, prompt: Tensor) -> Tensor:
        require_prompt(prompt, None)
        return prompt

    def prefill(self, prompts: Sequence[Tensor], room: int) -> Tensor:
        with inference(self.model):
            read = [self.model.stream(prompt.to(self.device, torch.long)[None]) for prompt in prompts]
        self.state: State = join_states([state for _, state in read])
        return torch.cat([logits[:, -1] for logits, _ in read])

    def step(self, tokens: Tensor) -> Tensor:
        with inference(self.model):
            logits, self.state = self.model.stream(tokens.to(self.device)[:, None], self.state)
        last: Tensor = logits[:, -1]
        return last

    def reorder(self, rows: Tensor) -> None:
        self.state = select_state(self.state, rows.to(self.device))


class RecurrentMemorySession:
    """source → states Z, once; start and the answer, token by token → model.decode(token, memory, states)."""

    def __init__(
        self, model: Any, *, vocabulary: int, start: int, ends: Sequence[int], check: Callable[[Tensor], None]
    ) -> None:
        self.model, self.vocabulary, self.ends, self.check = model, vocabulary, tuple(ends), check
        self.context: int | None = None
        self.start = torch.tensor([start])
        self.device = next(model.parameters()).device

    def prefix(self, prompt: Tensor) -> Tensor:
        self.check(prompt)
        return self.start

    def prefill(self, prompts: Sequence[Tensor], room: int) -> Tensor:
        with inference(self.model):
            self.memory = self.model.encode(*pad_right(prompts, self.device))
        self.states = self.memory.states
        return self.step(self.start.expand(len(prompts)))

    def step(self, tokens: Tensor) -> Tensor:
        with inference(self.model):
            logits, self.states = self.model.decode(tokens.to(self.device)[:, None], self.memory, self.states)
        last: Tensor = logits[:, -1]
        return last

    def reorder(self, rows: Tensor) -> None:
        rows = rows.to(self.device)
        self.memory, self.states = self.memory.select(rows), select_state(self.states, rows)
