"""Sample inputs for parity tests: the arguments of Hugging Face's class, and the equivalent call of our model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError
from glassformer.models.clip import CLIP
from glassformer.models.decoder import Decoder
from glassformer.models.encoder import Encoder
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.vit import ViT
from glassformer.models.whisper import Whisper


class ParitySample(NamedTuple):
    """A sample input. `theirs` holds the peer's arguments and `ours` runs our model on the same input.

    `real` maps the first part of a module path to a mask that is False at padding.
    """

    theirs: dict[str, Tensor]
    ours: Callable[[Any], Any]
    real: Mapping[str, Tensor]

    def given(self, peer: nn.Module) -> dict[str, Tensor]:
        """Return the peer's arguments, with floating-point inputs (pixels, frames) in the dtype of its weights."""
        dtype = next(peer.parameters()).dtype
        return {name: x.to(dtype) if x.is_floating_point() else x for name, x in self.theirs.items()}


def random_sample(model: nn.Module, *, length: int = 12, seed: int = 0) -> ParitySample:
    """Return two random inputs, one shorter and padded on the side usual for this kind of model."""
    for kind, make in MAKERS.items():
        if isinstance(model, kind):
            return make(model, length, torch.Generator().manual_seed(seed))
    raise ConfigError(f"there is no sample for a {type(model).__name__}", "give one to glassformer.checkpoints.samples")


def tokens(vocabulary: int, length: int, generator: torch.Generator) -> Tensor:
    """Return random token ids, excluding the lowest ones, where padding tokens usually are."""
    low = min(4, vocabulary - 1)
    return torch.randint(low, vocabulary, (2, length), generator=generator)


def padded(length: int, *, left: bool) -> Tensor:
    """Return a mask that is True at real tokens: all of the first row, three quarters of the second."""
    real = torch.ones(2, length, dtype=torch.bool)
    short = max(1, length // 4)
    real[1, slice(0, short) if left else slice(length - short, length)] = length < 2
    return real


def of_encoder(model: Encoder, length: int, generator: torch.Generator) -> ParitySample:
    text = model.config.text
    limit = getattr(text.positions, "length", length)
    ids = tokens(text.vocabulary, min(length, limit), generator)
    real = padded(ids.shape[1], left=False)
    kinds = torch.randint(0, max(text.segments, 1), ids.shape, generator=generator)

    def ours(model: Encoder) -> None:
        X = model(ids, real, kinds)
        if model.config.word_head:
            model.words(X)
        if model.config.classes:
            model.classify(ids, real, kinds)
        elif model.config.pooler:
            model.pooled(X, real)

    ids = ids.masked_fill(~real, 0)
    theirs = {"input_ids": ids, "attention_mask": real.long(), "token_type_ids": kinds}
    return ParitySample(theirs, ours, {"encoder": real, "word_head": real})


def of_decoder(model: Decoder, length: int, generator: torch.Generator) -> ParitySample:
    ids = tokens(model.config.text.vocabulary, min(length, model.config.length), generator)
    real = padded(ids.shape[1], left=True)
    where = (real.long().cumsum(-1) - 1).clamp_min(0)
    theirs = {"input_ids": ids, "attention_mask": real.long(), "position_ids": where}
    return ParitySample(theirs, lambda model: model(ids, real), {"decoder": real, "word_head": real})


def of_seq2seq(model: Seq2Seq, length: int, generator: torch.Generator) -> ParitySample:
    length = min(length, model.config.length)
    source = tokens(model.config.source.vocabulary, length, generator)
    target = tokens(model.config.target.vocabulary, max(1, length - 3), generator)
    real = padded(length, left=False)
    theirs = {"input_ids": source, "attention_mask": real.long(), "decoder_input_ids": target}
    return ParitySample(theirs, lambda model: model(source, target, real), {"encoder": real})


def of_vit(model: ViT, length: int, generator: torch.Generator) -> ParitySample:
    c = model.config
    pixels = torch.randn(2, c.channels, *c.image, generator=generator)
    return ParitySample({"pixel_values": pixels}, lambda model: model(pixels.to(model.positions.dtype)), {})


def of_clip(model: CLIP, length: int, generator: torch.Generator) -> ParitySample:
    c = model.config
    theirs = {}
    if c.vision is not None:
        theirs["pixel_values"] = torch.randn(2, c.vision.channels, *c.vision.image, generator=generator)
    if c.text is not None:
        ids = tokens(c.text.vocabulary, min(length, getattr(c.text.positions, "length", length)), generator)
        ids[0, -1] = ids[1, ids.shape[1] // 2] = c.text.vocabulary - 1 if c.end is None else c.end
        theirs["input_ids"] = ids

    def ours(model: CLIP) -> None:
        given = {name: x.to(next(model.parameters()).dtype) for name, x in theirs.items() if name == "pixel_values"}
        if len(theirs) == 2:
            model(given["pixel_values"], theirs["input_ids"])
        elif given:
            model.images(given["pixel_values"])
        else:
            model.texts(theirs["input_ids"])

    return ParitySample(theirs, ours, {})


def of_whisper(model: Whisper, length: int, generator: torch.Generator) -> ParitySample:
    """Return a full window of frames, the only length that Hugging Face's class accepts."""
    c = model.config
    frames = torch.randn(2, c.frames, c.embed.bands, generator=generator)
    target = tokens(c.target.vocabulary, min(length, c.length), generator)
    theirs = {"input_features": frames.mT, "decoder_input_ids": target}
    return ParitySample(theirs, lambda model: model(frames, target), {})


# register other kinds of models here
MAKERS: dict[type[nn.Module], Callable[[Any, int, torch.Generator], ParitySample]] = {
    Encoder: of_encoder,
    Decoder: of_decoder,
    Seq2Seq: of_seq2seq,
    ViT: of_vit,
    CLIP: of_clip,
    Whisper: of_whisper,
}
