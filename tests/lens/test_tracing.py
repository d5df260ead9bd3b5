"""Traces of a forward pass: values, paths, memory, gradients, threads."""

from __future__ import annotations

import contextvars
import io
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from rich.console import Console
from torch import nn

from glassformer.core import Pattern, attend
from glassformer.core.memory import MAPPED
from glassformer.decoding import Stopping, generate_ids
from glassformer.errors import InputError, ShapeError
from glassformer.lens import edit, replace, trace
from glassformer.lens.paths import Names, attention_layers, axes_of, match, taps
from glassformer.models import Decoder, DecoderConfig, Encoder, Seq2Seq, ViT, decoder, encoder, seq2seq, vit
from glassformer.nn import BlockConfig, FeedForwardConfig, MultiHeadAttention, NormConfig, Rotary, heads
from glassformer.nn.linear import initialise
from glassformer.nn.text import TextConfig

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])


@pytest.fixture
def model_trace() -> Decoder:
    return Decoder(decoder.tiny(), seed=5).double().eval()


def test_quantities_are_those_of_core(model_trace: Decoder) -> None:
    """Every step by hand from the module's own weights."""
    with trace(model_trace) as run:
        model_trace(TOKENS)
    block = model_trace.decoder.get_submodule("1")
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


def test_layers_stay_fused_and_weights_are_recomputed_lazily(model_trace: Decoder) -> None:
    with torch.no_grad(), trace(model_trace, "decoder.*.attention.A") as run:
        model_trace(TOKENS)
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


def test_who_reads_all_of_it_gets_it_on_the_way(model_trace: Decoder) -> None:
    seen: dict[str, torch.Tensor] = {}
    with torch.no_grad(), trace(model_trace) as later:
        wanted = model_trace(TOKENS)
    with torch.no_grad(), trace(model_trace, read=lambda path, value: seen.update({path: value.clone()})) as run:
        torch.testing.assert_close(model_trace(TOKENS), wanted)
    assert len(run) == 0  # nothing is kept
    assert list(seen) == list(later)
    for path in later:
        torch.testing.assert_close(seen[path], later[path])
    assert not any(tap.whole for tap in taps(model_trace).values())


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


def test_readers_beside_edits_and_gradients(model_trace: Decoder) -> None:
    path, seen = "decoder.0.attention.A", []
    reading = trace(model_trace, path, read=lambda _, A: seen.append(A))
    with trace(model_trace, "decoder.0.attention.S") as run, edit(model_trace, path, lambda A: A.flip(-1)), reading:
        out = model_trace(TOKENS)
    torch.testing.assert_close(seen[0], run["decoder.0.attention.S"].softmax(-1).flip(-1))
    (found,) = torch.autograd.grad(out.square().sum(), seen)
    assert found.abs().sum() > 0


def test_only_what_is_asked_for_is_kept(model_trace: Decoder) -> None:
    with trace(model_trace, "decoder.1.attention.Q", "decoder.[01].X") as run:
        model_trace(TOKENS)
    assert sorted(run) == ["decoder.0.X", "decoder.1.X", "decoder.1.attention.Q"]
    with pytest.raises(InputError, match="no quantity is called"):
        run["decoder.0.attention.K"]


def test_parts_that_are_not_there(model_trace: Decoder, refused) -> None:
    A, Q = "decoder.0.attention.A", "decoder.0.attention.Q"
    with torch.no_grad(), trace(model_trace) as run:
        model_trace(TOKENS)
    refused(InputError, f"there is no head of {A} 7: choose one from 0 to 1", lambda: run.part(A, heads=[0, 7]))
    refused(InputError, f"there is no head of {Q} -3: choose one from 0 to 1", lambda: run.part(Q, heads=-3))
    refused(InputError, f"there is no row of {A} 99: choose one from 0 to 6", lambda: run.part(A, rows=[99]))
    refused(InputError, "'*.A' names 2 quantities: ask for one", lambda: run.part("*.A"))
    refused(InputError, "decoder.0.X has no heads: leave", lambda: run.part("decoder.0.X", heads=[0]))
    refused(InputError, "a path cannot be 3: give a string", lambda: run[3])
    assert torch.equal(run.part(A, heads=1, rows=-1), run[A][:, 1:, -1:])


