"""Attention, explicit, fused and windowed: values, gradients, masks, shapes and mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from glassformer.core import (
    Attended,
    Pattern,
    attend,
    attend_columns,
    attend_fused,
    fused,
    gumbel_softargmax,
    hardargmax,
    scores,
    softargmax,
    straight_through,
)
from glassformer.core.attention import drop, product, softargmax_
from glassformer.core.fused import FEW_KEYS, additive, repeat_kv
from glassformer.core.masks import window
from glassformer.core.precision import bfloat16_works
from glassformer.core.windowed import attend_window
from glassformer.errors import ConfigError, GlassError, InputError, MaskError, ShapeError
from glassformer.lens import edit, trace
from glassformer.models import Decoder, decoder

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
sizes = st.integers(1, 6)
seeds = st.integers(0, 2**31)
close = partial(torch.testing.assert_close, rtol=0, atol=1e-12)


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def qkv(seed: int, t: int, s: int, d: int, e: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    parts = (normal(2, 3, n, w, seed=seed + i, dtype=dtype) for i, (n, w) in enumerate(((t, d), (s, d), (s, e))))
    return tuple(part.requires_grad_() for part in parts)


# ---- against torch ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("beta", [None, 1.0, 0.3])
@pytest.mark.parametrize("masking", ["none", "causal", "padding", "explicit", "bias", "all"])
@pytest.mark.parametrize(("t", "s", "d", "e"), [(5, 5, 4, 4), (3, 7, 4, 6)])
def test_outputs_and_gradients_are_torchs(
    masking: str, beta: float | None, t: int, s: int, d: int, e: int, dtype: torch.dtype
) -> None:
    parts = qkv(1, t, s, d, e, dtype)
    future = torch.arange(s) <= torch.arange(s - t, s)[:, None]
    real = torch.arange(s) < torch.tensor([s, s - 2])[:, None, None, None]
    anyhow = (normal(2, 3, t, s, seed=9) > -0.5) | (torch.arange(s) == 0)
    bias = normal(3, t, s, seed=8, dtype=dtype)
    ours, theirs = {
        "none": ({}, None),
        "causal": ({"causal": True}, future),
        "padding": ({"mask": real}, real),
        "explicit": ({"mask": anyhow}, anyhow),
        "bias": ({"bias": bias}, bias[None]),
        "all": (
            {"mask": real & anyhow, "bias": bias, "causal": True},
            bias.masked_fill(~(real & anyhow & future), -math.inf),
        ),
    }[masking]
    H = attend(*parts, beta=beta, **ours).H
    expected = scaled_dot_product_attention(*parts, theirs, scale=beta)
    weights = normal(*H.shape, seed=7, dtype=dtype)
    found = [H, *torch.autograd.grad((H * weights).sum(), parts)]
    wanted = [expected, *torch.autograd.grad((expected * weights).sum(), parts)]
    torch.testing.assert_close(found, wanted, rtol=0, atol=TOLERANCE[dtype])


def test_tokens_worked_by_hand() -> None:
    X = torch.tensor([[1, 2], [2, 0], [0, 1], [1, 1]], dtype=torch.float64)
    WQ, WK, WV = torch.eye(2).double(), torch.diag(torch.tensor([1.0, 0])).double(), torch.diag(torch.tensor([0, 1.0]))
    H = attend(X @ WQ, X @ WK, X @ WV.double(), beta=1.0).H
    expected = torch.tensor([[0, 0.66217], [0, 0.32919], [0, 1], [0, 0.66217]], dtype=torch.float64)
    torch.testing.assert_close(H, expected, rtol=0, atol=5e-6)


def test_scaled_weights_worked_by_hand() -> None:
    Q, K = torch.tensor([[4.0, 4, 3], [3, 5, 2]]), torch.tensor([[7.0, 8, 6], [6, 8, 5]])
    V = torch.tensor([[12.0, 8, 10], [11, 9, 13]])
    S, A, H = attend(Q, K, V)
    expected = torch.tensor([[0.98273, 0.01727], [0.94719, 0.05281]])
    torch.testing.assert_close(A, expected, rtol=0, atol=5e-6)
    torch.testing.assert_close(S, torch.tensor([[78.0, 71], [73, 68]]) / math.sqrt(3))
    torch.testing.assert_close(H, expected @ V, rtol=0, atol=1e-4)


# ---- what is always true ---------------------------------------------------------------------------------------------


@given(seeds, sizes, sizes, sizes, sizes, st.floats(-3, 3))
def test_rows_of_weights_sum_to_one(seed: int, t: int, s: int, d: int, e: int, beta: float) -> None:
    Q, K, V = qkv(seed, t, s, d, e)
    A = attend(Q, K, V, beta=beta).A
    assert (A >= 0).all()
    close(A.sum(-1), torch.ones(2, 3, t, dtype=torch.float64))


@given(seeds, sizes, sizes, sizes, sizes, st.booleans())
def test_columns_are_the_transpose_of_rows(seed: int, t: int, s: int, d: int, e: int, masked: bool) -> None:
    Q, K, V = qkv(seed, t, s, d, e)
    mask = (normal(t, s, seed=seed) > 0) | (torch.arange(s) == 0) if masked else None
    rows = attend(Q, K, V, mask=mask)
    columns = attend_columns(Q.mT, K.mT, V.mT, mask=None if mask is None else mask.mT)
    close([part.mT for part in columns], list(rows))
    parts = (Q, K, V)
    close(torch.autograd.grad(columns.H.square().sum(), parts), torch.autograd.grad(rows.H.square().sum(), parts))


@given(seeds, st.permutations(range(5)), st.permutations(range(4)))
def test_queries_come_out_in_their_order_and_keys_have_none(seed: int, keys: list[int], queries: list[int]) -> None:
    Q, K, V = qkv(seed, 4, 5, 3, 2)
    H = attend(Q, K, V).H
    close(attend(Q[..., queries, :], K[..., keys, :], V[..., keys, :]).H, H[..., queries, :])


@given(seeds, sizes)
def test_causal_weights_ignore_the_future(seed: int, t: int) -> None:
    Q, K, V = qkv(seed, t, t, 3, 2)
    later = torch.cat([K[..., :1, :], normal(2, 3, t - 1, 3, seed=seed + 5)], -2)
    A = attend(Q, K, V, causal=True).A
    assert torch.equal(A, A.tril())
    close(attend(Q, later, V, causal=True).H[..., 0, :], V[..., 0, :])


# ---- soft and hard ---------------------------------------------------------------------------------------------------


def test_softargmax_is_torchs_softmax_of_scaled_scores() -> None:
    S = normal(3, 4, seed=0)
    for beta in (1.0, 0.2, 5.0, -2.0):
        close(softargmax(S, beta), torch.softmax(beta * S, -1))
        close(softargmax(S, beta, dim=0), torch.softmax(beta * S, 0))


@given(seeds, st.lists(st.integers(-2, 2), min_size=1, max_size=6))
def test_limits_of_softargmax(seed: int, row: list[int]) -> None:
    """Whole numbers, so that rows often tie."""
    S = torch.tensor(row, dtype=torch.float64)
    close(softargmax(S, 0.0), torch.full_like(S, 1 / len(row)))
    close(softargmax(S, 1e-13), torch.full_like(S, 1 / len(row)))
    close(softargmax(S, 50.0), hardargmax(S))
    assert torch.equal(softargmax(S, math.inf), hardargmax(S))
    winners = [i for i, score in enumerate(row) if score == max(row)]
    shared = torch.zeros_like(S).index_fill(0, torch.tensor(winners), 1 / len(winners))
    assert torch.equal(hardargmax(S), shared)


def test_no_beta_overflows_and_what_is_masked_stays_masked() -> None:
    S = torch.tensor([[10.0, 30.0, -math.inf], [2.0, 2.0, -math.inf]])
    assert torch.equal(softargmax(S, 3e38), torch.tensor([[0, 1.0, 0], [0.5, 0.5, 0]]))
    assert torch.equal(softargmax(S, 0.0), torch.tensor([[0.5, 0.5, 0]] * 2))
    S.requires_grad_()
    softargmax(S, 0.5)[0, 0].backward()
    assert torch.isfinite(S.grad).all()  # type: ignore[arg-type]


def test_softargmax_has_the_derivative_of_softmax() -> None:
    S = normal(2, 5, seed=3).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: softargmax(s, 2.5), S)
    assert torch.autograd.gradcheck(lambda s: softargmax(s, 0.4, dim=0), S)


@given(seeds, st.floats(0.1, 4))
def test_straight_through_is_hard_forward_and_soft_backward(seed: int, beta: float) -> None:
    S, weights = normal(3, 4, seed=seed).requires_grad_(), normal(3, 4, seed=seed + 1)
    hard = straight_through(S, beta)
    close(hard, hardargmax(S))
    wanted = torch.autograd.grad((softargmax(S, beta) * weights).sum(), S)
    close(torch.autograd.grad((hard * weights).sum(), S), wanted)


def test_gumbel_samples_follow_softargmax() -> None:
    S = torch.tensor([0.0, 1.0, -0.5, 2.0])
    n = 20_000
    drawn = gumbel_softargmax(S.expand(n, 4), math.inf, generator=torch.Generator().manual_seed(0))
    assert torch.equal(drawn.sum(-1), torch.ones(n))
    assert torch.equal(drawn.amax(-1), torch.ones(n))  # one-hot
    expected = n * softargmax(S.double())
    assert chisquare(drawn.sum(0).numpy(), expected.numpy(), sum_check=False).pvalue > 0.01
    # The test can fail: the same counts are not those of other scores.
    other = n * softargmax(S.double() + torch.tensor([0.0, 0.1, 0, 0]))
    assert chisquare(drawn.sum(0).numpy(), other.numpy(), sum_check=False).pvalue < 0.001


def test_gumbel_is_soft_at_finite_beta_and_repeats_with_its_seed() -> None:
    S = normal(2, 3, 4, seed=0).requires_grad_()
    once, again = (gumbel_softargmax(S, 2.0, generator=torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(once, again)
    close(once.sum(-1), torch.ones(2, 3, dtype=torch.float64))
    close(gumbel_softargmax(S, dim=0).sum(0), torch.ones(3, 4, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(once[..., 0].sum(), S)
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize("normalise", [hardargmax, straight_through, partial(softargmax, beta=math.inf)])
def test_attention_can_be_hard(normalise: Callable[[Tensor], Tensor]) -> None:
    Q, K, V = qkv(4, 3, 5, 4, 2)
    S, _, H = attend(Q, K, V, normalise=normalise)
    picked = S.argmax(-1, keepdim=True).expand(-1, -1, -1, 2)
    close(H, V.gather(-2, picked))


# ---- dropout ---------------------------------------------------------------------------------------------------------


def test_dropout_keeps_the_mean_and_the_weights_themselves() -> None:
    Q, K, V = (part.detach()[0] for part in qkv(2, 3, 4, 5, 2))
    plain, n = attend(Q, K, V), 4000
    many = (part.expand(n, *part.shape) for part in (Q, K, V))
    dropped = attend(*many, dropout=0.3, generator=torch.Generator().manual_seed(0))
    close(dropped.A, plain.A.expand(n, 3, 3, 4))
    close(dropped.A.sum(-1), torch.ones(n, 3, 3, dtype=torch.float64))
    assert not torch.equal(dropped.H[0], dropped.H[1])
    error = (dropped.H.mean(0) - plain.H).abs() / (dropped.H.std(0) / math.sqrt(n))
    assert error.max() < 4.5  # standard errors, of 18 numbers


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropped_share_is_what_was_asked_in_every_number_type(dtype: torch.dtype) -> None:
    A = torch.ones(200_000, dtype=dtype)
    out = drop(A, 0.1, torch.Generator().manual_seed(1))
    zero = out == 0
    assert abs(zero.float().mean() - 0.1) < 4 * math.sqrt(0.09 / len(A))
    torch.testing.assert_close(out[~zero].float(), torch.full_like(out[~zero].float(), 1 / 0.9), rtol=1e-2, atol=0)


def test_dropout_repeats_with_its_seed() -> None:
    Q, K, V = qkv(2, 3, 4, 5, 2)
    first, second = (attend(Q, K, V, dropout=0.5, generator=torch.Generator().manual_seed(3)).H for _ in range(2))
    assert torch.equal(first, second)
    assert drop(Q, 0.0, None) is Q


# ---- mistakes --------------------------------------------------------------------------------------------------------

Q0, K0, V0 = torch.zeros(2, 1, 3, 4), torch.zeros(2, 1, 5, 4), torch.zeros(2, 1, 5, 4)
BLIND = torch.ones(2, 1, 3, 5, dtype=torch.bool)
BLIND[1, 0, 2] = False
Refused = Callable[[type[GlassError], str, Callable[[], object]], None]
MISTAKES: dict[str, tuple[Callable[[], object], type[GlassError], str]] = {
    "a row that sees nothing": (
        lambda: attend(Q0, K0, V0, mask=BLIND),
        MaskError,
        "query 2 of batch 1 may attend to nothing: allow each query at least one key, or remove the query",
    ),
    "nothing seen by any": (
        lambda: attend(Q0, K0, V0, mask=torch.zeros(5, dtype=torch.bool)),
        MaskError,
        "every query may attend to nothing: allow each query",
    ),
    "a mask of numbers": (
        lambda: attend(Q0, K0, V0, mask=torch.zeros(3, 5)),
        MaskError,
        "the mask has dtype float32: give a boolean mask, in which True = may attend",
    ),
    "a mask of another shape": (
        lambda: attend(Q0, K0, V0, mask=torch.ones(5, 3, dtype=torch.bool)),
        MaskError,
        "a mask of shape (5, 3) does not fit scores of shape (2, 1, 3, 5): make it (…, queries, keys), or 1 where",
    ),
    "a mask of a larger batch": (
        lambda: attend(Q0[:1], K0[:1], V0[:1], mask=BLIND[[0, 0]]),
        MaskError,
        "a mask of shape (2, 1, 3, 5) does not fit scores of shape (1, 1, 3, 5): make it",
    ),
    "a bias of another shape": (
        lambda: attend(Q0, K0, V0, bias=torch.ones(5, 3)),
        ShapeError,
        "a bias of shape (5, 3) does not fit scores of shape (2, 1, 3, 5): make it (…, queries, keys)",
    ),
    "widths that differ": (
        lambda: scores(Q0, K0[..., :3]),
        ShapeError,
        "queries have width 4 and keys width 3: project both to the same width",
    ),
    "columns that differ": (
        lambda: attend_columns(Q0.mT, K0[..., :3].mT, V0.mT),
        ShapeError,
        "queries have width 4 and keys width 3: project",
    ),
    "whole numbers": (
        lambda: attend(Q0.long(), K0.long(), V0.long()),
        InputError,
        "queries are int64 and keys int64: give both the same floating-point dtype",
    ),
    "two number types": (lambda: attend(Q0, K0.double(), V0), InputError, "queries are float32 and keys float64: give"),
    "batches that differ": (
        lambda: attend(Q0, K0.repeat(2, 1, 1, 1), V0.repeat(2, 1, 1, 1)),
        ShapeError,
        "batch and heads are (2, 1) of queries, (4, 1) of keys and (4, 1) of values: give all of them the same, or 1",
    ),
    "values of another batch": (
        lambda: attend_columns(Q0.mT, K0.mT, V0.repeat(1, 3, 1, 1)[[0, 0, 0]].mT),
        ShapeError,
        "batch and heads are (2, 1) of queries, (2, 1) of keys and (3, 3) of values",
    ),
    "a key without a value": (
        lambda: attend(Q0, K0, V0[..., 1:, :]),
        ShapeError,
        "there are 5 keys but 4 values: give each key",
    ),
    "a column without a value": (
        lambda: attend_columns(Q0.mT, K0.mT, V0[..., 1:, :].mT),
        ShapeError,
        "there are 5 keys but 4 values: give each key one value",
    ),
    "no keys": (
        lambda: attend(Q0, K0[..., :0, :], V0[..., :0, :]),
        ShapeError,
        "there are no keys to attend to: give at least one key",
    ),
    "more queries than a causal mask has keys": (
        lambda: attend(K0, Q0, Q0, causal=True),
        ShapeError,
        "5 queries over 3 keys would start at position -2: give at least as many keys as queries",
    ),
    "dropout of everything": (
        lambda: attend(Q0, K0, V0, dropout=1.0),
        ConfigError,
        "dropout is 1.0: choose a probability from 0 up to, not including, 1",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_say_what_and_what_to_do(mistake: str, refused: Refused) -> None:
    do, kind, text = MISTAKES[mistake]
    refused(kind, text, do)


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_softargmax_in_place(dtype: torch.dtype) -> None:
    S = normal(2, 3, 50, seed=0).to(dtype)
    S[0, 0, 1:] = -math.inf
    wanted = softargmax(S)
    found = softargmax_(S)
    assert found.data_ptr() == S.data_ptr()
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_softargmax_spares_what_a_gradient_needs() -> None:
    S = normal(3, 4, seed=0).requires_grad_()
    assert softargmax_(S) is not S
    with torch.no_grad():
        kept = S.clone()
    torch.testing.assert_close(S, kept, rtol=0, atol=0)


def test_large_products_are_the_same_products(monkeypatch: pytest.MonkeyPatch) -> None:
    Q, K = normal(2, 3, 5, 4, seed=0), normal(2, 6, 3, 4, seed=1).transpose(1, 2)
    wanted = product(Q, K)
    monkeypatch.setattr("glassformer.core.attention.MAPPED", 0)
    close(product(Q, K), wanted)
    close(product(Q[0], K[0]), wanted[0])
    close(product(Q[0, 0], K[0, 0]), wanted[0, 0])
    assert product(Q.requires_grad_(), K).requires_grad


def test_scores_leave_their_mask_and_bias_alone() -> None:
    Q, K, bias = normal(1, 2, 3, 4, seed=0), normal(1, 2, 3, 4, seed=1), normal(2, 3, 3, seed=2)
    mask, kept = torch.ones(3, 3, dtype=torch.bool).tril(), (Q.clone(), K.clone(), bias.clone())
    first, second = (scores(Q, K, mask=mask, bias=bias) for _ in range(2))
    close(first, second)
    for part, before in zip((Q, K, bias), kept, strict=True):
        close(part, before)
    assert scores(Q.float(), K.float(), bias=bias).dtype == torch.float64  # a wider bias widens the scores


FUSED_TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


@pytest.fixture(autouse=True, scope="module")
def kernel() -> Iterator[None]:
    """The kernel itself, however few the keys."""
    few, fused.FEW_KEYS = fused.FEW_KEYS, 0
    yield
    fused.FEW_KEYS = few


def fused_normal(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@dataclass
class Case:
    """Two sequences; t queries stand at the end of s keys; h query heads share g of keys and values."""

    t: int
    s: int
    h: int
    g: int
    d: int
    e: int
    causal: bool = False
    mask: str | None = None
    bias: str | None = None
    beta: float | None = None
    seed: int = 0
    dtype: torch.dtype = torch.float64

    def __post_init__(self) -> None:
        draw = partial(fused_normal, dtype=self.dtype)
        self.Q = draw(2, self.h, self.t, self.d, seed=self.seed).requires_grad_()
        self.K = draw(2, self.g, self.s, self.d, seed=self.seed + 1).requires_grad_()
        self.V = draw(2, self.g, self.s, self.e, seed=self.seed + 2).requires_grad_()
        self.parts = [self.Q, self.K, self.V]
        self.seen = {"causal": self.causal, "mask": self._mask(), "bias": self._bias()}
        if self.bias == "learned":
            self.parts.append(self.seen["bias"])  # type: ignore[arg-type]

    def _mask(self) -> Tensor | None:
        first = torch.arange(self.s) == 0
        explicit = (fused_normal(2, self.h, self.t, self.s, seed=self.seed + 3) > -0.3) | first
        real = torch.arange(self.s) < torch.tensor([self.s, max(1, self.s - 2)])[:, None, None, None]
        return {None: None, "padding": real, "explicit": explicit, "both": explicit & real, "keys": real[1, 0, 0]}[
            self.mask
        ]

    def _bias(self) -> Tensor | None:
        if self.bias is None:
            return None
        # heads last in memory, as a table of biases gives them
        bias = fused_normal(self.t, self.s, self.h, seed=self.seed + 4, dtype=self.dtype).movedim(-1, 0)
        return bias.requires_grad_(self.bias == "learned")

    def explicit(self) -> Attended:
        K, V = (part.repeat_interleave(self.h // self.g, dim=1) for part in (self.K, self.V))
        return attend(self.Q, K, V, beta=self.beta, **self.seen)  # type: ignore[arg-type]

    def check(self) -> None:
        expected, (H, L) = self.explicit(), attend_fused(*self.parts[:3], beta=self.beta, **self.seen)  # type: ignore[arg-type]
        close = partial(torch.testing.assert_close, rtol=0, atol=FUSED_TOLERANCE[self.dtype])
        close(H, expected.H)
        assert (L is None) == (self.bias == "learned")
        if L is not None:
            close(L, torch.logsumexp(expected.S, -1))
        weights = fused_normal(*H.shape, seed=self.seed + 5, dtype=self.dtype)
        wanted = torch.autograd.grad((expected.H * weights).sum(), self.parts)
        close(torch.autograd.grad((H * weights).sum(), self.parts), wanted)


@pytest.mark.variants(60)
@pytest.mark.parametrize("dtype", FUSED_TOLERANCE)
@pytest.mark.parametrize("bias", [None, "fixed", "learned"])
@pytest.mark.parametrize("mask", [None, "padding", "explicit", "both", "keys"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("t", "s", "g", "d", "e"), [(5, 5, 4, 8, 8), (3, 7, 2, 4, 6), (1, 6, 1, 6, 3)])
def test_fused_is_explicit(
    t: int, s: int, g: int, d: int, e: int, causal: bool, mask: str | None, bias: str | None, dtype: torch.dtype
) -> None:
    Case(t=t, s=s, h=4, g=g, d=d, e=e, causal=causal, mask=mask, bias=bias, dtype=dtype).check()


@given(
    st.integers(0, 2**31),
    st.tuples(st.integers(1, 6), st.integers(0, 6)),
    st.sampled_from([(1, 1), (3, 1), (4, 2), (6, 3)]),
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.booleans(),
    st.sampled_from([None, "padding", "explicit", "both"]),
    st.sampled_from([None, "fixed", "learned"]),
    st.sampled_from([None, 1.0, 0.1]),
)
def test_fused_is_explicit_whatever_the_shape(
    seed: int,
    lengths: tuple[int, int],
    heads: tuple[int, int],
    widths: tuple[int, int],
    causal: bool,
    mask: str | None,
    bias: str | None,
    beta: float | None,
) -> None:
    (t, past), (h, g), (d, e) = lengths, heads, widths
    Case(t, t + past, h, g, d, e, causal=causal, mask=mask, bias=bias, beta=beta, seed=seed).check()


@pytest.mark.parametrize("n", [600, 1100])
def test_whole_blocks_of_masked_keys(n: int) -> None:
    """The kernel takes keys in blocks; the first ones see nothing but −∞ here."""
    Q, K, V = (fused_normal(1, 1, n, 8, seed=i, dtype=torch.float32) for i in range(3))
    mask = torch.arange(n) >= n - 20
    H, L = attend_fused(Q, K, V, mask=mask)
    S, _, expected = attend(Q, K, V, mask=mask)
    torch.testing.assert_close(H, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(L, torch.logsumexp(S, -1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("how", ["transposed", "expanded"])
def test_memory_may_lie_in_any_order(which: int, how: str) -> None:
    parts = [fused_normal(2, 2, 5, 5, seed=i) for i in range(3)]
    parts[which] = parts[which].mT if how == "transposed" else parts[which][..., :1].expand(2, 2, 5, 5)
    torch.testing.assert_close(attend_fused(*parts).H, attend(*parts).H)


def test_a_gradient_that_is_one_number_for_all() -> None:
    """sum() sends back one number with strides of zero."""
    Q, K, V = (fused_normal(1, 2, 4, 3, seed=i).requires_grad_() for i in range(3))
    found = torch.autograd.grad(attend_fused(Q, K, V).H.sum(), (Q, K, V))
    torch.testing.assert_close(found, torch.autograd.grad(attend(Q, K, V).H.sum(), (Q, K, V)))


@pytest.mark.parametrize(("b", "t"), [(0, 3), (2, 0)])
def test_nothing_to_ask_is_answered_with_nothing(b: int, t: int) -> None:
    H, L = attend_fused(torch.zeros(b, 2, t, 4), torch.zeros(b, 1, 3, 4), torch.zeros(b, 1, 3, 5))
    assert H.shape == (b, 2, t, 5)
    assert L is None


@pytest.mark.variants(60)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("s", [1, 4, 15, FEW_KEYS - 1, FEW_KEYS, FEW_KEYS + 1, 100])
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_never_lost(
    which: int, value: float, s: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a row of the explicit H holds a NaN or an infinity, so does the fused one."""
    monkeypatch.setattr(fused, "FEW_KEYS", FEW_KEYS)
    parts = [fused_normal(1, 1, n, 4, seed=i).to(dtype) for i, n in enumerate((3, s, s))]
    parts[which][0, 0, -1, 2] = value
    found, wanted = (torch.isfinite(H).all(-1) for H in (attend_fused(*parts).H, attend(*parts).H))
    assert not wanted.all()
    assert not (found & ~wanted).any()


