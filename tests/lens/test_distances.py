from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as scipy_entropy
from scipy.stats import wasserstein_distance, wasserstein_distance_nd

from glassformer.errors import InputError, ShapeError
from glassformer.lens import trace
from glassformer.lens.distances import (
    classical_scaling,
    entropy,
    head_distances,
    head_map,
    jensen_shannon,
    on_grid,
    on_line,
)
from glassformer.lens.trace import Run
from glassformer.models import Decoder, Seq2Seq, ViT, decoder, seq2seq, vit


def rows(seed: int, *shape: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.softmax(2 * torch.randn(*shape, dtype=torch.float64, generator=g), -1)


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_rows_against_scipy(seed: int) -> None:
    A, B = rows(seed, 2, 6)
    assert entropy(A).item() == pytest.approx(scipy_entropy(A.numpy()))
    assert jensen_shannon(A, B).item() == pytest.approx(jensenshannon(A.numpy(), B.numpy()) ** 2, rel=1e-9)
    places = np.arange(6)
    assert on_line(A, B).item() == pytest.approx(wasserstein_distance(places, places, A.numpy(), B.numpy()))


def test_a_grid_against_scipy() -> None:
    A, B = rows(4, 2, 7)  # CLS and 2 × 3 patches
    places = np.array([(y, x) for y in range(2) for x in range(3)], dtype=float)
    p, q = (part[1:].numpy() / part[1:].sum().item() for part in (A, B))
    expected = wasserstein_distance_nd(places, places, p, q)
    assert on_grid(A, B, (2, 3)).item() == pytest.approx(expected)
    assert on_grid(A.expand(2, 3, 7), B.expand(2, 3, 7), (2, 3)).shape == (2, 3)


def test_ends() -> None:
    one, other = torch.eye(4, dtype=torch.float64)[:2]
    assert entropy(one) == 0
    assert entropy(torch.full((4,), 0.25)) == pytest.approx(math.log(4))
    assert jensen_shannon(one, other) == pytest.approx(math.log(2))
    assert jensen_shannon(one, one) == 0
    assert on_line(torch.eye(4)[0], torch.eye(4)[3]) == 3


@pytest.fixture(scope="module")
def run() -> Run:
    model = Decoder(decoder.tiny(), seed=4).eval()
    with torch.no_grad(), trace(model, "*.A") as run:
        model(torch.tensor([[3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8]]))
    return run


def test_all_heads_of_a_run(run: Run) -> None:
    for measure, apart in (("js", lambda a, b: jensen_shannon(a, b).sqrt()), ("line", on_line)):
        found = head_distances(run, measure=measure)  # type: ignore[arg-type]
        assert found.names == tuple((f"decoder.{l}.attention", h) for l in (0, 1) for h in (0, 1))
        for g, (layer, head) in enumerate(found.names):
            for h, (other_layer, other_head) in enumerate(found.names):
                A, B = run[f"{layer}.A"][:, head].double(), run[f"{other_layer}.A"][:, other_head].double()
                assert found.D[g, h].item() == pytest.approx(apart(A, B).mean().item(), rel=1e-3, abs=1e-6)
    some = head_distances(run, measure="line", rows=[5])
    expected = on_line(run["decoder.0.attention.A"][:, 0, 5], run["decoder.1.attention.A"][:, 1, 5]).mean()
    assert some.D[0, 3].item() == pytest.approx(expected.item(), rel=1e-4)


def test_heads_on_the_grid() -> None:
    model = ViT(vit.tiny(), seed=4).eval()
    with torch.no_grad(), trace(model, "*.A") as run:
        model(torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
    found = head_distances(run, measure="grid", rows=[0], grid=model.config.grid)
    A, B = run["encoder.0.attention.A"][:, 1, :1], run["encoder.1.attention.A"][:, 0, :1]
    assert found.D[1, 2].item() == pytest.approx(on_grid(A, B, (2, 2)).item())
    assert torch.equal(found.D, found.D.mT)
    with pytest.raises(InputError, match="needs one"):
        head_distances(run, measure="grid")


def test_a_map_finds_planted_groups() -> None:
    """Three kinds of heads, four of each with a little noise: look left, look at the first key, look at all."""
    g = torch.Generator().manual_seed(0)
    t = 8
    kinds = (torch.eye(t).roll(1, 1), torch.eye(t)[0].expand(t, t), torch.full((t, t), 1 / t))
    heads = [0.95 * kind + 0.05 * torch.softmax(torch.randn(t, t, generator=g), -1) for _ in range(4) for kind in kinds]
    run = Run(["encoder.0.attention.A"])
    run.keep("encoder.0.attention.A", torch.stack(heads)[None])
    for measure in ("js", "line"):
        found = head_map(head_distances(run, measure=measure).D, groups=3)  # type: ignore[arg-type]
        for kind in range(3):
            assert len({found.group[h] for h in range(kind, 12, 3)}) == 1
        assert len(set(found.group)) == 3
        assert sorted(found.order) == list(range(12))
        in_order = [found.group[h] for h in found.order]
        assert in_order == sorted(in_order)  # groups stand together, numbered as they come
        middle = torch.stack([found.xy[kind::3].mean(0) for kind in range(3)])
        width = max((found.xy[kind::3] - middle[kind]).norm(dim=-1).max().item() for kind in range(3))
        assert torch.pdist(middle).min() > 3 * width


def test_classical_scaling_gives_a_plane_back() -> None:
    points = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    D = torch.cdist(points, points)
    xy, kept = classical_scaling(D)
    torch.testing.assert_close(torch.cdist(xy, xy), D, atol=1e-7, rtol=1e-6)
    assert kept == pytest.approx(1)
    solid = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert 0.3 < classical_scaling(torch.cdist(solid, solid))[1] < 0.95
    assert classical_scaling(torch.zeros(3, 3))[1] == 1.0


def test_mistakes(run: Run) -> None:
    with pytest.raises(InputError, match="there is no distance 'cosine'"):
        head_distances(run, measure="cosine")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="no matrix of distances"):
        head_map(torch.rand(3, 3))
    with pytest.raises(InputError, match="1 heads in 4 groups"):
        head_map(torch.zeros(1, 1))
    with pytest.raises(ShapeError, match="hold no grid"):
        on_grid(torch.ones(3), torch.ones(3), (2, 2))
    pair = Seq2Seq(seq2seq.tiny()).eval()
    with torch.no_grad(), trace(pair, "*.A") as other:
        pair(torch.ones(1, 5, dtype=torch.long), torch.ones(1, 3, dtype=torch.long))
    with pytest.raises(ShapeError, match="compare layers of one stack"):
        head_distances(other)
