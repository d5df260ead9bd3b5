from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core import cost, masks
from glassformer.errors import ConfigError, InputError
from glassformer.nn import Block, BlockConfig, FeedForwardConfig, NormConfig, View, heads, initialise, static_cache
from glassformer.nn.blocks import sliding_cache

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
NORMS = {"gamma": "weight", "beta": "bias"}


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def build(place: str, activation: str, *, cross: bool = False, bias: bool = True, **options: object) -> Block:
    """Width 12, 3 heads, 20 hidden, weights drawn at random, norms too."""
    attention = heads(12, 3, biases="qkvo" if bias else "")
    block = Block(
        BlockConfig(
            attention=attention,
            cross=attention if cross else None,
            ffn=FeedForwardConfig(width=12, hidden=20, activation=activation, bias=bias),  # type: ignore[arg-type]
            norm=NormConfig(bias=bias),
            place=place,  # type: ignore[arg-type]
            **options,  # type: ignore[arg-type]
        )
    )
    initialise(block, 0)
    with torch.no_grad():
        for i, weight in enumerate(block.parameters()):
            if weight.dim() == 1:
                weight.add_(0.3 * normal(*weight.shape, seed=i, dtype=torch.float32))
    return block


def renamed(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights, or their gradients, by the names of nn.TransformerEncoderLayer and nn.TransformerDecoderLayer."""
    parts = {part for name in ours if (part := name.rpartition(".")[2]) in ("weight", "bias")}
    crossed = any(name.startswith("cross.") for name in ours)
    theirs = {}
    for part in parts:
        for mine, name in (("attention", "self_attn"), ("cross", "multihead_attn"))[: 1 + crossed]:
            theirs[f"{name}.in_proj_{part}"] = torch.cat([ours[f"{mine}.W{letter}.{part}"] for letter in "QKV"])
            theirs[f"{name}.out_proj.{part}"] = ours[f"{mine}.WO.{part}"]
        theirs |= {f"linear{i}.{part}": ours[f"ffn.W{i}.{part}"] for i in (1, 2)}
    residuals = ("attention", "cross", "ffn") if crossed else ("attention", "ffn")
    for i, residual in enumerate(residuals, 1):
        for mine, part in NORMS.items():
            if f"{residual}_residual.norm.{mine}" in ours:
                theirs[f"norm{i}.{part}"] = ours[f"{residual}_residual.norm.{mine}"]
    return theirs


def agree(ours: Block, theirs: nn.Module, found: Tensor, wanted: Tensor, inputs: list[Tensor]) -> None:
    """Outputs, and gradients by inputs and by every weight."""
    close = partial(torch.testing.assert_close, rtol=0, atol=TOLERANCE[found.dtype])
    close(found, wanted)
    by = []
    for module, O in ((ours, found), (theirs, wanted)):
        names, weights = zip(*module.named_parameters(), strict=True)
        loss = (O * normal(*O.shape, seed=4, dtype=O.dtype)).sum() / 10
        gradients = torch.autograd.grad(loss, (*inputs, *weights))
        by.append((gradients[: len(inputs)], dict(zip(names, gradients[len(inputs) :], strict=True))))
    close(by[0][0], by[1][0])
    close(renamed(by[0][1]), by[1][1])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("masking", ["none", "causal", "padding"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("place", ["pre", "post"])
def test_an_encoder_block_is_torchs(place: str, activation: str, bias: bool, masking: str, dtype: torch.dtype) -> None:
    ours = build(place, activation, bias=bias).to(dtype)
    theirs = nn.TransformerEncoderLayer(
        12, 3, 20, 0.0, activation, batch_first=True, norm_first=place == "pre", bias=bias
    ).to(dtype)
    theirs.load_state_dict(renamed(ours.state_dict()))
    X = normal(2, 5, 12, seed=1, dtype=dtype).requires_grad_()
    real = torch.arange(5) < torch.tensor([5, 3])[:, None]
    view, options = {
        "none": (View(), {}),
        "causal": (View(causal=True), {"src_mask": ~masks.causal(5)}),
        "padding": (View(mask=real[:, None, None]), {"src_key_padding_mask": ~real}),
    }[masking]
    agree(ours, theirs, ours(X, view), theirs(X, **options), [X])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("place", ["pre", "post"])
def test_a_decoder_block_is_torchs(place: str, activation: str, padded: bool, dtype: torch.dtype) -> None:
    ours = build(place, activation, cross=True).to(dtype)
    first = place == "pre"
    theirs = nn.TransformerDecoderLayer(12, 3, 20, 0.0, activation, batch_first=True, norm_first=first).to(dtype)
    theirs.load_state_dict(renamed(ours.state_dict()))
    X, Z = (normal(2, n, 12, seed=n, dtype=dtype).requires_grad_() for n in (5, 7))
    real = torch.arange(7) < torch.tensor([7, 4])[:, None]
    memory_view = View(mask=real[:, None, None] if padded else None)
    found = ours(X, View(causal=True), Z, memory_view)
    wanted = theirs(X, Z, tgt_mask=~masks.causal(5), memory_key_padding_mask=~real if padded else None)
    agree(ours, theirs, found, wanted, [X, Z])


@pytest.mark.parametrize("place", ["pre", "post"])
def test_gains_scale_each_branch(place: str) -> None:
    block = build(place, "gelu", gain=1e-3).double()
    X = normal(2, 4, 12)
    with torch.no_grad():
        for residual in (block.attention_residual, block.ffn_residual):
            residual.gain.lam.zero_()
    out = block(X)
    norms = [block.attention_residual.norm, block.ffn_residual.norm]
    torch.testing.assert_close(out, X if place == "pre" else norms[1](norms[0](X)))
    fresh = Block(BlockConfig(attention=heads(4, 1), ffn=FeedForwardConfig(width=4, hidden=4), gain=1e-3))
    initialise(fresh, 0)
    assert torch.equal(fresh.ffn_residual.gain.lam, torch.full((4,), 1e-3))


def test_taps_see_the_residual_stream() -> None:
    block, X, seen = build("pre", "gelu").double(), normal(2, 4, 12), {}
    for name in "XRO":
        getattr(block, name).watchers.append(lambda x, name=name: seen.update({name: x}))
    block.attention.O.watchers.append(lambda x: seen.update(attention=x))
    block.ffn.O.watchers.append(lambda x: seen.update(ffn=x))
    O = block(X)
    assert seen["X"] is X
    assert seen["O"] is O
    torch.testing.assert_close(seen["R"], X + seen["attention"])
    torch.testing.assert_close(O, seen["R"] + seen["ffn"])


@torch.no_grad()
def test_a_cached_block_keeps_its_own_past_and_its_memory() -> None:
    block, X, Z = build("post", "relu", cross=True).double(), normal(2, 5, 12), normal(2, 7, 12, seed=1)
    cache = static_cache(5)
    first = block(X[:, :2], View(causal=True), Z, cache=cache)
    rest = block(X[:, 2:], View(causal=True), None, cache=cache)  # the memory is in the cache
    torch.testing.assert_close(torch.cat([first, rest], 1), block(X, View(causal=True), Z))
    assert sliding_cache(3).own.span(9) == 9


def test_dropout_is_on_while_training_only() -> None:
    block, X = build("pre", "gelu", dropout=0.5).double(), normal(2, 4, 12)
    torch.manual_seed(0)
    assert not torch.equal(block(X), block(X))
    assert torch.equal(block.eval()(X), block(X))


def test_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    ffn = FeedForwardConfig(width=8, hidden=4)
    widths = "parts of one block are [6, 8] wide: give all of them the model's width"
    refused(ConfigError, widths, lambda: BlockConfig(attention=heads(6, 2), ffn=ffn))
    refused(ConfigError, widths, lambda: BlockConfig(attention=heads(8, 2), cross=heads(6, 2), ffn=ffn))
    place = "norms are placed 'mid': choose pre (before each branch) or post (after it)"
    refused(ConfigError, place, lambda: BlockConfig(attention=heads(8, 2), ffn=ffn, place="mid"))  # type: ignore[arg-type]
    dropout = "dropout is -0.1: choose a probability from 0 up to, not including, 1"
    refused(ConfigError, dropout, lambda: BlockConfig(attention=heads(8, 2), ffn=ffn, dropout=-0.1))
    X = torch.zeros(1, 3, 12)
    without = "cross-attention has 0 memories to attend to: give it the encoder's output"
    for cache in (None, static_cache(3)):
        refused(InputError, without, lambda cache=cache: build("pre", "relu", cross=True)(X, cache=cache))
    needless = "a memory came to a block without cross-attention: give its config cross=heads(…)"
    refused(InputError, needless, lambda: build("pre", "relu")(X, memory=X))


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_what_it_costs(cross: bool, bias: bool) -> None:
    block, X, Z = build("pre", "gelu", cross=cross, bias=bias).double(), normal(1, 5, 12), normal(1, 7, 12)
    whole = cost.decoder_layer(5, 7, 12, 3, 20, bias=bias) if cross else cost.encoder_layer(5, 12, 3, 20, bias=bias)
    with FlopCounterMode(display=False) as counter:
        block(X, View(), Z if cross else None)
    assert counter.get_total_flops() == whole.flops
    assert sum(weight.numel() for weight in block.parameters()) == whole.parameters
