"""A typical input for any model, generated from a seed, on which precisions are compared and timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from glassformer.errors import InputError
from glassformer.models.protocols import (
    ImageModel,
    ImageTextModel,
    SpeechGenerator,
    StreamModel,
    TextModel,
    context_length,
    inputs_of,
)

LENGTH = 32
IMAGE = (64, 64)  # for models that take any size


def example(
    model: nn.Module, *, batch: int = 1, length: int = LENGTH, seed: int = 0, tokens: Sequence[int] = ()
) -> Callable[[], Tensor]:
    """Return a function that calls the model on random tokens, pixels or frames, and returns its first output.

    `tokens` replace the random tokens of a model that reads text. Random inputs show speed and rounding errors; the
    quality of the answers can only be measured on real data.
    """
    generator = torch.Generator().manual_seed(seed)
    length = min(length, context_length(model) or length)
    if isinstance(model, SpeechGenerator):
        frames = torch.randn(batch, model.window, model.bands, generator=generator)
        start = torch.full((batch, 4), model.start_token)
        return lambda: model(frames, start)
    if isinstance(model, ImageTextModel):
        tower = next((part for part in model.modules() if isinstance(part, ImageModel)), None)
        if tower is None:
            raise InputError("there is no example input for a text tower alone", "name a precision instead of auto")
        pixels = torch.randn(batch, tower.channels, *(tower.image_size or IMAGE), generator=generator)
        return lambda: model.images(pixels)
    if inputs_of(model)[:1] == ("image",) and isinstance(model, ImageModel):
        pixels = torch.randn(batch, model.channels, *(model.image_size or IMAGE), generator=generator)
        return lambda: model(pixels)
    if isinstance(model, TextModel) and inputs_of(model) == ("text", "text"):
        vocabulary = model.vocabulary  # tokens that both sides have
        ids = torch.randint(min(4, vocabulary - 1), vocabulary, (batch, length), generator=generator)
        if tokens:
            ids = torch.tensor(tokens[:length]).clamp_max(vocabulary - 1).expand(batch, -1)
        return lambda: model(ids, ids[:, : max(1, length // 2)])
    if isinstance(model, StreamModel):
        reads_text = inputs_of(model)[:1] == ("text",)
        X = model.example(length if reads_text else None, generator)
        X = torch.tensor(tokens[:length])[None] if tokens and reads_text else X[:1]
        X = X.expand(batch, *X.shape[1:])
        return lambda: model.respond(X)
    raise InputError(f"there is no example input for a {type(model).__name__}", "name a precision instead of auto")
