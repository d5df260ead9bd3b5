from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console
from torch import nn

from glassformer.core import Pattern, attend
from glassformer.core.memory import MAPPED
from glassformer.errors import InputError, ShapeError
from glassformer.lens import edit, trace
from glassformer.lens.paths import taps
from glassformer.models import Decoder, Seq2Seq, ViT, decoder, seq2seq, vit
from glassformer.nn import MultiHeadAttention, heads
from glassformer.nn.linear import initialise

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])


@pytest.fixture
def model() -> Decoder:
    return Decoder(decoder.tiny(), seed=5).double().eval()


def test_quantities_are_those_of_core(model: Decoder) -> None:
    """Every step by hand from the module's own weights."""
    with trace(model) as run:
        model(TOKENS)
    block = model.decoder.get_submodule("1")
    layer = block.attention
    X = block.attention_residual.norm(run["decoder.1.X"])
    Q, K, V = (layer.split(W(X), 2) for W in (layer.WQ, layer.WK, layer.WV))
    by_hand = attend(Q, K, V, causal=True)
    for symbol, value in {"Q": Q, "K": K, "V": V, "S": by_hand.S, "A": by_hand.A, "H": by_hand.H}.items():
        torch.testing.assert_close(run[f"decoder.1.attention.{symbol}"], value)
    O = layer.WO(by_hand.H.transpose(1, 2).flatten(2))
    torch.testing.assert_close(run["decoder.1.attention.O"], O)
    torch.testing.assert_close(run["decoder.1.R"], run["decoder.1.X"] + O)
    torch.testing.assert_close(run["decoder.1.O"], run["decoder.1.R"] + run["decoder.1.ffn.O"])
    torch.testing.assert_close(run["decoder.1.X"], run["decoder.0.O"])


def test_weights_are_those_of_torch() -> None:
    ours = MultiHeadAttention(heads(12, 3)).double()
    initialise(ours, 1)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.WQ.weight, ours.WK.weight, ours.WV.weight]))
        theirs.in_proj_bias.zero_()
        theirs.out_proj.weight.copy_(ours.WO.weight)
        theirs.out_proj.bias.zero_()
    X = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), trace(ours, "A") as run:
        ours(X)
    torch.testing.assert_close(run["A"], theirs(X, X, X, average_attn_weights=False)[1])


def test_layers_stay_fused_and_weights_are_recomputed_lazily(model: Decoder) -> None:
    with torch.no_grad(), trace(model, "decoder.*.attention.A") as run:
        model(TOKENS)
    (kept,) = run.passes("decoder.0.attention.A")
    assert isinstance(kept, Pattern)  # Q, K and L: no n × n
    whole = run["decoder.0.attention.A"]
    part = run.part("decoder.0.attention.A", heads=[1], rows=[2, 6])
    torch.testing.assert_close(part, whole[:, [1]][:, :, [2, 6]])
    torch.testing.assert_close(whole.sum(-1), torch.ones_like(whole.sum(-1)))


@torch.no_grad()
def test_what_is_kept_grows_with_the_tokens_and_not_with_their_square() -> None:
    deep = Decoder(decoder.plain(vocabulary=50, width=16, depth=12, count=2, length=300), seed=0)
    n, h, d = 300, 2, 8
    with trace(deep, "*.A", "*.S") as run:
        deep(torch.arange(n)[None] % 50)
    kept = {id(part): part for path in run for kept in run.passes(path) for part in (kept.Q, kept.K, kept.L)}
    assert sum(part.untyped_storage().nbytes() for part in kept.values()) == 12 * h * n * (2 * d + 1) * 4
    assert len(run) == 24


def test_who_reads_all_of_it_gets_it_on_the_way(model: Decoder) -> None:
    seen: dict[str, torch.Tensor] = {}
    with torch.no_grad(), trace(model) as later:
        wanted = model(TOKENS)
    with torch.no_grad(), trace(model, read=lambda path, value: seen.update({path: value.clone()})) as run:
        torch.testing.assert_close(model(TOKENS), wanted)
    assert len(run) == 0  # nothing is kept
    assert list(seen) == list(later)
    for path in later:
        torch.testing.assert_close(seen[path], later[path])
    assert not any(tap.whole for tap in taps(model).values())


@torch.no_grad()
def test_weights_that_a_reader_keeps_stay_what_they_were() -> None:
    """Also where they are large enough to lie on large pages."""
    several = nn.Sequential(*(MultiHeadAttention(heads(4, 2)) for _ in range(4)))
    initialise(several, 1)
    X = torch.randn(1, 2100, 4, generator=torch.Generator().manual_seed(0))
    assert MAPPED < 2 * 2100**2 * 4
    kept: list[torch.Tensor] = []
    with trace(several, "*.A", read=lambda _, A: kept.append(A[:, :, ::300])):
        on_the_way = several(X)
    with trace(several, "*.A") as run:
        torch.testing.assert_close(several(X), on_the_way)
    late = [A[:, :, ::300] for _, A in run.each("*.A")]
    for layer, (seen, again) in enumerate(zip(kept, late, strict=True)):
        expected = run.part(f"{layer}.A", rows=slice(None, None, 300))
        torch.testing.assert_close(seen, expected)
        torch.testing.assert_close(again, expected)


