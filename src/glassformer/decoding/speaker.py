"""prime(prompts) → logits, step(tokens) → logits, reorder(rows): all that a way of decoding needs of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from glassformer.errors import InputError
from glassformer.models.decoder import Decoder
from glassformer.models.seq2seq import Memory, Seq2Seq
from glassformer.models.whisper import Whisper
from glassformer.nn import BlockCache

Prompt = Sequence[int] | Tensor


@runtime_checkable
class Speaker(Protocol):
    """A model in the middle of speaking. It remembers its batch, so each speech at a time has a speaker of its own."""

    @property
    def vocabulary(self) -> int: ...

    @property
    def context(self) -> int | None:
        """How many tokens a beginning and its answer may be together; None: any number."""

    @property
    def ends(self) -> tuple[int, ...]:
        """The end tokens the model was made with."""

    def beginning(self, prompt: Tensor) -> Tensor:
        """The tokens that the answer goes on from, or an error if the prompt cannot be answered."""

    def prime(self, prompts: Sequence[Tensor], room: int) -> Tensor:
        """Starts anew: the logits (b, v) of the first token after each prompt; at most `room` tokens will follow."""

    def step(self, tokens: Tensor) -> Tensor:
        """One more token for each row (b,): the logits (b, v) of the next."""

    def reorder(self, rows: Tensor) -> None:
        """Row i goes on from where row rows[i] is: beams part, rows that have ended are left out."""


@contextmanager
def quietly(model: nn.Module) -> Iterator[None]:
    """Without gradients and dropout; the model is left as it was."""
    loud = [module for module in model.modules() if module.training] if model.training else []
    for module in loud:
        object.__setattr__(module, "training", False)  # a module's own way looks for parameters first: slow, each step
    try:
        with torch.no_grad():
            yield
    finally:
        for module in loud:
            object.__setattr__(module, "training", True)


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def require_prompt(prompt: Tensor, context: int | None, what: str = "prompt") -> None:
    if prompt.numel() == 0:
        raise InputError(f"a {what} is empty", "begin with at least one token")
    if prompt.dim() != 1 or prompt.is_floating_point() or prompt.dtype == torch.bool:
        kind = str(prompt.dtype).removeprefix("torch.")
        raise InputError(f"a {what} is {kind} of shape {tuple(prompt.shape)}", "give each as a list of token ids")
    if context is not None and len(prompt) > context:
        raise InputError(f"a {what} of {len(prompt)} tokens passes the model's context of {context}", "shorten it")


def require_frames(sound: Tensor, model: Whisper) -> None:
    bands, most = model.config.embed.bands, model.config.frames
    if sound.dim() != 2 or sound.shape[1] != bands or not sound.is_floating_point() or not 1 <= len(sound) <= most:
        kind = str(sound.dtype).removeprefix("torch.")
        fact = f"a sound is {kind} of shape {tuple(sound.shape)}"
        raise InputError(fact, f"give each as 1 to {most} frames of {bands} bands (core.whisper_log_mel)")


def padded_left(prompts: Sequence[Tensor], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Prompts (b, t) that end together, and which of it is real; None where all of it is."""
    longest = max(map(len, prompts))
    tokens = torch.zeros(len(prompts), longest, dtype=torch.long)
    real = torch.zeros(len(prompts), longest, dtype=torch.bool)
    for i, prompt in enumerate(prompts):
        tokens[i, longest - len(prompt) :] = prompt
        real[i, longest - len(prompt) :] = True
    return tokens.to(device), None if real.all() else real.to(device)


