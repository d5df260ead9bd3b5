"""Jacobians, perturbations and margins: how far an input may move before the answer changes."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd.functional import jacobian as by_autograd

from glassformer.core import attend
from glassformer.core.masks import causal
from glassformer.errors import InputError, ShapeError
from glassformer.lens import edit, trace
from glassformer.lens.margin import margins, margins_of, smallest_change
from glassformer.lens.perturb import move_key, move_query, noise_on_key, noise_on_query, order_of_error, scale_key
from glassformer.lens.sensitivity import Layer, jacobian, jacobians, layer_at, scores_at
from glassformer.models import Decoder, decoder


def random_layer(seed: int, *lead: int, t: int = 4, s: int = 5, masked: bool = False, beta: float = 0.7) -> Layer:
    g = torch.Generator().manual_seed(seed)
    Q, K, V = (torch.randn(*lead, n, w, dtype=torch.float64, generator=g) for n, w in ((t, 3), (s, 3), (s, 2)))
    bias = torch.randn(*lead, t, s, dtype=torch.float64, generator=g)
    return Layer(Q, K, V, beta, causal(t, s) if masked else None, bias)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("beta", [0.7, -1.3, 0.0])
def test_jacobians_are_those_of_autograd(masked: bool, beta: float) -> None:
    layer = random_layer(1, masked=masked, beta=beta)
    ours = jacobians(layer)

    one = torch.tensor(1.0, dtype=torch.float64)

    def AH(q: Tensor, k: Tensor, v: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        return attend(q * scale, k, v, beta=1.0, mask=layer.mask, bias=layer.bias)[1:]

    inputs = (layer.Q, layer.K, layer.V, one * beta)
    (A_q, A_k, A_v, A_beta), (H_q, H_k, H_v, H_beta) = by_autograd(AH, inputs)
    own = torch.arange(4)
    torch.testing.assert_close(ours.A_q, A_q[own, :, own])  # of (t, s, t, d): a query matters to its own row
    torch.testing.assert_close(ours.H_q, H_q[own, :, own])
    assert A_q[0, :, 1].abs().max() == 0
    torch.testing.assert_close(ours.A_k, A_k)
    torch.testing.assert_close(ours.H_k, H_k)
    assert A_v.abs().max() == 0
    torch.testing.assert_close(ours.H_v[:, None, :, None] * torch.eye(2).double()[:, None, :], H_v)
    torch.testing.assert_close(ours.A_beta, A_beta)
    torch.testing.assert_close(ours.H_beta, H_beta)


def test_jacobians_against_finite_differences() -> None:
    layer, eps = random_layer(2, masked=True), 1e-6
    ours = jacobians(layer)

    def slope(**moved: tuple[object, object]) -> tuple[torch.Tensor, torch.Tensor]:
        ((name, (up, down)),) = moved.items()
        above, below = (layer._replace(**{name: value}).attend() for value in (up, down))  # type: ignore[arg-type]
        return (above.A - below.A) / (2 * eps), (above.H - below.H) / (2 * eps)

    step = torch.zeros_like(layer.K)
    step[2, 1] = eps
    A_k, H_k = slope(K=(layer.K + step, layer.K - step))
    torch.testing.assert_close(ours.A_k[:, :, 2, 1], A_k, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(ours.H_k[:, :, 2, 1], H_k, rtol=1e-6, atol=1e-9)
    A_beta, H_beta = slope(beta=(layer.beta + eps, layer.beta - eps))
    torch.testing.assert_close(ours.A_beta, A_beta, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(ours.H_beta, H_beta, rtol=1e-6, atol=1e-9)


def test_all_heads_at_once_are_each_head_alone() -> None:
    layer = random_layer(3, 2, 3)
    whole = jacobians(layer)
    for batch in range(2):
        for head in range(3):
            for together, alone in zip(whole, jacobians(layer.head(batch, head)), strict=True):
                torch.testing.assert_close(together[batch, head], alone)


def test_rows_alone_are_rows_of_the_whole() -> None:
    layer = random_layer(4, masked=True)
    torch.testing.assert_close(jacobians(layer.rows([1, 3])).H_k, jacobians(layer).H_k[[1, 3]])


def test_the_jacobian_of_softargmax() -> None:
    A = torch.softmax(torch.tensor([0.3, -1.0, 2.0, 0.0], dtype=torch.float64), 0)
    J = jacobian(A)
    torch.testing.assert_close(J, by_autograd(lambda s: torch.softmax(s, 0), A.log()))
    assert J.sum(-1).abs().max() < 1e-15
    assert torch.linalg.eigvalsh(J).min() > -1e-15


@pytest.mark.parametrize("config", [decoder.tiny(), decoder.tiny_modern()], ids=["plain", "grouped and rotary"])
def test_a_layer_of_a_real_run(config: decoder.DecoderConfig) -> None:
    model = Decoder(config, seed=3).double().eval()
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
    with torch.no_grad(), trace(model, "decoder.1.attention.[AVH]") as run:
        model(tokens)
    layer = layer_at(run, "decoder.1.attention")
    torch.testing.assert_close(layer.attend().A, run["*.A"])
    torch.testing.assert_close(layer.attend().H, run["*.H"])
    one = layer.head(1, 1)
    torch.testing.assert_close(one.attend().A, run["*.A"][1, 1])
    assert jacobians(one).A_k.shape == (6, 6, 6, one.K.shape[-1])


def test_sensitivity_mistakes() -> None:
    model = Decoder(decoder.tiny(), seed=3).eval()
    tokens = torch.tensor([[3, 1, 4]])
    with torch.no_grad(), trace(model, "decoder.1.attention.A") as run:
        model(tokens)
    with pytest.raises(
        InputError, match=r"no attention weights of 'decoder.0.attention': choose one of decoder.1.attention"
    ):
        scores_at(run, "decoder.0.attention")
    with pytest.raises(InputError, match="there is no head 5: they are 0 to 1"):
        scores_at(run, "decoder.1.attention").head(0, 5)
    with torch.no_grad(), edit(model, "decoder.1.attention.A", 0.5), trace(model, "decoder.1.attention.A") as run:
        model(tokens)
    with pytest.raises(InputError, match="ran with edited scores"):
        scores_at(run, "decoder.1.attention")


SAMPLES = 100_000
SIZES = (1e-2, 1e-3, 1e-4)


def layer_perturb(seed: int = 0, *lead: int) -> Layer:
    g = torch.Generator().manual_seed(seed)
    Q, K, V = (torch.randn(*lead, n, 3, dtype=torch.float64, generator=g) for n in (4, 5, 5))
    return Layer(Q, K, V, 0.8, causal(4, 5), torch.randn(4, 5, dtype=torch.float64, generator=g))


def direction(seed: int = 9) -> torch.Tensor:
    return torch.randn(3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_predictions_are_the_jacobians_times_the_change() -> None:
    one, delta = layer_perturb(), 1e-3 * direction()
    J = jacobians(one)
    moved = move_key(one, 1, delta)
    torch.testing.assert_close(moved.predicted_A, J.A_k[:, :, 1] @ delta)
    torch.testing.assert_close(moved.predicted_H, J.H_k[:, :, 1] @ delta)
    turned = move_query(one, 2, delta)
    torch.testing.assert_close(turned.predicted_A[0], J.A_q[2] @ delta)
    torch.testing.assert_close(turned.predicted_H[0], J.H_q[2] @ delta)


@pytest.mark.parametrize("lead", [(), (2, 3)])
def test_the_error_of_first_order_is_of_second_order(lead: tuple[int, ...]) -> None:
    one, delta = layer_perturb(1, *lead), direction()
    along = delta.expand(*lead, 3)
    assert order_of_error(lambda x: move_key(one, 1, x * along), SIZES) == pytest.approx(2, abs=0.02)
    assert order_of_error(lambda x: move_query(one, 2, x * along), SIZES) == pytest.approx(2, abs=0.02)
    assert order_of_error(lambda x: scale_key(one, 1, 1 + x), SIZES) == pytest.approx(2, abs=0.02)


def test_measured_changes_are_of_the_right_thing() -> None:
    one = layer_perturb()
    K = one.K.clone()
    K[1] *= 3
    torch.testing.assert_close(scale_key(one, 1, 3.0).measured_A, one._replace(K=K).attend().A - one.attend().A)
    assert scale_key(one, 1, 1.0).error == 0


def test_noise_on_a_key() -> None:
    found = noise_on_key(layer_perturb(), 1, 0.12, samples=SAMPLES, generator=torch.Generator().manual_seed(1))
    compare(found)


def test_noise_on_a_query() -> None:
    found = noise_on_query(layer_perturb(), 3, 0.12, samples=SAMPLES, generator=torch.Generator().manual_seed(1))
    compare(found)


def compare(found) -> None:  # type: ignore[no-untyped-def]
    """Within the error of the sample mean, 4 s/√n, and a few percent for the orders left out."""
    for symbol in "AH":
        mean, std = (getattr(found.predicted, f"{name}_{symbol}") for name in ("mean", "std"))
        seen, seen_std = (getattr(found.measured, f"{name}_{symbol}") for name in ("mean", "std"))
        assert mean.abs().max() > 5e-4  # there is something to see
        assert ((seen - mean).abs() <= 4 * seen_std / SAMPLES**0.5 + 0.1 * mean.abs().max()).all()
        assert (seen - mean).abs().max() < 0.35 * mean.abs().max()
        assert ((std - seen_std).abs() <= 0.05 * std.max()).all()


def laplacian(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Σ_c ∂²f/∂x_c² of every output, by autograd."""
    size = function(x).numel()
    each = [torch.autograd.functional.hessian(lambda y, k=k: function(y).flatten()[k], x).trace() for k in range(size)]
    return torch.stack(each).reshape(function(x).shape)


