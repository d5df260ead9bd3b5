"""Decoding one token at a time by `nn.step` equals the modules, and is left to them as soon as anything is in use."""

from __future__ import annotations

import pytest
import torch

from glassformer.lens import edit, trace, zero_head
from glassformer.models import Decoder, Seq2Seq, decoder, seq2seq
from glassformer.nn import step as steps
from glassformer.runtime import prepare

KINDS = {
    "learned positions": lambda: Decoder(decoder.tiny(), seed=1),
    "rotary, grouped, gated": lambda: Decoder(decoder.tiny_modern(), seed=1),
    "cross-attention, post-norm": lambda: Seq2Seq(seq2seq.tiny(), seed=1),
    "cross-attention, rotary": lambda: Seq2Seq(seq2seq.tiny_modern(), seed=1),
}


def answer(model, lengths=(5, 3), count=36):
    session = model.session() if isinstance(model, Decoder) else model.session(start=(1,), ends=(2,))
    logits = [session.prefill([torch.arange(3, 3 + n) for n in lengths], count)]
    for i in range(count):
        logits.append(session.step(torch.tensor([5 + i, 7 + i]) % 30 + 3))
        if i == 20:
            session.reorder(torch.tensor([1, 0]))
    return torch.stack(logits)


def counted(monkeypatch):
    calls = []
    run = steps.Step.__call__
    monkeypatch.setattr(steps.Step, "__call__", lambda self, *given: calls.append(1) or run(self, *given))
    return calls


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_modules(kind, precision, monkeypatch):
    model = prepare(KINDS[kind]().eval(), precision)
    calls = counted(monkeypatch)
    fast = answer(model)
    assert len(calls) == 36
    monkeypatch.setattr("glassformer.nn.stack.step_of", lambda *_: None)
    # in int8 a difference in the last bit may round an activation to the next of its 256 values
    close = {"rtol": 1e-4, "atol": 1e-4} if precision == "fp32" else {"rtol": 0.0, "atol": 0.05}
    torch.testing.assert_close(fast, answer(model), **close)


def test_watching_and_editing_leave_it_to_the_modules(monkeypatch):
    model = KINDS["learned positions"]().eval()
    calls, plain = counted(monkeypatch), answer(model)
    calls.clear()
    with trace(model, "decoder.1.attention.A") as run:
        watched = answer(model)
    assert not calls
    assert run["decoder.1.attention.A"] is not None
    torch.testing.assert_close(watched, plain, rtol=1e-4, atol=1e-4)
    with edit(model, "decoder.0.attention.A", zero_head(0)):
        assert not torch.allclose(answer(model), plain, atol=1e-3)
    assert not calls


def test_weights_that_change_during_decoding_are_used(monkeypatch):
    def changed():
        model = prepare(KINDS["rotary, grouped, gated"]().eval(), "int8")
        session = model.session()
        session.prefill([torch.arange(3, 8)], 8)
        before = session.step(torch.tensor([4]))
        with torch.no_grad():
            model.decoder.get_submodule("1").ffn.W2.weight.mul_(-1000.0)
        return before, session.step(torch.tensor([4]))

    before, after = changed()
    monkeypatch.setattr("glassformer.nn.stack.step_of", lambda *_: None)
    assert not torch.allclose(after, before, atol=0.1)
    torch.testing.assert_close(after, changed()[1], rtol=0.0, atol=0.05)
