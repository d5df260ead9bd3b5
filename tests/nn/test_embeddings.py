"""Embeddings of tokens, patches and audio frames, and their positions."""

from __future__ import annotations

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import conv1d, gelu, pad

from glassformer.core import positions as core
from glassformer.core.rotary import LinearScaling, rotary_angles
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.nn import (
    Alibi,
    Learned,
    NormConfig,
    PatchEmbedding,
    Relative,
    Rotary,
    Sinusoidal,
    TokenEmbedding,
    initialise,
    patches,
)
from glassformer.nn.frames import FrameConfig, FrameEmbedding, whisper


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
    refused(
        InputError, "token 10 is outside the vocabulary of 10: use 0 to 9", lambda: embed(torch.tensor([[1, 10, 11]]))
    )
    refused(InputError, "token -1 is outside the vocabulary of 10: use 0 to 9", lambda: embed(torch.tensor([[-1]])))
    refused(InputError, "segment 2 is outside the vocabulary of 2", lambda: embed(known, None, torch.tensor([[0, 2]])))
    refused(
        ShapeError,
        "segment ids have shape (1, 1), token ids (1, 2): give",
        lambda: embed(known, None, torch.tensor([[0]])),
    )
    refused(ShapeError, "tokens have shape (2,): give (batch, tokens)", lambda: embed(torch.tensor([1, 2])))
    refused(InputError, "tokens have dtype float32: give int64 or int32", lambda: embed(torch.tensor([[1.0]])))
    refused(
        ConfigError,
        "segments were given to a model without segment embeddings: leave them out, or set segments in its config",
        lambda: TokenEmbedding(10, 6)(known, None, known),
    )
    refused(
        ConfigError,
        "the embedding has 0 tokens and width 6: choose at least one of each",
        lambda: TokenEmbedding(0, 6),
    )


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
        "the image has 1 channels, the model expects 3: convert it (grey is 1 channel, RGB is 3)",
        lambda: embed(torch.zeros(1, 1, 8, 8)),
    )
    refused(
        ConfigError,
        "the embedding has 0×4 patches, 3 channels and width 8: choose sizes of at least 1",
        lambda: PatchEmbedding((0, 4), 3, 8),
    )
    bytes_ = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    refused(InputError, "images have dtype uint8: give floating-point pixels", lambda: embed(bytes_))


def table(rows: int, width: int) -> Tensor:
    return torch.arange(rows * width, dtype=torch.float32).unflatten(0, (rows, width))


@pytest.mark.parametrize("offset", [0, 2])
def test_learned_positions_are_rows_of_a_table(offset: int) -> None:
    learned = Learned(length=5, offset=offset).build(3)
    weights = table(5 + offset, 3)
    learned.load_state_dict({"table.weight": weights})
    where = torch.tensor([[0, 4, 1], [2, 2, 3]])
    assert torch.equal(learned(where), weights[where + offset])
    assert learned(where, torch.float64).dtype == torch.float64


