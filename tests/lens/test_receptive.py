from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from glassformer.errors import InputError, ShapeError
from glassformer.lens.receptive import change_of, receptive_field
from glassformer.models import ConvNet1d, Decoder, Frames, convolutional_sequence, decoder


def frames(t: int = 24, f: int = 3, seed: int = 0, b: int = 1) -> Tensor:
    return torch.randn(b, t, f, generator=torch.Generator().manual_seed(seed))


def convolution(kernel: int, left: int, right: int, *, stride: int = 1, dilation: int = 1, seed: int = 0):  # type: ignore[no-untyped-def]
    g = torch.Generator().manual_seed(seed)
    W = torch.randn(4, 3, kernel, generator=g)
    return lambda X: nn.functional.conv1d(pad(X.mT, (left, right)), W, stride=stride, dilation=dilation).mT


def test_a_convolution_hears_its_taps_and_nothing_else() -> None:
    found = receptive_field(convolution(3, 4, 0, dilation=2), frames())
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
    found = receptive_field(encoder, frames(50))
    assert found.stride == stride
    ahead = 0 if padded else kernel - stride
    assert max(last - (j + 1) * stride + 1 for j, last in enumerate(found.last)) == ahead


def test_progress_is_told_frame_by_frame() -> None:
    told: list[tuple[int, int]] = []
    receptive_field(convolution(3, 2, 0), frames(6), progress=lambda done, total: told.append((done, total)))
    assert told == [(i, 6) for i in range(1, 7)]


def test_tokens_change_places() -> None:
    tokens = torch.randint(50, (2, 12), generator=torch.Generator().manual_seed(0))
    found = receptive_field(Decoder(decoder.tiny(), seed=1), tokens)
    assert torch.equal(found.depends, torch.ones(12, 12).tril().bool())
    assert found.probes == ("3 perturbations of every frame",)


def test_what_has_no_slope_is_found_by_change() -> None:
    def detached(X: Tensor) -> Tensor:
        return X + X.mean(1, keepdim=True).detach()

    assert receptive_field(detached, frames(8)).depends.all()
    assert not receptive_field(detached, frames(8)).faint.any()


def test_what_is_too_faint_is_found_by_slope() -> None:
    """Next to a million, a thousandth of the next frame is lost in rounding; its slope is not."""

    def whisper(X: Tensor) -> Tensor:
        return 1e6 + X + 1e-3 * pad(X, (0, 0, 0, 1))[:, 1:]

    found = receptive_field(whisper, frames(8))
    assert torch.equal(found.faint, torch.eye(8).roll(1, 1).triu().bool())
    assert torch.equal(found.depends, found.faint | torch.eye(8).bool())
    with_room = receptive_field(whisper, frames(8).double())
    assert torch.equal(with_room.depends, found.depends)
    assert not with_room.faint.any()


def test_modules_come_back_in_their_own_mode() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    model[0].eval()
    model[1].train()
    found = receptive_field(model, frames(6))  # dropout would be noise
    assert torch.equal(found.depends, torch.eye(6).bool())
    assert not model[0].training
    assert model[1].training
    assert all(weight.grad is None for weight in model.parameters())


def test_equal_infinities_are_no_change() -> None:
    a = torch.tensor([torch.inf, -torch.inf, 1.0, torch.inf])
    assert change_of(a, torch.tensor([torch.inf, -torch.inf, 3.0, 0.0])).tolist() == [0, 0, 2, torch.inf]


def test_a_model_that_makes_much_of_rounding_is_given_room() -> None:
    calm = receptive_field(nn.Identity(), frames(6))
    touchy = receptive_field(lambda X: (1e4 * X).sin(), frames(6))
    assert calm.tolerance < 1e-4
    assert 1e-3 < touchy.noise < touchy.tolerance / 15
    assert torch.equal(touchy.depends, torch.eye(6).bool())


def test_masked_logits_are_taken() -> None:
    def masked(X: Tensor) -> Tensor:
        return X.masked_fill(torch.tensor([False, True, False]), -torch.inf)

    assert torch.equal(receptive_field(masked, frames(6)).depends, torch.eye(6).bool())


def test_recurrent_layers_of_torch_give_their_states_too() -> None:
    torch.manual_seed(0)
    found = receptive_field(nn.LSTM(3, 4, batch_first=True), frames(10))
    assert torch.equal(found.depends, torch.ones(10, 10).tril().bool())


def test_mistakes() -> None:
    random = nn.Dropout(0.5)
    with pytest.raises(InputError, match="two runs of the encoder on the same input differ"):
        receptive_field(lambda X: random(X), frames(6))
    with pytest.raises(ShapeError, match=r"an example of shape \(6, 3\)"):
        receptive_field(nn.Identity(), torch.zeros(6, 3))
    with pytest.raises(InputError, match="all tokens of the example are the same"):
        receptive_field(Decoder(decoder.tiny()), torch.ones(1, 6, dtype=torch.long))
    with pytest.raises(InputError, match=r"failed on an input of shape \(1, 6, 3\) \(RuntimeError: mat1 and mat2"):
        receptive_field(nn.Linear(5, 2), frames(6))
    with pytest.raises(ShapeError, match=r"made \(1, 3\) \(float32\) of \(1, 6, 3\)"):
        receptive_field(lambda X: X.mean(1), frames(6))
    with pytest.raises(ShapeError, match="the encoder gave object"):
        receptive_field(lambda X: (object(),), frames(6))
    with pytest.raises(InputError, match="holds NaN"):
        receptive_field(lambda X: X * torch.nan, frames(6))
    with pytest.raises(InputError, match="not finite"):
        receptive_field(nn.Identity(), torch.full((1, 6, 3), torch.inf))
    with pytest.raises(InputError, match="a stride of 0"):
        receptive_field(nn.Identity(), frames(6), stride=0)
    pooled = ConvNet1d(convolutional_sequence.tiny(Frames(features=3), 4))
    with pytest.raises(ShapeError, match=r"frames have shape \(1, 6, 2\)"):
        receptive_field(pooled, frames(6, 2))