def test_few_keys_need_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "FEW_KEYS", FEW_KEYS)
    for s, expected in ((FEW_KEYS - 1, True), (FEW_KEYS, False)):
        parts = [fused_normal(1, 2, n, 4, seed=n) for n in (3, s, s)]
        H, L = attend_fused(*parts)
        torch.testing.assert_close(H, attend(*parts).H)
        assert (L is None) is expected


def test_on_the_meta_device_there_are_shapes() -> None:
    parts = [torch.zeros(2, 4, 3, 8, device="meta"), *(torch.zeros(2, 2, 5, 8, device="meta") for _ in range(2))]
    mask = torch.ones(3, 5, dtype=torch.bool, device="meta")
    H, L = attend_fused(*parts, mask=mask, bias=torch.zeros(4, 3, 5, device="meta"), causal=True)
    assert H.shape == (2, 4, 3, 8)
    assert L is None


def test_a_mask_as_a_bias() -> None:
    found = additive(torch.tensor([True, False]), torch.zeros(1, dtype=torch.bfloat16))
    assert found.tolist() == [0.0, -math.inf]
    assert found.dtype == torch.bfloat16


def test_spread_repeats_each_head_for_its_group() -> None:
    K = fused_normal(2, 2, 3, 4, seed=0)
    assert torch.equal(repeat_kv(K, 6), K.repeat_interleave(3, 1))
    assert repeat_kv(K, 2) is K


