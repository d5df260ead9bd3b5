from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import jacobian as by_autograd

from glassformer.core import attend
from glassformer.core.masks import causal
from glassformer.errors import InputError
from glassformer.lens import edit, trace
from glassformer.lens.sensitivity import Layer, jacobian, jacobians, layer_at, scores_at
from glassformer.models import Decoder, decoder


def random_layer(seed: int, *lead: int, t: int = 4, s: int = 5, masked: bool = False, beta: float = 0.7) -> Layer:
    g = torch.Generator().manual_seed(seed)
    Q, K, V = (
        torch.randn(*lead, n, w, dtype=torch.float64, generator=g) for n, w in ((t, 3), (s, 3), (s, 2))
    )
    bias = torch.randn(*lead, t, s, dtype=torch.float64, generator=g)
    return Layer(Q, K, V, beta, causal(t, s) if masked else None, bias)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("beta", [0.7, -1.3, 0.0])
def test_jacobians_are_those_of_autograd(masked: bool, beta: float) -> None:
    layer = random_layer(1, masked=masked, beta=beta)
    ours = jacobians(layer)

    one = torch.tensor(1.0, dtype=torch.float64)

    def AH(q: Tensor, k: Tensor, v: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        return attend(q * scale, k, v, beta=1.0, mask=layer.mask, bias=layer.bias)[1:]

    inputs = (layer.Q, layer.K, layer.V, one * beta)
    (A_q, A_k, A_v, A_beta), (H_q, H_k, H_v, H_beta) = by_autograd(AH, inputs)
    own = torch.arange(4)
    torch.testing.assert_close(ours.A_q, A_q[own, :, own])  # of (t, s, t, d): a query matters to its own row
    torch.testing.assert_close(ours.H_q, H_q[own, :, own])
    assert A_q[0, :, 1].abs().max() == 0
    torch.testing.assert_close(ours.A_k, A_k)
    torch.testing.assert_close(ours.H_k, H_k)
    assert A_v.abs().max() == 0
    torch.testing.assert_close(ours.H_v[:, None, :, None] * torch.eye(2).double()[:, None, :], H_v)
    torch.testing.assert_close(ours.A_beta, A_beta)
    torch.testing.assert_close(ours.H_beta, H_beta)


def test_jacobians_against_finite_differences() -> None:
    layer, eps = random_layer(2, masked=True), 1e-6
    ours = jacobians(layer)

    def slope(**moved: tuple[object, object]) -> tuple[torch.Tensor, torch.Tensor]:
        (name, (up, down)), = moved.items()
        above, below = (layer._replace(**{name: value}).attend() for value in (up, down))  # type: ignore[arg-type]
        return (above.A - below.A) / (2 * eps), (above.H - below.H) / (2 * eps)

    step = torch.zeros_like(layer.K)
    step[2, 1] = eps
    A_k, H_k = slope(K=(layer.K + step, layer.K - step))
    torch.testing.assert_close(ours.A_k[:, :, 2, 1], A_k, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(ours.H_k[:, :, 2, 1], H_k, rtol=1e-6, atol=1e-9)
    A_beta, H_beta = slope(beta=(layer.beta + eps, layer.beta - eps))
    torch.testing.assert_close(ours.A_beta, A_beta, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(ours.H_beta, H_beta, rtol=1e-6, atol=1e-9)


def test_all_heads_at_once_are_each_head_alone() -> None:
    layer = random_layer(3, 2, 3)
    whole = jacobians(layer)
    for batch in range(2):
        for head in range(3):
            for together, alone in zip(whole, jacobians(layer.head(batch, head)), strict=True):
                torch.testing.assert_close(together[batch, head], alone)


def test_rows_alone_are_rows_of_the_whole() -> None:
    layer = random_layer(4, masked=True)
    torch.testing.assert_close(jacobians(layer.rows([1, 3])).H_k, jacobians(layer).H_k[[1, 3]])


def test_the_jacobian_of_softargmax() -> None:
    A = torch.softmax(torch.tensor([0.3, -1.0, 2.0, 0.0], dtype=torch.float64), 0)
    J = jacobian(A)
    torch.testing.assert_close(J, by_autograd(lambda s: torch.softmax(s, 0), A.log()))
    assert J.sum(-1).abs().max() < 1e-15
    assert torch.linalg.eigvalsh(J).min() > -1e-15


@pytest.mark.parametrize("config", [decoder.tiny(), decoder.tiny_modern()], ids=["plain", "grouped and rotary"])
def test_a_layer_of_a_real_run(config: decoder.DecoderConfig) -> None:
    model = Decoder(config, seed=3).double().eval()
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
    with torch.no_grad(), trace(model, "decoder.1.attention.[AVH]") as run:
        model(tokens)
    layer = layer_at(run, "decoder.1.attention")
    torch.testing.assert_close(layer.attend().A, run["*.A"])
    torch.testing.assert_close(layer.attend().H, run["*.H"])
    one = layer.head(1, 1)
    torch.testing.assert_close(one.attend().A, run["*.A"][1, 1])
    assert jacobians(one).A_k.shape == (6, 6, 6, one.K.shape[-1])


def test_mistakes() -> None:
    model = Decoder(decoder.tiny(), seed=3).eval()
    tokens = torch.tensor([[3, 1, 4]])
    with torch.no_grad(), trace(model, "decoder.1.attention.A") as run:
        model(tokens)
    with pytest.raises(InputError, match=r"no weights of 'decoder.0.attention': choose one of decoder.1.attention"):
        scores_at(run, "decoder.0.attention")
    with pytest.raises(InputError, match="there is no head 5: they are 0 to 1"):
        scores_at(run, "decoder.1.attention").head(0, 5)
    with torch.no_grad(), edit(model, "decoder.1.attention.A", 0.5), trace(model, "decoder.1.attention.A") as run:
        model(tokens)
    with pytest.raises(InputError, match="ran with its scores edited"):
        scores_at(run, "decoder.1.attention")
