"""The flat pass equals the modules and serves watchers of Q … H; everything else is left to the modules."""

from __future__ import annotations

import pytest
import torch

from glassformer.lens import edit, trace, zero_head
from glassformer.models import Decoder, Encoder, Seq2Seq, ViT, decoder, encoder, seq2seq, vit
from glassformer.nn import flat
from glassformer.nn.blocks import Block
from glassformer.runtime import prepare

DECODERS = {
    "learned positions": lambda: Decoder(decoder.tiny(), seed=1),
    "rotary, grouped, gated": lambda: Decoder(decoder.tiny_modern(), seed=1),
    "cross-attention, post-norm": lambda: Seq2Seq(seq2seq.tiny(), seed=1),
    "cross-attention, rotary": lambda: Seq2Seq(seq2seq.tiny_modern(), seed=1),
}
ENCODERS = {
    "encoder": lambda: Encoder(encoder.plain(50, 64, 2, 4, 48, hidden=128), seed=1),
    "encoder, wide": lambda: Encoder(encoder.plain(50, 384, 2, 6, 48, hidden=512), seed=1),
    "image": lambda: ViT(vit.tiny(), seed=1),
}
CLOSE = {"fp32": {"rtol": 1e-4, "atol": 1e-4}, "bf16": {"rtol": 0.0, "atol": 0.05}, "int8": {"rtol": 0.0, "atol": 0.08}}


def answer(model, lengths=(5, 3), count=36):
    session = model.session() if isinstance(model, Decoder) else model.session(start=(1,), ends=(2,))
    logits = [session.prefill([torch.arange(3, 3 + n) for n in lengths], count)]
    for i in range(count):
        logits.append(session.step(torch.tensor([5 + i, 7 + i]) % 30 + 3))
        if i == 20:
            session.reorder(torch.tensor([1, 0]))
    return torch.stack(logits)


