"""The attention layer: torch as its oracle, taps and edits of every symbol, memory, dropout, cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop

from glassformer.core import Pattern, cost, fused, masks
from glassformer.core.fused import repeat_kv
from glassformer.core.rotary import rotary_angles, rotate
from glassformer.errors import ConfigError, ShapeError
from glassformer.nn import AttentionConfig, MultiHeadAttention, Turn, View, heads
from glassformer.nn.attention import weights_of

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


@pytest.fixture(autouse=True, scope="module")
def kernel() -> Iterator[None]:
    """The fused kernel itself, however few the keys."""
    few, fused.FEW_KEYS = fused.FEW_KEYS, 0
    yield
    fused.FEW_KEYS = few


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def build(config: AttentionConfig, dtype: torch.dtype = torch.float64) -> MultiHeadAttention:
    layer = MultiHeadAttention(config).to(dtype)
    for i, weight in enumerate(layer.parameters()):
        with torch.no_grad():
            weight.copy_(normal(*weight.shape, seed=i + 100, dtype=dtype) / math.sqrt(weight.shape[-1]))
    return layer


def renamed(config: AttentionConfig, ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights, or their gradients, by the names of nn.MultiheadAttention."""
    theirs = {f"out_proj.{part}": ours[f"WO.{part}"] for part in ("weight", "bias") if f"WO.{part}" in ours}
    if config.memory_width == config.width:
        theirs["in_proj_weight"] = torch.cat([ours[f"W{letter}.weight"] for letter in "QKV"])
    else:
        theirs |= {f"{letter.lower()}_proj_weight": ours[f"W{letter}.weight"] for letter in "QKV"}
    if config.biases:
        theirs["in_proj_bias"] = torch.cat([ours[f"W{letter}.bias"] for letter in "QKV"])
    return theirs


def torchs(layer: MultiHeadAttention, dtype: torch.dtype) -> nn.MultiheadAttention:
    """torch's layer with our weights."""
    c = layer.config
    other = nn.MultiheadAttention(
        c.width, c.heads, bias=bool(c.biases), batch_first=True, kdim=c.memory_width, vdim=c.memory_width
    ).to(dtype)
    other.load_state_dict(renamed(c, layer.state_dict()))
    return other


