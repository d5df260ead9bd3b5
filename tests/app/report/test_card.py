from __future__ import annotations

import torch

from glassformer.app.report.card import answer, card


def test_card(shown) -> None:
    model, seen, _, _ = shown("seq2seq")
    made = card(model, seen, "random")
    assert f"{sum(w.numel() for w in model.parameters()):,}" in made
    assert "<td>attention of the decoder to its memory</td><td>2 layers × 2 heads, 16 wide</td>" in made
    assert '<p class="note">random</p>' in made
    assert "(4 and 5 tokens)" in made


def test_the_answer_is_the_likeliest_and_named_where_it_was_read(shown) -> None:
    model, seen, _, out = shown("decoder")
    p = out[0, -1].softmax(-1)
    best = int(p.argmax())
    named = dict(zip(seen.inputs[0][0].tolist(), seen.labels["decoder"], strict=True))
    assert f"<td>{named.get(best, best)}</td><td>{p[best]:.3f}</td>" in answer(model, seen, out)


def test_classes_and_symbols(shown) -> None:
    model, seen, _, out = shown("vit")
    assert f"<td>LABEL_{int(out[0].argmax())}</td>" in answer(model, seen, out)
    model, seen, _, out = shown("speech")
    symbols = " ".join("·" if s == 0 else str(s) for s in out[0].argmax(-1).tolist())
    assert symbols in answer(model, seen, out)
    model, seen, _, out = shown("encoder")
    assert answer(model, seen, torch.zeros(1)) == ""
