"""Sound to text."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from glassformer.core import whisper_log_mel
from glassformer.core.positions import sinusoidal
from glassformer.errors import ConfigError, InputError, MaskError, ShapeError
from glassformer.models import Whisper, whisper
from glassformer.nn import Sinusoidal, Tap, heads

TARGET = torch.tensor([[2, 5, 7, 9], [2, 3, 3, 8]])


def sound(frames: int = 20, seed: int = 0) -> Tensor:
    return torch.randn(2, frames, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build() -> Whisper:
    model = Whisper(whisper.tiny(), seed=1).double().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 and name != "positions":
                weight.mul_(15)  # large enough that what is heard is seen
    return model


def test_the_published_size() -> None:
    """37.18 million weights, as published, beside 0.58 of sinusoids."""
    with torch.device("meta"):
        model = Whisper(whisper.tiny_en())
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert trained == 37_184_256
    assert model.positions.shape == (1500, 384)
    frames = torch.zeros(1, 3000, 80, device="meta")
    assert model(frames, torch.zeros(1, 3, dtype=torch.long, device="meta")).shape == (1, 3, 51864)


def test_sinusoids_stay() -> None:
    model = build()
    expected = sinusoidal(10, 12, layout="halves", divisor="d/2-1")
    torch.testing.assert_close(model.positions, expected.double(), rtol=0, atol=1e-7)
    model(sound(), TARGET).sum().backward()
    assert model.positions.grad is None
    assert all(weight.grad is not None for weight in model.parameters() if weight.requires_grad)


@torch.no_grad()
def test_keys_have_no_bias_and_the_head_is_the_table() -> None:
    model = build()
    assert all("WK.bias" not in name for name, _ in model.named_parameters())
    X = model.decoder.decode(TARGET, memory=model.encode(sound()).X)
    torch.testing.assert_close(model(sound(), TARGET), X @ model.decoder.embed.table.weight.T)
    assert Whisper(replace(whisper.tiny(), tied=False)).word_head.W is not None


@torch.no_grad()
def test_a_cache_says_the_same() -> None:
    model = build()
    memory, cache = model.encode(sound()), model.cache(4)
    steps = [model.decode(TARGET[:, t : t + 1], memory, cache=cache) for t in range(4)]
    torch.testing.assert_close(torch.cat(steps, 1), model(sound(), TARGET))


@torch.no_grad()
def test_company_changes_nothing() -> None:
    """Padded to a longer one's frames, a recording gives what it gives alone."""
    model = build()
    long, short = sound(20)[:1], sound(13, seed=1)[1:]
    both = torch.cat([long, torch.nn.functional.pad(short, (0, 0, 0, 7), value=9.0)])
    real = torch.arange(20) < torch.tensor([20, 13])[:, None]
    memory = model.encode(both, real)
    assert memory.real is not None
    assert memory.real.sum(1).tolist() == [10, 7]
    torch.testing.assert_close(memory.X[1:, :7], model.encode(short).X)
    together = model(both, TARGET, real)
    torch.testing.assert_close(together[:1], model(long, TARGET[:1]))
    torch.testing.assert_close(together[1:], model(short, TARGET[1:]))


@torch.no_grad()
def test_every_frame_is_heard_and_no_later_token() -> None:
    model = build()
    plain, later = model(sound(), TARGET), TARGET.clone()
    later[:, 3] = 11
    torch.testing.assert_close(model(sound(), later)[:, :3], plain[:, :3])
    for t in (0, 10, 19):
        other = sound()
        other[:, t] += 1
        assert not torch.allclose(model(other, TARGET), plain)


@torch.no_grad()
def test_from_a_wave() -> None:
    wave = torch.randn(160 * 20, generator=torch.Generator().manual_seed(0))
    config = whisper.plain(80, 12, 1, 3, vocabulary=20, places=10, length=12, start=2, end=1)
    assert Whisper(config)(whisper_log_mel(wave)[None], TARGET[:1]).shape == (1, 4, 20)


def test_seeds_copies_and_paths() -> None:
    before = torch.get_rng_state()
    one, same, other = (Whisper(whisper.tiny(), seed=seed).double() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one(sound(), TARGET), same(sound(), TARGET))
    assert not torch.equal(one(sound(), TARGET), other(sound(), TARGET))
    assert torch.equal(copy.deepcopy(one)(sound(), TARGET), one(sound(), TARGET))
    paths = dict(one.named_modules())
    wanted = ("X", "E", "embed.X", "encoder.1.attention.A", "decoder.0.cross.A", "decoder.embed.X")
    assert all(isinstance(paths[path], Tap) for path in wanted)


def test_configs_that_describe_no_model(refused) -> None:  # type: ignore[no-untyped-def]
    tiny = whisper.tiny()
    wide = "the embedding is 12 wide, the encoder's blocks 16: give both the encoder's width"
    wider = whisper.plain(6, 16, 1, 2, vocabulary=20, places=10, length=12, start=2, end=1)
    refused(ConfigError, wide, lambda: replace(tiny, block=wider.block))
    refused(ConfigError, "0 places of sinusoids 12 wide: choose", lambda: replace(tiny, places=0))
    learned = "the decoder has no learned positions: give it"
    refused(ConfigError, learned, lambda: replace(tiny, target=replace(tiny.target, positions=Sinusoidal())))
    memory = replace(tiny.target.block, cross=heads(12, 3, memory_width=8))
    refused(
        ConfigError,
        "the decoder does not attend to a memory 12 wide: give its block cross=",
        lambda: replace(tiny, target=replace(tiny.target, block=memory)),
    )


def test_inputs_that_do_not_fit(refused) -> None:  # type: ignore[no-untyped-def]
    model = build()
    long = "21 frames came to a model that hears 20 at once: cut the sound into windows"
    refused(ShapeError, long, lambda: model.encode(sound(21)))
    refused(ShapeError, "frames of shape (20, 6): give (batch", lambda: model.encode(sound()[0]))
    refused(ShapeError, "frames of 5 bands came to an embedding of 6", lambda: model.encode(sound()[..., :5]))
    real = torch.ones(2, 20, dtype=torch.bool)
    refused(ShapeError, "real is (2, 19) for frames of (2, 20, 6)", lambda: model.encode(sound(), real[:, 1:]))
    real[0, 4] = False
    refused(MaskError, "a recording has padding before its last frame", lambda: model.encode(sound(), real))
    refused(MaskError, "a recording has padding", lambda: model.encode(sound(), torch.zeros_like(real)))
    refused(ShapeError, "position 12 is beyond the 12 learned", lambda: model(sound(), TARGET.repeat(1, 4)[:, :13]))


@pytest.mark.parametrize("name", ["positions", "embed.convolutions.0.weight", "decoder.0.cross.WV.bias"])
def test_a_weight_that_is_not_a_number_is_named(name: str, refused) -> None:  # type: ignore[no-untyped-def]
    model = build()
    with torch.no_grad():
        model.get_parameter(name).view(-1)[0] = math.nan
    refused(InputError, f"weight {name} holds nan", lambda: model(sound(), TARGET))