def test_the_second_order_against_autograd() -> None:
    one, sigma = layer_perturb(3), 0.1
    both = lambda l: torch.cat(l.attend()[1:], -1)
    by_key = laplacian(lambda k: both(one._replace(K=torch.cat([one.K[:1], k[None], one.K[2:]]))), one.K[1])
    predicted = noise_on_key(one, 1, sigma, samples=2).predicted
    torch.testing.assert_close(torch.cat([predicted.mean_A, predicted.mean_H], -1), 0.5 * sigma**2 * by_key)
    row = one.rows([3])
    by_query = laplacian(lambda q: both(row._replace(Q=q[None])), one.Q[3])
    predicted = noise_on_query(one, 3, sigma, samples=2).predicted
    torch.testing.assert_close(torch.cat([predicted.mean_A, predicted.mean_H], -1), 0.5 * sigma**2 * by_query)


def test_perturb_mistakes() -> None:
    with pytest.raises(InputError, match="there is no key 7: they are 0 to 4"):
        scale_key(layer_perturb(), 7, 2.0)
    with pytest.raises(ShapeError, match=r"the change has shape \(2,\), but a query has width 3"):
        move_query(layer_perturb(), 0, torch.zeros(2))
    with pytest.raises(InputError, match="samples must be at least 2, got 1"):
        noise_on_key(layer_perturb(), 0, 0.1, samples=1)
    with pytest.raises(InputError, match="leave errors"):
        order_of_error(lambda x: scale_key(layer_perturb(), 1, 1.0), SIZES)


