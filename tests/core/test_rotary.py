from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.rotary import LinearScaling, Llama3Scaling, rotary_angles, rotate
from glassformer.errors import ConfigError, ShapeError

LAYOUTS = ("interleaved", "halves")


def vectors(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(st.integers(0, 10**5), st.integers(0, 10**5), st.integers(0, 10**5), st.integers(1, 8))
def test_products_know_the_distance_alone(layout: str, p: int, r: int, shift: int, half: int) -> None:
    q, k = vectors(1, 2 * half), vectors(1, 2 * half, seed=1)
    turn = lambda X, at: rotate(
        X, *rotary_angles(torch.tensor([at]), 2 * half, dtype=torch.float64), layout=layout
    )
    here = turn(q, p) @ turn(k, r).T
    there = turn(q, p + shift) @ turn(k, r + shift).T
    torch.testing.assert_close(here, there, atol=1e-8, rtol=0)
    torch.testing.assert_close(turn(q, p).norm(), q.norm())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_pair_turns_as_a_complex_number(layout: str) -> None:
    p = torch.arange(5)
    z = torch.view_as_complex(vectors(5, 2))
    turned = torch.view_as_real(z * torch.exp(1j * p.double()))
    torch.testing.assert_close(rotate(vectors(5, 2), *rotary_angles(p, 2, dtype=torch.float64), layout=layout), turned)


def test_the_layouts_are_a_permutation_of_columns() -> None:
    """Why weights can be converted: columns (0, 1, 2, … ) of one are (0, d/2, 1, d/2+1, …) of the other."""
    X, angles = vectors(3, 4, 8), rotary_angles(torch.arange(4), 8)
    order = torch.arange(8).view(2, 4).T.flatten()
    there = rotate(X, *angles, layout="halves")[..., order]
    torch.testing.assert_close(there, rotate(X[..., order], *angles, layout="interleaved"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_partial_rotary_leaves_the_rest(layout: str) -> None:
    X, angles = vectors(2, 3, 5, 12), rotary_angles(torch.arange(5), 8)
    Y = rotate(X, *angles, layout=layout)
    assert torch.equal(Y[..., 8:], X[..., 8:])
    assert torch.equal(Y[..., :8], rotate(X[..., :8], *angles, layout=layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_sequence_may_have_its_own_positions(layout: str) -> None:
    X = vectors(2, 3, 4, 6)
    places = torch.tensor([[0, 1, 2, 3], [7, 8, 9, 10]])
    both = rotate(X, *rotary_angles(places, 6), layout=layout)
    for b in range(2):
        assert torch.equal(both[b], rotate(X[b], *rotary_angles(places[b], 6), layout=layout))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtype_is_preserved_and_rounded_once(dtype: torch.dtype) -> None:
    X = vectors(4, 8, dtype=dtype)
    angles = rotary_angles(torch.arange(4) + 1000, 8)
    Y = rotate(X, *angles)
    assert Y.dtype == dtype
    torch.testing.assert_close(Y, rotate(X.double(), *angles).to(dtype))


def test_gradients_turn_back() -> None:
    X = vectors(3, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda X: rotate(X, *rotary_angles(torch.arange(3), 4, dtype=torch.float64)), (X,))


def test_linear_scaling_squeezes_positions() -> None:
    p = torch.arange(20)
    squeezed = rotary_angles(p, 8, scaling=LinearScaling(factor=4.0), dtype=torch.float64)
    torch.testing.assert_close(squeezed, rotary_angles(p / 4, 8, dtype=torch.float64))


def test_mistakes_are_named() -> None:
    with pytest.raises(ShapeError, match="5 columns do not split into pairs"):
        rotary_angles(torch.arange(3), 5)
    angles = rotary_angles(torch.arange(3), 8)
    with pytest.raises(ShapeError, match="angles for 8 columns do not fit a head of width 6: make angles"):
        rotate(vectors(3, 6), *angles)
    with pytest.raises(ConfigError, match="layout 'neox' is unknown: choose one of interleaved, halves"):
        rotate(vectors(3, 8), *angles, layout="neox")


def test_as_llama_and_gpt_j() -> None:
    from transformers.models.gptj import modeling_gptj as gptj
    from transformers.models.llama import modeling_llama as llama

    Q = vectors(2, 3, 50, 16, dtype=torch.float32)
    places = torch.arange(50).expand(2, 50)
    for rope, scaling in (
        ({"rope_type": "default"}, None),
        ({"rope_type": "linear", "factor": 4.0}, LinearScaling(factor=4.0)),
        (
            {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 256,
            },
            Llama3Scaling(factor=8.0, low=1.0, high=4.0, trained=256),
        ),
    ):
        config = llama.LlamaConfig(
            hidden_size=48, num_attention_heads=3, rope_parameters={"rope_theta": 5000.0, **rope}
        )
        cos, sin = llama.LlamaRotaryEmbedding(config)(Q, places)
        theirs, _ = llama.apply_rotary_pos_emb(Q, Q, cos, sin)
        ours = rotate(Q, *rotary_angles(places, 16, base=5000.0, scaling=scaling), layout="halves")
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0)  # their angles are float32

    sin, cos = gptj.create_sinusoidal_positions(50, 16).expand(2, 50, 16).chunk(2, -1)
    theirs = gptj.apply_rotary_pos_emb(Q.transpose(1, 2), sin, cos).transpose(1, 2)
    ours = rotate(Q, *rotary_angles(torch.arange(50), 16), layout="interleaved")
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0)
