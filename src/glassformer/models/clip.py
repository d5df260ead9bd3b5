"""S = e^τ x̂ ŷᵀ: how well each image fits each text, both as vectors of one space.

Radford et al., "Learning Transferable Visual Models From Natural Language Supervision", 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize

from glassformer.core.values import has_values
from glassformer.errors import ConfigError, InputError
from glassformer.models import vit
from glassformer.models.vit import ViT, ViTConfig
from glassformer.nn import BlockConfig, FeedForwardConfig, Learned, Linear, NormConfig, heads
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import initialise, normal
from glassformer.nn.tap import Tap
from glassformer.nn.text import TextConfig, TextStack

TAU = math.log(1 / 0.07)  # where the temperature starts


@dataclass(frozen=True, kw_only=True)
class CLIPConfig:
    """Two towers, or one of them alone, and the `width` of the space they share (0: a tower's own, not projected).

    A text is the vector of its first token `end`; with None, of its token with the highest number, as in old files.
    """

    vision: ViTConfig | None
    text: TextConfig | None
    width: int
    end: int | None = None

    def __post_init__(self) -> None:
        if self.vision is None and self.text is None:
            raise ConfigError("a CLIP of 0 towers", "give it vision, text, or both")
        if self.vision is not None and self.vision.classes:
            raise ConfigError(f"the image tower has {self.vision.classes} classes", "give it 0: texts are the classes")
        if self.width < (1 if self.vision is not None and self.text is not None else 0):
            raise ConfigError(f"both towers meet in a space {self.width} wide", "choose a width of at least 1")


def plain(vision: ViTConfig, text: TextConfig, width: int, end: int | None) -> CLIPConfig:
    """OpenAI's: QuickGELU, eps 1e-5, a norm before the image's blocks too, patches without bias."""
    norm = NormConfig(eps=1e-5)

    def block(old: BlockConfig) -> BlockConfig:
        return replace(old, norm=norm, ffn=replace(old.ffn, activation="quick_gelu"))

    vision = replace(vision, block=block(vision.block), first_norm=norm, last_norm=norm, patch_bias=False)
    return CLIPConfig(vision=vision, text=replace(text, block=block(text.block), last_norm=norm), width=width, end=end)


def words(vocabulary: int, width: int, depth: int, count: int, length: int) -> TextConfig:
    block = BlockConfig(attention=heads(width, count), ffn=FeedForwardConfig(width=width, hidden=4 * width))
    return TextConfig(vocabulary=vocabulary, depth=depth, block=block, positions=Learned(length=length))


def tiny() -> CLIPConfig:
    return plain(vit.plain(8, 4, 16, 2, 2, classes=0), words(30, 12, 2, 3, 10), 8, 29)


def base_32() -> CLIPConfig:
    """ViT-B/32: 151 million parameters."""
    return plain(vit.base_32(classes=0), words(49408, 512, 12, 8, 77), 512, 49407)


class CLIP(nn.Module):
    """x = W_I vision(image), y = W_T text(tokens) at the end token, S = e^τ x̂ ŷᵀ."""

    def __init__(self, config: CLIPConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = c = config
        if c.vision is not None:
            self.vision, self.x = ViT(c.vision), Tap()
            self.image_projection = Linear(c.vision.width, c.width, bias=False) if c.width else None
        if c.text is not None:
            self.text, self.y = TextStack(c.text), Tap()
            self.text_projection = Linear(c.text.width, c.width, bias=False) if c.width else None
        if c.vision is not None and c.text is not None:
            self.tau, self.S = nn.Parameter(torch.tensor(TAU)), Tap()
        initialise(self, seed, normal(0.02))

    def images(self, image: Float[Tensor, "b c H W"]) -> Float[Tensor, "b n"]:
        """The vector of each image, of any length."""
        if self.config.vision is None:
            raise ConfigError("this model has no image tower", "load both, or one for images")
        x = self.vision(image)
        return self.x(x if self.image_projection is None else self.image_projection(x))

    def texts(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b n"]:
        """The vector of each text, of any length; what follows its end token changes nothing."""
        if self.config.text is None:
            raise ConfigError("this model has no text tower", "load both, or one for texts")
        X = self.text.decode(tokens)
        y = X[torch.arange(X.shape[0], device=X.device), self.ends(tokens)]
        return self.y(require_finite(y if self.text_projection is None else self.text_projection(y), self))

    def ends(self, tokens: Int[Tensor, "b t"]) -> Int[Tensor, " b"]:
        """Where each text ends."""
        end = self.config.end
        if end is None:
            return tokens.argmax(-1)
        found = tokens == end
        if has_values(found) and not found.any(-1).all():
            text = int((~found.any(-1)).nonzero()[0])
            raise InputError(f"text {text} has no end token {end}", "let the tokenizer add it, and cut before it")
        return found.long().argmax(-1)

    def forward(self, image: Float[Tensor, "b c H W"], tokens: Int[Tensor, "n t"]) -> Float[Tensor, "b n"]:
        """S: its softargmax over texts says which of them fits the image."""
        x, y = normalize(self.images(image), dim=-1), normalize(self.texts(tokens), dim=-1)
        return self.S(require_finite(self.tau.exp() * x @ y.mT, self))
