"""Sinusoids, relative distances and biases, resized tables, and rotary positions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.core import positions
from glassformer.core.masks import causal
from glassformer.core.rotary import LinearScaling, Llama3Scaling, rotary_angles, rotate
from glassformer.errors import ConfigError, InputError, ShapeError

LAYOUTS = ("interleaved", "halves")


@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 5000))
def test_interleaved_is_the_formula_of_the_paper(n: int, width: int, offset: int) -> None:
    E = positions.sinusoidal(n, width, offset=offset, dtype=torch.float64)
    for row in range(n):
        for column in range(width):
            angle = (offset + row) / 10000 ** (2 * (column // 2) / width)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert E[row, column].item() == pytest.approx(expected, abs=1e-9)


@given(st.integers(1, 12))
def test_the_layouts_hold_the_same_numbers(width: int) -> None:
    apart = positions.sinusoidal(7, width, layout="halves")
    E = positions.sinusoidal(7, width)
    assert torch.equal(apart, torch.cat([E[:, 0::2], E[:, 1::2]], 1))


def test_any_positions_in_any_shape() -> None:
    places = torch.tensor([[0, 1, 2], [5, 3, 3]])
    E = positions.sinusoidal_at(places, 6)
    assert E.shape == (2, 3, 6)
    assert torch.equal(E, positions.sinusoidal(6, 6)[places])
    half = positions.sinusoidal_at(torch.tensor(0.5), 4, base=100.0, dtype=torch.float64)
    expected = [math.sin(0.5), math.cos(0.5), math.sin(0.05), math.cos(0.05)]
    assert half.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("divisor", ["d/2", "d/2-1"])
@given(st.integers(0, 1000), st.integers(-1000, 1000), st.integers(2, 16))
def test_moving_along_is_one_linear_map(layout: str, divisor: str, p: int, shift: int, half: int) -> None:
    kind = {"layout": layout, "divisor": divisor}
    R = positions.shift_matrix(2 * half, shift, **kind)
    at = lambda q: positions.sinusoidal_at(torch.tensor([q]), 2 * half, dtype=torch.float64, **kind)
    torch.testing.assert_close(at(p) @ R, at(p + shift), atol=1e-9, rtol=0)
    torch.testing.assert_close(R @ R.T, torch.eye(2 * half, dtype=torch.float64))  # a rotation


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: positions.sinusoidal(-1, 4), ShapeError, "the number of positions is -1"),
        (lambda: positions.sinusoidal(3, 0), ShapeError, "width must be at least 1, got 0"),
        (lambda: positions.sinusoidal(3, 5, divisor="d/2-1"), ShapeError, "width 5 has no divisor d/2-1: choose"),
        (lambda: positions.sinusoidal(3, 2, divisor="d/2-1"), ShapeError, "width 2 has no divisor d/2-1"),
        (lambda: positions.sinusoidal(3, 4, divisor="d"), ConfigError, "divisor 'd' is unknown: choose one of d/2,"),
        (lambda: positions.sinusoidal(3, 4, layout="half"), ConfigError, "layout 'half' is unknown"),
        (lambda: positions.shift_matrix(3, 1), ShapeError, "width 3 is odd, and sines and cosines come in pairs"),
        (lambda: positions.sincos_2d(2, 2, 6), ShapeError, "width 6 is not a multiple of 4"),
        (lambda: positions.sincos_2d(2, 2, 8, first="x"), ConfigError, "first 'x' is unknown"),
        (lambda: positions.relative_distance(3, 2), ShapeError, "3 queries over 2 keys would start at position -1"),
        (
            lambda: positions.clipped_buckets(torch.tensor([1]), -1),
            ConfigError,
            "the clipping distance must be at least 0, got -1",
        ),
        (lambda: positions.t5_buckets(torch.tensor([1]), bidirectional=True, buckets=2), ConfigError, "2 buckets"),
        (lambda: positions.alibi_slopes(0), ShapeError, "heads must be at least 1, got 0"),
        (lambda: positions.interpolate_1d(torch.ones(3, 2), 0), ShapeError, "cannot become 0 positions"),
        (lambda: positions.interpolate_2d(torch.ones(5, 2), (2, 2), (3, 3)), ShapeError, "do not make a table of 5"),
        (lambda: positions.interpolate_2d(torch.ones(4, 2), (2, 2), (0, 3)), InputError, "a grid of 0×3 has no cells"),
        (
            lambda: positions.interpolate_2d(torch.ones(4, 2), (2, 2), (3, 3), mode="area"),
            ConfigError,
            "mode 'area' is unknown: choose one of bicubic, bilinear",
        ),
    ],
)
def test_mistakes_are_named(call, error: type[Exception], message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        call()


def test_sincos_2d_is_laid_out_as_mae_was_trained() -> None:
    """MAE takes meshgrid(w, h), whose first table counts columns."""
    rows, cols, width = 3, 5, 16
    across, down = np.meshgrid(np.arange(cols), np.arange(rows))
    omega = 1 / 10000 ** (np.arange(width // 4) / (width // 4))
    parts = [f(np.outer(grid.reshape(-1), omega)) for grid in (across, down) for f in (np.sin, np.cos)]
    ours = positions.sincos_2d(rows, cols, width, dtype=torch.float64)
    np.testing.assert_allclose(ours.numpy(), np.concatenate(parts, 1), atol=1e-12)


def test_relative_distance_with_a_cache() -> None:
    assert positions.relative_distance(2, 4).tolist() == [[-2, -1, 0, 1], [-3, -2, -1, 0]]
    assert positions.relative_distance(2).tolist() == [[0, 1], [-1, 0]]
    assert positions.relative_distance(1, offset=2).tolist() == [[-2, -1, 0]]
    assert positions.relative_distance(1, 3, offset=0).tolist() == [[0, 1, 2]]
    assert positions.relative_distance(1, 3, offset=5).tolist() == [[-5, -4, -3]]


def test_clipped_buckets() -> None:
    assert positions.clipped_buckets(torch.tensor([-9, -2, 0, 1, 9]), 2).tolist() == [0, 0, 2, 3, 4]


@given(st.integers(1, 64))
def test_buckets_grow_with_distance_and_stay_inside(quarter: int) -> None:
    distance = torch.arange(-300, 301)
    for bidirectional in (True, False):
        buckets = 4 * quarter
        bucket = positions.t5_buckets(distance, bidirectional=bidirectional, buckets=buckets, limit=2 * buckets)
        assert bucket.min() >= 0
        assert bucket.max() < buckets
        assert (bucket[:301].diff() <= 0).all()  # towards the query


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20])
def test_alibi_slopes(heads: int) -> None:
    slopes = positions.alibi_slopes(heads)
    n = 2 ** int(math.log2(heads))
    assert slopes[:n].tolist() == pytest.approx([2 ** (-8 * (i + 1) / n) for i in range(n)])
    assert len(set(slopes.tolist())) == heads


def test_alibi() -> None:
    B = positions.alibi(2, 2, 3)
    distance = [[1, 0, 1], [2, 1, 0]]
    assert B.tolist() == [[[-n * m for n in row] for row in distance] for m in (1 / 16, 1 / 256)]


def test_interpolate_1d() -> None:
    table = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    assert positions.interpolate_1d(table, 6) is table
    longer = positions.interpolate_1d(table, 9, prefix=1)
    assert torch.equal(longer[0], table[0])
    expected = torch.nn.functional.interpolate(table[1:].T[None], size=9, mode="linear")[0].T
    torch.testing.assert_close(longer[1:], expected)
    ends = positions.interpolate_1d(table, 11, align_corners=True)
    torch.testing.assert_close(ends[::2], table)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(0, 2))
def test_a_constant_table_stays_constant(r: int, c: int, rows: int, cols: int, prefix: int) -> None:
    table = torch.cat([torch.full((prefix, 2), 7.0), torch.full((r * c, 2), 3.0)])
    for antialias in (False, True):
        new = positions.interpolate_2d(table, (r, c), (rows, cols), prefix=prefix, antialias=antialias)
        assert new.shape == (prefix + rows * cols, 2)
        assert torch.equal(new[:prefix], table[:prefix])
        torch.testing.assert_close(new[prefix:], torch.full((rows * cols, 2), 3.0))


def test_the_same_number_of_tokens_in_another_shape_is_resized() -> None:
    table = torch.randn(17, 4, generator=torch.Generator().manual_seed(0))
    assert positions.interpolate_2d(table, (4, 4), (4, 4), prefix=1) is table
    assert not torch.equal(positions.interpolate_2d(table, (4, 4), (2, 8), prefix=1), table)


def test_bilinear_with_corners_is_scipys_zoom() -> None:
    """How Google's own code resizes: scipy.ndimage.zoom(order=1)."""
    from scipy.ndimage import zoom

    table = torch.randn(12, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours = positions.interpolate_2d(table, (3, 4), (6, 10), mode="bilinear", align_corners=True)
    theirs = zoom(table.reshape(3, 4, 2).numpy(), (6 / 3, 10 / 4, 1), order=1)
    np.testing.assert_allclose(ours.reshape(6, 10, 2).numpy(), theirs, atol=1e-12)


def test_half_precision_is_resized_in_single() -> None:
    table = torch.randn(16, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    ours = positions.interpolate_2d(table, (4, 4), (5, 7))
    assert ours.dtype == torch.bfloat16
    assert torch.equal(ours, positions.interpolate_2d(table.float(), (4, 4), (5, 7)).bfloat16())


# ---- Hugging Face's models as oracle: few tests, since the import takes seconds --------------------------------------


def test_sinusoids_of_marian_whisper_and_mae() -> None:
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
    from transformers.models.vit_mae.modeling_vit_mae import build_2d_sinusoidal_position_embedding
    from transformers.models.whisper.modeling_whisper import sinusoids

    for width in (8, 7):
        marian = MarianSinusoidalPositionalEmbedding(50, width).create_weight()
        torch.testing.assert_close(positions.sinusoidal(50, width, layout="halves"), marian)
    whisper = positions.sinusoidal(100, 64, layout="halves", divisor="d/2-1")
    torch.testing.assert_close(whisper, sinusoids(100, 64), atol=2e-5, rtol=0)  # theirs is float32 throughout
    theirs = build_2d_sinusoidal_position_embedding(3, 5, 16)
    torch.testing.assert_close(positions.sincos_2d(3, 5, 16, first="rows"), theirs)


def test_relative_biases_of_t5_and_bloom() -> None:
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-5000, 5001)
    for bidirectional in (True, False):
        for buckets, limit in ((32, 128), (16, 100), (64, 500)):
            theirs = T5Attention._relative_position_bucket(distance, bidirectional, buckets, limit)
            ours = positions.t5_buckets(distance, bidirectional=bidirectional, buckets=buckets, limit=limit)
            assert torch.equal(ours, theirs)
    for heads in (4, 12):  # Bloom's is the same but for a constant per row, which softargmax does not see
        theirs = build_alibi_tensor(torch.ones(1, 9), heads, torch.float32).expand(heads, 9, 9)
        hidden = ~causal(9)
        weights = lambda B, hidden=hidden: B.masked_fill(hidden, -torch.inf).softmax(-1)
        torch.testing.assert_close(weights(positions.alibi(heads, 9)), weights(theirs))


class Embeddings:
    """What interpolate_pos_encoding of Hugging Face's ViT and DINOv2 looks at, and no weights besides."""

    def __init__(self, table: Tensor) -> None:
        self.position_embeddings = table[None]
        self.patch_size: int | tuple[int, int] = 1
        self.patch_embeddings = type("Patches", (), {"patch_size": (1, 1)})


@pytest.mark.parametrize("grid", [(6, 6), (2, 8), (3, 5), (7, 4)])
def test_tables_resized_as_vit_and_dinov2(grid: tuple[int, int]) -> None:
    from transformers.models.dinov2_with_registers.modeling_dinov2_with_registers import Dinov2WithRegistersEmbeddings
    from transformers.models.vit.modeling_vit import ViTEmbeddings

    table = torch.randn(17, 8, generator=torch.Generator().manual_seed(0))
    tokens = torch.zeros(1, 1 + grid[0] * grid[1], 8)
    for theirs, antialias in ((ViTEmbeddings, False), (Dinov2WithRegistersEmbeddings, True)):
        expected = theirs.interpolate_pos_encoding(Embeddings(table), tokens, *grid)[0]
        ours = positions.interpolate_2d(table, (4, 4), grid, prefix=1, antialias=antialias)
        assert torch.equal(ours, expected)


ROTARY_LAYOUTS = ("interleaved", "halves")


def vectors(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("layout", ROTARY_LAYOUTS)
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


@pytest.mark.parametrize("layout", ROTARY_LAYOUTS)
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


@pytest.mark.parametrize("layout", ROTARY_LAYOUTS)
def test_partial_rotary_leaves_the_rest(layout: str) -> None:
    X, angles = vectors(2, 3, 5, 12), rotary_angles(torch.arange(5), 8)
    Y = rotate(X, *angles, layout=layout)
    assert torch.equal(Y[..., 8:], X[..., 8:])
    assert torch.equal(Y[..., :8], rotate(X[..., :8], *angles, layout=layout))


@pytest.mark.parametrize("layout", ROTARY_LAYOUTS)
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


def test_rotary_mistakes_are_named() -> None:
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