def gradients(O: Tensor, inputs: tuple[Tensor, ...], layer: nn.Module) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Of one weighted sum of the output, by the inputs and by the weights."""
    names, weights = zip(*layer.named_parameters(), strict=True)
    loss = (O * normal(*O.shape, seed=4, dtype=O.dtype)).sum()
    found = torch.autograd.grad(loss, (*inputs, *weights), retain_graph=True)
    return list(found[: len(inputs)]), dict(zip(names, found[len(inputs) :], strict=True))


def ways(layer: MultiHeadAttention, run: Callable[[], Tensor]) -> dict[str, Tensor]:
    """The same run fused, watched, and made explicit by an edit of S or of A that changes nothing."""
    outputs = {"fused": run()}
    for tap, kind, callback in (
        (layer.A, "watchers", lambda _: None),
        (layer.S, "editors", lambda S: S),
        (layer.A, "editors", lambda A: A),
    ):
        getattr(tap, kind).append(callback)
        outputs[f"{kind} of {'S' if tap is layer.S else 'A'}"] = run()
        getattr(tap, kind).remove(callback)
    return outputs


# ---- against torch ---------------------------------------------------------------------------------------------------


@pytest.mark.variants(16)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("masking", ["none", "causal", "padding", "explicit", "causal and padding"])
@pytest.mark.parametrize(
    ("config", "s"),
    [
        (heads(12, 3), None),
        (heads(12, 4, biases=""), None),
        (heads(12, 3), 7),
        (heads(12, 2, memory_width=10), 7),
        (heads(12, 2, memory_width=10, biases=""), 7),
    ],
    ids=["self", "self without biases", "cross", "another memory width", "another width without biases"],
)
def test_outputs_weights_and_gradients_are_torchs(
    config: AttentionConfig, s: int | None, masking: str, dtype: torch.dtype
) -> None:
    layer = build(config, dtype)
    other = torchs(layer, dtype)
    X = normal(2, 5, 12, seed=1, dtype=dtype).requires_grad_()
    Z = X if s is None else normal(2, s, config.memory_width, seed=2, dtype=dtype).requires_grad_()
    keys = Z.shape[1]
    future = masks.causal(5, keys) if keys >= 5 else None
    real = torch.arange(keys) < torch.tensor([keys, keys - 2])[:, None]
    explicit = (normal(2, config.heads, 5, keys, seed=3) > -0.5) | (torch.arange(keys) == 0)
    view, theirs = {
        "none": (View(), {}),
        "causal": (View(causal=True), {"attn_mask": ~future}),
        "padding": (View(mask=real[:, None, None]), {"key_padding_mask": ~real}),
        "explicit": (View(mask=explicit), {"attn_mask": ~explicit.flatten(0, 1)}),
        "causal and padding": (
            View(mask=real[:, None, None], causal=True),
            {"attn_mask": ~future, "key_padding_mask": ~real},
        ),
    }[masking]
    close = partial(torch.testing.assert_close, rtol=0, atol=TOLERANCE[dtype])
    wanted, A = other(X, Z, Z, average_attn_weights=False, **theirs)
    inputs = (X,) if s is None else (X, Z)
    by_inputs, by_weights = gradients(wanted, inputs, other)

    seen: list[Pattern | Tensor] = []
    layer.A.watchers.append(seen.append)
    for found in ways(layer, lambda: layer(X, None if s is None else Z, view)).values():
        close(found, wanted)
        ours_by_inputs, ours_by_weights = gradients(found, inputs, layer)
        close(ours_by_inputs, by_inputs)
        close(renamed(config, ours_by_weights), by_weights)
    assert seen
    for pattern in seen:
        close(weights_of(pattern), A)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_grouped_heads_are_heads_whose_keys_and_values_repeat(dtype: torch.dtype) -> None:
    grouped = build(heads(12, 6, kv_heads=2), dtype)
    full = build(heads(12, 6), dtype)
    state = grouped.state_dict()
    for name in ("WK.weight", "WV.weight", "WK.bias", "WV.bias"):
        state[name] = state[name].unflatten(0, (2, 2)).repeat_interleave(3, 0).flatten(0, 1)
    full.load_state_dict(state)
    X = normal(2, 5, 12, dtype=dtype).requires_grad_()
    close = partial(torch.testing.assert_close, rtol=0, atol=TOLERANCE[dtype])
    wanted = full(X, view=View(causal=True))
    (gradient,) = torch.autograd.grad(wanted.square().sum(), X)
    for found in ways(grouped, lambda: grouped(X, view=View(causal=True))).values():
        close(found, wanted)
        close(torch.autograd.grad(found.square().sum(), X)[0], gradient)


@settings(max_examples=40)
@given(
    st.integers(0, 2**31),
    st.sampled_from([(2, 1), (4, 2), (3, 3)]),
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from([0.1, 1.0, 2.5]),
    st.sampled_from(["", "qkvo", "qv", "o"]),
    st.booleans(),
    st.booleans(),
)
def test_every_way_is_the_equation(
    seed: int, counts: tuple[int, int], d: int, e: int, beta: float, biases: str, causal: bool, biased: bool
) -> None:
    """d_v ≠ d_k, any scale, any set of biases, a bias that learns: H = softargmax(β Q Kᵀ + B) V, by hand."""
    h, g = counts
    config = heads(7, h, kv_heads=g, key_width=d, value_width=e, beta=beta, biases=biases)
    layer, X = build(config), normal(2, 4, 7, seed=seed).requires_grad_()
    bias = normal(h, 4, 4, seed=seed + 1).requires_grad_() if biased else None
    Q, K, V = (
        W(X).unflatten(-1, (n, -1)).transpose(1, 2).repeat_interleave(h // n, 1)
        for W, n in ((layer.WQ, h), (layer.WK, g), (layer.WV, g))
    )
    S = beta * Q @ K.mT + (0 if bias is None else bias)
    S = S.masked_fill(torch.ones(4, 4).triu(1).bool(), -math.inf) if causal else S
    wanted = layer.WO((torch.softmax(S, -1) @ V).transpose(1, 2).flatten(2))
    parts = (X, *layer.parameters()) if bias is None else (X, bias, *layer.parameters())
    gradients = torch.autograd.grad(wanted.square().sum(), parts)
    for found in ways(layer, lambda: layer(X, view=View(causal=causal, bias=bias))).values():
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)
        torch.testing.assert_close(torch.autograd.grad(found.square().sum(), parts), gradients, rtol=0, atol=1e-9)


@given(st.integers(0, 2**31), st.permutations(range(6)))
def test_permuted_tokens_are_permuted_outputs(seed: int, order: list[int]) -> None:
    layer, X = build(heads(8, 2)), normal(2, 6, 8, seed=seed)
    torch.testing.assert_close(layer(X[:, order]), layer(X)[:, order])


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_rotary_turns_queries_and_keys(layout: str) -> None:
    layer, X = build(heads(8, 2)), normal(2, 5, 8)
    cos, sin = rotary_angles(torch.arange(5), 4, dtype=torch.float64)
    seen: dict[str, Tensor] = {}
    for name in "QK":
        getattr(layer, name).watchers.append(lambda x, name=name: seen.update({name: x}))
    turned = layer(X, view=View(turn=Turn(cos, sin, layout)))
    for name, W in (("Q", layer.WQ), ("K", layer.WK)):
        torch.testing.assert_close(seen[name], rotate(layer.split(W(X), 2), cos, sin, layout=layout))
    later = rotary_angles(torch.arange(100, 105), 4, dtype=torch.float64)
    torch.testing.assert_close(layer(X, view=View(turn=Turn(*later, layout))), turned)  # only distances count


# ---- looking and editing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("explicit", [False, True])
def test_every_symbol_of_the_equation_can_be_watched(explicit: bool) -> None:
    layer, X = build(heads(6, 3, kv_heads=1)), normal(2, 4, 6)
    seen: dict[str, Any] = {}
    for name in "QKVSAHO":
        getattr(layer, name).watchers.append(lambda x, name=name: seen.update({name: x}))
    if explicit:
        layer.S.editors.append(lambda S: S)
    with torch.no_grad():
        O = layer(X, view=View(causal=True))
    assert seen["O"] is O
    assert isinstance(seen["A"], Tensor if explicit else Pattern)
    S = seen["S"] if explicit else seen["S"].S()
    A = weights_of(seen["A"])
    Q, K, V = seen["Q"], repeat_kv(seen["K"], 3), repeat_kv(seen["V"], 3)
    close = torch.testing.assert_close
    close(S, (Q @ K.mT / math.sqrt(2)).masked_fill(torch.ones(4, 4).triu(1).bool(), -math.inf))
    close(A, torch.softmax(S, -1))
    close(seen["H"], A @ V)
    close(O, layer.WO(seen["H"].transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("name", list("QKVSAHO"))
def test_every_symbol_of_the_equation_can_be_edited(name: str) -> None:
    """Zero in place of each, against the equation with zero there."""
    layer, X = build(heads(6, 3)), normal(2, 4, 6)
    getattr(layer, name).editors.append(torch.zeros_like)
    found = layer(X)
    Q, K, V = (layer.split(W(X), 3) for W in (layer.WQ, layer.WK, layer.WV))
    zero = lambda symbol, value: torch.zeros_like(value) if symbol == name else value
    Q, K, V = zero("Q", Q), zero("K", K), zero("V", V)
    A = zero("A", torch.softmax(zero("S", Q @ K.mT / math.sqrt(2)), -1))
    O = zero("O", layer.WO(zero("H", A @ V).transpose(1, 2).flatten(2)))
    torch.testing.assert_close(found, O)


def test_watching_a_pattern_holds_nothing_quadratic() -> None:
    layer, seen = build(heads(4, 2)), []
    layer.A.watchers.append(seen.append)
    with torch.no_grad():
        layer(normal(1, 50, 4))
    held = [value for value in vars(seen[0]).values() if isinstance(value, Tensor)]
    assert sum(part.numel() for part in held) == 2 * (50 * 2 + 50 * 2 + 50)  # Q, K, L of two heads


def test_dropout_acts_while_training_only_and_weights_still_sum_to_one() -> None:
    layer, X, seen = build(heads(6, 3, dropout=0.5)), normal(2, 4, 6), []
    layer.A.watchers.append(seen.append)
    torch.manual_seed(0)
    assert not torch.equal(layer(X), layer(X))
    torch.testing.assert_close(seen[0].sum(-1), torch.ones(2, 3, 4, dtype=torch.float64))
    layer.eval()
    with torch.no_grad():
        whole = layer(X)
    assert isinstance(seen[-1], Pattern)
    layer.A.editors.append(lambda A: A)  # explicit, and still nothing is dropped
    torch.testing.assert_close(layer(X), whole)


# ---- cost ------------------------------------------------------------------------------------------------------------


def multiplications(run: Callable[[], object]) -> int:
    """torch's counter, told of the fused kernel of the CPU, which it does not know."""
    attention = lambda q, k, v, *_, out_shape=None, **__: sdpa_flop(q, k, v)
    with FlopCounterMode(display=False, custom_mapping={FLASH: attention}) as counter:
        run()
    return counter.get_total_flops() // 2


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("s", "options"),
    [
        (5, {}),
        (7, {"memory_width": 10}),
        (7, {"kv_heads": 2}),
        (7, {"key_width": 5, "value_width": 5}),
    ],
    ids=["self", "cross", "grouped", "narrow"],
)
def test_what_it_costs(s: int, options: dict[str, int], bias: bool, explicit: bool) -> None:
    layer = build(heads(12, 4, biases="qkvo" if bias else "", **options))
    if explicit:
        layer.S.editors.append(lambda S: S)
    X, Z = normal(1, 5, 12), normal(1, s, layer.config.memory_width)
    c = layer.config
    expected = cost.attention(
        5,
        s,
        12,
        4,
        kv_heads=c.kv_heads,
        d=c.key_width,
        d_v=c.value_width,
        memory_width=c.memory_width,
        bias=bias,
        fused=not explicit,
    )
    assert multiplications(lambda: layer(X, Z)) == expected.multiplications
    assert sum(weight.numel() for weight in layer.parameters()) == expected.parameters


