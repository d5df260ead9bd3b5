"""Edits of a quantity during a forward pass, and activation patching over every site."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console
from torch import Tensor

from glassformer.errors import InputError, ShapeError
from glassformer.lens import at_heads, edit, freeze, patch, replace, sweep, trace, zero, zero_head
from glassformer.lens.sweep import site_paths
from glassformer.models import Decoder, Seq2Seq, ViT, decoder, seq2seq, vit

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])
OTHER = torch.tensor([[3, 1, 4, 7, 5, 9, 2]])


@pytest.fixture
def model_edit() -> Decoder:
    return Decoder(decoder.tiny(), seed=5).double().eval()


@pytest.mark.parametrize("symbol", ["Q", "K", "V", "S", "A", "H", "O"])
def test_an_identity_edit_changes_nothing_and_a_real_one_does(model_edit: Decoder, symbol: str) -> None:
    before = model_edit(TOKENS)
    with edit(model_edit, f"decoder.0.attention.{symbol}", lambda x: x):
        torch.testing.assert_close(model_edit(TOKENS), before, rtol=1e-12, atol=1e-12)
    with edit(model_edit, f"decoder.0.attention.{symbol}", lambda x: x * torch.linspace(0.5, 2.0, x.shape[-1])):
        assert (model_edit(TOKENS) - before).abs().max() > 1e-6
    assert torch.equal(model_edit(TOKENS), before)  # bit for bit


def test_leaving_by_an_error_leaves_the_model_as_it_was(model_edit: Decoder) -> None:
    before = model_edit(TOKENS)
    state = {name: weight.clone() for name, weight in model_edit.state_dict().items()}
    with pytest.raises(RuntimeError, match="planned"), edit(model_edit, "decoder.*.attention.beta", 3.0):
        raise RuntimeError("planned")
    assert torch.equal(model_edit(TOKENS), before)
    assert all(torch.equal(weight, state[name]) for name, weight in model_edit.state_dict().items())


def test_a_head_that_looks_at_nothing_says_nothing(model_edit: Decoder) -> None:
    with edit(model_edit, "decoder.1.attention.A", zero_head(1)), trace(model_edit, "decoder.1.attention.H") as run:
        model_edit(TOKENS)
    H = run["decoder.1.attention.H"]
    assert (H[:, 1] == 0).all()
    assert (H[:, 0] != 0).all()


def test_patching_every_residual_of_another_run_gives_its_answer(model_edit: Decoder) -> None:
    with trace(model_edit, "decoder.0.O") as run:
        wanted = model_edit(OTHER)
    with edit(model_edit, "decoder.0.O", patch(run, "decoder.0.O")):
        torch.testing.assert_close(model_edit(TOKENS), wanted)


def test_patching_one_head(model_edit: Decoder) -> None:
    with trace(model_edit, "decoder.1.attention.H") as run:
        model_edit(OTHER)
    path = "decoder.1.attention.H"
    with edit(model_edit, path, patch(run, path, 0)), trace(model_edit, path) as now:
        model_edit(TOKENS)
    assert torch.equal(now["*.H"][:, 0], run["*.H"][:, 0])
    assert not torch.equal(now["*.H"][:, 1], run["*.H"][:, 1])


def test_a_frozen_pattern_stays_whatever_the_scores_say(model_edit: Decoder) -> None:
    with trace(model_edit, "*.A") as run:
        model_edit(OTHER)
    path = "decoder.1.attention.A"
    with edit(model_edit, path, freeze(run, path)), trace(model_edit, path) as now:
        model_edit(TOKENS).square().sum().backward()
    torch.testing.assert_close(now[path], run[path])
    assert (
        model_edit.decoder.get_submodule("1").attention.WQ.weight.grad is None
    )  # no gradient through a frozen pattern
    assert model_edit.decoder.get_submodule("1").attention.WV.weight.grad is not None


def test_gradients_flow_through_an_edit(model_edit: Decoder) -> None:
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    tilt = torch.linspace(-1, 1, 7, dtype=torch.float64)

    with edit(model_edit, "decoder.0.attention.S", lambda S: S + tilt * scale):
        out = model_edit(TOKENS).square().sum()
    (slope,) = torch.autograd.grad(out, scale)
    eps = 1e-6
    with torch.no_grad(), edit(model_edit, "decoder.0.attention.S", lambda S: S + tilt * (1 + eps)):
        up = model_edit(TOKENS).square().sum()
    with torch.no_grad(), edit(model_edit, "decoder.0.attention.S", lambda S: S + tilt * (1 - eps)):
        down = model_edit(TOKENS).square().sum()
    torch.testing.assert_close(slope, (up - down) / (2 * eps), rtol=1e-4, atol=1e-9)


def test_beta_is_a_dial_with_both_limits(model_edit: Decoder) -> None:
    with torch.no_grad(), edit(model_edit, "decoder.0.attention.beta", 0), trace(model_edit, "*.0.attention.A") as run:
        model_edit(TOKENS)
    torch.testing.assert_close(run["*.A"][0, 0, 4, :5], torch.full((5,), 0.2, dtype=torch.float64))
    with (
        torch.no_grad(),
        edit(model_edit, "decoder.0.attention.beta", 1e6),
        trace(model_edit, "*.0.attention.A") as run,
    ):
        model_edit(TOKENS)
    torch.testing.assert_close(run["*.A"].amax(-1), torch.ones(1, 2, 7, dtype=torch.float64))


def test_numbers_and_tensors_are_edits_too(model_edit: Decoder) -> None:
    last, first = "decoder.1.O", "decoder.embed.X"
    with (
        edit(model_edit, "decoder.*.attention.O", 0),
        edit(model_edit, "*.ffn.O", zero()),
        trace(model_edit, last, first) as run,
    ):
        model_edit(TOKENS)
    torch.testing.assert_close(run[last], run[first])
    value = torch.arange(16.0)
    with edit(model_edit, "decoder.1.O", replace(value)), trace(model_edit, "decoder.1.O") as run:
        model_edit(TOKENS)
    assert torch.equal(run["decoder.1.O"][0, 3], value.double())


def test_edit_mistakes(model_edit: Decoder) -> None:
    with pytest.raises(ShapeError, match=r"A \(b h t s\) changed its shape from \(1, 2, 7, 7\)"):  # noqa: SIM117
        with edit(model_edit, "decoder.0.attention.A", lambda A: A[:, :1]):
            model_edit(TOKENS)
    with pytest.raises(InputError, match="there is no head 5: heads are 0 to 1"):  # noqa: SIM117
        with edit(model_edit, "decoder.0.attention.A", at_heads(torch.zeros_like, 5)):
            model_edit(TOKENS)
    with pytest.raises(InputError, match="no quantity is called"), edit(model_edit, "decoder.7.attention.A", 0):
        pass
    with (
        pytest.raises(InputError, match="cannot be replaced by"),
        edit(model_edit, "decoder.0.attention.beta", torch.zeros_like),
    ):
        pass


PATH = "decoder.0.attention.H"


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda H: None, InputError, f"an edit of {PATH} returned a NoneType: return the new tensor"),
        (torch.zeros(3, 3), ShapeError, r"the quantity is (1, 2, 7, 8) here and (3, 3) in the edit"),
        ("zero", InputError, f"{PATH} cannot be replaced by 'zero': give a function"),
        (None, InputError, f"{PATH} cannot be replaced by None"),
        (zero_head(-1), InputError, "there is no head -1: heads are 0 to 1"),
    ],
)
def test_what_is_no_edit(model_edit: Decoder, refused, change: object, kind: type, text: str) -> None:
    def tried() -> None:
        with edit(model_edit, PATH, change):
            model_edit(TOKENS)

    refused(kind, text, tried)


def test_a_patch_of_other_sizes_names_both_places(model_edit: Decoder, refused) -> None:
    with trace(model_edit, PATH) as run:
        model_edit(TOKENS[:, :3])

    def tried() -> None:
        with edit(model_edit, PATH, patch(run, PATH)):
            model_edit(TOKENS)

    text = f"the quantity is (1, 2, 7, 8) here and (1, 2, 3, 8) in the run it is patched from, at {PATH}"
    refused(ShapeError, text, tried)


def test_what_has_no_taps_is_refused(refused) -> None:
    def tried(model: object) -> None:
        with edit(model, "A", 0.0):
            pass

    refused(
        InputError, "Linear has no quantities to trace: give a model built from", lambda: tried(torch.nn.Linear(2, 2))
    )
    refused(InputError, "str has no quantities to trace: give a model built from", lambda: tried("model"))


CLEAN = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])
CORRUPTED = torch.tensor([[3, 1, 4, 7, 5, 9, 2]])


def metric(logits: Tensor) -> Tensor:
    return logits[0, -1, 8] - logits[0, -1, 20]


@pytest.fixture
def model_sweep() -> Decoder:
    return Decoder(decoder.tiny(), seed=5).double()


@pytest.mark.parametrize("site", ["H", "A", "V", "Q", "S"])
def test_every_cell_is_one_patch(model_sweep: Decoder, site: str) -> None:
    """Against edit and patch by hand, one head at a time."""
    made = sweep(model_sweep, CLEAN, CORRUPTED, metric, site=site)
    assert made.paths == [f"decoder.{i}.attention.{site}" for i in (0, 1)]
    assert made.axis == "head"
    with torch.no_grad(), trace(model_sweep.eval(), *made.paths) as run:
        clean = metric(model_sweep(CLEAN)).item()
    for row, path in enumerate(made.paths):
        for head in (0, 1):
            with torch.no_grad(), edit(model_sweep, path, patch(run, path, head)):
                assert made.scores[row, head].item() == pytest.approx(metric(model_sweep(CORRUPTED)).item(), abs=1e-14)
    assert made.clean == pytest.approx(clean)


def test_residuals_are_patched_token_by_token(model_sweep: Decoder) -> None:
    made = sweep(model_sweep, CLEAN, CORRUPTED, metric, site="X")
    assert made.axis == "position"
    assert made.scores.shape == (2, 7)
    assert made.recovered[0, 3].item() == pytest.approx(1.0)  # the one token that differs, before any layer
    torch.testing.assert_close(made.recovered[0, [0, 1, 2, 4, 5, 6]], torch.zeros(6, dtype=torch.float64))
    last = sweep(model_sweep, CLEAN, CORRUPTED, metric, site="decoder.1.O")
    assert last.recovered[0, 6].item() == pytest.approx(1.0)  # all that the answer reads


def test_a_sweep_restores_the_mode_of_every_module() -> None:
    model = Decoder(decoder.tiny(), seed=0).train()
    model.get_submodule("decoder.0").eval()
    modes = [module.training for module in model.modules()]
    sweep(model, CLEAN, CORRUPTED, metric, site="decoder.1.O")
    assert [module.training for module in model.modules()] == modes


def test_the_gated_branch_is_patched_by_its_symbol() -> None:
    model = Decoder(decoder.tiny_modern(), seed=0)
    assert sweep(model, CLEAN, CORRUPTED, metric, site="G").paths == ["decoder.0.ffn.G", "decoder.1.ffn.G"]


def test_the_model_is_left_as_it_was_and_the_sweep_is_repeatable(model_sweep: Decoder) -> None:
    assert model_sweep.training
    before = {name: weight.clone() for name, weight in model_sweep.state_dict().items()}
    done: list[tuple[int, int]] = []
    one = sweep(model_sweep, CLEAN, CORRUPTED, metric, progress=lambda i, n: done.append((i, n)))
    assert torch.equal(one.scores, sweep(model_sweep, CLEAN, CORRUPTED, metric).scores)
    assert model_sweep.training
    assert all(torch.equal(weight, before[name]) for name, weight in model_sweep.state_dict().items())
    assert done == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_head_that_carries_it_all_is_found(model_sweep: Decoder) -> None:
    """Only head 1 of layer 1 sees past itself and speaks: nothing else can move the answer."""
    with torch.no_grad():
        for i in (0, 1):
            block = model_sweep.decoder.get_submodule(str(i))
            for head in (0, 1):
                if (i, head) != (1, 1):
                    block.attention.WO.weight[:, 8 * head : 8 * head + 8] = 0
            block.attention.WV.weight.mul_(30)
    made = sweep(model_sweep, CLEAN, CORRUPTED, metric)
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


def test_a_sweep_prints_itself(model_sweep: Decoder) -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(sweep(model_sweep, CLEAN, CORRUPTED, metric))
    assert "decoder.1.attention.H" in console.export_text()


def test_sites() -> None:
    model = Decoder(decoder.tiny())
    assert site_paths(model, "R") == ["decoder.0.R", "decoder.1.R"]
    assert site_paths(model, "O") == ["decoder.0.O", "decoder.1.O"]
    assert site_paths(model, "F") == ["decoder.0.ffn.F", "decoder.1.ffn.F"]
    assert site_paths(model, "decoder.*.attention.O") == ["decoder.0.attention.O", "decoder.1.attention.O"]
    assert site_paths(model, "blocks.0.attn.hook_z") == ["decoder.0.attention.H"]


def test_sweep_mistakes(model_sweep: Decoder) -> None:
    with pytest.raises(ShapeError, match="give two inputs of the same length"):
        sweep(model_sweep, CLEAN, CORRUPTED[:, :5], metric)
    with pytest.raises(InputError, match="there is no quantity Z"):
        sweep(model_sweep, CLEAN, CORRUPTED, metric, site="Z")
    with pytest.raises(InputError, match="with and without heads"):
        sweep(model_sweep, CLEAN, CORRUPTED, metric, site="decoder.0.*")
    with pytest.raises(InputError, match="patch a quantity with heads or tokens"):
        sweep(model_sweep, CLEAN, CORRUPTED, metric, site="decoder.embed.E")
    with pytest.raises(InputError, match=r"the metric returned a tensor of shape \(1, 7, 50\): return one number"):
        sweep(model_sweep, CLEAN, CORRUPTED, lambda out: out)
    same = sweep(model_sweep, CLEAN, CLEAN, metric)
    with pytest.raises(InputError, match="on both inputs"):
        _ = same.recovered