def test_a_sequence_longer_than_learned_positions(refused) -> None:  # type: ignore[no-untyped-def]
    learned = Learned(length=5, offset=2).build(3)
    assert learned(torch.arange(5)).shape == (5, 3)
    refused(
        ShapeError,
        "position 5 is beyond the 5 learned positions: shorten the input, or interpolate the table to a longer one",
        lambda: learned(torch.arange(6)),
    )


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("divisor", ["d/2", "d/2-1"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_sinusoids_come_from_their_formula(layout: str, divisor: str, dtype: torch.dtype) -> None:
    module = Sinusoidal(layout=layout, divisor=divisor, offset=1).build(6)  # type: ignore[arg-type]
    where = torch.tensor([[3, 0], [90, 7]])
    found = module(where, dtype)
    wanted = core.sinusoidal(100, 6, layout=layout, divisor=divisor, dtype=dtype)
    assert torch.equal(found, wanted[where + 1])
    assert not module.state_dict()


def test_rotary_angles_of_the_positions_given() -> None:
    rotary = Rotary(width=4, base=100.0, layout="interleaved", scaling=LinearScaling(factor=2.0))
    where = torch.tensor([[0, 3]])
    cos, sin, layout = rotary.turn(where, torch.float64)
    expected = rotary_angles(where, 4, base=100.0, scaling=LinearScaling(factor=2.0), dtype=torch.float64)
    assert torch.equal(cos, expected.cos)
    assert torch.equal(sin, expected.sin)
    assert layout == "interleaved"


@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_bias_is_t5s(bidirectional: bool) -> None:
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(
        d_model=8, num_heads=3, relative_attention_num_buckets=8, relative_attention_max_distance=20,
        is_decoder=not bidirectional,
    )  # fmt: skip
    theirs = T5Attention(config, has_relative_attention_bias=True)
    ours = Relative(heads=3, buckets=8, limit=20, bidirectional=bidirectional).build()
    ours.load_state_dict({"table.weight": theirs.relative_attention_bias.weight})
    assert torch.equal(ours(30, 30), theirs.compute_bias(30, 30)[0])
    assert torch.equal(ours(1, 30), ours(30, 30)[:, -1:])  # the last query of a cache


def test_clipped_distances() -> None:
    relative = Relative(heads=2, kind="clipped", limit=2).build()
    initialise(relative, 0)
    bias = relative(6, 6)
    for i in range(6):
        for j in range(6):
            assert torch.equal(bias[:, i, j], relative.table.weight[max(-2, min(2, j - i)) + 2])


def test_alibi_has_no_weights() -> None:
    alibi = Alibi(heads=4).build()
    assert torch.equal(alibi(3, 5), core.alibi(4, 3, 5))
    assert not alibi.state_dict()


def test_configs_that_describe_no_positions(refused) -> None:  # type: ignore[no-untyped-def]
    refused(ConfigError, "length is 0 and offset is 0: choose at least 1", lambda: Learned(length=0))
    refused(ConfigError, "length is 5 and offset is -1", lambda: Learned(length=5, offset=-1))
    refused(ConfigError, "layout 'half' is unknown: choose one of", lambda: Sinusoidal(layout="half"))  # type: ignore[arg-type]
    refused(ConfigError, "divisor 'd' is unknown: choose one of", lambda: Sinusoidal(divisor="d"))  # type: ignore[arg-type]
    refused(ConfigError, "layout 'half' is unknown: choose one of", lambda: Rotary(width=4, layout="half"))  # type: ignore[arg-type]
    refused(ConfigError, "3 columns do not split into pairs: rotate an even number", lambda: Rotary(width=3))
    refused(ConfigError, "kind 'T5' is unknown: choose one of clipped, t5", lambda: Relative(heads=2, kind="T5"))  # type: ignore[arg-type]


BANDS, WIDTH = 3, 5
Drawn = tuple[list[tuple[int, int]], bool]  # (kernel, stride) of each convolution, and whether they are centred

layers = st.lists(st.integers(1, 5).flatmap(lambda k: st.tuples(st.just(k), st.integers(1, k))), min_size=1, max_size=3)


configs = st.tuples(layers, st.booleans())


def config_of(drawn: Drawn) -> FrameConfig:
    pairs, centred = drawn
    kernels, strides = zip(*((k | 1, s) if centred else (k, s) for k, s in pairs), strict=True)
    return FrameConfig(bands=BANDS, width=WIDTH, kernels=kernels, strides=strides, centred=centred)


def build(config: FrameConfig, seed: int = 0) -> FrameEmbedding:
    embed = FrameEmbedding(config).double()
    initialise(embed, seed)
    return embed


def frames(b: int, t: int, seed: int = 0) -> Tensor:
    return torch.randn(b, t, BANDS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_centred_variant_is_whispers_two_convolutions() -> None:
    embed = build(whisper(BANDS, WIDTH))
    first, second = embed.convolutions
    for t in (1, 2, 7, 8):
        Y = gelu(conv1d(frames(2, t).mT, first.weight, first.bias, padding=1))
        Y = gelu(conv1d(Y, second.weight, second.bias, stride=2, padding=1))
        torch.testing.assert_close(embed(frames(2, t)), Y.mT)


def test_the_causal_variant_is_padded_on_the_left() -> None:
    embed = build(FrameConfig(bands=BANDS, width=WIDTH))
    first, second = embed.convolutions
    Y = gelu(conv1d(pad(frames(2, 8).mT, (1, 0)), first.weight, first.bias, stride=2))
    Y = gelu(conv1d(pad(Y, (1, 0)), second.weight, second.bias, stride=2))
    torch.testing.assert_close(embed(frames(2, 8)), Y.mT)
    assert embed(frames(2, 8)).shape == (2, 2, WIDTH)


@given(configs, st.integers(1, 40), st.lists(st.integers(0, 9), max_size=12), st.integers(1, 2))
def test_pieces_give_the_vectors_of_the_whole(drawn: Drawn, t: int, cuts: list[int], b: int) -> None:
    config = config_of(drawn)
    embed, whole = build(config), frames(b, t)
    kept, out, fed = embed.start(b), [], 0
    for size in cuts:
        X, kept = embed.step(whole[:, fed : fed + size], kept)
        out.append(X)
        fed = min(t, fed + size)
        assert all(past.shape[-1] < k for past, k in zip(kept, config.kernels, strict=True)), "little is kept"
    out.append(embed.step(whole[:, fed:], kept, end=True)[0])
    torch.testing.assert_close(torch.cat(out, 1), embed(whole), atol=1e-12, rtol=0)
    assert embed(whole).shape[1] == config.length(t)


@given(configs, st.integers(1, 30), st.integers(1, 30))
def test_padding_changes_nothing(drawn: Drawn, t: int, more: int) -> None:
    config = config_of(drawn)
    embed, both = build(config), frames(2, t + more)
    both[0, t:] = torch.nan  # whatever stands there
    lengths = torch.tensor([t, t + more])
    together = embed(both, lengths)
    for row, n in enumerate(lengths.tolist()):
        alone = embed(both[row : row + 1, :n])
        torch.testing.assert_close(together[row : row + 1, : alone.shape[1]], alone, atol=1e-12, rtol=0)
    assert config.length(lengths).tolist() == [config.length(t), config.length(t + more)]


@given(configs, st.integers(0, 6))
def test_vectors_depend_on_no_frame_beyond_the_declared_reach(drawn: Drawn, j: int) -> None:
    """Tight: the last frame that a vector may hear, it does hear."""
    config = config_of(drawn)
    last = (j + 1) * config.factor - 1 + config.ahead
    embed, here = build(config), frames(1, max(last + 2, (j + 1) * config.factor))
    there = here.clone()
    there[:, last + 1 :] += 1
    torch.testing.assert_close(embed(here)[:, j], embed(there)[:, j], atol=1e-12, rtol=0)
    there[:, last:] += 1
    assert not torch.allclose(embed(here)[:, j], embed(there)[:, j], atol=1e-12, rtol=0)


def test_how_far_ahead() -> None:
    assert FrameConfig(bands=1, width=1).ahead == 0
    assert FrameConfig(bands=1, width=1).factor == 4
    assert whisper(1, 1).ahead == 1
    assert whisper(1, 1).factor == 2


def test_gradients_reach_every_weight_and_the_frames() -> None:
    embed, X = build(FrameConfig(bands=BANDS, width=WIDTH)), frames(1, 9).requires_grad_()
    embed(X).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in embed.parameters())
    assert X.grad is not None
    assert (X.grad.abs().sum(-1) > 0).all(), "every frame counts, the last too"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kernels": (3,)}, "there are 1 kernels but 2 strides"),
        ({"kernels": (), "strides": ()}, "0 kernels"),
        ({"strides": (2, 4)}, "skip frames"),
        ({"strides": (0, 2)}, "skip frames"),
        ({"kernels": (4, 3), "centred": True}, "have no centre"),
        ({"width": 0}, "choose at least 1"),
    ],
)
def test_a_config_that_makes_no_embedding_is_an_error(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        FrameConfig(**{"bands": 3, "width": 4, **changes})


def test_an_unknown_activation_is_an_error() -> None:
    jaxtyping.config.update("jaxtyping_disable", True)  # which would find it first, in tests
    try:
        with pytest.raises(ConfigError, match="no activation 'sine'"):
            FrameConfig(bands=3, width=4, activation="sine")  # type: ignore[arg-type]
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def test_frames_of_another_size_are_an_error() -> None:
    embed = build(FrameConfig(bands=80, width=4))
    with pytest.raises(ShapeError, match="the frames have 3 bands, the embedding expects 80"):
        embed(frames(1, 5))