def test_self_attention_costs_as_the_formula() -> None:
    N, D = 6, 8
    layer, X = build(heads(D, 2)), normal(1, N, D)
    assert multiplications(lambda: layer(X)) == 4 * N * D**2 + 2 * N**2 * D


# ---- mistakes --------------------------------------------------------------------------------------------------------


def test_configs_that_describe_no_layer(refused) -> None:  # type: ignore[no-untyped-def]
    refused(
        ConfigError,
        "width 128 does not split into 3 heads: choose heads that divide it (1, 2, 4, 8, 16, 32, …)",
        lambda: heads(128, 3),
    )
    none = "width 6 does not split into 0 heads: choose heads that divide it (1, 2, 3, 6)"
    refused(ConfigError, none, lambda: heads(6, 0))
    refused(ConfigError, "width is 0: choose widths and heads of at least 1", lambda: heads(0, 1))
    refused(ConfigError, "value_width is 0: choose widths and heads", lambda: heads(4, 2, value_width=0))
    refused(
        ConfigError,
        "4 query heads cannot share 3 key/value heads evenly: choose key/value heads that divide 4 (1, 2, 4)",
        lambda: heads(8, 4, kv_heads=3),
    )
    refused(ConfigError, "biases are 'qx': list projections by their letters", lambda: heads(8, 4, biases="qx"))
    refused(ConfigError, "dropout is 1.0: choose a probability", lambda: heads(8, 4, dropout=1.0))


def test_defaults_of_heads() -> None:
    config = heads(12, 3)
    assert (config.kv_heads, config.key_width, config.value_width, config.memory_width) == (3, 4, 4, 12)
    assert config.beta == 0.5
    assert heads(7, 2, key_width=9).beta == 1 / 3


def test_inputs_that_do_not_fit(refused) -> None:  # type: ignore[no-untyped-def]
    layer = build(heads(8, 2, memory_width=6))
    X, Z = normal(2, 3, 8), normal(2, 5, 6)
    refused(
        ShapeError,
        "the input has width 7, the layer expects 8: give it vectors of that width",
        lambda: layer(X[..., :7], Z),
    )
    refused(
        ShapeError,
        "the input has width 5, the layer expects 6: give it vectors of that width",
        lambda: layer(X, Z[..., :5]),
    )
    refused(ShapeError, "batch and heads are (2, 2) of queries, (1, 2) of keys", lambda: layer(X, Z[:1]))
    shape = "attention takes three axes, got a tensor of shape (3, 8): give (batch, tokens, width)"
    refused(ShapeError, shape, lambda: layer(X[0], Z))
