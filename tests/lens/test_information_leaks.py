"""Receptive fields and leaks: planted faults are found by name; models without one raise no alarm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from glassformer.core.masks import causal, chunked
from glassformer.errors import InputError, ShapeError
from glassformer.lens.leaks import Declared, LeakReport, find_leaks, leak_test
from glassformer.lens.receptive import change_of, receptive_field
from glassformer.models import (
    ConvNet1d,
    Decoder,
    Encoder,
    Frames,
    Recurrent,
    Speech,
    Tokens,
    convolutional_sequence,
    decoder,
    recurrent,
    speech,
)
from glassformer.models import encoder as text_encoder
from glassformer.nn import BlockConfig, FeedForwardConfig, Stack, View, heads
from glassformer.nn.linear import initialise
from glassformer.nn.streaming import Chunks

# Planted faults are found, each by its name; models without one raise no alarm, whatever their seed.


SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2)))


def frames_leaks(t: int = 24, f: int = 8, seed: int = 0) -> Tensor:
    return torch.randn(1, t, f, generator=torch.Generator().manual_seed(seed))


class Masked(nn.Module):
    """Blocks of attention under any mask (t) → (t, t)."""

    def __init__(self, mask, seed: int, depth: int = 2) -> None:  # type: ignore[no-untyped-def]
        super().__init__()
        block = BlockConfig(attention=heads(8, 2), ffn=FeedForwardConfig(width=8, hidden=16))
        self.stack, self.mask = Stack(block, depth), mask
        initialise(self, seed)

    def forward(self, X: Tensor) -> Tensor:
        return self.stack(X, View(mask=self.mask(X.shape[1])))


def kinds(report: LeakReport) -> list[str]:
    return [leak.kind for leak in report.leaks]


# ---- planted ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_an_off_by_one_in_a_causal_mask(seed: int) -> None:
    encoder = Masked(lambda t: causal(t) | torch.eye(t).roll(1, 1).triu().bool(), seed)
    report = find_leaks(encoder, frames_leaks(12))
    assert kinds(report) == ["lookahead"]
    assert report.ahead[:2] == (2, True)  # one frame ahead in each of two blocks
    assert report.latency[:2] == (3, True)
    assert report.leaks[0].text.startswith("output 0 depends on frame 2, 2 after all that is declared (changes it by ")
    assert report.leaks[0].text.endswith("11 outputs do so)")


@pytest.mark.parametrize("seed", SEEDS)
def test_an_off_by_one_in_a_chunked_mask(seed: int) -> None:
    """Only a chunk's last frame looks one frame too far: never farther than its chunk's first may."""

    def mask(t: int) -> Tensor:
        M = chunked(t, chunk=4)
        for last in range(3, t - 1, 4):
            M[last, last + 1] = True
        return M

    declared = Declared(chunk=4)
    report = find_leaks(Masked(mask, seed, depth=1), frames_leaks(16), declared=declared)
    assert kinds(report) == ["lookahead"]
    assert report.leaks[0].output == 3
    assert find_leaks(Masked(lambda t: chunked(t, chunk=4), seed), frames_leaks(16), declared=declared).clean


@pytest.mark.parametrize("seed", SEEDS)
def test_a_convolution_that_looks_ahead(seed: int) -> None:
    torch.manual_seed(seed)
    centred = nn.Conv1d(8, 4, 3, padding=1)
    report = find_leaks(lambda X: centred(X.mT).mT, frames_leaks(), seconds=0.01)
    assert kinds(report) == ["lookahead"]
    assert report.ahead[:2] == (1, True)
    assert report.latency_seconds == pytest.approx(0.02)
    assert find_leaks(lambda X: centred(X.mT).mT, frames_leaks(), declared=Declared(lookahead=1)).clean


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["by hand", "instance norm", "group norm"])
def test_a_normalisation_over_time(kind: str, seed: int) -> None:
    torch.manual_seed(seed)
    step = nn.Linear(8, 8)
    over_time = {
        "by hand": lambda Y: (Y - Y.mean(1, keepdim=True)) / Y.std(1, keepdim=True),
        "instance norm": lambda Y: nn.functional.instance_norm(Y.mT).mT,
        "group norm": lambda Y: nn.functional.group_norm(Y.mT, 2).mT,
    }[kind]
    report = find_leaks(lambda X: over_time(step(X)).tanh(), frames_leaks())
    assert kinds(report) == ["everything"]
    assert "normalisation over time" in report.leaks[0].text
    assert not report.ahead.bounded
    assert "23 frames or more" in str(report)


@pytest.mark.slow  # seconds of import
def test_the_published_feature_encoder_that_normalises_over_time() -> None:
    """wav2vec 2.0 (base) norms its first convolution over all time, its successor each position."""
    from transformers import Wav2Vec2Config
    from transformers.models.wav2vec2.modeling_wav2vec2 import Wav2Vec2FeatureEncoder

    wave = frames_leaks(40, 1)
    for norm, expected in (("group", ["everything"]), ("layer", [])):
        torch.manual_seed(0)
        config = Wav2Vec2Config(
            conv_dim=(8, 8), conv_kernel=(4, 3), conv_stride=(2, 2), feat_extract_norm=norm, num_feat_extract_layers=2
        )
        model = Wav2Vec2FeatureEncoder(config).eval()
        report = find_leaks(lambda X, model=model: model(X[..., 0]).mT, wave, declared=Declared(lookahead=4))
        assert kinds(report) == expected
        assert report.field.stride == 4
        if norm == "layer":
            assert report.ahead[:2] == (4, True)  # no padding: 8 samples make the first output


class Filter:
    """y_t = Σⱼ Wⱼ x_{t − j} of frames that come in pieces: k − 1 of them are kept, or `keeps`."""

    def __init__(self, seed: int, keeps: int = 3) -> None:
        self.W = torch.randn(5, 8, 4, generator=torch.Generator().manual_seed(seed))
        self.keeps = keeps

    def offline(self, X: Tensor) -> Tensor:
        return nn.functional.conv1d(pad(X.mT, (3, 0)), self.W).mT

    def stream(self, pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        past = torch.zeros(1, 3, 8)
        for piece in pieces:
            X = torch.cat([past, piece], 1)
            yield nn.functional.conv1d(X.mT, self.W).mT
            past = pad(X[:, X.shape[1] - self.keeps :], (0, 0, 3 - self.keeps, 0))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cache_that_loses_a_frame(seed: int) -> None:
    fault = Filter(seed, keeps=2)
    report = find_leaks(fault.offline, frames_leaks(), streaming=fault.stream, pieces=(5,))
    assert kinds(report) == ["stream"]
    assert report.leaks[0].output == 5  # the first that misses the frame, at the border of two pieces
    assert "fed 5 at a time, the stream first differs from offline at output 5 (frame 5, in piece 1)" in str(report)
    right = Filter(seed)
    report = find_leaks(right.offline, frames_leaks(), streaming=right.stream, pieces=(1, 5, 24))
    assert report.clean
    assert [s.waited for s in report.streamed] == [1, 5, None]


def test_a_stream_that_swallows_the_end() -> None:
    right = Filter(0)

    def swallows(pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        yield from list(right.stream(pieces))[:-1]

    report = find_leaks(right.offline, frames_leaks(), streaming=swallows, pieces=(5,))
    assert kinds(report) == ["stream"]
    assert "it gives 20 outputs where offline gives 24" in report.leaks[0].text
    assert report.leaks[0].output == 20


def test_an_output_that_knows_how_long_the_input_is() -> None:
    def timed(X: Tensor) -> Tensor:
        return X + torch.linspace(0, 1, X.shape[1])[:, None]  # positions as a share of the whole

    report = find_leaks(timed, frames_leaks())
    assert kinds(report) == ["length"]
    assert "when the input ends after 12 frames instead of 24" in report.leaks[0].text


def test_more_left_context_than_declared() -> None:
    right = Filter(0)
    report = find_leaks(right.offline, frames_leaks(), declared=Declared(left=2))
    assert kinds(report) == ["left"]
    assert "output 3 depends on frame 0, 1 before all that is declared" in report.leaks[0].text
    assert report.back[:2] == (3, True)
    assert find_leaks(right.offline, frames_leaks(), declared=Declared(left=3)).clean


# ---- no false alarm --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
def test_models_without_a_leak_raise_no_alarm(seed: int) -> None:
    torch.manual_seed(seed)
    deep = nn.Sequential(*(nn.Conv1d(8, 8, 3) for _ in range(6)))
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    torches = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    lstm = nn.LSTM(8, 6, num_layers=2, batch_first=True)
    down = nn.Conv1d(8, 6, 4, stride=2)

    def see(X: Tensor) -> Tensor:
        return torches(X, mask=nn.Transformer.generate_square_subsequent_mask(X.shape[1]), is_causal=True)

    for encoder, declared in (
        (Masked(causal, seed), Declared(lookahead=0)),
        (Masked(lambda t: chunked(t, chunk=4, left=4, right=2), seed), Declared(lookahead=6, left=8, chunk=4)),
        (lambda X: deep(pad(X.mT, (12, 0))).mT, Declared(left=12)),
        (see, Declared()),
        (lstm, Declared()),
        (lambda X: down(pad(X.mT, (2, 0))).mT, Declared(left=2)),
        (nn.LSTM(8, 6, batch_first=True, bidirectional=True), Declared(lookahead=None)),
    ):
        report = find_leaks(encoder, 3 * frames_leaks(20, seed=seed), declared=declared)
        assert report.clean, str(report)


@pytest.mark.parametrize("seed", SEEDS)
def test_recurrent_streams_of_torch(seed: int) -> None:
    torch.manual_seed(seed)
    gru = nn.GRU(8, 6, num_layers=2, batch_first=True)

    def stream(pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        state = None
        for piece in pieces:
            Y, state = gru(piece, state)
            yield Y

    def forgets(pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        return (gru(piece)[0] for piece in pieces)

    assert find_leaks(gru, frames_leaks(seed=seed), streaming=stream, pieces=(1, 4)).clean
    assert find_leaks(gru, frames_leaks(seed=seed), streaming=forgets, pieces=(4,)).leaks[0].output == 4


def test_a_report_reads_well() -> None:
    right = Filter(0)
    report = find_leaks(right.offline, frames_leaks(), streaming=right.stream, pieces=(4,), seconds=0.01)
    assert str(report).splitlines()[:7] == [
        "measured  24 frames → 24 outputs, 1 frame to each",
        "          by 3 perturbations of every frame and the gradient",
        "mode      as called, float32; changes above 7.6e-06 of the largest output count",
        "lengths   24, 48, 96, 192, 384 frames; the reach did not grow",
        "ahead     0 frames after its own (declared: 0 after its chunk of 1)",
        "back      3 frames before its own (declared: any)",
        "latency   1 frame, 0.01 s",
    ]
    assert "waits 4 frames\nclean     no dependence on inputs that are not declared" in str(report)


def test_leaks_mistakes() -> None:
    with pytest.raises(InputError, match="is not a valid receptive field"):
        Declared(lookahead=-1)
    with pytest.raises(InputError, match="is not a valid receptive field"):
        Declared(stride=0)
    with pytest.raises(InputError, match="chunks of 3 frames are not a multiple of the stride 2"):
        find_leaks(lambda X: X[:, ::2], frames_leaks(), declared=Declared(chunk=3))
    with pytest.raises(InputError, match="the chunk size is 0 frames"):
        find_leaks(nn.Identity(), frames_leaks(), streaming=iter, pieces=(0,))
    with pytest.raises(InputError, match=r"the stream failed when fed 5 frames at a time \(TypeError"):
        find_leaks(nn.Identity(), frames_leaks(), streaming=lambda pieces: (None + p for p in pieces), pieces=(5,))  # type: ignore[operator]


# ---- limits of the verdict -------------------------------------------------------------------------------------------


class Faint(nn.Module):
    """y_t = W x_t + 1e-6 · W x_{t+1}."""

    def __init__(self) -> None:
        super().__init__()
        self.W = nn.Linear(8, 4)

    def forward(self, X: Tensor) -> Tensor:
        return self.W(X) + 1e-6 * self.W(pad(X, (0, 0, 0, 1))[:, 1:])


def test_a_leak_of_a_millionth_is_found_in_float64() -> None:
    torch.manual_seed(0)
    report = find_leaks(Faint(), frames_leaks())
    assert kinds(report) == ["lookahead"]
    assert "mode      eval mode, float64; changes above 1.4e-14" in str(report)


@pytest.mark.parametrize(("distance", "lengths"), [(60, (24, 48, 96)), (200, (24, 48, 96, 192, 384))])
def test_a_leak_beyond_the_example_is_found_by_longer_inputs(distance: int, lengths: tuple[int, ...]) -> None:
    def far(X: Tensor) -> Tensor:
        return X + 0.1 * pad(X, (0, 0, 0, distance))[:, distance:]

    report = find_leaks(far, frames_leaks(24))
    assert kinds(report) == ["lookahead"]
    assert report.lengths == lengths
    assert f"in an input of {lengths[-1]} frames" in report.leaks[0].text
    assert not report.ahead.bounded
    assert distance - 30 < report.ahead.frames <= distance
    assert f"ahead     {report.ahead.frames} frames or more (in an input of {lengths[-1]})" in str(report)
    assert report.latency.frames == report.ahead.frames + 1


def test_left_context_beyond_the_example_is_found_by_longer_inputs() -> None:
    report = find_leaks(lambda X: X + X.roll(70, 1), frames_leaks(24), declared=Declared(lookahead=None, left=5))
    assert [leak.kind for leak in report.leaks if leak.kind != "length"]
    echo = lambda X: X + pad(X, (0, 0, 40, 0))[:, : X.shape[1]]
    assert find_leaks(echo, frames_leaks(24), declared=Declared(left=40)).clean


def test_instance_norm_with_running_statistics_in_training_mode_is_a_leak() -> None:
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.InstanceNorm1d(8, track_running_stats=True)

        def forward(self, X: Tensor) -> Tensor:
            return self.norm(X.mT).mT

    report = find_leaks(Normed(), frames_leaks())
    assert kinds(report) == ["training"]
    assert "instance norm norm is in training mode" in str(report)
    assert find_leaks(Normed().eval(), frames_leaks()).clean


def test_batch_norm_in_training_mode_is_a_leak() -> None:
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(8)

        def forward(self, X: Tensor) -> Tensor:
            return self.norm(X.mT).mT

    net = Normed()
    report = find_leaks(net, frames_leaks())
    assert kinds(report) == ["training"]
    assert "batch norm norm is in training mode" in str(report)
    assert net.training
    assert find_leaks(net.eval(), frames_leaks()).clean
    assert kinds(find_leaks(lambda X: net.train()(X), frames_leaks())) == [
        "everything"
    ]  # a function is tested as called


def test_the_reach_of_a_bidirectional_lstm_is_not_bounded_by_what_can_be_seen() -> None:
    torch.manual_seed(0)
    lstm = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
    for t, why in ((16, "to the edge of the example"), (70, "the effect fades below the tolerance")):
        report = find_leaks(lambda X: lstm(X), frames_leaks(t), declared=Declared(lookahead=None))  # in float32
        assert not report.ahead.bounded
        assert not report.back.bounded
        assert f"or more ({why})" in str(report)


# ---- our own models --------------------------------------------------------------------------------------------------

THREE, NINE = Frames(features=3), Tokens(vocabulary=9)


@pytest.mark.variants(3)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "make",
    [
        lambda seed: ConvNet1d(convolutional_sequence.tiny(THREE, 4), seed=seed),
        lambda seed: ConvNet1d(convolutional_sequence.tiny(NINE, 4, causal=False), seed=seed),
        lambda seed: Recurrent(recurrent.tiny(NINE, 4), seed=seed),
        lambda seed: Recurrent(recurrent.tiny(THREE, 4, cell="gru"), seed=seed),
        lambda seed: Decoder(decoder.tiny(), seed=seed),
        lambda seed: Decoder(decoder.tiny_modern(), seed=seed),
        lambda seed: Encoder(text_encoder.tiny(), seed=seed),
    ],
    ids=["causal", "centred", "lstm", "gru", "decoder", "modern decoder", "encoder"],
)
def test_our_models_keep_their_promises(make, seed: int) -> None:  # type: ignore[no-untyped-def]
    model = make(seed)
    report = leak_test(model, frames=20, seed=seed).run(pieces=(1, 3), seed=seed)
    assert report.clean, str(report)
    streams = isinstance(model, Decoder | Recurrent) or (isinstance(model, ConvNet1d) and model.config.causal)
    assert [s.piece for s in report.streamed] == ([1, 3] if streams else [])


def test_convolutions_hear_as_far_as_they_say() -> None:
    model = ConvNet1d(convolutional_sequence.tiny(THREE, 4))
    report = leak_test(model).run(pieces=(5,))
    assert report.back[:2] == (model.config.receptive_field - 1, True)
    assert report.ahead[:2] == (0, True)


@pytest.mark.slow
def test_speech_from_sound_to_logits() -> None:
    """Measured latency is the one that the config works out, and so is the stream's own wait."""
    model = Speech(speech.tiny(), seed=1)
    report = leak_test(model, seed=1).run(pieces=(1, 5), seed=1)
    assert report.clean, str(report)
    latency = model.config.latency
    assert report.latency[:2] == (latency.frames * 4, True)
    assert report.latency_seconds == pytest.approx(latency.seconds)
    assert report.streamed[0].waited == latency.frames * 4


