"""Activation patching between two texts, measured by the logits of their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.errors import InputError
from glassformer.lens.sweep import Sweep, sweep
from glassformer.models.protocols import TokenPredictor, device_of
from glassformer.pipelines.tokenizers import optional_tokenizer, token_name, tokens_of


class AnswerSweep(NamedTuple):
    """A sweep with the two answers that its metric compares, and the tokens of the corrupted text."""

    sweep: Sweep
    answer: str
    wrong: str
    tokens: list[str]


def answer_sweep(
    model: nn.Module,
    clean: str,
    corrupted: str,
    *,
    answer: str | None = None,
    wrong: str | None = None,
    position: int = -1,
    site: str = "H",
    progress: Callable[[int, int], None] | None = None,
) -> AnswerSweep:
    """Patch `site` from the clean run into the corrupted one; metric: logit(answer) − logit(wrong) at `position`.

    The answers default to the model's own predictions for the two texts.
    """
    if not isinstance(model, TokenPredictor) or not model.predicts_tokens:
        fact = f"a {type(model).__name__} does not predict tokens"
        raise InputError(fact, "sweep a decoder, or an encoder with a head over the vocabulary")
    tokenizer, place = optional_tokenizer(model), device_of(model)
    texts = tokens_of(model, clean).to(place), tokens_of(model, corrupted).to(place)
    first, second = (_answer(model, ids, text, position) for ids, text in zip(texts, (answer, wrong), strict=True))
    if first == second:
        fact = f"both texts have the answer {token_name(tokenizer, first)!r}"
        raise InputError(fact, "give two different answers (--answer, --wrong)")
    options: dict[str, Any] = {} if progress is None else {"progress": progress}
    made = sweep(
        model,
        *texts,
        lambda out: (logits := _logits(model, out, position))[first] - logits[second],
        site=site,
        **options,
    )
    names = [token_name(tokenizer, int(token)) for token in texts[1][0]]
    return AnswerSweep(made, token_name(tokenizer, first), token_name(tokenizer, second), names)


def _logits(model: TokenPredictor, out: Tensor, position: int) -> Tensor:
    """Return the logits over the vocabulary at one position of a single text."""
    if not -out.shape[1] <= position < out.shape[1]:
        fact = f"there is no position {position} in {out.shape[1]} tokens"
        raise InputError(fact, f"choose up to {out.shape[1] - 1}")
    return model.token_logits(out[0, position])


def _answer(model: Any, ids: Tensor, text: str | None, position: int) -> int:
    """Return the first token of `text`, or the most likely token if `text` is None."""
    with torch.no_grad():
        logits = _logits(model, model(ids), position)
    token = int(logits.argmax()) if text is None else _first(model, text)
    if token >= len(logits):
        raise InputError(f"token {token} is outside the vocabulary of {len(logits)}", f"use 0 to {len(logits) - 1}")
    return token


def _first(model: nn.Module, text: str) -> int:
    """Return an answer's first token that is not just a space: some tokenizers split " she" into two tokens."""
    tokenizer, tokens = optional_tokenizer(model), tokens_of(model, text, special=False)[0].tolist()
    return int(next((token for token in tokens if token_name(tokenizer, token).strip(" ▁")), tokens[0]))