@pytest.mark.variants(2)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [None, "fixed"])
def test_second_derivatives(causal: bool, bias: str | None) -> None:
    """The kernel has none of its own: finite differences of the first are the judge."""
    case = Case(3, 3, 2, 1, 2, 3, causal=causal, bias=bias)
    parts = tuple(case.parts)
    heads = lambda *parts: attend_fused(*parts, **case.seen).H  # type: ignore[arg-type]
    assert torch.autograd.gradcheck(heads, parts)
    assert torch.autograd.gradgradcheck(heads, parts)


def test_second_derivatives_of_some_parts_alone() -> None:
    Q, K, V = (fused_normal(1, 2, 4, 3, seed=i) for i in range(3))
    K.requires_grad_()
    second = []
    for H in (attend_fused(Q, K, V).H, attend(Q, K, V).H):
        (first,) = torch.autograd.grad(H.square().sum(), K, create_graph=True)
        second += torch.autograd.grad(first.square().sum(), K)
    torch.testing.assert_close(*second)


def test_functional_gradients() -> None:
    Q, K, V = (fused_normal(1, 2, 4, 3, seed=i) for i in range(3))
    found = torch.func.grad(lambda Q: attend_fused(Q, K, V).H.sin().sum())(Q)
    torch.testing.assert_close(found, torch.func.grad(lambda Q: attend(Q, K, V).H.sin().sum())(Q))