def padded_right(prompts: Sequence[Tensor], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Sources (b, s, …) that begin together, and which of it is real; None where all of it is."""
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    real = torch.arange(int(lengths.max())) < lengths[:, None]
    source = pad_sequence(list(prompts), batch_first=True).to(device)
    return source, None if real.all() else real.to(device)


class DecoderSpeaker:
    """tokens → Decoder → logits of the last; each token goes through the model once, unless `cached` is False."""

    def __init__(self, model: Decoder, *, ends: Sequence[int] = (), cached: bool = True) -> None:
        self.model, self.ends, self.cached = model, tuple(ends), cached
        self.vocabulary = model.config.text.vocabulary
        self.context: int | None = model.config.length

    def beginning(self, prompt: Tensor) -> Tensor:
        require_prompt(prompt, self.context)
        return prompt

    def prime(self, prompts: Sequence[Tensor], room: int) -> Tensor:
        self.tokens, self.real = padded_left(prompts, device_of(self.model))
        self.cache = self.model.cache(self.tokens.shape[1] + room) if self.cached else None
        return self._logits(self.tokens)

    def step(self, tokens: Tensor) -> Tensor:
        new = tokens.to(self.tokens.device)[:, None]
        self.tokens = torch.cat([self.tokens, new], 1)
        if self.real is not None:
            self.real = torch.cat([self.real, torch.ones_like(new, dtype=torch.bool)], 1)
        return self._logits(new if self.cached else self.tokens)

    def _logits(self, tokens: Tensor) -> Tensor:
        with quietly(self.model):
            return self.model(tokens, self.real, cache=self.cache, last=True)[:, -1]

    def reorder(self, rows: Tensor) -> None:
        rows = rows.to(self.tokens.device)
        self.tokens = self.tokens[rows]
        self.real = None if self.real is None else self.real[rows]
        for block in self.cache or ():
            block.own.reorder(rows)


class Seq2SeqSpeaker:
    """source → memory, once; start and the answer so far → decode → logits of the last.

    A source is tokens, or frames of sound (t, bands) for Whisper. `start` may be several tokens: a language, a task.
    """

    def __init__(self, model: Seq2Seq | Whisper, *, start: Sequence[int] = (), cached: bool = True) -> None:
        config = model.config
        self.model, self.cached = model, cached
        self.start = torch.tensor(tuple(start) or (config.start,))
        self.vocabulary = config.target.vocabulary
        self.context: int | None = config.length
        self.ends: tuple[int, ...] = (config.end,)

    def beginning(self, prompt: Tensor) -> Tensor:
        if isinstance(self.model, Whisper):
            require_frames(prompt, self.model)
        else:
            require_prompt(prompt, self.context, "source")
        return self.start

    def prime(self, prompts: Sequence[Tensor], room: int) -> Tensor:
        device = device_of(self.model)
        with quietly(self.model):
            self.memory: Memory = self.model.encode(*padded_right(prompts, device))
        self.source = torch.arange(len(prompts), device=device)  # whose memory each row looks at
        self.tokens = self.start.to(device).expand(len(prompts), -1)
        self.cache: list[BlockCache] | None = self.model.cache(len(self.start) + room) if self.cached else None
        return self._logits(self.tokens)

    def step(self, tokens: Tensor) -> Tensor:
        new = tokens.to(self.tokens.device)[:, None]
        self.tokens = torch.cat([self.tokens, new], 1)
        return self._logits(new if self.cached else self.tokens)

    def _logits(self, tokens: Tensor) -> Tensor:
        with quietly(self.model):
            return self.model.decode(tokens, self.memory, cache=self.cache)[:, -1]

    def reorder(self, rows: Tensor) -> None:
        rows = rows.to(self.tokens.device)
        self.tokens = self.tokens[rows]
        source = self.source[rows]
        moved = not torch.equal(source, self.source)  # beams of one source share its memory: mostly nothing moves
        for block in self.cache or ():
            block.own.reorder(rows)
            if moved:
                block.memory.reorder(rows)
        if moved:
            X, real = self.memory
            self.memory, self.source = Memory(X[rows], None if real is None else real[rows]), source


def as_prompts(prompts: Sequence[Prompt] | Tensor) -> list[Tensor]:
    """Each prompt as a tensor on the CPU."""
    return [_as_prompt(prompt) for prompt in prompts]


def _as_prompt(prompt: object) -> Tensor:
    if isinstance(prompt, str):
        raise InputError(f"a prompt is the text {prompt[:20]!r}", "turn it into token ids with the model's tokenizer")
    tensor = torch.as_tensor(prompt).cpu()
    if tensor.dim() == 0:
        raise InputError(f"a prompt is the single number {tensor.item()}", "give a list of prompts, each a list of ids")
    return tensor