def test_nothing_stays_behind(model_trace: Decoder) -> None:
    with pytest.raises(RuntimeError, match="planned"), trace(model_trace):
        raise RuntimeError("planned")
    assert not any(tap.watched for tap in model_trace.modules() if hasattr(tap, "watched"))


def test_weights_carry_gradients_when_wanted(model_trace: Decoder) -> None:
    with trace(model_trace, "decoder.0.attention.A") as run:
        model_trace(TOKENS)
    run["decoder.0.attention.A"][0, 0, -1, 0].backward()
    assert model_trace.decoder.get_submodule("0").attention.WQ.weight.grad.abs().sum() > 0


def test_gradients_with_respect_to_traced_quantities(model_trace: Decoder) -> None:
    """∂y/∂A of a traced A is what an edit that adds to A measures."""
    with trace(model_trace, "decoder.*.attention.A", "decoder.*.attention.S", "decoder.1.X") as run:
        y = model_trace(TOKENS)[0, -1, 7]
    for path in ("decoder.0.attention.A", "decoder.1.attention.S", "decoder.1.X"):
        (slope,) = torch.autograd.grad(y, run[path], retain_graph=True)
        place = (0, 1, 4, 2) if slope.dim() == 4 else (0, 4, 2)
        step = torch.zeros_like(slope)
        step[place] = 1e-5
        with torch.no_grad():
            with edit(model_trace, path, lambda x, step=step: x + step):
                more = model_trace(TOKENS)[0, -1, 7]
            with edit(model_trace, path, lambda x, step=step: x - step):
                less = model_trace(TOKENS)[0, -1, 7]
        torch.testing.assert_close(slope[place], (more - less) / 2e-5, rtol=1e-6, atol=1e-9)


@torch.no_grad()
def test_writing_into_what_a_run_returns_changes_nothing_else(model_trace: Decoder) -> None:
    with trace(model_trace) as run:
        wanted = model_trace(TOKENS)
    before = {path: run[path].clone() for path in run}
    for path in run:
        run[path].zero_()
        if run[path].dim() == 4:
            run.part(path, heads=slice(0, 1)).fill_(7)
    for path, value in before.items():
        assert torch.equal(run[path], value)
    assert torch.equal(model_trace(TOKENS), wanted)


def test_writing_into_what_gradients_need_is_refused_later(model_trace: Decoder, refused) -> None:
    with trace(model_trace, "decoder.1.X") as run:
        model_trace(TOKENS)
    with torch.no_grad():
        run["decoder.1.X"].zero_()
    refused(InputError, "decoder.1.X was modified in place after it was traced", lambda: run["decoder.1.X"])


@torch.no_grad()
def test_an_edit_that_writes_in_place_leaves_the_trace_of_the_layer_before_alone(model_trace: Decoder) -> None:
    with trace(model_trace, "decoder.0.O", "decoder.1.X") as run, edit(model_trace, "decoder.1.X", lambda X: X.zero_()):
        model_trace(TOKENS)
    assert run["decoder.0.O"].abs().sum() > 0
    assert run["decoder.1.X"].abs().sum() == 0


def test_readers_may_not_write(model_trace: Decoder) -> None:
    with (
        torch.no_grad(),
        pytest.raises(InputError, match="a reader modified"),
        trace(model_trace, "*.A", read=lambda _, A: A.zero_()),
    ):
        model_trace(TOKENS)


