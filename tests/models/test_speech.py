from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core.audio import MelConfig, log_mel
from glassformer.errors import ConfigError, GlassError, InputError, ShapeError
from glassformer.models.speech import AT_ONCE, Speech, SpeechConfig, plain, small, tiny
from glassformer.nn import Alibi, Relative
from glassformer.nn.frames import FrameConfig, whisper
from glassformer.nn.streaming import Chunks

MEL = MelConfig(rate=1000, window=40, hop=16, bands=6, high=500.0)
RATE = MEL.rate
Sizes = tuple[int, int, int]
sizes = st.tuples(st.integers(1, 5), st.integers(0, 7), st.integers(0, 6))


def config_of(drawn: Sizes = (2, 3, 1), depth: int = 2, centred: bool = False, **changes: object) -> SpeechConfig:
    chunk, left, right = drawn
    config = plain(8, depth, 2, vocabulary=4, chunks=Chunks(chunk=chunk, left=left, right=right), mel=MEL)
    embed = whisper(MEL.bands, 8) if centred else FrameConfig(bands=MEL.bands, width=8)
    return dataclasses.replace(config, **{"embed": embed, **changes})


def build(config: SpeechConfig, dtype: torch.dtype = torch.float64) -> Speech:
    return Speech(config).to(dtype).eval()


