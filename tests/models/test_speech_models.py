"""Streaming CTC encoders and Whisper: streams equal the offline pass, look-ahead, caches, invalid arguments."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core import whisper_log_mel
from glassformer.core.audio import MelConfig, log_mel
from glassformer.core.positions import sinusoidal
from glassformer.errors import ConfigError, GlassError, InputError, MaskError, ShapeError
from glassformer.models import Whisper, whisper
from glassformer.models.speech import AT_ONCE, Speech, SpeechConfig, plain, small, tiny
from glassformer.nn import Alibi, Relative, Sinusoidal, Tap, heads
from glassformer.nn.frames import FrameConfig
from glassformer.nn.frames import whisper as whisper_frames
from glassformer.nn.streaming import Chunks

MEL = MelConfig(rate=1000, window=40, hop=16, bands=6, high=500.0)
RATE = MEL.rate
Sizes = tuple[int, int, int]
sizes = st.tuples(st.integers(1, 5), st.integers(0, 7), st.integers(0, 6))


def config_of(drawn: Sizes = (2, 3, 1), depth: int = 2, centred: bool = False, **changes: object) -> SpeechConfig:
    chunk, left, right = drawn
    config = plain(8, depth, 2, vocabulary=4, chunks=Chunks(chunk=chunk, left=left, right=right), mel=MEL)
    embed = whisper_frames(MEL.bands, 8) if centred else FrameConfig(bands=MEL.bands, width=8)
    return dataclasses.replace(config, **{"embed": embed, **changes})


def build_speech(config: SpeechConfig, dtype: torch.dtype = torch.float64) -> Speech:
    return Speech(config).to(dtype).eval()


def sound_speech(n: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    noise = torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (0.3 * torch.sin(torch.arange(n) / 3) + 0.1 * noise).to(dtype)


@torch.no_grad()
def offline(model: Speech, wave: Tensor) -> Tensor:
    return model(log_mel(wave[None], model.config.mel, rate=model.config.mel.rate))[0]


def streamed(model: Speech, wave: Tensor, pieces: list[int]) -> Tensor:
    stream, out, fed = model.stream(rate=model.config.mel.rate), [], 0
    for size in [*pieces, len(wave)]:
        out.append(stream.feed(wave[fed : fed + size]))
        fed = min(len(wave), fed + size)
    return torch.cat([*out, stream.finish()])


# ---- streaming is the offline pass -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@settings(max_examples=25)
@given(
    drawn=sizes,
    n=st.integers(1, 1500),
    pieces=st.lists(st.integers(0, 400), max_size=8),
    depth=st.integers(1, 3),
    centred=st.booleans(),
)
def test_a_stream_equals_the_offline_pass(
    dtype: torch.dtype, within: float, drawn: Sizes, n: int, pieces: list[int], depth: int, centred: bool
) -> None:
    model, wave = build_speech(config_of(drawn, depth, centred), dtype), sound_speech(n, dtype=dtype)
    whole = offline(model, wave)
    torch.testing.assert_close(streamed(model, wave, pieces), whole, atol=within, rtol=0)
    assert len(whole) == model.rows(torch.tensor([math.ceil(n / MEL.hop)])).item()


@pytest.mark.parametrize("positions", [Alibi(heads=2), Relative(heads=2, kind="clipped", limit=4)])
def test_with_a_relative_bias_too(positions: Alibi | Relative) -> None:
    model, wave = build_speech(config_of(positions=positions)), sound_speech(1300)
    torch.testing.assert_close(streamed(model, wave, [300, 7, 500]), offline(model, wave), atol=1e-10, rtol=0)


def test_streaming_sample_by_sample_equals_one_pass() -> None:
    model, wave = build_speech(config_of((1, 3, 0), depth=1)), sound_speech(MEL.hop * 4 * (AT_ONCE + 10) + 5)
    whole = offline(model, wave)
    torch.testing.assert_close(streamed(model, wave, []), whole, atol=1e-10, rtol=0)
    start = wave[:201]
    torch.testing.assert_close(streamed(model, start, [1] * 201), offline(model, start), atol=1e-10, rtol=0)


def test_at_the_published_frames_too() -> None:
    model, wave = Speech(tiny()).eval(), sound_speech(16_001, dtype=torch.float32)
    assert len(offline(model, wave)) == 26
    torch.testing.assert_close(streamed(model, wave, [4000, 1, 160]), offline(model, wave), atol=1e-5, rtol=0)


def test_the_last_sound_is_not_cut_off() -> None:
    """Sound in the last few samples alone shows in the last row, streaming or not."""
    model, wave = build_speech(config_of((4, 8, 2))), sound_speech(1003)
    cut = wave.clone()
    cut[-3:] = 0
    for hear in (offline, lambda m, w: streamed(m, w, [500])):
        with_it, without = hear(model, wave), hear(model, cut)
        assert len(with_it) == math.ceil(1003 / MEL.hop / 4)
        assert not torch.allclose(with_it[-1], without[-1], atol=1e-9, rtol=0)


# ---- latency ---------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(drawn=sizes, depth=st.integers(1, 3), centred=st.booleans(), t=st.integers(0, 9))
def test_rows_depend_on_no_sample_after_their_horizon(drawn: Sizes, depth: int, centred: bool, t: int) -> None:
    """Nor does it wait for one: a stream gives it with its last sample. And the bound is tight."""
    config = config_of(drawn, depth, centred)
    model, last = build_speech(config), config.horizon(t)
    wave = sound_speech(last + 200)
    later, before = wave.clone(), wave.clone()
    later[last:] += 0.5
    before[last - MEL.hop : last] += 0.5
    row = offline(model, wave)[t]
    torch.testing.assert_close(offline(model, later)[t], row, atol=1e-13, rtol=0)
    assert not torch.allclose(offline(model, before)[t], row, atol=1e-13, rtol=0)
    stream = model.stream(rate=RATE)
    given = len(stream.feed(wave[: last - 1]))
    assert given <= t < given + len(stream.feed(wave[last - 1 : last]))


@given(drawn=sizes, depth=st.integers(1, 4), centred=st.booleans())
def test_latency_is_the_longest_wait(drawn: Sizes, depth: int, centred: bool) -> None:
    config = config_of(drawn, depth, centred)
    waits = [config.horizon(t) / RATE - t * config.seconds for t in range(4 * drawn[0])]
    assert config.latency.seconds == pytest.approx(max(waits))
    ahead = config.embed.ahead * MEL.hop / RATE
    assert config.latency.frames * config.seconds == pytest.approx(config.latency.seconds - ahead)


def test_latency_in_numbers() -> None:
    """Letters of the plain model stand for 40 ms each."""
    chunks = lambda chunk, right: plain(8, 3, 2, vocabulary=1, chunks=Chunks(chunk=chunk, left=9, right=right))
    assert chunks(1, 0).latency == (1, 0.04)
    assert chunks(16, 0).latency == (16, pytest.approx(0.64))
    assert chunks(4, 4).latency == (16, pytest.approx(0.64))
    assert chunks(4, 1).latency == (13, pytest.approx(0.52))
    assert Speech(tiny()).stream().latency == tiny().latency


@given(st.integers(0, 999))
@settings(max_examples=30)
def test_causal_with_chunks_of_one(i: int) -> None:
    model, wave = build_speech(config_of((1, 5, 0))), sound_speech(1000)
    changed = wave.clone()
    changed[i:] -= 0.4
    known = i // (MEL.hop * 4)
    here, there = offline(model, wave), offline(model, changed)
    torch.testing.assert_close(here[:known], there[:known], atol=1e-13, rtol=0)
    assert not torch.allclose(here[known], there[known], atol=1e-13, rtol=0)


def test_what_a_stream_keeps_does_not_grow() -> None:
    """Nor what a chunk costs: chunks of 192 samples, the tenth as much as the fortieth."""
    model = build_speech(config_of((3, 5, 2)))
    stream, costs = model.stream(rate=RATE), []
    for i in range(40):
        with FlopCounterMode(display=False) as counter:
            rows = len(stream.feed(sound_speech(192, seed=i)))
        costs.append((rows, stream.stored_values, counter.get_total_flops()))
    assert costs[9] == costs[39]
    assert costs[9][0] == 3
    assert costs[9][2] > 0


# ---- batches, loss, gradients ----------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(sizes, st.lists(st.integers(1, 60), min_size=2, max_size=4), st.booleans())
def test_a_padded_batch_equals_one_by_one(drawn: Sizes, lengths: list[int], centred: bool) -> None:
    model = build_speech(config_of(drawn, centred=centred))
    frames = torch.randn(len(lengths), max(lengths), MEL.bands, generator=torch.Generator().manual_seed(0)).double()
    for row, n in enumerate(lengths):
        frames[row, n:] = math.nan  # whatever stands there
    together = model(frames, torch.tensor(lengths))
    rows = model.rows(torch.tensor(lengths)).tolist()
    for i, n in enumerate(lengths):
        alone = model(frames[i : i + 1, :n])[0]
        torch.testing.assert_close(together[i, : rows[i]], alone, atol=1e-10, rtol=0)


def test_the_loss_is_that_of_all_alignments_together() -> None:
    """Every path over the rows that collapses to the target, by enumeration."""
    model = build_speech(config_of())
    frames = torch.randn(2, 18, MEL.bands, generator=torch.Generator().manual_seed(1)).double()
    lengths, targets, sizes_ = torch.tensor([18, 11]), torch.tensor([[2, 2, 0], [1, 0, 0]]), torch.tensor([2, 1])
    ours = model.loss(frames, lengths, targets, sizes_)
    logp = model(frames, lengths).log_softmax(-1).tolist()
    each = []
    for i, (rows, s) in enumerate([(5, 2), (3, 1)]):
        total = 0.0
        for path in itertools.product(range(5), repeat=rows):
            collapsed = [symbol for symbol, _ in itertools.groupby(path) if symbol != 0]
            if collapsed == targets[i, :s].tolist():
                total += math.exp(sum(logp[i][t][symbol] for t, symbol in enumerate(path)))
        each.append(-math.log(total) / s)
    assert ours.item() == pytest.approx(sum(each) / 2, abs=1e-10)


def test_gradients_reach_every_weight_and_the_sound() -> None:
    model, wave = build_speech(config_of()), sound_speech(900).requires_grad_()
    frames = log_mel(wave[None], MEL, rate=RATE)
    loss = model.loss(frames, torch.tensor([frames.shape[1]]), torch.tensor([[1, 3, 3]]), torch.tensor([3]))
    loss.backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    # a key's bias moves all scores of a row alike, and a softargmax does not see it, but for rotary's turning
    assert still == []
    assert wave.grad is not None
    assert torch.isfinite(wave.grad).all()
    assert wave.grad[-5:].abs().sum() > 0


def test_it_learns_to_recognise_tones() -> None:
    model = Speech(config_of((2, 4, 0), depth=1), seed=1)
    orders = [[1, 2], [2, 1], [1], [2]]
    tone = {1: 60.0, 2: 300.0}
    time = torch.arange(400) / RATE
    waves = [torch.cat([torch.sin(2 * math.pi * tone[symbol] * time) for symbol in order]) for order in orders]
    frames = [log_mel(wave, MEL, rate=RATE) for wave in waves]
    lengths = torch.tensor([len(part) for part in frames])
    batch = torch.nn.utils.rnn.pad_sequence(frames, batch_first=True)
    targets = torch.tensor([order + [0] * (2 - len(order)) for order in orders])
    counts = torch.tensor([len(order) for order in orders])
    optimiser = torch.optim.Adam(model.parameters(), 2e-2)
    for _ in range(60):
        optimiser.zero_grad()
        loss = model.loss(batch, lengths, targets, counts)
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.1
    for wave, order in zip(waves, orders, strict=True):
        best = streamed(model, wave, [100, 250]).argmax(-1).tolist()
        assert [symbol for symbol, _ in itertools.groupby(best) if symbol] == order


# ---- sizes, seeds, errors --------------------------------------------------------------------------------------------


def test_sizes_and_seeds() -> None:
    with torch.device("meta"):
        count = sum(p.numel() for p in Speech(small()).parameters())
    assert 5e6 < count < 10e6
    state = torch.random.get_rng_state()
    one, same, other = Speech(tiny(), seed=1), Speech(tiny(), seed=1), Speech(tiny(), seed=2)
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.equal(one.head.weight, same.head.weight)
    assert not torch.equal(one.head.weight, other.head.weight)


def test_a_stream_continues_after_a_rejected_chunk() -> None:
    model, wave = build_speech(config_of()), sound_speech(800)
    stream = model.stream(rate=RATE)
    out = [stream.feed(wave[:300])]
    bad: list[tuple[Tensor, type[GlassError], str]] = [
        (torch.tensor([0.1, math.nan]), InputError, "sample 1 is nan"),
        (torch.zeros(2, 100), ShapeError, r"the audio has shape \(2, 100\): give one channel"),
        (torch.zeros(100, dtype=torch.int16), InputError, "int16"),
    ]
    for piece, kind, says in bad:
        with pytest.raises(kind, match=says):
            stream.feed(piece)
    out += [stream.feed(wave[:0]), stream.feed(wave[300:]), stream.finish()]
    torch.testing.assert_close(torch.cat(out), offline(model, wave), atol=1e-10, rtol=0)
    with pytest.raises(InputError, match="finished"):
        stream.feed(wave)
    with pytest.raises(InputError, match="finished"):
        stream.finish()


def test_a_stream_without_samples_returns_no_rows() -> None:
    assert build_speech(config_of()).stream(rate=RATE).finish().shape == (0, 5)


def test_streams_of_the_wrong_kind_are_errors() -> None:
    with pytest.raises(InputError, match="44100 samples per second"):
        Speech(tiny()).stream(rate=44100)
    with pytest.raises(InputError, match=r"eval\(\)"):
        Speech(plain(8, 1, 2, vocabulary=2, chunks=Chunks(chunk=1, left=1), dropout=0.1)).stream()


@pytest.mark.parametrize(
    ("frames", "lengths", "kind", "says"),
    [
        (torch.full((1, 9, 6), math.nan), None, InputError, "band 0 of frame 0 of recording 0 is nan"),
        (torch.zeros(9, 6), None, ShapeError, r"frames have shape \(9, 6\)"),
        (torch.zeros(1, 0, 6), None, ShapeError, "at least one frame"),
        (torch.zeros(1, 9, 7), None, ShapeError, "7 bands, the embedding expects 6"),
        (torch.zeros(2, 9, 6), [9, 0], ShapeError, r"lengths are \[9, 0\] for 2 recordings of up to 9"),
        (torch.zeros(2, 9, 6), [10, 9], ShapeError, "lengths"),
        (torch.zeros(2, 9, 6), [9], ShapeError, "lengths"),
    ],
)
def test_bad_frames_are_errors(frames: Tensor, lengths: list[int] | None, kind: type[GlassError], says: str) -> None:
    with pytest.raises(kind, match=says):
        Speech(config_of())(frames, None if lengths is None else torch.tensor(lengths))


@pytest.mark.parametrize(
    ("target", "length", "kind", "says"),
    [
        ([1, 1, 1], 3, InputError, "target 0 needs 5 rows and its audio gives 3"),
        ([1, 0, 1], 3, InputError, "goes from 0 to 1: symbols are 1 to 4"),
        ([1, 5, 1], 2, InputError, "goes from 1 to 5"),
        ([1], 2, ShapeError, "target 0 has 2 of 1 symbols"),
    ],
)
def test_bad_targets_are_errors(target: list[int], length: int, kind: type[GlassError], says: str) -> None:
    with pytest.raises(kind, match=says):
        Speech(config_of()).loss(
            torch.zeros(1, 12, 6), torch.tensor([12]), torch.tensor([target]), torch.tensor([length])
        )


def test_a_broken_weight_is_named() -> None:
    model = build_speech(config_of())
    with torch.no_grad():
        model.encoder.get_submodule("1").ffn.W1.weight[0, 0] = math.nan
    with pytest.raises(InputError, match=r"encoder\.1\.ffn\.W1\.weight"):
        streamed(model, sound_speech(900), [])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mel": MelConfig()}, "mel has 80 bands, but embed has 6"),
        ({"embed": FrameConfig(bands=6, width=4)}, "4 wide, the blocks 8"),
        ({"vocabulary": 0}, "vocabulary must be at least 1, got 0"),
        ({"depth": 0}, "depth must be at least 1"),
    ],
)
def test_a_config_that_describes_no_model_is_an_error(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Speech(config_of(**changes))  # type: ignore[arg-type]


def test_cross_attention_has_no_place_here() -> None:
    block = dataclasses.replace(config_of().block, cross=config_of().block.attention)
    with pytest.raises(ConfigError, match="cross-attention"):
        config_of(block=block)


# Sound to text.


TARGET = torch.tensor([[2, 5, 7, 9], [2, 3, 3, 8]])


def sound_whisper(frames: int = 20, seed: int = 0) -> Tensor:
    return torch.randn(2, frames, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build_whisper() -> Whisper:
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
    model = build_whisper()
    expected = sinusoidal(10, 12, layout="halves", divisor="d/2-1")
    torch.testing.assert_close(model.positions, expected.double(), rtol=0, atol=1e-7)
    model(sound_whisper(), TARGET).sum().backward()
    assert model.positions.grad is None
    assert all(weight.grad is not None for weight in model.parameters() if weight.requires_grad)


@torch.no_grad()
def test_keys_have_no_bias_and_the_head_is_the_table() -> None:
    model = build_whisper()
    assert all("WK.bias" not in name for name, _ in model.named_parameters())
    X = model.decoder.decode(TARGET, memory=model.encode(sound_whisper()).X)
    torch.testing.assert_close(model(sound_whisper(), TARGET), X @ model.decoder.embed.table.weight.T)
    assert Whisper(replace(whisper.tiny(), tied=False)).word_head.W is not None


@torch.no_grad()
def test_cached_decoding_equals_one_pass() -> None:
    model = build_whisper()
    memory, cache = model.encode(sound_whisper()), model.cache(4)
    steps = [model.decode(TARGET[:, t : t + 1], memory, cache=cache) for t in range(4)]
    torch.testing.assert_close(torch.cat(steps, 1), model(sound_whisper(), TARGET))


@torch.no_grad()
def test_company_changes_nothing() -> None:
    """Padded to a longer one's frames, a recording gives what it gives alone."""
    model = build_whisper()
    long, short = sound_whisper(20)[:1], sound_whisper(13, seed=1)[1:]
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
def test_logits_depend_on_every_frame_and_on_no_later_token() -> None:
    model = build_whisper()
    plain, later = model(sound_whisper(), TARGET), TARGET.clone()
    later[:, 3] = 11
    torch.testing.assert_close(model(sound_whisper(), later)[:, :3], plain[:, :3])
    for t in (0, 10, 19):
        other = sound_whisper()
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
    assert torch.equal(one(sound_whisper(), TARGET), same(sound_whisper(), TARGET))
    assert not torch.equal(one(sound_whisper(), TARGET), other(sound_whisper(), TARGET))
    assert torch.equal(copy.deepcopy(one)(sound_whisper(), TARGET), one(sound_whisper(), TARGET))
    paths = dict(one.named_modules())
    wanted = ("X", "E", "embed.X", "encoder.1.attention.A", "decoder.0.cross.A", "decoder.embed.X")
    assert all(isinstance(paths[path], Tap) for path in wanted)