@torch.no_grad()
def test_norms_and_head_outputs_and_logits_are_what_their_equations_say(model_trace: Decoder) -> None:
    with trace(model_trace) as run:
        out = model_trace(TOKENS)
    norm, X = model_trace.decoder.get_submodule("1.attention_residual.norm"), run["decoder.1.X"]
    sigma = (X.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    torch.testing.assert_close(run["decoder.1.attention_residual.norm.sigma"], sigma)
    Y = (X - X.mean(-1, keepdim=True)) / sigma * norm.gamma + norm.beta
    torch.testing.assert_close(run["decoder.1.attention_residual.norm.Y"], Y)
    HO, WO = run["decoder.1.attention.HO"], model_trace.decoder.get_submodule("1.attention.WO")
    torch.testing.assert_close(HO.sum(1) + WO.bias, run["decoder.1.attention.O"])
    H = run["decoder.1.attention.H"]
    torch.testing.assert_close(HO[:, 1], H[:, 1] @ WO.weight[:, 8:].T)
    torch.testing.assert_close(run.part("decoder.1.attention.HO", heads=1, rows=[2]), HO[:, 1:2, 2:3])
    assert torch.equal(run["word_head.logits"], out)


def test_what_is_recomputed_after_a_pass_without_gradients_has_none(model_trace: Decoder) -> None:
    with torch.no_grad(), trace(model_trace) as run:
        model_trace(TOKENS)
    assert not any(value.requires_grad for _, value in run.each("*"))
    with trace(model_trace, "*.HO") as graded:
        model_trace(TOKENS)
    assert graded["decoder.0.attention.HO"].requires_grad


@torch.no_grad()
@pytest.mark.parametrize("path", ["decoder.0.attention.HO", "decoder.0.attention_residual.norm.sigma"])
def test_quantities_computed_only_when_watched_can_be_edited(model_trace: Decoder, path: str) -> None:
    plain = model_trace(TOKENS)
    with edit(model_trace, path, lambda x: x):
        torch.testing.assert_close(model_trace(TOKENS), plain)
    with edit(model_trace, path, lambda x: 2 * x):
        assert not torch.allclose(model_trace(TOKENS), plain)


def test_every_pass_is_kept_and_sizes_may_change_between_them(model_trace: Decoder) -> None:
    cache = model_trace.cache(8)
    with torch.no_grad(), trace(model_trace, "decoder.0.attention.A") as run:
        model_trace(TOKENS[:, :4], cache=cache)
        model_trace(TOKENS[:, 4:5], cache=cache)
    assert [kept.shape for kept in run.passes("decoder.0.attention.A")] == [(1, 2, 4, 4), (1, 2, 1, 5)]


def test_axes_are_bound_by_name(model_trace: Decoder) -> None:
    """A tap fed past `edit`'s own check: the run names both places."""
    tap = model_trace.decoder.get_submodule("1").attention.H
    tap.editors.append(lambda H: H[:, :, :3])
    both = r"axis decoder.t is 7 at decoder.embed.T and 3 at decoder.1.attention.H"
    with pytest.raises(ShapeError, match=both), trace(model_trace):
        model_trace(TOKENS)


def test_cross_attention_and_pictures() -> None:
    pair = Seq2Seq(seq2seq.tiny())
    with torch.no_grad(), trace(pair, "decoder.*.cross.A") as run:
        pair(torch.ones(1, 5, dtype=torch.long), torch.ones(1, 3, dtype=torch.long))
    assert run["decoder.1.cross.A"].shape == (1, 2, 3, 5)
    image = ViT(vit.tiny())
    with torch.no_grad(), trace(image, "encoder.1.attention.A") as run:
        image(torch.zeros(1, 3, 8, 8))
    assert run["encoder.1.attention.A"].shape == (1, 2, 5, 5)


def test_a_run_prints_itself(model_trace: Decoder) -> None:
    with torch.no_grad(), trace(model_trace, "decoder.0.*") as run:
        model_trace(TOKENS)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(run)
    assert "decoder.0.attention.Q" in console.export_text()
    assert "<td>decoder.0.attention.A</td><td>b h t s</td><td>1 × 2 × 7 × 7</td><td>lazy</td>" in run._repr_html_()


def test_wildcards_name_one_or_are_iterated(model_trace: Decoder) -> None:
    with torch.no_grad(), trace(model_trace, "*.A") as run:
        model_trace(TOKENS)
    with pytest.raises(InputError, match="names 2 quantities"):
        run["*.A"]
    assert [path for path, A in run.each("*.A") if A.shape == (1, 2, 7, 7)] == [
        "decoder.0.attention.A",
        "decoder.1.attention.A",
    ]


def test_keys_and_values_of_one_token_are_traced_beside_attention_to_all_before_it() -> None:
    """In generation, K and V have the new tokens of a pass, S and A all keys in the cache."""
    model = Decoder(decoder.tiny_modern(), seed=0).eval()
    with trace(model) as run:
        generate_ids(model, [[1, 2, 3]], stopping=Stopping(max_new_tokens=3, ends=()))
    assert [V.shape[2] for V in run.passes("decoder.0.attention.V")] == [3, 1, 1]
    assert [A.shape[3] for A in run.passes("decoder.0.attention.A")] == [3, 4, 5]


def test_a_wildcard_passes_over_what_the_model_does_not_compute() -> None:
    """A model with rotary positions has no position embeddings E, though there is a tap for them."""
    model = Decoder(decoder.tiny_modern(), seed=0).eval()
    with torch.no_grad(), trace(model) as run:
        model(TOKENS)
    assert "decoder.embed.E" in run.paths
    assert {path for path, _ in run.each("*")} == set(run)
    with pytest.raises(InputError, match=r"decoder\.embed\.E was traced but never computed"):
        list(run.each("*.E"))


def test_what_has_no_taps_is_refused() -> None:
    with pytest.raises(InputError, match="Linear has no quantities to trace"), trace(nn.Linear(2, 2)):
        pass


def test_tracing_an_edited_layer_shows_what_goes_on(model_trace: Decoder) -> None:
    with (
        torch.no_grad(),
        edit(model_trace, "decoder.0.attention.A", 0.25),
        trace(model_trace, "decoder.0.attention.A") as run,
    ):
        model_trace(TOKENS)
    assert (run["decoder.0.attention.A"] == 0.25).all()


KNOWN = list(taps(Decoder(decoder.tiny())))


def llama() -> Decoder:
    """Rotary positions, grouped heads, RMSNorm and SwiGLU."""
    block = BlockConfig(
        attention=heads(16, 4, kv_heads=2, biases=""),
        ffn=FeedForwardConfig(width=16, hidden=24, activation="silu", gated=True, bias=False),
        norm=NormConfig(kind="rms", eps=1e-6),
    )
    text = TextConfig(vocabulary=20, depth=2, block=block, relative=Rotary(width=4), last_norm=block.norm)
    return Decoder(DecoderConfig(text=text, length=16), seed=3).double().eval()


def test_paths_read_like_the_model() -> None:
    assert "decoder.1.attention.A" in KNOWN
    assert list(attention_layers(Seq2Seq(seq2seq.tiny()))) == [
        "encoder.0.attention",
        "encoder.1.attention",
        "decoder.0.attention",
        "decoder.0.cross",
        "decoder.1.attention",
        "decoder.1.cross",
    ]


def test_wildcards() -> None:
    assert match(("decoder.*.attention.A",), KNOWN) == ["decoder.0.attention.A", "decoder.1.attention.A"]
    assert match(("*",), KNOWN) == KNOWN


def test_a_path_that_names_nothing_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no quantity is called 'decoder.1.atention.A': .*decoder.1.attention.A"):
        match(("decoder.1.atention.A",), KNOWN)


def test_axes() -> None:
    assert axes_of("decoder.1.cross.A") == ["decoder.b", "decoder.cross.h", "decoder.t", "memory"]
    assert axes_of("encoder.1.X")[:2] == ["encoder.b", "encoder.t"]
    assert axes_of("decoder.embed.E") == []


# ---- names of TransformerLens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alias", "ours"),
    [
        ("blocks.1.attn.hook_pattern", "decoder.1.attention.A"),
        ("blocks.0.attn.hook_z", "decoder.0.attention.H"),
        ("blocks.0.attn.hook_q", "decoder.0.attention.Q0"),
        ("blocks.0.attn.hook_result", "decoder.0.attention.HO"),
        ("blocks.0.hook_resid_mid", "decoder.0.R"),
        ("blocks.1.mlp.hook_post", "decoder.1.ffn.F"),
        ("blocks.1.ln2.hook_scale", "decoder.1.ffn_residual.norm.sigma"),
        ("ln_final.hook_normalized", "decoder.norm.Y"),
        ("hook_embed", "decoder.embed.T"),
    ],
)
def test_names_of_transformer_lens(alias: str, ours: str) -> None:
    assert [name.path for name in Names.of(Decoder(decoder.tiny())).find(alias)] == [ours]


