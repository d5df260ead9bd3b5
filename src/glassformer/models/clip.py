"""S = e^τ x̂ ŷᵀ: similarity of images and texts, embedded in one space.

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
from glassformer.models.describe import describe_image, stack_size
from glassformer.models.protocols import InputKind, Verb
from glassformer.models.registry import register
from glassformer.models.vit import ViT, ViTConfig
from glassformer.nn import BlockConfig, FeedForwardConfig, Learned, Linear, NormConfig, heads
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import initialise, normal
from glassformer.nn.tap import Tap
from glassformer.nn.text import TextConfig, TextStack

TAU = math.log(1 / 0.07)  # initial value of τ


@dataclass(frozen=True, kw_only=True)
class CLIPConfig:
    """Config of two towers, or one of them alone, with a joint space of `width` dimensions (0: no projection).

    A text is represented by its first `end` token; if `end` is None, by its token with the highest id, as in old
    checkpoints.
    """

    vision: ViTConfig | None
    text: TextConfig | None
    width: int
    end: int | None = None

    def __post_init__(self) -> None:
        if self.vision is None and self.text is None:
            raise ConfigError("CLIP has neither an image nor a text tower", "give it vision, text, or both")
        if self.vision is not None and self.vision.classes:
            raise ConfigError(f"the image tower has {self.vision.classes} classes", "give it 0: texts are the classes")
        if self.width < (1 if self.vision is not None and self.text is not None else 0):
            raise ConfigError(f"the joint space has width {self.width}", "choose a width of at least 1")


def plain(vision: ViTConfig, text: TextConfig, width: int, end: int | None) -> CLIPConfig:
    """OpenAI's variant: QuickGELU, eps 1e-5, a norm before the image blocks too, patch embedding without bias."""
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


@register
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
        """Embed each image; the vectors are not normalised."""
        if self.config.vision is None:
            raise ConfigError("this model has no image tower", "load both, or one for images")
        x = self.vision(image)
        return self.x(x if self.image_projection is None else self.image_projection(x))

    def texts(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b n"]:
        """Embed each text; the vectors are not normalised. Tokens after the end token have no effect."""
        if self.config.text is None:
            raise ConfigError("this model has no text tower", "load both, or one for texts")
        X = self.text.decode(tokens)
        y = X[torch.arange(X.shape[0], device=X.device), self.ends(tokens)]
        return self.y(require_finite(y if self.text_projection is None else self.text_projection(y), self))

    def ends(self, tokens: Int[Tensor, "b t"]) -> Int[Tensor, " b"]:
        """Position of each text's end token."""
        end = self.config.end
        if end is None:
            return tokens.argmax(-1)
        found = tokens == end
        if has_values(found) and not found.any(-1).all():
            text = int((~found.any(-1)).nonzero()[0])
            raise InputError(
                f"text {text} has no end token {end}", "let the tokenizer add it, and truncate longer texts before it"
            )
        return found.long().argmax(-1)

    def forward(self, image: Float[Tensor, "b c H W"], tokens: Int[Tensor, "n t"]) -> Float[Tensor, "b n"]:
        """S: its softargmax over the texts is the probability that each of them fits the image."""
        x, y = normalize(self.images(image), dim=-1), normalize(self.texts(tokens), dim=-1)
        return self.S(require_finite(self.tau.exp() * x @ y.mT, self))

    # ---- capabilities ----

    inputs: tuple[InputKind, ...] = ("image", "text")
    classes = 0  # labels are passed as texts
    head_names: tuple[str, ...] = ()

    @property
    def vocabulary(self) -> int:
        return 0 if self.config.text is None else self.config.text.vocabulary

    @property
    def towers(self) -> tuple[InputKind, ...]:
        c = self.config
        return (*(("image",) if c.vision is not None else ()), *(("text",) if c.text is not None else ()))

    @property
    def verbs(self) -> tuple[Verb, ...]:
        return ("classify",) if len(self.towers) == 2 else ()

    @property
    def context_length(self) -> int | None:
        positions = None if self.config.text is None else self.config.text.positions
        return positions.length if isinstance(positions, Learned) else None

    def pad_texts(self, rows: list[list[int]]) -> Int[Tensor, "b t"]:
        longest = max(map(len, rows))
        fill = [row[-1] if self.config.end is None else 0 for row in rows]
        return torch.tensor([[*row, *[x] * (longest - len(row))] for row, x in zip(rows, fill, strict=True)])

    def class_logits(self, X: Tensor, real: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        raise ConfigError("CLIP has no classes of its own", "call the model with images and the labels' token ids")

    def with_classes(self, classes: int, *, image_size: tuple[int, int] | None = None, seed: int = 0) -> CLIP:
        raise ConfigError("CLIP has no head for classes", "give the classes as texts, or fine-tune a ViT")

    def sizes(self) -> dict[str, str]:
        c = self.config
        found = describe_image(c.vision) if c.vision is not None else {}
        return found | ({"text": stack_size(c.text)} if c.text is not None else {}) | {"space": str(c.width)}
