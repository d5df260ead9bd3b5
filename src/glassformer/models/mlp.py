"""Xₗ₊₁ = ReLU(Xₗ Wₗ + bₗ), logits = X_L W + b: a multilayer perceptron on a flattened image or window of fixed length.

Rosenblatt 1958; Rumelhart, Hinton, Williams 1986. On a window of tokens it is the neural language model of Bengio et
al. 2003: the concatenated embeddings of the last few words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import relu

from glassformer.core.attention import require_dropout
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.models.protocols import InputKind, Verb
from glassformer.models.registry import register
from glassformer.models.sequence_io import Sequence, he_uniform, require_positive
from glassformer.nn.embed import require_ids
from glassformer.nn.finite import require_finite
from glassformer.nn.linear import Embedding, Linear, initialise
from glassformer.nn.tap import Tap


@dataclass(frozen=True, kw_only=True)
class ImageInput:
    """Images (b, channels, height, width) of a fixed size."""

    channels: int
    height: int
    width: int

    def __post_init__(self) -> None:
        require_positive(channels=self.channels, height=self.height, width=self.width)

    @property
    def size(self) -> int:
        return self.channels * self.height * self.width

    def check(self, X: Tensor) -> None:
        expected = (self.channels, self.height, self.width)
        if X.dim() != 4 or X.shape[1:] != expected:
            remedy = f"give (batch, {', '.join(map(str, expected))}), or build an MLP for that size"
            raise ShapeError(f"images have shape {tuple(X.shape)}", remedy)


@dataclass(frozen=True, kw_only=True)
class TokenWindow:
    """Token ids (b, length), each embedded in `width` dimensions."""

    vocabulary: int
    length: int
    width: int

    def __post_init__(self) -> None:
        require_positive(vocabulary=self.vocabulary, length=self.length, width=self.width)

    @property
    def size(self) -> int:
        return self.length * self.width

    def check(self, X: Tensor) -> None:
        if X.dim() != 2 or X.shape[1] != self.length:
            remedy = f"cut windows of {self.length} tokens, (batch, {self.length}), or build an MLP for that length"
            raise ShapeError(f"token ids have shape {tuple(X.shape)}", remedy)
        require_ids("token id", X, self.vocabulary)


@dataclass(frozen=True, kw_only=True)
class FrameWindow:
    """Real-valued frames (b, length, features)."""

    features: int
    length: int

    def __post_init__(self) -> None:
        require_positive(features=self.features, length=self.length)

    @property
    def size(self) -> int:
        return self.length * self.features

    def check(self, X: Tensor) -> None:
        if X.dim() != 3 or X.shape[1:] != (self.length, self.features):
            remedy = f"cut windows (batch, {self.length}, {self.features}), or build an MLP for that length"
            raise ShapeError(f"frames have shape {tuple(X.shape)}", remedy)


@dataclass(frozen=True, kw_only=True)
class MLPConfig:
    reads: ImageInput | TokenWindow | FrameWindow
    widths: tuple[int, ...]  # of the hidden layers; () is a linear classifier
    classes: int
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_positive(classes=self.classes)
        require_dropout(self.dropout)
        if any(width < 1 for width in self.widths):
            raise ConfigError(f"hidden widths are {self.widths}", "choose each at least 1")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths of all layers, from input to output."""
        return (self.reads.size, *self.widths, self.classes)

    @property
    def parameters(self) -> int:
        embedding = self.reads.vocabulary * self.reads.width if isinstance(self.reads, TokenWindow) else 0
        return embedding + sum((m + 1) * n for m, n in pairwise(self.sizes))


def tiny(reads: ImageInput | TokenWindow | FrameWindow, classes: int) -> MLPConfig:
    return MLPConfig(reads=reads, widths=(16, 16), classes=classes)


def mnist() -> MLPConfig:
    """Two hidden layers of 800 on 28×28 greyscale images: the size of Simard et al. 2003 with one more layer."""
    return MLPConfig(reads=ImageInput(channels=1, height=28, width=28), widths=(800, 800), classes=10, dropout=0.2)


class DenseLayer(nn.Module):
    """P = X W + b, F = ReLU(P)."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.W = Linear(inputs, width)
        self.P, self.F = Tap(), Tap()

    def forward(self, X: Float[Tensor, "b k"]) -> Float[Tensor, "b n"]:
        return self.F(relu(self.P(self.W(X))))


@register
class MLP(nn.Module):
    """A multilayer perceptron that maps images, token windows or frame windows to logits (b, classes)."""

    def __init__(self, config: MLPConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        reads, sizes = config.reads, config.sizes
        self.E = Embedding(reads.vocabulary, reads.width) if isinstance(reads, TokenWindow) else None
        self.layers = nn.ModuleList(DenseLayer(m, n) for m, n in pairwise(sizes[:-1]))
        self.dropout = nn.Dropout(config.dropout)
        self.W = Linear(sizes[-2], sizes[-1])
        self.X, self.logits = Tap(), Tap()
        initialise(self, seed, he_uniform)

    def forward(self, X: Float[Tensor, "b c H W"] | Sequence) -> Float[Tensor, "b classes"]:
        self.config.reads.check(X)
        X = self.X((X if self.E is None else self.E(X)).flatten(1))
        for layer in self.layers:
            X = self.dropout(layer(X))
        return require_finite(self.logits(self.W(X)), self)

    # ---- capabilities ----

    head_names = ("W",)

    @property
    def inputs(self) -> tuple[InputKind, ...]:
        kinds: dict[type, InputKind] = {ImageInput: "image", TokenWindow: "text", FrameWindow: "frames"}
        return (kinds[type(self.config.reads)],)

    @property
    def verbs(self) -> tuple[Verb, ...]:
        return ("classify",) if isinstance(self.config.reads, ImageInput) else ()

    @property
    def classes(self) -> int:
        return self.config.classes

    @property
    def channels(self) -> int:
        return self.config.reads.channels if isinstance(self.config.reads, ImageInput) else 0

    @property
    def image_size(self) -> tuple[int, int] | None:
        reads = self.config.reads
        return (reads.height, reads.width) if isinstance(reads, ImageInput) else None

    @property
    def context_length(self) -> int | None:
        """Window length of a language model, which predicts the token after exactly this many."""
        return self.config.reads.length if isinstance(self.config.reads, TokenWindow) else None

    def slide(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b n v"]:
        """Logits after every full window of the tokens."""
        if self.context_length is None:
            raise ConfigError(f"this MLP reads {self.config.reads}", "build it for windows of tokens (TokenWindow)")
        windows = tokens.unfold(1, self.context_length, 1)
        return self(windows.flatten(0, 1)).unflatten(0, windows.shape[:2])

    def class_logits(self, X: Tensor, real: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        return self(X)

    def with_classes(self, classes: int, *, image_size: tuple[int, int] | None = None, seed: int = 0) -> MLP:
        if image_size not in (None, self.image_size):
            raise InputError("an MLP takes one image size only", "keep that size, or fine-tune a ViT or a hybrid")
        return MLP(replace(self.config, classes=classes), seed=seed)

    def sizes(self) -> dict[str, str]:
        widths = " → ".join(map(str, self.config.sizes))
        return {"layers": widths, "classes": str(self.config.classes)}
