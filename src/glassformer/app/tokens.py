"""Text ↔ tokens of whatever model a command was given: by the words beside its weights, or by number."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from glassformer.checkpoints import origin_of
from glassformer.errors import InputError
from glassformer.tasks.tokenize import FILES, JsonWords, MarianWords, PieceWords, Words, words_of


def words_beside(model: nn.Module) -> Words | None:
    """None for a model that came without any."""
    origin = origin_of(model)
    return words_of(model) if origin is not None and any(map(origin.file, FILES)) else None


def tokens_of(model: nn.Module, text: str, *, special: bool = True) -> Tensor:
    """(1, n); without words a text is numbers: "3 1 4"."""
    words = words_beside(model)
    if words is not None:
        found = words.encode(text, special=special)
    elif re.fullmatch(r"\s*(\d+([\s,]+\d+)*)?\s*", text):
        found = [int(word) for word in re.findall(r"\d+", text)]
    else:
        raise InputError(f"the model has no tokenizer.json to read {text[:30]!r} with", 'give token ids: "3 1 4"')
    if not found or not text.strip():  # what some models begin and end with is no text
        raise InputError(f"{text!r} is 0 tokens", "give some text")
    return torch.tensor([found])


def name_of(words: Words | None, token: int) -> str:
    """One token as it is shown; special ones by their name."""
    match words:
        case JsonWords(tokenizer=own):
            return str(own.decode([token], skip_special_tokens=False) or own.id_to_token(token))
        case MarianWords(pieces=pieces):
            return pieces.get(token, str(token)).replace("▁", " ")
        case PieceWords(processor=own) if token < own.vocab_size():
            return str(own.id_to_piece(token)).replace("▁", " ")
    return str(token)
