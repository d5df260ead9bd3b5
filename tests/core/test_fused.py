from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.core import Attended, Pattern, attend, attend_fused, fused
from glassformer.core.fused import FEW_KEYS, additive, spread
from glassformer.errors import GlassError, MaskError, ShapeError

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


@pytest.fixture(autouse=True, scope="module")
def kernel() -> Iterator[None]:
    """The kernel itself, however few the keys."""
    few, fused.FEW_KEYS = fused.FEW_KEYS, 0
    yield
    fused.FEW_KEYS = few


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
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
        draw = partial(normal, dtype=self.dtype)
        self.Q = draw(2, self.h, self.t, self.d, seed=self.seed).requires_grad_()
        self.K = draw(2, self.g, self.s, self.d, seed=self.seed + 1).requires_grad_()
        self.V = draw(2, self.g, self.s, self.e, seed=self.seed + 2).requires_grad_()
        self.parts = [self.Q, self.K, self.V]
        self.seen = {"causal": self.causal, "mask": self._mask(), "bias": self._bias()}
        if self.bias == "learned":
            self.parts.append(self.seen["bias"])  # type: ignore[arg-type]

    def _mask(self) -> Tensor | None:
        first = torch.arange(self.s) == 0
        explicit = (normal(2, self.h, self.t, self.s, seed=self.seed + 3) > -0.3) | first
        real = torch.arange(self.s) < torch.tensor([self.s, max(1, self.s - 2)])[:, None, None, None]
        return {None: None, "padding": real, "explicit": explicit, "both": explicit & real, "keys": real[1, 0, 0]}[
            self.mask
        ]

    def _bias(self) -> Tensor | None:
        if self.bias is None:
            return None
        # heads last in memory, as a table of biases gives them
        bias = normal(self.t, self.s, self.h, seed=self.seed + 4, dtype=self.dtype).movedim(-1, 0)
        return bias.requires_grad_(self.bias == "learned")

    def explicit(self) -> Attended:
        K, V = (part.repeat_interleave(self.h // self.g, dim=1) for part in (self.K, self.V))
        return attend(self.Q, K, V, beta=self.beta, **self.seen)  # type: ignore[arg-type]

    def check(self) -> None:
        expected, (H, L) = self.explicit(), attend_fused(*self.parts[:3], beta=self.beta, **self.seen)  # type: ignore[arg-type]
        close = partial(torch.testing.assert_close, rtol=0, atol=TOLERANCE[self.dtype])
        close(H, expected.H)
        assert (L is None) == (self.bias == "learned")
        if L is not None:
            close(L, torch.logsumexp(expected.S, -1))
        weights = normal(*H.shape, seed=self.seed + 5, dtype=self.dtype)
        wanted = torch.autograd.grad((expected.H * weights).sum(), self.parts)
        close(torch.autograd.grad((H * weights).sum(), self.parts), wanted)


@pytest.mark.parametrize("dtype", TOLERANCE)
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
    Q, K, V = (normal(1, 1, n, 8, seed=i, dtype=torch.float32) for i in range(3))
    mask = torch.arange(n) >= n - 20
    H, L = attend_fused(Q, K, V, mask=mask)
    S, _, expected = attend(Q, K, V, mask=mask)
    torch.testing.assert_close(H, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(L, torch.logsumexp(S, -1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("how", ["transposed", "expanded"])
def test_memory_may_lie_in_any_order(which: int, how: str) -> None:
    parts = [normal(2, 2, 5, 5, seed=i) for i in range(3)]
    parts[which] = parts[which].mT if how == "transposed" else parts[which][..., :1].expand(2, 2, 5, 5)
    torch.testing.assert_close(attend_fused(*parts).H, attend(*parts).H)


def test_a_gradient_that_is_one_number_for_all() -> None:
    """sum() sends back one number with strides of zero."""
    Q, K, V = (normal(1, 2, 4, 3, seed=i).requires_grad_() for i in range(3))
    found = torch.autograd.grad(attend_fused(Q, K, V).H.sum(), (Q, K, V))
    torch.testing.assert_close(found, torch.autograd.grad(attend(Q, K, V).H.sum(), (Q, K, V)))


@pytest.mark.parametrize(("b", "t"), [(0, 3), (2, 0)])
def test_nothing_to_ask_is_answered_with_nothing(b: int, t: int) -> None:
    H, L = attend_fused(torch.zeros(b, 2, t, 4), torch.zeros(b, 1, 3, 4), torch.zeros(b, 1, 3, 5))
    assert H.shape == (b, 2, t, 5)
    assert L is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("s", [1, 4, 15, FEW_KEYS - 1, FEW_KEYS, FEW_KEYS + 1, 100])
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_never_lost(
    which: int, value: float, s: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a row of the explicit H holds a NaN or an infinity, so does the fused one."""
    monkeypatch.setattr(fused, "FEW_KEYS", FEW_KEYS)
    parts = [normal(1, 1, n, 4, seed=i).to(dtype) for i, n in enumerate((3, s, s))]
    parts[which][0, 0, -1, 2] = value
    found, wanted = (torch.isfinite(H).all(-1) for H in (attend_fused(*parts).H, attend(*parts).H))
    assert not wanted.all()
    assert not (found & ~wanted).any()


def test_few_keys_need_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "FEW_KEYS", FEW_KEYS)
    for s, expected in ((FEW_KEYS - 1, True), (FEW_KEYS, False)):
        parts = [normal(1, 2, n, 4, seed=n) for n in (3, s, s)]
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
    K = normal(2, 2, 3, 4, seed=0)
    assert torch.equal(spread(K, 6), K.repeat_interleave(3, 1))
    assert spread(K, 2) is K


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
    Q, K, V = (normal(1, 2, 4, 3, seed=i) for i in range(3))
    K.requires_grad_()
    second = []
    for H in (attend_fused(Q, K, V).H, attend(Q, K, V).H):
        (first,) = torch.autograd.grad(H.square().sum(), K, create_graph=True)
        second += torch.autograd.grad(first.square().sum(), K)
    torch.testing.assert_close(*second)


def test_functional_gradients() -> None:
    Q, K, V = (normal(1, 2, 4, 3, seed=i) for i in range(3))
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


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_a_pattern(case: Case) -> None:
    A, expected = pattern(case).A(), case.explicit().A
    weights = normal(*A.shape, seed=6)
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
    Q, K, V = (normal(1, 2, 40, 8, seed=i).to(dtype) for i in range(3))
    A = Pattern(Q, K, attend_fused(Q, K, V, beta=0.5).L, beta=0.5).A()
    assert A.dtype == dtype
    torch.testing.assert_close(A.float(), attend(Q.float(), K.float(), V.float(), beta=0.5).A, rtol=0.05, atol=0.01)


@pytest.mark.parametrize("beta", [1.0, 30.0, 1000.0])
@torch.no_grad()
def test_weights_are_recomputed_for_scores_of_any_size(beta: float) -> None:
    """exp(S − L) alone would show the rounding of both: at scores of 3,000 float32 knows four decimals."""
    Q, K, V = (normal(1, 2, 40, 8, seed=i, dtype=torch.float32) for i in range(3))
    A = Pattern(Q, K, attend_fused(Q, K, V, beta=beta).L, beta=beta).A()
    torch.testing.assert_close(A, attend(Q, K, V, beta=beta).A, rtol=0, atol=1e-5)
    torch.testing.assert_close(A.sum(-1), torch.ones(1, 2, 40), rtol=0, atol=1e-5)


# ---- mistakes --------------------------------------------------------------------------------------------------------

Q0, K0, V0 = torch.zeros(2, 4, 3, 8), torch.zeros(2, 2, 5, 8), torch.zeros(2, 2, 5, 8)
Refused = Callable[[type[GlassError], str, Callable[[], object]], None]
MISTAKES: dict[str, tuple[Callable[[], object], type[GlassError], str]] = {
    "widths": (
        lambda: attend_fused(Q0, K0[..., :6], V0),
        ShapeError,
        "queries have width 8 and keys width 6: project both",
    ),
    "pairs": (lambda: attend_fused(Q0, K0, V0[:, :, 1:]), ShapeError, "5 keys but 4 values: give each key one value"),
    "batch": (
        lambda: attend_fused(Q0, K0[:1], V0[:1]),
        ShapeError,
        "batch and heads are (2, 4) of queries, (1, 2) of keys and (1, 2) of values: give all of them one batch",
    ),
    "heads of values": (lambda: attend_fused(Q0, K0, V0[:, :1]), ShapeError, "batch and heads are (2, 4) of queries"),
    "groups": (
        lambda: attend_fused(Q0[:, :3], K0, V0),
        ShapeError,
        "3 query heads cannot share 2 key/value heads evenly: choose key/value heads that divide them",
    ),
    "no keys": (lambda: attend_fused(Q0, K0[:, :, :0], V0[:, :, :0]), ShapeError, "there are no keys"),
    "bias": (
        lambda: attend_fused(Q0, K0, V0, bias=torch.zeros(2, 3, 5)),
        ShapeError,
        "a bias of shape (2, 3, 5) does not fit scores of shape (2, 4, 3, 5): make it (…, queries, keys)",
    ),
    "mask": (
        lambda: attend_fused(Q0, K0, V0, mask=torch.ones(3, 3, dtype=torch.bool)),
        MaskError,
        "a mask of shape (3, 3) does not fit scores of shape (2, 4, 3, 5): make it (…, queries, keys)",
    ),
    "numbers": (lambda: attend_fused(Q0, K0, V0, mask=torch.ones(3, 5)), MaskError, "the mask has dtype float32: give"),
    "blind": (
        lambda: attend_fused(Q0, K0, V0, mask=torch.arange(5) >= torch.tensor([0, 5])[:, None, None, None]),
        MaskError,
        "every query of batch 1 may attend to nothing: let each query see at least one key",
    ),
    "blind by a future": (
        lambda: attend_fused(Q0, Q0, Q0, mask=torch.arange(3) >= 2, causal=True),
        MaskError,
        "query 0 may attend to nothing (and 1 more rows): let each query see at least one key",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_say_what_and_what_to_do(mistake: str, refused: Refused) -> None:
    do, kind, text = MISTAKES[mistake]
    refused(kind, text, do)