def test_aliases_of_an_encoder_decoder() -> None:
    names = Names.of(Seq2Seq(seq2seq.tiny()))
    found = lambda pattern: [name.path for name in names.find(pattern)]
    assert found("decoder.0.cross_attn.hook_pattern") == ["decoder.0.cross.A"]
    assert found("encoder.*.attn.hook_q") == ["encoder.0.attention.Q0", "encoder.1.attention.Q0"]
    assert found("decoder.1.hook_cross_attn_out") == ["decoder.1.cross.O"]


@torch.no_grad()
def test_values_under_an_alias_have_the_axes_and_the_stage_that_transformer_lens_has() -> None:
    """TransformerLens: q, k, v, z are (batch, position, head, width), q and k before the rotation, rot_q after it."""
    model = llama()
    with trace(model) as run:
        model(TOKENS)
    layer, block = model.decoder.get_submodule("0.attention"), model.decoder.get_submodule("0")
    X = block.attention_residual.norm(run["blocks.0.hook_resid_pre"])
    close = torch.testing.assert_close
    close(run["blocks.0.attn.hook_q"], layer.WQ(X).unflatten(-1, (4, 4)))
    close(run["blocks.0.attn.hook_k"], layer.WK(X).unflatten(-1, (2, 4)))
    assert run["blocks.0.attn.hook_v"].shape == (1, 7, 2, 4)
    assert run["blocks.0.attn.hook_rot_q"].shape == (1, 7, 4, 4)
    assert not torch.allclose(run["blocks.0.attn.hook_rot_q"], run["blocks.0.attn.hook_q"])
    close(run["blocks.0.attn.hook_rot_q"][:, :1], run["blocks.0.attn.hook_q"][:, :1])  # position 0 is not turned
    assert run["blocks.0.attn.hook_pattern"].shape == (1, 4, 7, 7)
    close(run["blocks.0.attn.hook_result"].sum(2), run["blocks.0.hook_attn_out"])
    ffn = block.ffn_residual.norm(run["blocks.0.hook_resid_mid"])
    close(run["blocks.0.mlp.hook_pre"], block.ffn.W1(ffn))
    close(run["blocks.0.mlp.hook_pre_linear"], block.ffn.W3(ffn))
    scale = (run["blocks.0.hook_resid_mid"].square().mean(-1, keepdim=True) + 1e-6).sqrt()
    close(run["blocks.0.ln2.hook_scale"], scale)


