from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console
from torch import Tensor

from glassformer.errors import InputError, ShapeError
from glassformer.lens import edit, patch, sweep, trace
from glassformer.lens.sweep import site_paths
from glassformer.models import Decoder, Seq2Seq, ViT, decoder, seq2seq, vit

CLEAN = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])
CORRUPTED = torch.tensor([[3, 1, 4, 7, 5, 9, 2]])


def metric(logits: Tensor) -> Tensor:
    return logits[0, -1, 8] - logits[0, -1, 20]


@pytest.fixture
def model() -> Decoder:
    return Decoder(decoder.tiny(), seed=5).double()


@pytest.mark.parametrize("site", ["H", "A", "V", "Q", "S"])
def test_every_cell_is_one_patch(model: Decoder, site: str) -> None:
    """Against edit and patch by hand, one head at a time."""
    made = sweep(model, CLEAN, CORRUPTED, metric, site=site)
    assert made.paths == [f"decoder.{i}.attention.{site}" for i in (0, 1)]
    assert made.axis == "head"
    with torch.no_grad(), trace(model.eval(), *made.paths) as run:
        clean = metric(model(CLEAN)).item()
    for row, path in enumerate(made.paths):
        for head in (0, 1):
            with torch.no_grad(), edit(model, path, patch(run, path, head)):
                assert made.scores[row, head].item() == pytest.approx(metric(model(CORRUPTED)).item(), abs=1e-14)
    assert made.clean == pytest.approx(clean)


def test_residuals_are_patched_token_by_token(model: Decoder) -> None:
    made = sweep(model, CLEAN, CORRUPTED, metric, site="X")
    assert made.axis == "position"
    assert made.scores.shape == (2, 7)
    assert made.recovered[0, 3].item() == pytest.approx(1.0)  # the one token that differs, before any layer
    torch.testing.assert_close(made.recovered[0, [0, 1, 2, 4, 5, 6]], torch.zeros(6, dtype=torch.float64))
    last = sweep(model, CLEAN, CORRUPTED, metric, site="decoder.1.O")
    assert last.recovered[0, 6].item() == pytest.approx(1.0)  # all that the answer reads


def test_the_model_is_left_as_it_was_and_the_sweep_is_repeatable(model: Decoder) -> None:
    assert model.training
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    done: list[tuple[int, int]] = []
    one = sweep(model, CLEAN, CORRUPTED, metric, progress=lambda i, n: done.append((i, n)))
    assert torch.equal(one.scores, sweep(model, CLEAN, CORRUPTED, metric).scores)
    assert model.training
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert done == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_head_that_carries_it_all_is_found(model: Decoder) -> None:
    """Only head 1 of layer 1 sees past itself and speaks: nothing else can move the answer."""
    with torch.no_grad():
        for i in (0, 1):
            block = model.decoder.get_submodule(str(i))
            for head in (0, 1):
                if (i, head) != (1, 1):
                    block.attention.WO.weight[:, 8 * head : 8 * head + 8] = 0
            block.attention.WV.weight.mul_(30)
    made = sweep(model, CLEAN, CORRUPTED, metric)
    assert made.largest(1)[0][:2] == ("decoder.1.attention.H", 1)
    assert made.recovered[1, 1].item() == pytest.approx(1.0)
    assert made.recovered.nansum().item() == pytest.approx(1.0)


def test_pairs_and_pictures() -> None:
    pair = Seq2Seq(seq2seq.tiny()).eval()
    source, other = torch.full((1, 5), 7), torch.full((1, 5), 8)
    target = torch.full((1, 3), 6)
    made = sweep(pair, (source, target), (other, target), lambda logits: logits[0, -1, 9])
    assert [path for path in made.paths if "cross" in path] == ["decoder.0.cross.H", "decoder.1.cross.H"]
    assert made.scores.shape == (6, 2)
    image = ViT(vit.tiny())
    generator = torch.Generator().manual_seed(0)
    one, two = (torch.randn(1, 3, 8, 8, generator=generator) for _ in range(2))
    assert sweep(image, one, two, lambda logits: logits[0, 2], site="A").scores.shape == (2, 2)


def test_a_sweep_prints_itself(model: Decoder) -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(sweep(model, CLEAN, CORRUPTED, metric))
    assert "decoder.1.attention.H" in console.export_text()


def test_sites() -> None:
    model = Decoder(decoder.tiny())
    assert site_paths(model, "R") == ["decoder.0.R", "decoder.1.R"]
    assert site_paths(model, "O") == ["decoder.0.O", "decoder.1.O"]
    assert site_paths(model, "F") == ["decoder.0.ffn.F", "decoder.1.ffn.F"]
    assert site_paths(model, "decoder.*.attention.O") == ["decoder.0.attention.O", "decoder.1.attention.O"]
    assert site_paths(model, "blocks.0.attn.hook_z") == ["decoder.0.attention.H"]


def test_mistakes(model: Decoder) -> None:
    with pytest.raises(ShapeError, match="give two of the same length"):
        sweep(model, CLEAN, CORRUPTED[:, :5], metric)
    with pytest.raises(InputError, match="nothing is called Z"):
        sweep(model, CLEAN, CORRUPTED, metric, site="Z")
    with pytest.raises(InputError, match="with heads and without"):
        sweep(model, CLEAN, CORRUPTED, metric, site="decoder.0.*")
    with pytest.raises(InputError, match="patch what has heads, or tokens"):
        sweep(model, CLEAN, CORRUPTED, metric, site="decoder.embed.E")
    with pytest.raises(InputError, match=r"the metric gave \(1, 7, 50\) numbers: let it give one"):
        sweep(model, CLEAN, CORRUPTED, lambda out: out)
    same = sweep(model, CLEAN, CLEAN, metric)
    with pytest.raises(InputError, match="on both inputs"):
        _ = same.recovered