@pytest.mark.slow
def test_a_speech_cache_that_loses_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    window = Chunks.window.fget
    monkeypatch.setattr(Chunks, "window", property(lambda self: window(self) - 1))
    report = leak_test(Speech(speech.tiny()), frames=40).run(pieces=(4,))
    assert {leak.kind for leak in report.leaks} == {"stream"}


def test_a_speech_mask_that_is_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask that shows one vector more than the config says, in both the stream and offline."""
    mask = Chunks.mask

    def wider(self: Chunks, *args: object, **more: object) -> Tensor:
        return mask(Chunks(chunk=self.chunk, left=self.left, right=self.right + 1), *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Chunks, "mask", wider)
    found = leak_test(Speech(speech.tiny()), frames=32)
    report = find_leaks(found.encoder, found.example, declared=found.declared)
    assert [leak.kind for leak in report.leaks] == ["lookahead"]


def test_a_decoder_cache_that_loses_a_token() -> None:
    model = Decoder(decoder.tiny(), seed=1)
    found = leak_test(model, frames=12)

    def loses(pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        cache = model.cache(12)
        for number, piece in enumerate(pieces):
            yield model(piece, cache=cache)
            if number == 1:
                for block in cache:
                    for part in block.own.kept():
                        part[:, :, 3] = 0

    report = find_leaks(model, found.example, streaming=loses, pieces=(3,))
    assert [(leak.kind, leak.output) for leak in report.leaks] == [("stream", 6)]


def test_models_that_cannot_be_tested() -> None:
    with pytest.raises(InputError, match="a Linear does not declare its receptive field"):
        leak_test(nn.Linear(2, 2))
    with pytest.raises(InputError, match="answers once, pooled by last"):
        leak_test(Recurrent(recurrent.tiny(NINE, 4, "last")))
    with pytest.raises(InputError, match="frames must be at least 4, got 0"):
        leak_test(Decoder(decoder.tiny()), frames=0)


def test_our_models_are_tested_in_float64() -> None:
    model = ConvNet1d(convolutional_sequence.tiny(THREE, 4))
    assert leak_test(model).example.dtype == torch.float64
    assert next(model.parameters()).dtype == torch.float32
    assert leak_test(model).run(pieces=(5,)).field.precision == "float64"


def frames_receptive(t: int = 24, f: int = 3, seed: int = 0, b: int = 1) -> Tensor:
    return torch.randn(b, t, f, generator=torch.Generator().manual_seed(seed))


def convolution(kernel: int, left: int, right: int, *, stride: int = 1, dilation: int = 1, seed: int = 0):  # type: ignore[no-untyped-def]
    g = torch.Generator().manual_seed(seed)
    W = torch.randn(4, 3, kernel, generator=g)
    return lambda X: nn.functional.conv1d(pad(X.mT, (left, right)), W, stride=stride, dilation=dilation).mT


def test_a_convolution_hears_its_taps_and_nothing_else() -> None:
    found = receptive_field(convolution(3, 4, 0, dilation=2), frames_receptive())
    expected = torch.zeros(24, 24, dtype=torch.bool)
    for j in range(24):
        for i in (j, j - 2, j - 4):
            if i >= 0:
                expected[j, i] = True
    assert torch.equal(found.depends, expected)  # holes and all
    assert not found.faint.any()
    assert found.first[10] == 6
    assert found.last[10] == 10
    assert found.probes == ("3 perturbations of every frame", "the gradient")


@pytest.mark.parametrize(("stride", "kernel"), [(2, 3), (4, 4), (3, 7), (4, 9)])
@pytest.mark.parametrize("padded", [True, False])
def test_strides_are_measured(stride: int, kernel: int, padded: bool) -> None:
    encoder = convolution(kernel, kernel - stride if padded else 0, 0, stride=stride)
    found = receptive_field(encoder, frames_receptive(50))
    assert found.stride == stride
    ahead = 0 if padded else kernel - stride
    assert max(last - (j + 1) * stride + 1 for j, last in enumerate(found.last)) == ahead


def test_progress_is_reported_frame_by_frame() -> None:
    told: list[tuple[int, int]] = []
    receptive_field(convolution(3, 2, 0), frames_receptive(6), progress=lambda done, total: told.append((done, total)))
    assert told == [(i, 6) for i in range(1, 7)]


def test_tokens_change_places() -> None:
    tokens = torch.randint(50, (2, 12), generator=torch.Generator().manual_seed(0))
    found = receptive_field(Decoder(decoder.tiny(), seed=1), tokens)
    assert torch.equal(found.depends, torch.ones(12, 12).tril().bool())
    assert found.probes == ("3 perturbations of every frame",)


def test_what_has_no_slope_is_found_by_change() -> None:
    def detached(X: Tensor) -> Tensor:
        return X + X.mean(1, keepdim=True).detach()

    assert receptive_field(detached, frames_receptive(8)).depends.all()
    assert not receptive_field(detached, frames_receptive(8)).faint.any()


def test_what_is_too_faint_is_found_by_slope() -> None:
    """Next to a million, a thousandth of the next frame is lost in rounding; its slope is not."""

    def whisper(X: Tensor) -> Tensor:
        return 1e6 + X + 1e-3 * pad(X, (0, 0, 0, 1))[:, 1:]

    found = receptive_field(whisper, frames_receptive(8))
    assert torch.equal(found.faint, torch.eye(8).roll(1, 1).triu().bool())
    assert torch.equal(found.depends, found.faint | torch.eye(8).bool())
    with_room = receptive_field(whisper, frames_receptive(8).double())
    assert torch.equal(with_room.depends, found.depends)
    assert not with_room.faint.any()


def test_modules_come_back_in_their_own_mode() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    model[0].eval()
    model[1].train()
    found = receptive_field(model, frames_receptive(6))  # dropout would be noise
    assert torch.equal(found.depends, torch.eye(6).bool())
    assert not model[0].training
    assert model[1].training
    assert all(weight.grad is None for weight in model.parameters())


def test_equal_infinities_are_no_change() -> None:
    a = torch.tensor([torch.inf, -torch.inf, 1.0, torch.inf])
    assert change_of(a, torch.tensor([torch.inf, -torch.inf, 3.0, 0.0])).tolist() == [0, 0, 2, torch.inf]


def test_a_model_that_makes_much_of_rounding_is_given_room() -> None:
    calm = receptive_field(nn.Identity(), frames_receptive(6))
    touchy = receptive_field(lambda X: (1e4 * X).sin(), frames_receptive(6))
    assert calm.tolerance < 1e-4
    assert 1e-3 < touchy.noise < touchy.tolerance / 15
    assert torch.equal(touchy.depends, torch.eye(6).bool())


def test_masked_logits_are_taken() -> None:
    def masked(X: Tensor) -> Tensor:
        return X.masked_fill(torch.tensor([False, True, False]), -torch.inf)

    assert torch.equal(receptive_field(masked, frames_receptive(6)).depends, torch.eye(6).bool())


def test_recurrent_layers_of_torch_give_their_states_too() -> None:
    torch.manual_seed(0)
    found = receptive_field(nn.LSTM(3, 4, batch_first=True), frames_receptive(10))
    assert torch.equal(found.depends, torch.ones(10, 10).tril().bool())


def test_receptive_mistakes() -> None:
    random = nn.Dropout(0.5)
    with pytest.raises(InputError, match="two runs of the encoder on the same input differ"):
        receptive_field(lambda X: random(X), frames_receptive(6))
    with pytest.raises(ShapeError, match=r"the example has shape \(6, 3\)"):
        receptive_field(nn.Identity(), torch.zeros(6, 3))
    with pytest.raises(InputError, match="all tokens of the example are the same"):
        receptive_field(Decoder(decoder.tiny()), torch.ones(1, 6, dtype=torch.long))
    with pytest.raises(InputError, match=r"failed on an input of shape \(1, 6, 3\) \(RuntimeError: mat1 and mat2"):
        receptive_field(nn.Linear(5, 2), frames_receptive(6))
    with pytest.raises(ShapeError, match=r"returned \(1, 3\) \(float32\) for an input of \(1, 6, 3\)"):
        receptive_field(lambda X: X.mean(1), frames_receptive(6))
    with pytest.raises(ShapeError, match="the encoder returned object"):
        receptive_field(lambda X: (object(),), frames_receptive(6))
    with pytest.raises(InputError, match="contains NaN"):
        receptive_field(lambda X: X * torch.nan, frames_receptive(6))
    with pytest.raises(InputError, match="not finite"):
        receptive_field(nn.Identity(), torch.full((1, 6, 3), torch.inf))
    with pytest.raises(InputError, match="stride is 0"):
        receptive_field(nn.Identity(), frames_receptive(6), stride=0)
    pooled = ConvNet1d(convolutional_sequence.tiny(Frames(features=3), 4))
    with pytest.raises(ShapeError, match=r"frames have shape \(1, 6, 2\)"):
        receptive_field(pooled, frames_receptive(6, 2))
