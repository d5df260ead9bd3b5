"""|θ(w)| ≈ budget: networks of each architecture with about the same number of parameters.

Transformers use Glorot initialisation, since a standard deviation of 0.02 is far too small at these widths; recurrent
networks use orthogonal weights with open forget gates (`initialise_recurrent`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from glassformer.core import cost
from glassformer.errors import InputError
from glassformer.models import (
    MLP,
    ConvNet1d,
    ConvNet1dConfig,
    ConvNet2d,
    ConvNet2dConfig,
    Decoder,
    ImageInput,
    MLPConfig,
    Recurrent,
    RecurrentConfig,
    Tokens,
    TokenWindow,
    ViT,
    decoder,
    vit,
)
from glassformer.models.convolutional_sequence import DilatedConv
from glassformer.models.recurrent import initialise_recurrent
from glassformer.models.recurrent_cells import CELLS, CellKind
from glassformer.nn import (
    FeedForward,
    FeedForwardConfig,
    MultiHeadAttention,
    Rotary,
    Sinusoidal,
    heads,
    initialise,
)

ARCHITECTURES = ("Transformer", "RNN", "LSTM", "GRU", "CNN", "MLP")
RECURRENT: dict[str, CellKind] = {"RNN": "rnn", "LSTM": "lstm", "GRU": "gru"}
KERNEL, BLOCKS = 3, 6  # a stack of dilated convolutions with a receptive field of 253 tokens
LAYER_KERNEL = 4  # kernel size of the layer whose cost is measured, so that k·d² equals the 4·d² of self-attention
TOKEN_WIDTH = 8  # of a token in the MLP's window
PIECE = 500  # tokens that a decoder processes at once before streaming
Positions = Literal["learned", "sinusoidal", "rotary"]


def parameters(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def matched_width(build: Callable[[int], nn.Module], budget: int, *, step: int = 1) -> int:
    """Return the width, a multiple of `step`, whose number of parameters is closest to the budget."""

    def size(width: int) -> int:
        with torch.device("meta"):  # shapes only
            return parameters(build(width))

    if size(step) > budget:
        raise InputError(f"{size(step)} parameters at width {step} exceed the budget of {budget}", "raise the budget")
    low, high = 1, 2
    while size(high * step) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle * step) <= budget else (low, middle)
    return min(low * step, high * step, key=lambda width: abs(size(width) - budget))


# One layer with input (b, n, d)


@dataclass(frozen=True, kw_only=True)
class LayerUnderTest:
    """A layer with as many parameters as self-attention of width d; `count(n)` is its cost according to the formula."""

    net: nn.Module
    run: Callable[[Tensor], Tensor]
    count: Callable[[int], cost.Cost]


def build_layer(architecture: str, d: int, *, seed: int) -> LayerUnderTest:
    """Build one layer of the architecture with input (b, n, d)."""
    budget = parameters(MultiHeadAttention(heads(d, 1)))
    net: nn.Module
    match architecture:
        case "Transformer":
            h = max(1, d // 64)
            net = MultiHeadAttention(heads(d, h))
            initialise(net, seed)
            return LayerUnderTest(net=net, run=net, count=lambda n: cost.self_attention(n, d, h, fused=True))
        case "CNN":
            net = DilatedConv(d, LAYER_KERNEL, 1, causal=True)
            initialise(net, seed)
            convolve = lambda X: net(X, None)[0]
            count = lambda n: cost.convolution((n + LAYER_KERNEL - 1,), d, d, LAYER_KERNEL)
            return LayerUnderTest(net=net, run=convolve, count=count)
        case "MLP":
            hidden = matched_width(lambda w: FeedForward(FeedForwardConfig(width=d, hidden=w)), budget)
            net = FeedForward(FeedForwardConfig(width=d, hidden=hidden))
            initialise(net, seed)
            return LayerUnderTest(net=net, run=net, count=lambda n: cost.feed_forward(n, d, hidden))
        case _:
            kind = RECURRENT[architecture]
            width = matched_width(lambda w: CELLS[kind](d, w), budget)
            net = CELLS[kind](d, width)
            initialise_recurrent(net, seed)
            recur = lambda X: net(X)[0]
            return LayerUnderTest(net=net, run=recur, count=lambda n: cost.recurrent(n, d, width, kind=kind))


# Networks that read tokens and predict after the last one


class LastTokenNetwork(nn.Module):
    """A network that maps token ids (b, n) to logits (b, vocabulary) after the last token."""

    net: Any

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.net(tokens)
        return logits

    def stream(self, X: Tensor, *, room: int) -> tuple[Callable[[], Tensor], int]:
        """Process X; return a function that processes one more token, and the number of values cached for it."""
        raise NotImplementedError


class _Transformer(LastTokenNetwork):
    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.net(tokens, last=True)[:, 0]
        return logits

    def stream(self, X: Tensor, *, room: int) -> tuple[Callable[[], Tensor], int]:
        new, cache = X[:, -1:], self.net.cache(X.shape[1] + room)
        for piece in X.split(PIECE, 1):
            self.net(piece, cache=cache, last=True)
        kept = sum(part.numel() for block in cache for part in block.own.kept())
        return lambda: self.net(new, cache=cache, last=True)[:, 0], kept


class _Recurrent(LastTokenNetwork):
    def stream(self, X: Tensor, *, room: int) -> tuple[Callable[[], Tensor], int]:
        new, states = X[:, -1:], self.net.stream(X).states
        return lambda: self.net.stream(new, states).logits, sum(part.numel() for state in states for part in state)


class _Convolution(LastTokenNetwork):
    def stream(self, X: Tensor, *, room: int) -> tuple[Callable[[], Tensor], int]:
        new, past = X[:, -1:], self.net.stream(X).past
        return lambda: self.net.stream(new, past).logits, sum(part.numel() for part in past)


class _Window(LastTokenNetwork):
    """An MLP over the last `window` tokens; shorter sequences are padded with token 0 at the front."""

    def __init__(self, net: nn.Module, window: int) -> None:
        super().__init__(net)
        self.window = window

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.net(nn.functional.pad(tokens, (self.window - tokens.shape[1], 0)))  # negative: crops
        return logits

    def stream(self, X: Tensor, *, room: int) -> tuple[Callable[[], Tensor], int]:
        window = X[:, -self.window :]
        return lambda: self(window), window.numel()


def build_sequence_network(
    architecture: str,
    budget: int,
    *,
    vocabulary: int,
    length: int,
    window: int,
    seed: int,
    positions: Positions = "learned",
    attends: int | None = None,
) -> LastTokenNetwork:
    """Build two blocks of one head, one recurrent layer, six convolution blocks, or two hidden layers over a window.

    The MLP reads the last `window` tokens; with `attends` a Transformer attends to that many tokens only.
    """
    reads = Tokens(vocabulary=vocabulary)
    make: Callable[[int], LastTokenNetwork]
    step = 1
    match architecture:
        case "Transformer":
            make = lambda w: _Transformer(_decoder(w, vocabulary, length, seed, positions, attends))
            step = 2  # rotary positions need an even width
        case "CNN":
            config = lambda w: ConvNet1dConfig(
                reads=reads, classes=vocabulary, pool="last", width=w, blocks=BLOCKS, cycle=BLOCKS, kernel=KERNEL
            )
            make = lambda w: _Convolution(ConvNet1d(config(w), seed=seed))
        case "MLP":
            seen = TokenWindow(vocabulary=vocabulary, length=window, width=TOKEN_WIDTH)
            make = lambda w: _Window(MLP(MLPConfig(reads=seen, widths=(w, w), classes=vocabulary), seed=seed), window)
        case _:
            cell = RECURRENT[architecture]
            shape = {"reads": reads, "classes": vocabulary, "pool": "last", "layers": 1, "cell": cell}
            make = lambda w: _Recurrent(Recurrent(RecurrentConfig(width=w, **shape), seed=seed))  # type: ignore[arg-type]
    return make(matched_width(make, budget, step=step))


def _decoder(width: int, vocabulary: int, length: int, seed: int, positions: Positions, attends: int | None) -> Decoder:
    config = decoder.plain(vocabulary, width, 2, 1, length)
    codes = {
        "learned": {},
        "sinusoidal": {"positions": Sinusoidal()},
        "rotary": {"positions": None, "relative": Rotary(width=width)},
    }[positions]
    model = Decoder(replace(config, text=replace(config.text, window=attends, **codes)), seed=seed)  # type: ignore[arg-type]
    initialise(model, seed)
    return model


# Networks that read images


@dataclass(frozen=True, kw_only=True)
class ImageNetwork:
    """Maps images (b, c, size, size) to logits; `features` (b, k, h, w) are `stride` pixels apart (none for an MLP)."""

    net: nn.Module
    features: Callable[[Tensor], Tensor] | None
    stride: int


def build_image_network(
    architecture: str, budget: int, *, size: int, channels: int, patches: int, classes: int, seed: int
) -> ImageNetwork:
    """Build a vision Transformer of two blocks, a residual CNN of three stages, or an MLP of two hidden layers.

    The CNN has the 3×3 stem of residual networks for small images, and a total stride of 4.
    """
    match architecture:
        case "Transformer":
            patch = size // patches
            build_vit = lambda w: _vit(w, size, channels, patch, classes, seed)
            vit_net = build_vit(matched_width(build_vit, budget, step=2))
            grid = lambda X: vit_net.features(X).mT.unflatten(-1, (X.shape[-2] // patch, X.shape[-1] // patch))
            return ImageNetwork(net=vit_net, features=grid, stride=patch)
        case "CNN":
            build_cnn = lambda w: ConvNet2d(
                ConvNet2dConfig(channels=channels, classes=classes, widths=_stages(w), depths=(1, 1, 1), stem="small"),
                seed=seed,
            )
            cnn = build_cnn(matched_width(build_cnn, budget))
            return ImageNetwork(net=cnn, features=cnn.features, stride=cnn.config.stride)
        case "MLP":
            reads = ImageInput(channels=channels, height=size, width=size)
            build_mlp = lambda w: MLP(MLPConfig(reads=reads, widths=(w, w), classes=classes), seed=seed)
            return ImageNetwork(net=build_mlp(matched_width(build_mlp, budget)), features=None, stride=size)
    raise InputError(f"architecture={architecture!r} does not read images", "choose Transformer, CNN or MLP")


def _stages(quarters: int) -> tuple[int, int, int]:
    """Return stage widths, each twice the previous one; quarters of a channel match a budget more closely."""
    return max(1, round(quarters / 4)), max(1, round(quarters / 2)), quarters


def _vit(width: int, size: int, channels: int, patch: int, classes: int, seed: int) -> ViT:
    config = vit.plain(size, patch, width, 2, 2, classes=classes, channels=channels)
    model = ViT(replace(config, prefix=0, pool="mean"), seed=seed)
    initialise(model, seed)
    return model