def layer_margin(
    seed: int, beta: float, *, masked: bool = False, biased: bool = False, t: int = 3, s: int = 4
) -> Layer:
    g = torch.Generator().manual_seed(seed)
    Q, K, V = (torch.randn(n, 3, dtype=torch.float64, generator=g) for n in (t, s, s))
    bias = torch.randn(t, s, dtype=torch.float64, generator=g) if biased else None
    return Layer(Q, K, V, beta, causal(t, s) if masked else None, bias)


def winner(one: Layer, query: int, key: int, vector: Tensor) -> int:
    """Who wins with key i replaced: from the definition, without any closed form."""
    K = one.K.clone()
    K[key] = vector
    S = one.beta * (K @ one.Q[query])
    if one.bias is not None:
        S = S + one.bias[query]
    return int((S if one.mask is None else S.masked_fill(~one.mask[query], -math.inf)).argmax())


def bisect(moved, high: float) -> float:  # type: ignore[no-untyped-def]
    """The size at which `moved(size)` turns true, ∞ if not up to `high`."""
    if not moved(high):
        return math.inf
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if moved(middle) else (middle, high)
    return high


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 0.3, -0.8]), st.booleans(), st.booleans())
def test_margins_are_where_bisection_finds_them(seed: int, beta: float, masked: bool, biased: bool) -> None:
    one = layer_margin(seed, beta, masked=masked, biased=biased)
    found = margins_of(one)
    for j in range(3):
        first = int(found.winner[j])
        for i in range(4):
            k = one.K[i]
            distance, alpha = found.distance[j, i].item(), found.alpha[j, i].item()
            # the shortest way is along q: try both senses
            q = one.Q[j] / one.Q[j].norm()
            both = [bisect(lambda r, s=s: winner(one, j, i, k + s * r * q) != first, 1e6) for s in (1.0, -1.0)]  # noqa: B023
            assert min(both) == pytest.approx(distance, rel=1e-9, abs=1e-12)
            scaled = [bisect(lambda r, s=s: winner(one, j, i, (1 + s * r) * k) != first, 1e9) for s in (1.0, -1.0)]  # noqa: B023
            nearest = min(scaled)
            assert nearest == pytest.approx(abs(alpha - 1), rel=1e-8, abs=1e-9)
            if math.isfinite(distance):
                delta = smallest_change(one, j, i)
                assert delta.norm().item() == pytest.approx(distance)
                assert winner(one, j, i, k + 0.999999 * delta) == first
                assert winner(one, j, i, k + 1.000001 * delta) == found.successor[j, i]
                beyond = 1 + 1.000001 * (alpha - 1)
                assert winner(one, j, i, beyond * k) == found.successor[j, i]


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_no_shorter_change_does_it(seed: int) -> None:
    one = layer_margin(seed, 0.6, biased=True)
    found = margins_of(one)
    noise = torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    for i in range(4):
        for step in noise / noise.norm(dim=-1, keepdim=True) * found.distance[0, i] * 0.9999:
            assert winner(one, 0, i, one.K[i] + step) == found.winner[0]


