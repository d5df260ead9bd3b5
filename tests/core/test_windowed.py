"""Attention in chunks of a window equals attention with the window's mask over the whole square."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from glassformer.core.fused import Pattern
from glassformer.core.masks import window
from glassformer.core.windowed import attend_window
from glassformer.errors import GlassError
from glassformer.lens import edit, trace
from glassformer.models import Decoder, decoder


def qkv(n, kv_heads=4):
    draw = torch.Generator().manual_seed(n)
    return [torch.randn(2, heads, n, 16, generator=draw) for heads in (4, kv_heads, kv_heads)]


@pytest.mark.parametrize(("n", "width"), [(300, 64), (256, 64), (257, 40), (100, 64), (97, 1), (64, 64)])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_equals_the_masked_square(n, width, kv_heads):
    Q, K, V = qkv(n, kv_heads)
    mask = window(n, n, width=width, causal=True)
    H, L = attend_window(Q, K, V, width=width)
    want = scaled_dot_product_attention(Q, K, V, mask, enable_gqa=True)
    torch.testing.assert_close(H, want, rtol=1e-4, atol=1e-5)
    A = Pattern(Q, K, L, beta=0.25, causal=True, window=width).A(heads=[1], rows=slice(n - 9, n))
    S = (Q[:, 1:2, n - 9 :] @ K[:, [1 * kv_heads // 4]].mT / 4).masked_fill(~mask[n - 9 :], -torch.inf)
    torch.testing.assert_close(A, S.softmax(-1), rtol=1e-4, atol=1e-5)


def test_gradients_flow():
    Q, K, V = (part.requires_grad_() for part in qkv(130))
    attend_window(Q, K, V, width=32).H.square().sum().backward()
    got = [part.grad.clone() for part in (Q, K, V)]
    for part in (Q, K, V):
        part.grad = None
    mask = window(130, 130, width=32, causal=True)
    scaled_dot_product_attention(Q, K, V, mask).square().sum().backward()
    for mine, part in zip(got, (Q, K, V), strict=True):
        torch.testing.assert_close(mine, part.grad, rtol=1e-3, atol=1e-4)


def test_an_empty_window_is_refused():
    with pytest.raises(GlassError, match="width=0"):
        attend_window(*qkv(8), width=0)


def test_a_decoder_with_a_window_runs_in_chunks_and_its_A_is_readable():
    config = decoder.tiny_modern()
    model = Decoder(replace(config, text=replace(config.text, window=5)), seed=2).eval()
    tokens = torch.arange(44).remainder(40)[None]
    with torch.no_grad(), trace(model, "decoder.1.attention.A") as run:
        chunked = model(tokens)
    A = run["decoder.1.attention.A"]
    with torch.no_grad(), edit(model, "*.A", lambda A: A):  # every layer explicit, with a mask over the square
        square = model(tokens)
    torch.testing.assert_close(chunked, square, rtol=1e-4, atol=1e-4)
    assert not A.masked_fill(window(44, 44, width=5, causal=True), 0.0).any()
    torch.testing.assert_close(A.sum(-1), torch.ones_like(A.sum(-1)))