def test_readers_beside_edits_and_gradients(model: Decoder) -> None:
    path, seen = "decoder.0.attention.A", []
    reading = trace(model, path, read=lambda _, A: seen.append(A))
    with trace(model, "decoder.0.attention.S") as run, edit(model, path, lambda A: A.flip(-1)), reading:
        out = model(TOKENS)
    torch.testing.assert_close(seen[0], run["decoder.0.attention.S"].softmax(-1).flip(-1))
    (found,) = torch.autograd.grad(out.square().sum(), seen)
    assert found.abs().sum() > 0


def test_only_what_is_asked_for_is_kept(model: Decoder) -> None:
    with trace(model, "decoder.1.attention.Q", "decoder.[01].X") as run:
        model(TOKENS)
    assert sorted(run) == ["decoder.0.X", "decoder.1.X", "decoder.1.attention.Q"]
    with pytest.raises(InputError, match="no quantity is called"):
        run["decoder.0.attention.K"]


def test_parts_that_are_not_there(model: Decoder, refused) -> None:
    A, Q = "decoder.0.attention.A", "decoder.0.attention.Q"
    with torch.no_grad(), trace(model) as run:
        model(TOKENS)
    refused(InputError, f"there is no head of {A} 7: choose one from 0 to 1", lambda: run.part(A, heads=[0, 7]))
    refused(InputError, f"there is no head of {Q} -3: choose one from 0 to 1", lambda: run.part(Q, heads=-3))
    refused(InputError, f"there is no row of {A} 99: choose one from 0 to 6", lambda: run.part(A, rows=[99]))
    refused(InputError, "'*.A' names 2 quantities: ask for one", lambda: run.part("*.A"))
    refused(InputError, "decoder.0.X has no heads: leave", lambda: run.part("decoder.0.X", heads=[0]))
    refused(InputError, "a path cannot be 3: give a string", lambda: run[3])
    assert torch.equal(run.part(A, heads=1, rows=-1), run[A][:, 1:, -1:])


def test_nothing_stays_behind(model: Decoder) -> None:
    with pytest.raises(RuntimeError, match="planned"), trace(model):
        raise RuntimeError("planned")
    assert not any(tap.watched for tap in model.modules() if hasattr(tap, "watched"))


def test_weights_carry_gradients_when_wanted(model: Decoder) -> None:
    with trace(model, "decoder.0.attention.A") as run:
        model(TOKENS)
    run["decoder.0.attention.A"][0, 0, -1, 0].backward()
    assert model.decoder.get_submodule("0").attention.WQ.weight.grad.abs().sum() > 0


def test_gradients_with_respect_to_traced_quantities(model: Decoder) -> None:
    """∂y/∂A of a traced A is what an edit that adds to A measures."""
    with trace(model, "decoder.*.attention.A", "decoder.*.attention.S", "decoder.1.X") as run:
        y = model(TOKENS)[0, -1, 7]
    for path in ("decoder.0.attention.A", "decoder.1.attention.S", "decoder.1.X"):
        (slope,) = torch.autograd.grad(y, run[path], retain_graph=True)
        place = (0, 1, 4, 2) if slope.dim() == 4 else (0, 4, 2)
        step = torch.zeros_like(slope)
        step[place] = 1e-5
        with torch.no_grad():
            with edit(model, path, lambda x, step=step: x + step):
                more = model(TOKENS)[0, -1, 7]
            with edit(model, path, lambda x, step=step: x - step):
                less = model(TOKENS)[0, -1, 7]
        torch.testing.assert_close(slope[place], (more - less) / 2e-5, rtol=1e-6, atol=1e-9)


@torch.no_grad()
def test_writing_into_what_a_run_returns_changes_nothing_else(model: Decoder) -> None:
    with trace(model) as run:
        wanted = model(TOKENS)
    before = {path: run[path].clone() for path in run}
    for path in run:
        run[path].zero_()
        if run[path].dim() == 4:
            run.part(path, heads=slice(0, 1)).fill_(7)
    for path, value in before.items():
        assert torch.equal(run[path], value)
    assert torch.equal(model(TOKENS), wanted)


def test_writing_into_what_gradients_need_is_refused_later(model: Decoder, refused) -> None:
    with trace(model, "decoder.1.X") as run:
        model(TOKENS)
    with torch.no_grad():
        run["decoder.1.X"].zero_()
    refused(InputError, "decoder.1.X has been written to since it was traced", lambda: run["decoder.1.X"])


@torch.no_grad()
def test_an_edit_that_writes_in_place_leaves_the_trace_of_the_layer_before_alone(model: Decoder) -> None:
    with trace(model, "decoder.0.O", "decoder.1.X") as run, edit(model, "decoder.1.X", lambda X: X.zero_()):
        model(TOKENS)
    assert run["decoder.0.O"].abs().sum() > 0
    assert run["decoder.1.X"].abs().sum() == 0