def by_hand(q: list[float], K: list[list[float]], **more: object) -> Layer:
    keys = torch.tensor(K, dtype=torch.float64)
    return Layer(torch.tensor([q], dtype=torch.float64), keys, keys, 1.0, **more)  # type: ignore[arg-type]


def test_cases_by_hand() -> None:
    """q = (1, 0): the scores are the first coordinates 3, 1, −2, 0."""
    found = margins_of(by_hand([1, 0], [[3, 0], [1, 5], [-2, 0], [0, 4]]))
    assert found.winner.tolist() == [0]
    assert found.runner.tolist() == [1]
    assert found.gap.tolist() == [2.0]
    assert found.distance[0].tolist() == [2.0, 2.0, 5.0, 3.0]
    # the winner shrinks to 1/3; the runner-up grows to 3; a negative score turns round; 0 stays 0 whatever its factor
    assert found.alpha[0].tolist() == [pytest.approx(1 / 3), 3.0, -1.5, math.inf]
    assert found.successor[0].tolist() == [1, 1, 2, 3]


def test_a_winner_with_a_negative_score_falls_by_growing() -> None:
    found = margins_of(by_hand([1], [[-1], [-4]]))
    assert found.alpha[0].tolist() == [4.0, 0.25]


def test_nothing_moves_what_cannot_move() -> None:
    mask = torch.tensor([[True, False, True]])
    found = margins_of(by_hand([1, 0], [[3, 0], [9, 0], [1, 0]], mask=mask))
    assert found.winner.tolist() == [0]
    assert found.distance[0].tolist() == [2.0, math.inf, 2.0]
    assert found.alpha[0, 1].item() == math.inf
    assert found.successor[0].tolist() == [2, -1, 2]
    alone = margins_of(by_hand([1], [[3], [9]], mask=torch.tensor([[True, False]])))
    assert alone.distance[0].tolist() == [math.inf, math.inf]
    assert alone.alpha[0].tolist() == [math.inf, math.inf]
    assert alone.runner.tolist() == [-1]
    silent = margins_of(by_hand([0], [[3], [9]], bias=torch.tensor([[1.0, 0.0]], dtype=torch.float64)))
    assert silent.distance[0].tolist() == [math.inf, math.inf]
    assert silent.successor[0].tolist() == [-1, -1]


def test_a_tie_has_no_margin() -> None:
    found = margins_of(by_hand([1], [[2], [2], [0]]))
    assert found.gap.tolist() == [0.0]
    assert found.distance[0].tolist() == [0.0, 0.0, 2.0]
    assert found.alpha[0].tolist() == [1.0, 1.0, math.inf]


def test_the_winner_falls_below_its_own_bias() -> None:
    """S = (1 + 4, 2 + 0): even at α = 0 the bias of key 0 wins, so the factor is below 0."""
    bias = torch.tensor([[4.0, 0.0]], dtype=torch.float64)
    found = margins_of(by_hand([1], [[1], [2]], bias=bias))
    assert found.alpha[0].tolist() == [-2.0, 2.5]


def test_a_real_model() -> None:
    model = Decoder(decoder.tiny_modern(), seed=3).double().eval()
    with torch.no_grad(), trace(model, "decoder.1.attention.A") as run:
        model(torch.tensor([[3, 1, 4, 1, 5, 9]]))
    found = margins(run, "decoder.1.attention", 2, 3)
    assert found.distance.shape == (6,)
    assert found.distance[:4].isfinite().all()
    assert found.distance[4:].isinf().all()  # the future is masked
    A = run.part("decoder.1.attention.A", heads=[2], rows=[3])[0, 0, 0]
    assert found.winner == A.argmax()
    one = scores_at(run, "decoder.1.attention").head(0, 2)
    for i in range(4):
        delta = smallest_change(one, 3, i)
        assert winner(one, 3, i, one.K[i] + 1.0001 * delta) == found.successor[i]
        assert winner(one, 3, i, one.K[i] + 0.9999 * delta) == found.winner
    with pytest.raises(InputError, match="there is no query 6: they are 0 to 5"):
        margins(run, "decoder.1.attention", 2, 6)