def sound(n: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
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
    model, wave = build(config_of(drawn, depth, centred), dtype), sound(n, dtype=dtype)
    whole = offline(model, wave)
    torch.testing.assert_close(streamed(model, wave, pieces), whole, atol=within, rtol=0)
    assert len(whole) == model.rows(torch.tensor([math.ceil(n / MEL.hop)])).item()


@pytest.mark.parametrize("positions", [Alibi(heads=2), Relative(heads=2, kind="clipped", limit=4)])
def test_with_a_relative_bias_too(positions: Alibi | Relative) -> None:
    model, wave = build(config_of(positions=positions)), sound(1300)
    torch.testing.assert_close(streamed(model, wave, [300, 7, 500]), offline(model, wave), atol=1e-10, rtol=0)


def test_sample_by_sample_and_all_at_once() -> None:
    model, wave = build(config_of((1, 3, 0), depth=1)), sound(MEL.hop * 4 * (AT_ONCE + 10) + 5)
    whole = offline(model, wave)
    torch.testing.assert_close(streamed(model, wave, []), whole, atol=1e-10, rtol=0)
    start = wave[:201]
    torch.testing.assert_close(streamed(model, start, [1] * 201), offline(model, start), atol=1e-10, rtol=0)


def test_at_the_published_frames_too() -> None:
    model, wave = Speech(tiny()).eval(), sound(16_001, dtype=torch.float32)
    assert len(offline(model, wave)) == 26
    torch.testing.assert_close(streamed(model, wave, [4000, 1, 160]), offline(model, wave), atol=1e-5, rtol=0)


def test_the_last_sound_is_not_cut_off() -> None:
    """Sound in the last few samples alone shows in the last row, streaming or not."""
    model, wave = build(config_of((4, 8, 2))), sound(1003)
    cut = wave.clone()
    cut[-3:] = 0
    for hear in (offline, lambda m, w: streamed(m, w, [500])):
        with_it, without = hear(model, wave), hear(model, cut)
        assert len(with_it) == math.ceil(1003 / MEL.hop / 4)
        assert not torch.allclose(with_it[-1], without[-1], atol=1e-9, rtol=0)


# ---- latency ---------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(drawn=sizes, depth=st.integers(1, 3), centred=st.booleans(), t=st.integers(0, 9))
def test_no_row_hears_a_sample_after_its_horizon(drawn: Sizes, depth: int, centred: bool, t: int) -> None:
    """Nor does it wait for one: a stream gives it with its last sample. And the bound is tight."""
    config = config_of(drawn, depth, centred)
    model, last = build(config), config.horizon(t)
    wave = sound(last + 200)
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
    model, wave = build(config_of((1, 5, 0))), sound(1000)
    changed = wave.clone()
    changed[i:] -= 0.4
    known = i // (MEL.hop * 4)
    here, there = offline(model, wave), offline(model, changed)
    torch.testing.assert_close(here[:known], there[:known], atol=1e-13, rtol=0)
    assert not torch.allclose(here[known], there[known], atol=1e-13, rtol=0)


def test_what_a_stream_keeps_does_not_grow() -> None:
    """Nor what a chunk costs: chunks of 192 samples, the tenth as much as the fortieth."""
    model = build(config_of((3, 5, 2)))
    stream, costs = model.stream(rate=RATE), []
    for i in range(40):
        with FlopCounterMode(display=False) as counter:
            rows = len(stream.feed(sound(192, seed=i)))
        costs.append((rows, stream.held, counter.get_total_flops()))
    assert costs[9] == costs[39]
    assert costs[9][0] == 3
    assert costs[9][2] > 0


# ---- batches, loss, gradients ----------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(sizes, st.lists(st.integers(1, 60), min_size=2, max_size=4), st.booleans())
def test_a_padded_batch_equals_one_by_one(drawn: Sizes, lengths: list[int], centred: bool) -> None:
    model = build(config_of(drawn, centred=centred))
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
    model = build(config_of())
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
    model, wave = build(config_of()), sound(900).requires_grad_()
    frames = log_mel(wave[None], MEL, rate=RATE)
    loss = model.loss(frames, torch.tensor([frames.shape[1]]), torch.tensor([[1, 3, 3]]), torch.tensor([3]))
    loss.backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    # a key's bias moves all scores of a row alike, and a softargmax does not see it, but for rotary's turning
    assert still == []
    assert wave.grad is not None
    assert torch.isfinite(wave.grad).all()
    assert wave.grad[-5:].abs().sum() > 0


def test_it_learns_which_tones_it_hears() -> None:
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


def test_a_bad_piece_is_refused_and_the_stream_goes_on() -> None:
    model, wave = build(config_of()), sound(800)
    stream = model.stream(rate=RATE)
    out = [stream.feed(wave[:300])]
    bad: list[tuple[Tensor, type[GlassError], str]] = [
        (torch.tensor([0.1, math.nan]), InputError, "sample 1 is nan"),
        (torch.zeros(2, 100), ShapeError, r"\(2, 100\) came to a stream: feed one channel"),
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


def test_nothing_heard_nothing_said() -> None:
    assert build(config_of()).stream(rate=RATE).finish().shape == (0, 5)


def test_streams_of_the_wrong_kind_are_errors() -> None:
    with pytest.raises(InputError, match="44100 samples a second"):
        Speech(tiny()).stream(rate=44100)
    with pytest.raises(InputError, match=r"eval\(\)"):
        Speech(plain(8, 1, 2, vocabulary=2, chunks=Chunks(chunk=1, left=1), dropout=0.1)).stream()


@pytest.mark.parametrize(
    ("frames", "lengths", "kind", "says"),
    [
        (torch.full((1, 9, 6), math.nan), None, InputError, "band 0 of frame 0 of recording 0 is nan"),
        (torch.zeros(9, 6), None, ShapeError, r"frames of shape \(9, 6\)"),
        (torch.zeros(1, 0, 6), None, ShapeError, "at least one frame"),
        (torch.zeros(1, 9, 7), None, ShapeError, "7 bands came to an embedding of 6"),
        (torch.zeros(2, 9, 6), [9, 0], ShapeError, r"lengths \[9, 0\] for 2 recordings of up to 9"),
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
        ([1, 1, 1], 3, InputError, "target 0 needs 5 rows and its sound gives 3"),
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
    model = build(config_of())
    with torch.no_grad():
        model.encoder.get_submodule("1").ffn.W1.weight[0, 0] = math.nan
    with pytest.raises(InputError, match=r"encoder\.1\.ffn\.W1\.weight"):
        streamed(model, sound(900), [])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mel": MelConfig()}, "frames of 80 bands, and an embedding of 6"),
        ({"embed": FrameConfig(bands=6, width=4)}, "4 wide, the blocks 8"),
        ({"vocabulary": 0}, "a vocabulary of 0"),
        ({"depth": 0}, "a stack of 0 blocks"),
    ],
)
def test_a_config_that_describes_no_model_is_an_error(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Speech(config_of(**changes))  # type: ignore[arg-type]


def test_cross_attention_has_no_place_here() -> None:
    block = dataclasses.replace(config_of().block, cross=config_of().block.attention)
    with pytest.raises(ConfigError, match="cross-attention"):
        config_of(block=block)