@torch.no_grad()
def test_edits_through_an_alias_take_and_return_its_axes() -> None:
    model = llama()
    seen: list[tuple[int, ...]] = []

    def without_head_1(z: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(z.shape))
        z[:, :, 1] = 0  # TransformerLens's code writes in place
        return z

    with edit(model, "blocks.1.attn.hook_z", without_head_1):
        found = model(TOKENS)
    with edit(model, "decoder.1.attention.H", lambda H: H * torch.tensor([1.0, 0, 1, 1])[:, None, None]):
        torch.testing.assert_close(found, model(TOKENS))
    assert seen == [(1, 7, 4, 4)]


@pytest.mark.parametrize(
    ("model", "alias", "why"),
    [
        (Encoder(encoder.tiny()), "blocks.0.hook_resid_mid", 'encoder.0.R" is after the norm'),
        (Encoder(encoder.tiny()), "blocks.0.hook_resid_post", 'encoder.0.O" is after the last norm'),
        (Seq2Seq(seq2seq.tiny()), "decoder.0.hook_resid_mid", "after the norm of attention"),
        (Decoder(decoder.tiny()), "blocks.0.attn.hook_rot_q", "no rotary positions"),
        (Decoder(decoder.tiny()), "blocks.0.mlp.hook_pre_linear", "not gated"),
        (Decoder(decoder.tiny()), "hook_pos_embed", "not repeated over the batch"),
        (llama(), "hook_pos_embed", "no positions are added"),
        (llama(), "blocks.0.ln1.hook_normalized", "before the gain"),
    ],
)
def test_aliases_that_would_lie_are_refused(model: torch.nn.Module, alias: str, why: str) -> None:
    with pytest.raises(InputError, match=why), trace(model, alias):
        pass


