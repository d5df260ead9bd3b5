from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from glassformer.core import (
    attend,
    attend_columns,
    gumbel_softargmax,
    hardargmax,
    scores,
    softargmax,
    straight_through,
)
from glassformer.core.attention import drop, product, softargmax_
from glassformer.errors import ConfigError, GlassError, InputError, MaskError, ShapeError

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
        "query 2 of batch 1 may attend to nothing: let each query see at least one key, or leave it out",
    ),
    "nothing seen by any": (
        lambda: attend(Q0, K0, V0, mask=torch.zeros(5, dtype=torch.bool)),
        MaskError,
        "every query may attend to nothing: let each query",
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
    "a key without a value": (lambda: attend(Q0, K0, V0[..., 1:, :]), ShapeError, "5 keys but 4 values: give each key"),
    "a column without a value": (
        lambda: attend_columns(Q0.mT, K0.mT, V0[..., 1:, :].mT),
        ShapeError,
        "5 keys but 4 values: give each key one value",
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
