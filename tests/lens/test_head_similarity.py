"""Distances between heads, and the head nearest to a construction."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as scipy_entropy
from scipy.stats import wasserstein_distance, wasserstein_distance_nd

from glassformer.errors import InputError, ShapeError
from glassformer.lens import edit, trace
from glassformer.lens.construct import convolution, named_kernel, permutation, plant, shift
from glassformer.lens.distances import (
    classical_scaling,
    entropy,
    head_distances,
    head_map,
    jensen_shannon,
    on_grid,
    on_line,
)
from glassformer.lens.head_null import AttentionRows
from glassformer.lens.heads import score_paths
from glassformer.lens.nearest import distance, nearest_heads, nearest_pairs
from glassformer.lens.routing import Routing
from glassformer.lens.trace import Run
from glassformer.models import Decoder, Encoder, Seq2Seq, ViT, decoder, encoder, seq2seq, vit


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
    assert found.D[1, 2].item() == pytest.approx(on_grid(A, B, (2, 2)).item(), rel=1e-4)
    assert torch.equal(found.D, found.D.mT)
    with pytest.raises(InputError, match="needs a grid"):
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
    with pytest.raises(ShapeError, match="not a distance matrix"):
        head_map(torch.rand(3, 3))
    with pytest.raises(InputError, match="1 heads in 4 groups"):
        head_map(torch.zeros(1, 1))
    with pytest.raises(ShapeError, match="not a grid of 2 × 2"):
        on_grid(torch.ones(3), torch.ones(3), (2, 2))
    pair = Seq2Seq(seq2seq.tiny()).eval()
    with torch.no_grad(), trace(pair, "*.A") as other:
        pair(torch.ones(1, 5, dtype=torch.long), torch.ones(1, 3, dtype=torch.long))
    with pytest.raises(ShapeError, match="compare layers of one stack"):
        head_distances(other)


def tokens(seed: int = 0, n: int = 16) -> torch.Tensor:
    return torch.randint(50, (3, n), generator=torch.Generator().manual_seed(seed))


def test_the_planted_head_is_the_nearest() -> None:
    model = Decoder(decoder.tiny(), seed=0).eval()
    with edit(model, "decoder.1.attention.S", plant(shift(2), 1)):
        table = nearest_heads(model, [tokens(), tokens(1, 23)], shift(2))
    first, second = table.rows[:2]
    assert (first.path, first.head) == ("decoder.1.attention.A", 1)
    assert first.relative < 1e-3
    assert first.z > 10
    assert second.relative > 0.8
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table)
    assert "nearest to shift by 2" in console.export_text()


def test_each_tap_of_a_convolution_finds_its_head() -> None:
    model = Encoder(encoder.tiny(), seed=0).eval()
    taps = convolution([1, 2, 1])
    with (
        edit(model, "encoder.0.attention.S", plant(shift(1), 0)),
        edit(model, "encoder.0.attention.S", plant(shift(-1), 1)),
        torch.no_grad(),
        trace(model, *score_paths(model)) as run,
    ):
        model(tokens())
    near = nearest_pairs(run, taps)
    assert {(n.path, n.head, n.part) for n in near[:2]} == {("encoder.0.attention.A", h, 2 * h) for h in (0, 1)}
    assert nearest_pairs([run, run], taps)[0].distance.rows == 2 * near[0].distance.rows


def test_a_whole_kernel_in_one_head() -> None:
    model = Encoder(encoder.tiny(), seed=0).eval()
    blur = convolution([1, 2, 1], edges="renormalised")
    with edit(model, "encoder.1.attention.S", plant(blur, 0)):
        best = nearest_heads(model, [tokens()], blur).rows[0]
    assert (best.path, best.head) == ("encoder.1.attention.A", 0)
    assert best.relative < 0.01


def test_on_a_grid_behind_cls() -> None:
    model = ViT(vit.plain(24, 4, 16, 2, 2, classes=5), seed=0).eval()
    right = Routing(name="right", offsets=((0, 1),), C=torch.ones(1, 1, 1, dtype=torch.float64))
    images = torch.randn(2, 3, 24, 24, generator=torch.Generator().manual_seed(0))
    with edit(model, "encoder.0.attention.S", plant(right, 1, size=(6, 6), prefix=1)):
        box = convolution(named_kernel("box", (3, 3)))
        best = nearest_heads(model, [images], box, size=(6, 6), prefix=1).rows[0]
    assert (best.path, best.head) == ("encoder.0.attention.A", 1)
    assert box.offsets[best.part] == (0, 1)
    with pytest.raises(InputError, match="needs a grid"):
        nearest_heads(model, [images], box)


def test_distance_and_its_null_by_dealing() -> None:
    generator = torch.Generator().manual_seed(0)
    a = torch.rand(7, dtype=torch.float64, generator=generator).mul(4).softmax(-1)
    ideal = torch.tensor([0, 0.25, 0.5, 0.25, 0, 0, 0], dtype=torch.float64)
    A = a[None, None, None]
    found = distance(AttentionRows(A, torch.ones_like(A, dtype=torch.bool), torch.tensor([6])), ideal[None])
    assert found.value.item() == pytest.approx(((a - ideal) ** 2).sum().item() / 2)
    dealt = a[torch.rand(40_000, 7, generator=generator).argsort(-1)]
    samples = ((dealt - ideal) ** 2).sum(-1) / 2
    assert samples.mean().item() == pytest.approx(found.null.item(), rel=0.01)
    assert samples.var().item() == pytest.approx(found.variance.item(), rel=0.05)


def test_random_models_are_no_nearer_than_by_chance() -> None:
    model = Encoder(encoder.tiny(), seed=0).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".WQ.weight" in name or ".WK.weight" in name:
                weight.normal_(0, 0.35, generator=torch.Generator().manual_seed(1))
    for near in nearest_heads(model, [tokens(s, 20) for s in range(4)], shift(1), top=None).rows:
        assert near.relative == pytest.approx(1.0, abs=0.15)


def test_lengths_must_agree() -> None:
    model = Encoder(encoder.tiny(), seed=0).eval()
    with pytest.raises(ShapeError, match="the permutation orders 3 tokens, but there are 16"):
        nearest_heads(model, [tokens()], permutation([3, 1, 2]))
    with pytest.raises(ShapeError, match="is for 4 tokens and the run has 16"):
        nearest_heads(model, [tokens()], shift(1), size=4)