def test_configs_that_describe_no_model(refused) -> None:  # type: ignore[no-untyped-def]
    tiny = whisper.tiny()
    wide = "the embedding is 12 wide, the encoder's blocks 16: give both the encoder's width"
    wider = whisper.plain(6, 16, 1, 2, vocabulary=20, places=10, length=12, start=2, end=1)
    refused(ConfigError, wide, lambda: replace(tiny, block=wider.block))
    refused(ConfigError, "there are 0 sinusoidal positions of width 12: choose", lambda: replace(tiny, places=0))
    learned = "the decoder has no learned positions: give it"
    refused(ConfigError, learned, lambda: replace(tiny, target=replace(tiny.target, positions=Sinusoidal())))
    memory = replace(tiny.target.block, cross=heads(12, 3, memory_width=8))
    refused(
        ConfigError,
        "the decoder's cross-attention does not take a memory of width 12: give its block cross=",
        lambda: replace(tiny, target=replace(tiny.target, block=memory)),
    )


def test_inputs_that_do_not_fit(refused) -> None:  # type: ignore[no-untyped-def]
    model = build_whisper()
    long = "21 frames exceed the model's window of 20: split the audio into windows"
    refused(ShapeError, long, lambda: model.encode(sound_whisper(21)))
    refused(ShapeError, "frames have shape (20, 6): give (batch", lambda: model.encode(sound_whisper()[0]))
    refused(
        ShapeError, "the frames have 5 bands, the embedding expects 6", lambda: model.encode(sound_whisper()[..., :5])
    )
    real = torch.ones(2, 20, dtype=torch.bool)
    refused(ShapeError, "real is (2, 19) for frames of (2, 20, 6)", lambda: model.encode(sound_whisper(), real[:, 1:]))
    real[0, 4] = False
    refused(MaskError, "a recording has padding before its last frame", lambda: model.encode(sound_whisper(), real))
    refused(MaskError, "a recording has padding", lambda: model.encode(sound_whisper(), torch.zeros_like(real)))
    refused(
        ShapeError, "position 12 is beyond the 12 learned", lambda: model(sound_whisper(), TARGET.repeat(1, 4)[:, :13])
    )


@pytest.mark.parametrize("name", ["positions", "embed.convolutions.0.weight", "decoder.0.cross.WV.bias"])
def test_a_weight_that_is_not_a_number_is_named(name: str, refused) -> None:  # type: ignore[no-untyped-def]
    model = build_whisper()
    with torch.no_grad():
        model.get_parameter(name).view(-1)[0] = math.nan
    refused(InputError, f"weight {name} is nan", lambda: model(sound_whisper(), TARGET))
