"""Norms, feed-forward networks, blocks and stacks against torch; gradient checkpointing; invalid arguments."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers.activations import ACT2FN

from glassformer.core import cost, masks
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.nn import (
    Alibi,
    Block,
    BlockConfig,
    FeedForward,
    FeedForwardConfig,
    LayerNorm,
    NormConfig,
    Relative,
    RMSNorm,
    Rotary,
    Stack,
    Tap,
    Turn,
    View,
    heads,
    initialise,
    static_cache,
)
from glassformer.nn.blocks import sliding_cache
from glassformer.nn.feedforward import ACTIVATIONS

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
NORMS = {"gamma": "weight", "beta": "bias"}


def normal_blocks(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def build_blocks(place: str, activation: str, *, cross: bool = False, bias: bool = True, **options: object) -> Block:
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
                weight.add_(0.3 * normal_blocks(*weight.shape, seed=i, dtype=torch.float32))
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
        loss = (O * normal_blocks(*O.shape, seed=4, dtype=O.dtype)).sum() / 10
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
    ours = build_blocks(place, activation, bias=bias).to(dtype)
    theirs = nn.TransformerEncoderLayer(
        12, 3, 20, 0.0, activation, batch_first=True, norm_first=place == "pre", bias=bias
    ).to(dtype)
    theirs.load_state_dict(renamed(ours.state_dict()))
    X = normal_blocks(2, 5, 12, seed=1, dtype=dtype).requires_grad_()
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
    ours = build_blocks(place, activation, cross=True).to(dtype)
    first = place == "pre"
    theirs = nn.TransformerDecoderLayer(12, 3, 20, 0.0, activation, batch_first=True, norm_first=first).to(dtype)
    theirs.load_state_dict(renamed(ours.state_dict()))
    X, Z = (normal_blocks(2, n, 12, seed=n, dtype=dtype).requires_grad_() for n in (5, 7))
    real = torch.arange(7) < torch.tensor([7, 4])[:, None]
    memory_view = View(mask=real[:, None, None] if padded else None)
    found = ours(X, View(causal=True), Z, memory_view)
    wanted = theirs(X, Z, tgt_mask=~masks.causal(5), memory_key_padding_mask=~real if padded else None)
    agree(ours, theirs, found, wanted, [X, Z])


@pytest.mark.parametrize("place", ["pre", "post"])
def test_gains_scale_each_branch(place: str) -> None:
    block = build_blocks(place, "gelu", gain=1e-3).double()
    X = normal_blocks(2, 4, 12)
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
    block, X, seen = build_blocks("pre", "gelu").double(), normal_blocks(2, 4, 12), {}
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
    block, X, Z = (
        build_blocks("post", "relu", cross=True).double(),
        normal_blocks(2, 5, 12),
        normal_blocks(2, 7, 12, seed=1),
    )
    cache = static_cache(5)
    first = block(X[:, :2], View(causal=True), Z, cache=cache)
    rest = block(X[:, 2:], View(causal=True), None, cache=cache)  # the memory is in the cache
    torch.testing.assert_close(torch.cat([first, rest], 1), block(X, View(causal=True), Z))
    assert sliding_cache(3).own.span(9) == 9


def test_blocks_dropout_is_on_while_training_only() -> None:
    block, X = build_blocks("pre", "gelu", dropout=0.5).double(), normal_blocks(2, 4, 12)
    torch.manual_seed(0)
    assert not torch.equal(block(X), block(X))
    assert torch.equal(block.eval()(X), block(X))


def test_blocks_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    ffn = FeedForwardConfig(width=8, hidden=4)
    widths = "the parts of a block have different widths [6, 8]: give all of them the model's width"
    refused(ConfigError, widths, lambda: BlockConfig(attention=heads(6, 2), ffn=ffn))
    refused(ConfigError, widths, lambda: BlockConfig(attention=heads(8, 2), cross=heads(6, 2), ffn=ffn))
    place = "norm placement 'mid' is unknown: choose pre (before each branch) or post (after it)"
    refused(ConfigError, place, lambda: BlockConfig(attention=heads(8, 2), ffn=ffn, place="mid"))  # type: ignore[arg-type]
    dropout = "dropout is -0.1: choose a probability from 0 up to, not including, 1"
    refused(ConfigError, dropout, lambda: BlockConfig(attention=heads(8, 2), ffn=ffn, dropout=-0.1))
    X = torch.zeros(1, 3, 12)
    without = "cross-attention needs a memory: pass the encoder's output as memory"
    for cache in (None, static_cache(3)):
        refused(InputError, without, lambda cache=cache: build_blocks("pre", "relu", cross=True)(X, cache=cache))
    needless = "a block without cross-attention was given a memory: set cross=heads(…) in its config"
    refused(InputError, needless, lambda: build_blocks("pre", "relu")(X, memory=X))


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_blocks_what_it_costs(cross: bool, bias: bool) -> None:
    block, X, Z = (
        build_blocks("pre", "gelu", cross=cross, bias=bias).double(),
        normal_blocks(1, 5, 12),
        normal_blocks(1, 7, 12),
    )
    whole = cost.decoder_layer(5, 7, 12, 3, 20, bias=bias) if cross else cost.encoder_layer(5, 12, 3, 20, bias=bias)
    with FlopCounterMode(display=False) as counter:
        block(X, View(), Z if cross else None)
    assert counter.get_total_flops() == whole.flops
    assert sum(weight.numel() for weight in block.parameters()) == whole.parameters


KINDS = {
    "rotary": Rotary(width=4),
    "relative": Relative(heads=2, buckets=8, limit=6, bidirectional=False),
    "clipped": Relative(heads=2, kind="clipped", limit=3),
    "alibi": Alibi(heads=2),
}


def normal_stack(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build_stack(positions: Rotary | Relative | Alibi | None = None, *, depth: int = 2, cross: bool = False) -> Stack:
    attention = heads(8, 2)
    block = BlockConfig(
        attention=attention, cross=attention if cross else None, ffn=FeedForwardConfig(width=8, hidden=12)
    )
    stack = Stack(block, depth, positions=positions, last_norm=NormConfig()).double()
    initialise(stack, 0)
    return stack


def test_blocks_one_after_the_other_then_the_norm() -> None:
    stack, X = build_stack(depth=3), normal_stack(2, 4, 8)
    Y = X
    for i in range(3):
        Y = stack.get_submodule(str(i))(Y)
    assert stack.norm is not None
    torch.testing.assert_close(stack(X), stack.norm(Y))
    assert len(list(stack.blocks())) == 3


def test_paths_are_numbers() -> None:
    paths = [name for name, module in build_stack(depth=2).named_modules() if isinstance(module, Tap)]
    assert "1.attention.A" in paths
    assert "1.ffn.F" in paths


@given(st.permutations(range(5)))
@settings(max_examples=20)
def test_without_positions_order_does_not_matter(order: list[int]) -> None:
    stack, X = build_stack(), normal_stack(2, 5, 8)
    torch.testing.assert_close(stack(X[:, order]), stack(X)[:, order])


@pytest.mark.parametrize("kind", KINDS)
def test_with_positions_order_matters_and_only_distances_do(kind: str) -> None:
    stack, X = build_stack(KINDS[kind]), normal_stack(1, 4, 8)
    order = [3, 1, 0, 2]
    assert not torch.allclose(stack(X[:, order]), stack(X)[:, order], atol=1e-3)
    # Two copies side by side, each of which sees itself alone, are one copy twice.
    twice = torch.kron(torch.eye(2), torch.ones(4, 4)).bool()
    torch.testing.assert_close(stack(torch.cat([X, X], 1), View(mask=twice)), torch.cat([stack(X)] * 2, 1))


def test_a_bias_is_made_once_and_used_by_every_block() -> None:
    relative = KINDS["relative"]
    assert isinstance(relative, Relative)
    stack, X = build_stack(relative), normal_stack(2, 4, 8)
    assert stack.relative is not None
    bare = build_stack()
    bare.load_state_dict({k: v for k, v in stack.state_dict().items() if not k.startswith("relative")})
    torch.testing.assert_close(stack(X), bare(X, View(bias=stack.relative(4, 4))))


def test_rotary_positions_count_from_0_unless_given() -> None:
    stack, X = build_stack(KINDS["rotary"]), normal_stack(2, 4, 8)
    torch.testing.assert_close(stack(X, positions=torch.arange(4)), stack(X))
    stretched = torch.tensor([0, 2, 4, 6])
    turn = Rotary(width=4).turn(stretched, torch.float64)
    assert isinstance(turn, Turn)
    bare = build_stack()
    bare.load_state_dict(stack.state_dict())
    torch.testing.assert_close(stack(X, positions=stretched), bare(X, View(turn=turn)))


@pytest.mark.variants(7)
@pytest.mark.parametrize("kind", [None, *KINDS])
@pytest.mark.parametrize("split", [[7], [3, 4], [1] * 7, [2, 1, 4]])
@torch.no_grad()
def test_a_stack_in_pieces_equals_one_pass(kind: str | None, split: list[int]) -> None:
    stack, X, Z = (
        build_stack(KINDS[kind] if kind else None, cross=True),
        normal_stack(2, 7, 8),
        normal_stack(2, 3, 8, seed=1),
    )
    wanted = stack(X, View(causal=True), memory=Z)
    cache = stack.cache(9)
    found = torch.cat([stack(part, View(causal=True), memory=Z, cache=cache) for part in X.split(split, 1)], 1)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_positions_follow_the_models_number_type(kind: str, dtype: torch.dtype) -> None:
    stack = build_stack(KINDS[kind]).to(dtype)
    assert stack(normal_stack(1, 3, 8).to(dtype)).dtype == dtype


@pytest.mark.parametrize("kind", KINDS)
def test_weights_can_be_put_into_a_stack_made_on_the_meta_device(kind: str) -> None:
    stack, X = build_stack(KINDS[kind]), normal_stack(1, 3, 8)
    with torch.device("meta"):
        empty = build_stack(KINDS[kind])
    empty.load_state_dict(stack.state_dict(), assign=True)
    assert torch.equal(empty(X), stack(X))


def test_stack_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    refused(ConfigError, "depth must be at least 1, got 0: choose at least one block", lambda: build_stack(depth=0))
    stack, X = build_stack(depth=2), normal_stack(1, 3, 8)
    text = "there are 1 caches for 2 blocks: make them with cache(room)"
    refused(ShapeError, text, lambda: stack(X, cache=stack.cache(4)[:1]))
    refused(ShapeError, "the input has width 7, the norm expects 8: give it vectors of", lambda: stack(X[..., :7]))
    block = stack.get_submodule("0").config
    wide = "rotary positions rotate 6 columns of heads of width 4: rotate at most 4 columns"
    refused(ConfigError, wide, lambda: Stack(block, 1, positions=Rotary(width=6)))
    for bias in (Alibi(heads=1), Relative(heads=1)):  # a bias for one head would fit any number of them
        text = "the relative bias has 1 heads, the attention has 2: give both the same number of heads"
        refused(ConfigError, text, lambda bias=bias: Stack(block, 1, positions=bias))


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_checkpointing_gives_the_same_gradients_and_remembers_less(dropout: float) -> None:
    attention = heads(8, 2)
    block = BlockConfig(attention=attention, ffn=FeedForwardConfig(width=8, hidden=64), dropout=dropout)
    stack = Stack(block, 3, positions=KINDS["rotary"], last_norm=NormConfig()).double()
    initialise(stack, 0)
    found, remembered = [], []
    for stack.checkpointing in (False, True):
        X = normal_stack(2, 5, 8).requires_grad_()
        sizes: list[int] = []
        torch.manual_seed(0)
        with (
            torch.random.fork_rng(),
            torch.autograd.graph.saved_tensors_hooks(
                lambda tensor, sizes=sizes: (sizes.append(tensor.numel()), tensor)[1], lambda tensor: tensor
            ),
        ):
            Y = stack(X)
        Y.square().sum().backward()
        found.append([Y.detach(), X.grad, *(weight.grad.clone() for weight in stack.parameters())])
        remembered.append(sum(sizes))
        stack.zero_grad()
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))
    assert remembered[1] < remembered[0] / 3
    with torch.no_grad():
        assert not stack(normal_stack(2, 5, 8)).requires_grad


PUBLISHED = {"gelu_tanh": "gelu_new", "tanh": "tanh"}  # what Hugging Face calls them, where it differs


def build_feedforward(**options: object) -> FeedForward:
    module = FeedForward(FeedForwardConfig(width=6, hidden=10, **options)).double()  # type: ignore[arg-type]
    initialise(module, 0)
    for weight in module.parameters():
        nn.init.normal_(weight, generator=torch.Generator().manual_seed(weight.numel()))
    return module


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_the_published_ones(name: str) -> None:
    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    torch.testing.assert_close(ACTIVATIONS[name](x), ACT2FN[PUBLISHED.get(name, name)](x), rtol=0, atol=1e-10)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("bias", [True, False])
def test_the_net_is_torchs(activation: str, bias: bool) -> None:
    ours = build_feedforward(activation=activation, bias=bias)
    layers = nn.Linear(6, 10, bias=bias), nn.Linear(10, 6, bias=bias)
    theirs = nn.Sequential(layers[0], {"relu": nn.ReLU(), "gelu": nn.GELU()}[activation], layers[1]).double()
    for mine, layer in zip((ours.W1, ours.W2), layers, strict=True):
        layer.load_state_dict(mine.state_dict())
    X = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(ours(X), theirs(X), rtol=0, atol=1e-10)
    found = torch.autograd.grad(ours(X).square().sum(), (X, *ours.parameters()))
    torch.testing.assert_close(found, torch.autograd.grad(theirs(X).square().sum(), (X, *theirs.parameters())))


def test_swiglu_is_llamas() -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaMLP

    ours = build_feedforward(activation="silu", gated=True, bias=False)
    theirs = LlamaMLP(LlamaConfig(hidden_size=6, intermediate_size=10, num_attention_heads=2)).double()
    names = {"gate_proj": "W1", "up_proj": "W3", "down_proj": "W2"}
    theirs.load_state_dict({f"{n}.weight": ours.state_dict()[f"{w}.weight"] for n, w in names.items()})
    X = torch.randn(2, 3, 6, dtype=torch.float64)
    torch.testing.assert_close(ours(X), theirs(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("gated", [False, True])
def test_taps_pass_what_the_equation_names(gated: bool) -> None:
    net, seen = build_feedforward(activation="silu", gated=gated), {}
    for name in "PFO":
        getattr(net, name).watchers.append(lambda x, name=name: seen.update({name: x}))
    X = torch.randn(2, 3, 6, dtype=torch.float64)
    O = net(X)
    torch.testing.assert_close(seen["P"], net.W1(X))
    F: Tensor = nn.functional.silu(net.W1(X)) * (net.W3(X) if net.W3 is not None else 1)
    torch.testing.assert_close(seen["F"], F)
    assert seen["O"] is O
    torch.testing.assert_close(O, net.W2(F))


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_feedforward_what_it_costs(gated: bool, bias: bool) -> None:
    net = build_feedforward(gated=gated, bias=bias)
    expected = cost.feed_forward(5, 6, 10, gated=gated, bias=bias)
    with FlopCounterMode(display=False) as counter:
        net(torch.zeros(1, 5, 6, dtype=torch.float64))
    assert counter.get_total_flops() == expected.flops
    assert sum(weight.numel() for weight in net.parameters()) == expected.parameters


def test_feedforward_dropout_is_on_while_training_only() -> None:
    net, X = build_feedforward(dropout=0.5), torch.randn(2, 3, 6, dtype=torch.float64)
    torch.manual_seed(0)
    assert not torch.equal(net(X), net(X))
    net.eval()
    assert torch.equal(net(X), net(X))


def test_feedforward_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    config = FeedForwardConfig
    activation = "there is no activation 'mish': choose one of relu, gelu, gelu_tanh, quick_gelu, silu, tanh"
    refused(ConfigError, activation, lambda: config(width=1, hidden=1, activation="mish"))  # type: ignore[arg-type]
    size = "width is 4 and hidden is 0: choose widths of at least 1"
    refused(ConfigError, size, lambda: config(width=4, hidden=0))
    dropout = "dropout is 1.5: choose a probability from 0 up to, not including, 1"
    refused(ConfigError, dropout, lambda: config(width=4, hidden=4, dropout=1.5))
    width = "the input has width 5, the layer expects 6: give it vectors of that width"
    refused(ShapeError, width, lambda: build_feedforward()(torch.zeros(2, 5, dtype=torch.float64)))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", ["layer", "layer without bias", "rms"])
@pytest.mark.parametrize("eps", [1e-12, 1e-5, 1e-2])
def test_norms_and_their_gradients_are_torchs(kind: str, eps: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    bias = kind == "layer"
    theirs = (nn.RMSNorm(6, eps) if kind == "rms" else nn.LayerNorm(6, eps, bias=bias)).to(dtype)
    for weight in theirs.parameters():
        nn.init.normal_(weight)
    ours = NormConfig(kind="rms" if kind == "rms" else "layer", eps=eps, bias=bias).build(6).to(dtype)
    names = {"weight": "gamma", "bias": "beta"}
    ours.load_state_dict({names[name]: weight for name, weight in theirs.state_dict().items()})
    x = torch.randn(2, 3, 6, dtype=dtype, requires_grad=True)
    found, wanted = ours(x), theirs(x)
    torch.testing.assert_close(found, wanted, rtol=0, atol=TOLERANCE[dtype])
    weights = torch.randn_like(found)
    torch.testing.assert_close(
        torch.autograd.grad((found * weights).sum(), (x, *ours.parameters())),
        torch.autograd.grad((wanted * weights).sum(), (x, *theirs.parameters())),
        rtol=0,
        atol=TOLERANCE[dtype],
    )


@given(st.integers(0, 2**31), st.integers(2, 9), st.floats(0.1, 100), st.floats(-100, 100))
def test_what_a_norm_does_not_see(seed: int, width: int, scale: float, shift: float) -> None:
    x = torch.randn(width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    layer, rms = LayerNorm(width, 0.0).double(), RMSNorm(width, 0.0).double()
    torch.testing.assert_close(layer(scale * x + shift), layer(x), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(rms(scale * x), rms(x))


def test_norm_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    width = "the input has width 3, the norm expects 4: give it vectors of the model's width"
    for norm in (LayerNorm(4), RMSNorm(4)):
        refused(ShapeError, width, lambda norm=norm: norm(torch.zeros(2, 3)))
    refused(ConfigError, "there is no norm 'batch': choose layer or rms", lambda: NormConfig(kind="batch"))  # type: ignore[arg-type]
    for eps in (-1.0, float("nan")):
        text = f"eps must be at least 0, got {eps}: choose a small number such as 1e-5"
        refused(ConfigError, text, lambda eps=eps: NormConfig(eps=eps))