# ---- patterns --------------------------------------------------------------------------------------------------------

CASES = [
    Case(5, 5, 4, 4, 8, 8),
    Case(5, 5, 4, 2, 4, 6, causal=True, mask="padding", bias="fixed"),
    Case(3, 7, 4, 1, 4, 3, causal=True, mask="explicit", bias="learned"),
    Case(1, 6, 4, 2, 3, 3, causal=True, beta=0.2),
    Case(4, 6, 4, 4, 3, 3, mask="keys"),
]


def pattern(case: Case, *, late: bool = True) -> Pattern:
    L = attend_fused(*case.parts[:3], beta=case.beta, **case.seen).L  # type: ignore[arg-type]
    beta = 1 / math.sqrt(case.d) if case.beta is None else case.beta
    return Pattern(case.Q, case.K, L if late else None, beta=beta, **case.seen)  # type: ignore[arg-type]


@pytest.mark.variants(40)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("heads", [slice(None), [2], [3, 0], slice(1, 3)])
@pytest.mark.parametrize("rows", [slice(None), [0], slice(-1, None), [-1, 0]])
@pytest.mark.parametrize("graded", [False, True])
def test_any_part_of_a_pattern(
    case: Case, heads: slice | list[int], rows: slice | list[int], graded: bool
) -> None:
    expected = case.explicit()
    with torch.set_grad_enabled(graded):
        found = pattern(case)
        assert found.shape == expected.S.shape
        torch.testing.assert_close(found.S(heads, rows), expected.S[:, heads][:, :, rows], check_stride=False)
        torch.testing.assert_close(found.A(heads, rows), expected.A[:, heads][:, :, rows])
        torch.testing.assert_close(pattern(case, late=False).A(heads, rows), expected.A[:, heads][:, :, rows])
        allowed = found.allowed(rows)
        assert torch.equal(allowed.expand_as(expected.S[:, :, rows]), ~torch.isneginf(expected.S[:, :, rows]))


