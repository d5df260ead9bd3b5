"""Attention rollout, gradient rollout and attention flow."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from glassformer.errors import InputError, ShapeError
from glassformer.lens import edit, trace
from glassformer.lens.flow import cls_to_patches, gradient_rollout, max_flow, mixed, rollout
from glassformer.models import Decoder, Seq2Seq, ViT, decoder, seq2seq, vit

TOKENS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def patterns(seed: int, layers: int = 3, t: int = 4, batch: int = 1, heads: int = 2) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return [
        torch.softmax(3 * torch.randn(batch, heads, t, t, dtype=torch.float64, generator=g), -1) for _ in range(layers)
    ]


@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
@pytest.mark.parametrize("discard", [0.0, 0.4])
def test_rollout_against_a_few_lines_of_numpy(fusion: str, discard: float) -> None:
    layers = patterns(1, batch=2)
    found = rollout(layers, fusion=fusion, discard=discard, residual=0.3)  # type: ignore[arg-type]
    for b in range(2):
        R = np.eye(4)
        for layer in layers:
            A = getattr(layer[b].numpy(), fusion)(axis=0)
            A.ravel()[np.argsort(A.ravel())[: int(discard * 16)]] = 0
            A = np.array([row / row.sum() if row.any() else np.eye(4)[i] for i, row in enumerate(A)])
            R = (0.7 * A + 0.3 * np.eye(4)) @ R
        np.testing.assert_allclose(found[b], R, rtol=1e-12)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 4, dtype=torch.float64))


def test_a_row_that_is_left_nothing_stays_where_it_is() -> None:
    A = torch.tensor([[[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]]])
    assert mixed(A, fusion="min")[0].tolist() == [[1.0, 0.0], [0.25, 0.75]]


def test_rollout_of_a_real_run_and_of_one_layer() -> None:
    model = Decoder(decoder.tiny(), seed=1).double().eval()
    with torch.no_grad(), trace(model, "*.A") as run:
        model(TOKENS)
    layers = [run["decoder.0.attention.A"], run["decoder.1.attention.A"]]
    torch.testing.assert_close(rollout(run), rollout(layers))
    assert (rollout(run).triu(1) == 0).all()  # the future stays out
    one = rollout(run, "decoder.0.attention.A", residual=0.0)
    torch.testing.assert_close(one, layers[0].mean(1))


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [False, True])
def test_gradient_rollout_against_finite_differences(frozen: bool) -> None:
    model = ViT(vit.tiny(), seed=2).double().eval().requires_grad_(not frozen)
    image = torch.randn(1, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    found = gradient_rollout(model, lambda: model(image)[:, 3])
    R, eps = torch.eye(5, dtype=torch.float64), 1e-5
    for path in ("encoder.0.attention.A", "encoder.1.attention.A"):
        with torch.no_grad(), trace(model, path) as run:
            model(image)
        A = run[path][0]
        slope = torch.zeros_like(A)
        for place in np.ndindex(*A.shape):
            step = torch.zeros_like(A)
            step[place] = eps
            ends = []
            for sign in (1, -1):
                with torch.no_grad(), edit(model, path, lambda A, step=sign * step: A + step):
                    ends.append(model(image)[0, 3])
            slope[place] = (ends[0] - ends[1]) / (2 * eps)
        R = R + (slope * A).relu().mean(0) @ R
    torch.testing.assert_close(found[0], R, rtol=1e-5, atol=1e-9)
    assert (found[0] - torch.eye(5)).abs().max() > 1e-6


def test_gradients_of_one_input_are_those_of_it_alone() -> None:
    model = Decoder(decoder.tiny(), seed=1).double().eval()
    both = gradient_rollout(model, lambda: model(TOKENS)[:, -1, 7])
    alone = gradient_rollout(model, lambda: model(TOKENS[1:])[:, -1, 7])
    torch.testing.assert_close(both[1], alone[0])
    assert not any(tap.edited for tap in model.modules() if hasattr(tap, "edited"))
    assert all(weight.grad is None for weight in model.parameters())


def test_layers_after_the_answer_add_nothing() -> None:
    model = Decoder(decoder.tiny(), seed=1).double().eval()

    def early() -> torch.Tensor:
        with trace(model, "decoder.0.O") as run:
            model(TOKENS)
        return run["decoder.0.O"][:, -1].square()

    first = gradient_rollout(model, early, "decoder.0.attention.A")
    torch.testing.assert_close(gradient_rollout(model, early), first)
    with pytest.raises(InputError, match="does not depend on any weights"):
        gradient_rollout(model, early, "decoder.1.attention.A")


def by_linear_programme(layers: list[np.ndarray], query: int, key: int) -> float:
    """max flow: one variable for each edge, what enters a node leaves it."""
    t = len(layers[0])
    edges = [(l + 1, i, j, A[i, j]) for l, A in enumerate(layers) for i in range(t) for j in range(t)]
    rows = {}
    for e, (l, i, j, _) in enumerate(edges):
        rows.setdefault((l, i), np.zeros(len(edges)))[e] -= 1
        rows.setdefault((l - 1, j), np.zeros(len(edges)))[e] += 1
    value = -rows.pop((len(layers), query))
    rows.pop((0, key))
    for node in [node for node in rows if node[0] in (0, len(layers))]:
        del rows[node]
    A_eq = np.array(list(rows.values())) if rows else None
    bounds = [(0, c if (l < len(layers) or i == query) and (l > 1 or j == key) else 0) for (l, i, j, c) in edges]
    return float(-linprog(-value, A_eq=A_eq, b_eq=None if A_eq is None else np.zeros(len(A_eq)), bounds=bounds).fun)


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_max_flow_is_the_optimum_of_a_linear_programme(seed: int, depth: int) -> None:
    layers = patterns(seed, depth)
    found = max_flow(layers, 2)
    plain = [(0.5 * A[0].mean(0) + 0.5 * torch.eye(4)).numpy() for A in layers]
    for key in range(4):
        assert found[0, key].item() == pytest.approx(by_linear_programme(plain, 2, key), abs=1e-7)


def test_max_flow_of_some_keys_and_causal() -> None:
    model = Decoder(decoder.tiny(), seed=1).eval()
    with torch.no_grad(), trace(model, "*.A") as run:
        model(TOKENS)
    some = max_flow(run, 2, keys=[0, 4])
    assert some[:, [1, 2, 3]].isnan().all()
    assert (some[:, 4] == 0).all()
    torch.testing.assert_close(some[:, 0], max_flow(run, 2)[:, 0])


def test_the_look_of_cls_on_the_grid() -> None:
    R = torch.arange(7.0).expand(1, 7, 7)  # CLS, two registers, four patches
    assert cls_to_patches(R, (2, 2)).tolist() == [[[3, 4], [5, 6]]]
    assert cls_to_patches(R.expand(1, 3, 7, 7), (1, 4), query=2).shape == (1, 3, 1, 4)
    with pytest.raises(ShapeError, match="7 positions are not a grid of 3 × 3 patches"):
        cls_to_patches(R, (3, 3))


def test_mistakes() -> None:
    pair = Seq2Seq(seq2seq.tiny()).eval()
    with torch.no_grad(), trace(pair, "*.A") as run:
        pair(torch.ones(1, 5, dtype=torch.long), torch.ones(1, 3, dtype=torch.long))
    with pytest.raises(InputError, match=r"names layers of decoder and encoder: follow one stack"):
        rollout(run)
    assert rollout(run, "encoder.*.attention.A").shape == (1, 5, 5)
    with pytest.raises(ShapeError, match=r"weights have shape \(1, 2, 3, 5\)"):
        rollout(run, "decoder.*.cross.A")
    with pytest.raises(InputError, match="no layers"):
        rollout([])
    with pytest.raises(InputError, match="cannot be fused by 'sum'"):
        rollout(patterns(0), fusion="sum")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"discard is 1\.0"):
        rollout(patterns(0), discard=1.0)
    with pytest.raises(InputError, match="there is no position 4: they are 0 to 3"):
        max_flow(patterns(0), 4)
    model = Decoder(decoder.tiny(), seed=1).eval()
    with pytest.raises(InputError, match="never called the model"):
        gradient_rollout(model, lambda: torch.zeros(1, requires_grad=True))
    with pytest.raises(InputError, match="do not detach"):
        gradient_rollout(model, lambda: model(TOKENS).detach())
