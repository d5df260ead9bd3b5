from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console

from glassformer.errors import InputError, ShapeError
from glassformer.lens import edit, trace
from glassformer.lens.construct import convolution, named_kernel, permutation, plant, shift
from glassformer.lens.head_null import AttentionRows
from glassformer.lens.heads import watch
from glassformer.lens.nearest import distance, nearest, nearest_heads
from glassformer.lens.routing import Routing
from glassformer.models import Decoder, Encoder, ViT, decoder, encoder, vit


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
    with edit(model, "encoder.0.attention.S", plant(shift(1), 0)), edit(  # noqa: SIM117
        model, "encoder.0.attention.S", plant(shift(-1), 1)
    ):
        with torch.no_grad(), trace(model, *watch(model)) as run:
            model(tokens())
    near = nearest(run, taps)
    assert {(n.path, n.head, n.part) for n in near[:2]} == {("encoder.0.attention.A", h, 2 * h) for h in (0, 1)}
    assert nearest([run, run], taps)[0].distance.rows == 2 * near[0].distance.rows


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
    with pytest.raises(ShapeError, match="a permutation of 3 tokens for 16"):
        nearest_heads(model, [tokens()], permutation([3, 1, 2]))
    with pytest.raises(ShapeError, match="is for 4 tokens and the run has 16"):
        nearest_heads(model, [tokens()], shift(1), size=4)