@pytest.mark.parametrize("one_dnn", [False, True])
def test_all_of_large_weights_in_chunks(one_dnn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if one_dnn and not torch.backends.mkldnn.is_available():
        pytest.skip("torch has no oneDNN")
    Q, K, V = (normal(2, h, n, 8, seed=h * n, dtype=torch.float32) for h, n in ((4, 70), (2, 40), (2, 40)))
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: one_dnn)
    monkeypatch.setattr(fused, "MAPPED", 0)
    monkeypatch.setattr(fused, "CHUNK", 32)
    pattern = Pattern(Q, K, attend_fused(Q, K, V, beta=0.5).L, beta=0.5)
    expected = softargmax(scores(Q, repeat_kv(K, 4), beta=0.5))
    torch.testing.assert_close(pattern.A(), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(pattern.A([1, 3], slice(5, 69)), expected[:, [1, 3], 5:69], rtol=0, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_a_pattern(case: Case) -> None:
    A, expected = pattern(case).A(), case.explicit().A
    weights = fused_normal(*A.shape, seed=6)
    parts = [part for part in case.parts if part is not case.V]
    found = torch.autograd.grad((A * weights).sum(), parts)
    torch.testing.assert_close(found, torch.autograd.grad((expected * weights).sum(), parts))


def test_asking_twice_gives_the_same() -> None:
    with torch.no_grad():
        late = pattern(CASES[1])
        first = late.A().clone()
        assert torch.equal(late.A(), first)
        torch.testing.assert_close(first.sum(-1), torch.ones(2, 4, 5, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_patterns_in_half_precision(dtype: torch.dtype) -> None:
    """L is kept in full: A is no further off than scores of this precision make it."""
    Q, K, V = (fused_normal(1, 2, 40, 8, seed=i).to(dtype) for i in range(3))
    A = Pattern(Q, K, attend_fused(Q, K, V, beta=0.5).L, beta=0.5).A()
    assert A.dtype == dtype
    torch.testing.assert_close(A.float(), attend(Q.float(), K.float(), V.float(), beta=0.5).A, rtol=0.05, atol=0.01)


@pytest.mark.parametrize("beta", [1.0, 30.0, 1000.0])
@torch.no_grad()
def test_weights_are_recomputed_for_scores_of_any_size(beta: float) -> None:
    """exp(S − L) alone would show the rounding of both: at scores of 3,000 float32 knows four decimals."""
    Q, K, V = (fused_normal(1, 2, 40, 8, seed=i, dtype=torch.float32) for i in range(3))
    A = Pattern(Q, K, attend_fused(Q, K, V, beta=beta).L, beta=beta).A()
    torch.testing.assert_close(A, attend(Q, K, V, beta=beta).A, rtol=0, atol=1e-5)
    torch.testing.assert_close(A.sum(-1), torch.ones(1, 2, 40), rtol=0, atol=1e-5)


@pytest.mark.skipif(not bfloat16_works(), reason="the processor does not run bfloat16 products")
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_in_bfloat16_by_products_and_by_the_kernel(masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are within the rounding of bfloat16 of the gradients in float64."""
    bias = torch.zeros(40, 40, dtype=torch.float64)
    if masked:
        bias[:, 5:9] = bias[3] = -math.inf  # row 3 has no key
    exact = [fused_normal(2, 2, 40, 8, seed=i).bfloat16().double().requires_grad_() for i in range(3)]
    G = fused_normal(2, 2, 40, 8, seed=3).bfloat16()
    expected = torch.autograd.grad(attend_fused(*exact, bias=bias).H, exact, G.double())
    for most in (fused.MOST_WEIGHTS, 0):
        monkeypatch.setattr(fused, "MOST_WEIGHTS", most)
        parts = [part.detach().bfloat16().requires_grad_() for part in exact]
        found = torch.autograd.grad(attend_fused(*parts, bias=bias.bfloat16()).H, parts, G)
        for one, other in zip(found, expected, strict=True):
            assert (one - other).norm() <= 0.01 * other.norm()


# ---- mistakes --------------------------------------------------------------------------------------------------------

FUSED_Q0, FUSED_K0, FUSED_V0 = torch.zeros(2, 4, 3, 8), torch.zeros(2, 2, 5, 8), torch.zeros(2, 2, 5, 8)
FusedRefused = Callable[[type[GlassError], str, Callable[[], object]], None]
FUSED_MISTAKES: dict[str, tuple[Callable[[], object], type[GlassError], str]] = {
    "widths": (
        lambda: attend_fused(FUSED_Q0, FUSED_K0[..., :6], FUSED_V0),
        ShapeError,
        "queries have width 8 and keys width 6: project both",
    ),
    "pairs": (
        lambda: attend_fused(FUSED_Q0, FUSED_K0, FUSED_V0[:, :, 1:]),
        ShapeError,
        "there are 5 keys but 4 values: give each key one value",
    ),
    "batch": (
        lambda: attend_fused(FUSED_Q0, FUSED_K0[:1], FUSED_V0[:1]),
        ShapeError,
        "batch and heads are (2, 4) of queries, (1, 2) of keys and (1, 2) of values: give all of them one batch",
    ),
    "heads of values": (
        lambda: attend_fused(FUSED_Q0, FUSED_K0, FUSED_V0[:, :1]),
        ShapeError,
        "batch and heads are (2, 4) of queries",
    ),
    "groups": (
        lambda: attend_fused(FUSED_Q0[:, :3], FUSED_K0, FUSED_V0),
        ShapeError,
        "3 query heads cannot share 2 key/value heads evenly: choose key/value heads that divide them",
    ),
    "no keys": (
        lambda: attend_fused(FUSED_Q0, FUSED_K0[:, :, :0], FUSED_V0[:, :, :0]),
        ShapeError,
        "there are no keys",
    ),
    "bias": (
        lambda: attend_fused(FUSED_Q0, FUSED_K0, FUSED_V0, bias=torch.zeros(2, 3, 5)),
        ShapeError,
        "a bias of shape (2, 3, 5) does not fit scores of shape (2, 4, 3, 5): make it (…, queries, keys)",
    ),
    "mask": (
        lambda: attend_fused(FUSED_Q0, FUSED_K0, FUSED_V0, mask=torch.ones(3, 3, dtype=torch.bool)),
        MaskError,
        "a mask of shape (3, 3) does not fit scores of shape (2, 4, 3, 5): make it (…, queries, keys)",
    ),
    "numbers": (
        lambda: attend_fused(FUSED_Q0, FUSED_K0, FUSED_V0, mask=torch.ones(3, 5)),
        MaskError,
        "the mask has dtype float32: give",
    ),
    "blind": (
        lambda: attend_fused(
            FUSED_Q0, FUSED_K0, FUSED_V0, mask=torch.arange(5) >= torch.tensor([0, 5])[:, None, None, None]
        ),
        MaskError,
        "every query of batch 1 may attend to nothing: allow each query at least one key",
    ),
    "blind by a future": (
        lambda: attend_fused(FUSED_Q0, FUSED_Q0, FUSED_Q0, mask=torch.arange(3) >= 2, causal=True),
        MaskError,
        "query 0 may attend to nothing (and 1 more rows): allow each query at least one key",
    ),
}


@pytest.mark.parametrize("mistake", FUSED_MISTAKES)
def test_fused_mistakes_say_what_and_what_to_do(mistake: str, refused: FusedRefused) -> None:
    do, kind, text = FUSED_MISTAKES[mistake]
    refused(kind, text, do)


# Attention in chunks of a window equals attention with the window's mask over the whole square.


def windowed_qkv(n, kv_heads=4):
    draw = torch.Generator().manual_seed(n)
    return [torch.randn(2, heads, n, 16, generator=draw) for heads in (4, kv_heads, kv_heads)]


@pytest.mark.parametrize(("n", "width"), [(300, 64), (256, 64), (257, 40), (100, 64), (97, 1), (64, 64)])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_equals_the_masked_square(n, width, kv_heads):
    Q, K, V = windowed_qkv(n, kv_heads)
    mask = window(n, n, width=width, causal=True)
    H, L = attend_window(Q, K, V, width=width)
    want = scaled_dot_product_attention(Q, K, V, mask, enable_gqa=True)
    torch.testing.assert_close(H, want, rtol=1e-4, atol=1e-5)
    A = Pattern(Q, K, L, beta=0.25, causal=True, window=width).A(heads=[1], rows=slice(n - 9, n))
    S = (Q[:, 1:2, n - 9 :] @ K[:, [1 * kv_heads // 4]].mT / 4).masked_fill(~mask[n - 9 :], -torch.inf)
    torch.testing.assert_close(A, S.softmax(-1), rtol=1e-4, atol=1e-5)


def test_gradients_flow():
    Q, K, V = (part.requires_grad_() for part in windowed_qkv(130))
    attend_window(Q, K, V, width=32).H.square().sum().backward()
    got = [part.grad.clone() for part in (Q, K, V)]
    for part in (Q, K, V):
        part.grad = None
    mask = window(130, 130, width=32, causal=True)
    scaled_dot_product_attention(Q, K, V, mask).square().sum().backward()
    for mine, part in zip(got, (Q, K, V), strict=True):
        torch.testing.assert_close(mine, part.grad, rtol=1e-3, atol=1e-4)


def test_an_empty_window_is_refused():
    with pytest.raises(GlassError, match="width=0"):
        attend_window(*windowed_qkv(8), width=0)


def test_a_decoder_with_a_window_runs_in_chunks_and_its_A_is_readable():
    config = decoder.tiny_modern()
    model = Decoder(replace(config, text=replace(config.text, window=5)), seed=2).eval()
    tokens = torch.arange(44).remainder(40)[None]
    with torch.no_grad(), trace(model, "decoder.1.attention.A") as run:
        chunked = model(tokens)
    A = run["decoder.1.attention.A"]
    with torch.no_grad(), edit(model, "*.A", lambda A: A):  # every layer explicit, with a mask over the square
        square = model(tokens)
    torch.testing.assert_close(chunked, square, rtol=1e-4, atol=1e-4)
    assert not A.masked_fill(window(44, 44, width=5, causal=True), 0.0).any()
    torch.testing.assert_close(A.sum(-1), torch.ones_like(A.sum(-1)))