def test_readers_may_not_write(model: Decoder) -> None:
    with torch.no_grad(), pytest.raises(InputError, match="a reader has written to"), trace(
        model, "*.A", read=lambda _, A: A.zero_()
    ):
        model(TOKENS)


@torch.no_grad()
def test_norms_and_head_outputs_and_logits_are_what_their_equations_say(model: Decoder) -> None:
    with trace(model) as run:
        out = model(TOKENS)
    norm, X = model.decoder.get_submodule("1.attention_residual.norm"), run["decoder.1.X"]
    sigma = (X.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    torch.testing.assert_close(run["decoder.1.attention_residual.norm.sigma"], sigma)
    Y = (X - X.mean(-1, keepdim=True)) / sigma * norm.gamma + norm.beta
    torch.testing.assert_close(run["decoder.1.attention_residual.norm.Y"], Y)
    HO, WO = run["decoder.1.attention.HO"], model.decoder.get_submodule("1.attention.WO")
    torch.testing.assert_close(HO.sum(1) + WO.bias, run["decoder.1.attention.O"])
    H = run["decoder.1.attention.H"]
    torch.testing.assert_close(HO[:, 1], H[:, 1] @ WO.weight[:, 8:].T)
    torch.testing.assert_close(run.part("decoder.1.attention.HO", heads=1, rows=[2]), HO[:, 1:2, 2:3])
    assert torch.equal(run["word_head.logits"], out)


@torch.no_grad()
@pytest.mark.parametrize("path", ["decoder.0.attention.HO", "decoder.0.attention_residual.norm.sigma"])
def test_quantities_computed_only_when_watched_can_be_edited(model: Decoder, path: str) -> None:
    plain = model(TOKENS)
    with edit(model, path, lambda x: x):
        torch.testing.assert_close(model(TOKENS), plain)
    with edit(model, path, lambda x: 2 * x):
        assert not torch.allclose(model(TOKENS), plain)


def test_every_pass_is_kept_and_sizes_may_change_between_them(model: Decoder) -> None:
    cache = model.cache(8)
    with torch.no_grad(), trace(model, "decoder.0.attention.A") as run:
        model(TOKENS[:, :4], cache=cache)
        model(TOKENS[:, 4:5], cache=cache)
    assert [kept.shape for kept in run.passes("decoder.0.attention.A")] == [(1, 2, 4, 4), (1, 2, 1, 5)]


def test_axes_are_bound_by_name(model: Decoder) -> None:
    """A tap fed past `edit`'s own check: the run names both places."""
    tap = model.decoder.get_submodule("1").attention.H
    tap.editors.append(lambda H: H[:, :, :3])
    both = r"axis decoder.t is 7 at decoder.embed.T and 3 at decoder.1.attention.H"
    with pytest.raises(ShapeError, match=both), trace(model):
        model(TOKENS)


def test_cross_attention_and_pictures() -> None:
    pair = Seq2Seq(seq2seq.tiny())
    with torch.no_grad(), trace(pair, "decoder.*.cross.A") as run:
        pair(torch.ones(1, 5, dtype=torch.long), torch.ones(1, 3, dtype=torch.long))
    assert run["decoder.1.cross.A"].shape == (1, 2, 3, 5)
    image = ViT(vit.tiny())
    with torch.no_grad(), trace(image, "encoder.1.attention.A") as run:
        image(torch.zeros(1, 3, 8, 8))
    assert run["encoder.1.attention.A"].shape == (1, 2, 5, 5)


def test_a_run_prints_itself(model: Decoder) -> None:
    with torch.no_grad(), trace(model, "decoder.0.*") as run:
        model(TOKENS)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(run)
    assert "decoder.0.attention.Q" in console.export_text()
    assert "<td>decoder.0.attention.A</td><td>b h t s</td><td>1 × 2 × 7 × 7</td><td>lazy</td>" in run._repr_html_()


def test_wildcards_name_one_or_are_iterated(model: Decoder) -> None:
    with torch.no_grad(), trace(model, "*.A") as run:
        model(TOKENS)
    with pytest.raises(InputError, match="names 2 quantities"):
        run["*.A"]
    assert [path for path, A in run.each("*.A") if A.shape == (1, 2, 7, 7)] == [
        "decoder.0.attention.A",
        "decoder.1.attention.A",
    ]


def test_what_has_no_taps_is_refused() -> None:
    with pytest.raises(InputError, match="Linear has no taps"), trace(nn.Linear(2, 2)):
        pass


def test_tracing_an_edited_layer_shows_what_goes_on(model: Decoder) -> None:
    with torch.no_grad(), edit(model, "decoder.0.attention.A", 0.25), trace(model, "decoder.0.attention.A") as run:
        model(TOKENS)
    assert (run["decoder.0.attention.A"] == 0.25).all()
