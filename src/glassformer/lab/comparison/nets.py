"""|θ(w)| ≈ budget: each architecture as wide as its share of parameters allows, built from the product's own parts.

Widths differ, parameters do not: what is compared is what an architecture does with as many numbers. Transformers start
from Glorot's weights: the 0.02 of large models is far too small at these widths, and they would hardly attend at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

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
from glassformer.models.recurrent_cells import CELLS, Cell, CellKind
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
KERNEL, BLOCKS = 3, 6  # a stack of dilated convolutions that sees 253 tokens
LAYER_KERNEL = 4  # of the one layer whose cost is measured: k·d² is then the 4·d² of self-attention
TOKEN_WIDTH = 8  # of a word in the MLP's window
Positions = Literal["learned", "sinusoidal", "rotary"]


def parameters(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def matched(build: Callable[[int], nn.Module], budget: int, *, step: int = 1) -> int:
    """The width, a multiple of `step`, whose number of parameters is nearest to the budget; it grows with width."""

    def size(width: int) -> int:
        with torch.device("meta"):  # shapes without numbers
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


# One layer, d numbers in for each of n positions


def layer(architecture: str, d: int, *, seed: int) -> nn.Module:
    """One layer that reads (b, n, d), with as many parameters as self-attention of width d."""
    budget = parameters(MultiHeadAttention(heads(d, 1)))
    make: Callable[[int], nn.Module]
    net: nn.Module
    match architecture:
        case "Transformer":
            net = MultiHeadAttention(heads(d, max(1, d // 64)))
        case "CNN":
            net = DilatedConv(d, LAYER_KERNEL, 1, causal=True)
        case "MLP":
            make = lambda w: FeedForward(FeedForwardConfig(width=d, hidden=w))
            net = make(matched(make, budget))
        case _:
            cell = CELLS[RECURRENT[architecture]]
            make = lambda w: cell(d, w)
            net = make(matched(make, budget))
    initialise(net, seed)
    return net


def run_layer(net: nn.Module, X: Tensor) -> Tensor:
    """The layer's output; of a recurrent one and a convolution, what they carry on is left out."""
    if isinstance(net, Cell):
        H: Tensor = net(X)[0]
        return H
    if isinstance(net, DilatedConv):
        Y: Tensor = net(X, None)[0]
        return Y
    out: Tensor = net(X)
    return out


# Networks that read tokens and answer at the last


def sequence(
    architecture: str,
    budget: int,
    *,
    words: int,
    length: int,
    window: int,
    seed: int,
    positions: Positions = "learned",
    attends: int | None = None,
) -> nn.Module:
    """A network that reads `words` kinds of tokens and says which one: two blocks of one head, one recurrent
    layer, six blocks of convolutions, or two hidden layers over a window.

    The MLP reads the last `window` tokens. A Transformer may see only the last `attends`.
    """
    reads = Tokens(vocabulary=words)
    make: Callable[[int], nn.Module]
    step = 1
    match architecture:
        case "Transformer":
            make, step = lambda w: _decoder(w, words, length, seed, positions, attends), 2  # turned in pairs
        case "CNN":
            make = lambda w: ConvNet1d(
                ConvNet1dConfig(
                    reads=reads, classes=words, pool="last", width=w, blocks=BLOCKS, cycle=BLOCKS, kernel=KERNEL
                ),
                seed=seed,
            )
        case "MLP":
            seen = TokenWindow(vocabulary=words, length=window, width=TOKEN_WIDTH)
            make = lambda w: MLP(MLPConfig(reads=seen, widths=(w, w), classes=words), seed=seed)
        case _:
            cell = RECURRENT[architecture]
            make = lambda w: Recurrent(
                RecurrentConfig(reads=reads, classes=words, pool="last", width=w, layers=1, cell=cell), seed=seed
            )
    return make(matched(make, budget, step=step))


def _decoder(width: int, words: int, length: int, seed: int, positions: Positions, attends: int | None) -> Decoder:
    config = decoder.plain(words, width, 2, 1, length)
    codes = {
        "learned": {},
        "sinusoidal": {"positions": Sinusoidal()},
        "rotary": {"positions": None, "relative": Rotary(width=width)},
    }[positions]
    model = Decoder(replace(config, text=replace(config.text, window=attends, **codes)), seed=seed)  # type: ignore[arg-type]
    initialise(model, seed)
    return model


def answer(net: nn.Module, tokens: Tensor) -> Tensor:
    """Logits (b, words) after the last token; the MLP sees its window, filled up with token 0 at the front."""
    if isinstance(net, Decoder):
        return net(tokens, last=True)[:, 0]
    if isinstance(net, MLP):
        reads = net.config.reads
        assert isinstance(reads, TokenWindow)
        missing = reads.length - tokens.shape[1]
        tokens = nn.functional.pad(tokens, (missing, 0))  # a negative number cuts
    logits: Tensor = net(tokens)
    return logits


# Networks that read images


def image(
    architecture: str, budget: int, *, size: int, channels: int, patch: int, classes: int, seed: int
) -> nn.Module:
    """A vision Transformer of two blocks, residual convolutions in three stages, or an MLP of two hidden layers."""
    make: Callable[[int], nn.Module]
    step = 1
    match architecture:
        case "Transformer":
            make, step = lambda w: _vit(w, size, channels, patch, classes, seed), 2
        case "CNN":
            make = lambda w: ConvNet2d(
                ConvNet2dConfig(channels=channels, classes=classes, widths=_stages(w), depths=(1, 1, 1), stem="large"),
                seed=seed,
            )
        case "MLP":
            reads = ImageInput(channels=channels, height=size, width=size)
            make = lambda w: MLP(MLPConfig(reads=reads, widths=(w, w), classes=classes), seed=seed)
        case _:
            raise InputError(f"{architecture} does not read images", "choose Transformer, CNN or MLP")
    return make(matched(make, budget, step=step))


def _stages(quarters: int) -> tuple[int, int, int]:
    """Each stage twice as wide as the one before; widths in quarters of a channel come nearer to a budget."""
    return max(1, round(quarters / 4)), max(1, round(quarters / 2)), quarters


def _vit(width: int, size: int, channels: int, patch: int, classes: int, seed: int) -> ViT:
    config = vit.plain(size, patch, width, 2, 2, classes=classes, channels=channels)
    model = ViT(replace(config, prefix=0, pool="mean"), seed=seed)
    initialise(model, seed)
    return model