# Several threads may trace and edit one model at the same time: each sees its own runs alone.


@pytest.fixture(scope="module")
def model_threads() -> Decoder:
    return Decoder(decoder.tiny(), seed=5).eval()


def together(works: list[Callable[[], None]]) -> None:
    start = threading.Barrier(len(works))

    def begin(work: Callable[[], None]) -> None:
        start.wait(timeout=60)
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(begin, work) for work in works]:
            done.result(timeout=120)


@torch.no_grad()
def test_two_threads_that_trace_one_model_keep_their_own_passes(model_threads: Decoder) -> None:
    def work(token: int) -> None:
        tokens = torch.full((1, 5 + token), token)
        with torch.no_grad():
            alone = model_threads(tokens)
            with trace(model_threads) as run:
                for _ in range(20):
                    torch.testing.assert_close(model_threads(tokens), alone)  # watched blocks run as modules
        assert {len(run.passes(path)) for path in run} == {20}
        assert {tuple(kept.shape)[0:2] for kept in run.passes("decoder.0.X")} == {(1, 5 + token)}
        assert len(run) == len(run.paths)

    together([lambda token=token: work(token) for token in range(4)])


def test_edits_of_one_thread_are_not_seen_by_another(model_threads: Decoder) -> None:
    with torch.no_grad():
        plain = model_threads(TOKENS)

    def edited(value: float) -> None:
        with torch.no_grad():
            with (
                edit(model_threads, "decoder.*.attention.H", replace(value)),
                edit(model_threads, "decoder.0.attention.beta", value),
            ):
                first = model_threads(TOKENS)
                for _ in range(20):
                    assert torch.equal(model_threads(TOKENS), first)
            assert not torch.equal(first, plain)

    def untouched() -> None:
        with torch.no_grad():
            for _ in range(40):
                torch.testing.assert_close(model_threads(TOKENS), plain)

    together([lambda: edited(0.0), lambda: edited(0.5), untouched, untouched])
    with torch.no_grad():
        assert torch.equal(model_threads(TOKENS), plain)


@torch.no_grad()
def test_layers_stay_fused_for_threads_that_edit_nothing(model_threads: Decoder) -> None:
    layer = model_threads.decoder.get_submodule("0").attention
    seen: list[bool] = []
    with edit(model_threads, "decoder.0.attention.A", lambda A: A):
        thread = threading.Thread(target=lambda: seen.append(layer.A.edited))
        thread.start()
        thread.join()
        assert layer.A.edited
    assert seen == [False]


@torch.no_grad()
def test_a_thread_in_a_copy_of_the_context_is_traced(model_threads: Decoder) -> None:
    with trace(model_threads, "decoder.0.X") as run, ThreadPoolExecutor(1) as pool:
        pool.submit(torch.no_grad()(model_threads), TOKENS).result()
        assert "decoder.0.X" not in run
        pool.submit(contextvars.copy_context().run, torch.no_grad()(model_threads), TOKENS).result()
    assert len(run.passes("decoder.0.X")) == 1
