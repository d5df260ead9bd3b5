"""Validation before decoding: session, prompts, length limits and end tokens are checked before the model runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from glassformer.decoding.stopping import Stopping
from glassformer.errors import ConfigError, InputError
from glassformer.models.protocols import SpeechGenerator, TextGenerator
from glassformer.models.sessions import Session

Prompt = Sequence[int] | Tensor


class Prepared(NamedTuple):
    """Validated inputs. `prefixes` are the tokens that answers continue, `limits` the maximum length of each answer."""

    session: Session
    prompts: list[Tensor]
    prefixes: list[Tensor]
    limits: list[int]
    ends: tuple[int, ...]

    def early_ends(self, stopping: Stopping, length: int) -> tuple[int, ...]:
        """The end tokens to suppress while an answer of this length is shorter than the minimum."""
        return self.ends if length < stopping.min_new_tokens else ()


def as_session(model: nn.Module | Session) -> Session:
    """Return a new session of a model; a session is returned as is."""
    if isinstance(model, nn.Module) and isinstance(model, TextGenerator | SpeechGenerator):
        return model.session()
    if isinstance(model, Session):
        return model
    fact = f"a {type(model).__name__} does not generate tokens"
    raise ConfigError(fact, "give a model with session(), or a session of yours (see models.sessions.Session)")


def prepare_decoding(
    model: nn.Module | Session,
    prompts: Sequence[Prompt] | Tensor,
    stopping: Stopping,
    banned: Iterable[int] = (),
    named: Iterable[int] = (),
) -> Prepared:
    """Return the session with its limits, or raise the error that decoding would run into.

    `banned` tokens are never chosen; `named` tokens occur in some other constraint and must be in the vocabulary.
    """
    session = as_session(model)
    tensors = as_prompts(prompts)
    prefixes = [session.prefix(prompt) for prompt in tensors]
    limits = [_limit(len(prefix), session.context, stopping) for prefix in prefixes]
    ends = session.ends if stopping.ends is None else tuple(stopping.ends)
    _require_some_left(session.vocabulary, ends, set(banned), set(named), stopping)
    return Prepared(session, tensors, prefixes, limits, ends)


def as_prompts(prompts: Sequence[Prompt] | Tensor) -> list[Tensor]:
    """Convert each prompt to a tensor on the CPU."""
    return [_as_prompt(prompt) for prompt in prompts]


def _as_prompt(prompt: object) -> Tensor:
    if isinstance(prompt, str):
        raise InputError(f"a prompt is the text {prompt[:20]!r}", "turn it into token ids with the model's tokenizer")
    tensor = torch.as_tensor(prompt).cpu()
    if tensor.dim() == 0:
        raise InputError(f"a prompt is the single number {tensor.item()}", "give a list of prompts, each a list of ids")
    return tensor


def _limit(start: int, context: int | None, stopping: Stopping) -> int:
    """max_new_tokens, or the remaining capacity of the context."""
    if context is None:
        if stopping.max_new_tokens is None:
            raise ConfigError("nothing but an end token would end the answer", "give Stopping(max_new_tokens=…)")
        return stopping.max_new_tokens
    room = context - start
    if room < 1:
        raise InputError(
            f"{start} tokens fill the model's context of {context}", "shorten the prompt to leave room for an answer"
        )
    wanted = room if stopping.max_new_tokens is None else stopping.max_new_tokens
    if (new := max(wanted, stopping.min_new_tokens)) > room:
        raise InputError(
            f"{start} tokens and {new} new ones exceed the model's context of {context}",
            f"ask for at most {room} new tokens, or shorten the prompt",
        )
    return wanted


def _require_some_left(
    vocabulary: int, ends: tuple[int, ...], banned: set[int], named: set[int], stopping: Stopping
) -> None:
    unknown = sorted(token for token in {*ends, *banned, *named} if token >= vocabulary)
    if unknown:
        raise ConfigError(
            f"token {unknown[0]} is outside the vocabulary of {vocabulary}", f"use token ids from 0 to {vocabulary - 1}"
        )
    if len(banned | set(ends if stopping.min_new_tokens else ())) >= vocabulary:
        raise ConfigError(f"all {vocabulary} tokens are banned", "leave at least one")
