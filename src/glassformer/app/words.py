"""Text ↔ token ids, as the model that came from a folder has them."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checkpoints import origin_of
from glassformer.errors import InputError


class Words:
    """By the tokenizer.json beside the weights; where there is none, text is token ids: "3 1 4"."""

    def __init__(self, model: nn.Module) -> None:
        origin = origin_of(model)
        path = origin.tokenizer if origin is not None else None
        self._tokenizer: Any = None
        if path is not None:
            from tokenizers import Tokenizer

            self._tokenizer = Tokenizer.from_file(str(path))

    def ids(self, text: str, *, special: bool = True) -> Tensor:
        """(1, n); with the tokens that the model's own begin and end with, unless `special` is False."""
        if self._tokenizer is not None:
            found = self._tokenizer.encode(text, add_special_tokens=special).ids
        elif re.fullmatch(r"\s*\d+([\s,]+\d+)*\s*", text):
            found = [int(word) for word in re.findall(r"\d+", text)]
        else:
            raise InputError(f"the model has no tokenizer.json to read {text[:30]!r} with", 'give token ids: "3 1 4"')
        if not found:
            raise InputError(f"{text!r} is 0 tokens", "give some text")
        return torch.tensor([found])

    def text(self, token: int) -> str:
        """One token as it is shown."""
        if self._tokenizer is None:
            return str(token)
        return self._tokenizer.decode([token], skip_special_tokens=False) or str(self._tokenizer.id_to_token(token))
