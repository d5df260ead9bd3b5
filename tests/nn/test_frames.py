from __future__ import annotations

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import conv1d, gelu, pad

from glassformer.errors import ConfigError, ShapeError
from glassformer.nn.frames import FrameConfig, FrameEmbedding, whisper
from glassformer.nn.linear import initialise

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
def test_no_vector_hears_further_than_said(drawn: Drawn, j: int) -> None:
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
        ({"kernels": (3,)}, "1 kernels and 2 strides"),
        ({"kernels": (), "strides": ()}, "0 kernels"),
        ({"strides": (2, 4)}, "leave frames unheard"),
        ({"strides": (0, 2)}, "leave frames unheard"),
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
    with pytest.raises(ShapeError, match="frames of 3 bands came to an embedding of 80"):
        embed(frames(1, 5))
