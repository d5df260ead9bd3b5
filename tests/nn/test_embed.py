from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.nn import Learned, NormConfig, PatchEmbedding, Sinusoidal, TokenEmbedding, initialise, patches


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---- tokens ----------------------------------------------------------------------------------------------------------


def test_every_part_is_added() -> None:
    embed = TokenEmbedding(10, 6, scale=3.0, positions=Learned(length=8), segments=2, norm=NormConfig()).double()
    initialise(embed, 0)
    tokens, kinds = torch.tensor([[1, 9, 0], [5, 5, 5]]), torch.tensor([[0, 0, 1], [1, 0, 0]])
    where = torch.tensor([[0, 1, 2], [4, 0, 7]])
    X = 3.0 * embed.table.weight[tokens]
    assert embed.positions is not None
    assert embed.segments is not None
    assert embed.norm is not None
    E, G = embed.positions.table.weight, embed.segments.weight
    torch.testing.assert_close(embed(tokens, where, kinds), embed.norm(X + G[kinds] + E[where]))
    torch.testing.assert_close(embed(tokens), embed.norm(X + G[0] + E[:3]))


def test_plain_tokens_are_rows_of_the_table() -> None:
    embed = TokenEmbedding(10, 6)
    initialise(embed, 0)
    tokens = torch.tensor([[1, 9, 0]])
    assert torch.equal(embed(tokens), embed.table.weight[tokens])
    assert torch.equal(embed(tokens.int()), embed(tokens))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_sinusoids_follow_the_models_number_type(dtype: torch.dtype) -> None:
    embed = TokenEmbedding(10, 6, positions=Sinusoidal()).to(dtype)
    assert embed(torch.tensor([[1, 2]])).dtype == dtype


def test_taps_see_positions_and_the_sum() -> None:
    embed, seen = TokenEmbedding(10, 6, positions=Sinusoidal()), {}
    embed.E.watchers.append(lambda E: seen.update(E=E))
    embed.X.editors.append(torch.zeros_like)
    assert not embed(torch.tensor([[1, 2]])).any()
    assert seen["E"].shape == (2, 6)


def test_tokens_that_are_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    embed = TokenEmbedding(10, 6, segments=2)
    known = torch.tensor([[1, 2]])
    refused(InputError, "token 10 is not among the 10 known: use 0 to 9", lambda: embed(torch.tensor([[1, 10, 11]])))
    refused(InputError, "token -1 is not among the 10 known: use 0 to 9", lambda: embed(torch.tensor([[-1]])))
    refused(InputError, "segment 2 is not among the 2 known", lambda: embed(known, None, torch.tensor([[0, 2]])))
    refused(ShapeError, "segments are (1, 1), tokens (1, 2): give", lambda: embed(known, None, torch.tensor([[0]])))
    refused(ShapeError, "tokens of shape (2,): give (batch, tokens)", lambda: embed(torch.tensor([1, 2])))
    refused(InputError, "tokens are float32: give int64 or int32", lambda: embed(torch.tensor([[1.0]])))
    refused(
        ConfigError,
        "segments came to a model that has 0 of them: leave them out, or build it with some",
        lambda: TokenEmbedding(10, 6)(known, None, known),
    )
    refused(ConfigError, "a table of 0 tokens × 6: choose at least one of each", lambda: TokenEmbedding(0, 6))


# ---- patches ---------------------------------------------------------------------------------------------------------


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.integers(1, 4),
    st.booleans(),
)
def test_a_patch_embedding_is_a_convolution(
    grid: tuple[int, int], size: tuple[int, int], channels: int, bias: bool
) -> None:
    embed = PatchEmbedding(size, channels, 5, bias=bias).double()
    initialise(embed, 0)
    image = normal(2, channels, grid[0] * size[0], grid[1] * size[1]).requires_grad_()
    linear, convolved = embed(image), embed.convolution(image)
    torch.testing.assert_close(linear, convolved, rtol=0, atol=1e-12)
    parts = (image, *embed.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(linear.square().sum(), parts), torch.autograd.grad(convolved.square().sum(), parts)
    )


def test_patches_are_cut_row_by_row() -> None:
    image = torch.arange(2 * 4 * 6, dtype=torch.float32).reshape(1, 2, 4, 6)
    cut = patches(image, (2, 3))
    assert cut.shape == (1, 4, 12)
    assert torch.equal(cut[0, 1], image[0, :, :2, 3:].flatten())  # the second is to the right of the first
    assert torch.equal(cut[0, 2], image[0, :, 2:, :3].flatten())


def test_images_that_are_mistakes(refused) -> None:  # type: ignore[no-untyped-def]
    embed = PatchEmbedding((4, 4), 3, 8)
    refused(
        ShapeError,
        "an image of 9×16 is not tiled by patches of 4×4: resize it to 8×16, or choose another patch",
        lambda: embed(torch.zeros(1, 3, 9, 16)),
    )
    small = "an image of 1×4 is not tiled by patches of 4×4: resize it to 4×4"
    refused(ShapeError, small, lambda: embed(torch.zeros(1, 3, 1, 4)))
    refused(
        ShapeError,
        "an image with 1 channels came to a model of 3: convert it (grey is 1 channel, RGB is 3)",
        lambda: embed(torch.zeros(1, 1, 8, 8)),
    )
    refused(ConfigError, "patches of 0×4×3 → 8: choose sizes of at least 1", lambda: PatchEmbedding((0, 4), 3, 8))
    bytes_ = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    refused(InputError, "pixels are uint8: give real numbers, scaled as the model was trained", lambda: embed(bytes_))