@torch.no_grad()
def encode(model, length=40):
    if isinstance(model, ViT):
        return model(torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
    tokens = torch.randint(3, 40, (3, length), generator=torch.Generator().manual_seed(0))
    real = torch.ones_like(tokens, dtype=torch.bool)
    real[1, length - 4 :] = False
    return model(tokens, real)[real]


def counted(monkeypatch):
    """Calls of flat blocks, and of blocks as modules."""
    calls = {"flat": 0, "modules": 0}
    run, forward = flat.FlatBlock.__call__, Block.forward

    def count(name, function):
        def counting(*given, **named):
            calls[name] += 1
            return function(*given, **named)

        return counting

    monkeypatch.setattr(flat.FlatBlock, "__call__", count("flat", run))
    monkeypatch.setattr(Block, "forward", count("modules", forward))
    return calls


def by_modules(monkeypatch):
    monkeypatch.setattr("glassformer.nn.stack.run_flat", lambda *_: None)


@pytest.mark.variants(5)
@pytest.mark.parametrize("keys", [1, flat.MANY_KEYS])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("kind", DECODERS)
def test_decoding_equals_the_modules(kind, precision, keys, monkeypatch):
    monkeypatch.setattr(flat, "MANY_KEYS", keys)  # one query over at least so many keys is two products
    model = prepare(DECODERS[kind]().eval(), precision)
    calls = counted(monkeypatch)
    fast = answer(model)
    assert calls["flat"] > 72
    assert not calls["modules"]
    by_modules(monkeypatch)
    # in int8 a difference in the last bit may round an activation to the next of its 256 values
    torch.testing.assert_close(fast, answer(model), **CLOSE[precision])
    assert calls["modules"]


@pytest.mark.variants(8)
@pytest.mark.parametrize("rows", [1024, 50])
@pytest.mark.parametrize("length", [40, 7])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("kind", ENCODERS)
def test_encoding_equals_the_modules(kind, precision, length, rows, monkeypatch):
    model = prepare(ENCODERS[kind]().eval(), precision)
    monkeypatch.setattr(flat, "ROWS", rows)  # batches are computed in chunks of so many rows
    calls = counted(monkeypatch)
    fast = encode(model, length)
    assert calls["flat"]
    assert not calls["modules"]
    by_modules(monkeypatch)
    torch.testing.assert_close(fast, encode(model, length), **CLOSE[precision])


@pytest.mark.parametrize("rows", [1024, 50])
@pytest.mark.parametrize("name", ["Q", "K", "V", "S", "A", "H"])
def test_watched_quantities_are_those_of_the_modules(name, rows, monkeypatch):
    model = ENCODERS["encoder"]().eval()
    monkeypatch.setattr(flat, "ROWS", rows)  # a larger batch is not computed in chunks: watchers receive all of it
    calls = counted(monkeypatch)
    with trace(model, f"*.{name}") as ours:
        encode(model)
    assert not calls["modules"], "watching keeps the flat pass"
    by_modules(monkeypatch)
    with trace(model, f"*.{name}") as theirs:
        encode(model)
    assert set(ours) == set(theirs)
    assert len(set(ours)) == 2
    for path in theirs:
        torch.testing.assert_close(ours[path], theirs[path], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("keys", [1, flat.MANY_KEYS])
def test_watched_weights_while_decoding(keys, monkeypatch):
    monkeypatch.setattr(flat, "MANY_KEYS", keys)
    model = DECODERS["cross-attention, rotary"]().eval()
    calls, plain = counted(monkeypatch), answer(model)
    with trace(model, "decoder.1.attention.A", "decoder.0.cross.A") as run:
        watched = answer(model)
    assert not calls["modules"]
    for path in ("decoder.1.attention.A", "decoder.0.cross.A"):
        A = run[path]
        torch.testing.assert_close(A.sum(-1), torch.ones_like(A[..., 0]))
    torch.testing.assert_close(watched, plain, rtol=1e-4, atol=1e-4)


def test_watched_weights_survive_reordered_beams():
    model = DECODERS["learned positions"]().eval()
    session = model.session()
    with trace(model, "decoder.0.attention.A") as run:
        session.prefill([torch.arange(3, 8), torch.arange(9, 14)], 4)
        session.step(torch.tensor([5, 6]))
        pattern = run.passes("decoder.0.attention.A")[-1]
        before = pattern.A() if hasattr(pattern, "A") else pattern.clone()
        session.reorder(torch.tensor([1, 0]))
        session.step(torch.tensor([7, 8]))
        after = pattern.A() if hasattr(pattern, "A") else pattern
        torch.testing.assert_close(after, before)


def test_only_the_edited_block_runs_as_a_module(monkeypatch):
    model = DECODERS["learned positions"]().eval()
    calls, plain = counted(monkeypatch), answer(model, count=3)
    calls |= {"flat": 0}
    with edit(model, "decoder.0.attention.A", zero_head(0)):
        assert not torch.allclose(answer(model, count=3), plain, atol=1e-3)
    assert calls == {"flat": 4, "modules": 4}
    with trace(model, "decoder.1.ffn.P") as run:
        answer(model, count=3)
    assert run["decoder.1.ffn.P"] is not None
    assert calls == {"flat": 8, "modules": 8}


def test_hooks_of_torch_are_called():
    model, seen = ENCODERS["encoder"]().eval(), []
    handle = model.get_submodule("encoder.1.ffn.W1").register_forward_hook(lambda *_: seen.append(1))
    encode(model)
    handle.remove()
    encode(model)
    assert len(seen) == 1


@pytest.mark.parametrize("length", [5, 40])
@pytest.mark.parametrize("weight", ["WQ", "WK", "WV"])
def test_a_nan_is_not_lost(weight, length):
    from glassformer.errors import InputError

    model = ENCODERS["encoder"]().eval()
    with torch.no_grad():
        getattr(model.get_submodule("encoder.0.attention"), weight).bias[0] = float("nan")
    with pytest.raises(InputError, match="nan"):
        encode(model, length)


def test_weights_that_change_during_decoding_are_used(monkeypatch):
    def changed(replace):
        model = prepare(DECODERS["rotary, grouped, gated"]().eval(), "int8")
        session = model.session()
        session.prefill([torch.arange(3, 8)], 8)
        before = session.step(torch.tensor([4]))
        layer = model.decoder.get_submodule("1").ffn.W2
        with torch.no_grad():
            if replace:
                layer.weight = torch.nn.Parameter(layer.weight * -1000.0, requires_grad=False)
            else:
                layer.weight.mul_(-1000.0)
        return before, session.step(torch.tensor([4]))

    before, after = changed(False)
    torch.testing.assert_close(after, changed(True)[1])
    by_modules(monkeypatch)
    assert not torch.allclose(after, before, atol=0.1)
    torch.testing.assert_close(after, changed(False)[1], rtol=0.0, atol=0.05)


@pytest.mark.parametrize("kind", list(ENCODERS))
def test_weights_that_a_fused_optimizer_changed_are_used(kind, monkeypatch):
    """Fused AdamW does not count its changes in the version of a tensor."""
    model = prepare(ENCODERS[kind]().eval(), "fp32")
    before = encode(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    model.train()
    for weight in model.parameters():
        weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    optimizer.step()
    model.eval()
    after = encode(model)
    by_modules(monkeypatch)
    prepare(model, "fp32")
    torch.testing.assert_close(after, encode(model), **CLOSE["fp32"])
    assert not torch.allclose(after, before, atol=0.1)
