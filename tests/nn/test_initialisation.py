"""How weights are initialised, and from which seed."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from glassformer.errors import ShapeError
from glassformer.nn import Embedding, Linear, glorot, initialise, normal
from glassformer.nn.linear import Convolution, Convolution2d


class Small(nn.Module):
    """One of each kind of weight."""

    def __init__(self) -> None:
        super().__init__()
        self.W = Linear(300, 200)
        self.table = Embedding(400, 100)
        self.C = Convolution(8, 16, 5)
        self.gain = nn.Parameter(torch.full((3,), 7.0))
        self.cls = nn.Parameter(torch.zeros(100, 100))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Linear(3, 4), nn.Linear(3, 4)),
        (Linear(3, 4, bias=False), nn.Linear(3, 4, bias=False)),
        (Embedding(5, 4), nn.Embedding(5, 4)),
        (Convolution(2, 4, 3, stride=2), nn.Conv1d(2, 4, 3, stride=2)),
        (Convolution2d(2, 4, 3, padding=1), nn.Conv2d(2, 4, 3, padding=1)),
    ],
    ids=lambda module: type(module).__name__,
)
def test_layers_are_torchs(ours: nn.Module, theirs: nn.Module) -> None:
    assert not any(weight.any() for weight in ours.parameters())  # 0, not what memory happened to hold
    ours.load_state_dict(theirs.state_dict())
    x = {nn.Embedding: torch.tensor([[0, 4]]), nn.Conv1d: torch.randn(1, 2, 7), nn.Conv2d: torch.randn(1, 2, 7, 7)}
    given = x.get(type(theirs), torch.randn(2, 3))
    assert torch.equal(ours(given), theirs(given))
    with torch.no_grad():
        torch.testing.assert_close(ours(given), theirs(given))


def test_the_same_seed_gives_the_same_weights_and_global_randomness_is_untouched() -> None:
    before = torch.get_rng_state()
    one, same, other = Small(), Small(), Small()
    for model, seed in ((one, 1), (same, 1), (other, 2)):
        initialise(model, seed)
    assert torch.equal(torch.get_rng_state(), before)
    for name, weight in one.named_parameters():
        assert torch.equal(weight, same.get_parameter(name))
    assert not torch.equal(one.W.weight, other.W.weight)


def test_how_weights_start() -> None:
    model = Small()
    nn.init.ones_(model.W.bias)
    initialise(model, 0)
    bound = math.sqrt(6 / 500)
    assert model.W.weight.abs().max() <= bound
    assert model.W.weight.abs().max() > 0.99 * bound
    assert not model.W.bias.any()
    assert torch.equal(model.gain, torch.full((3,), 7.0))
    assert abs(model.table.weight.std() * 10 - 1) < 0.02
    assert model.cls.any()
    assert model.C.weight.abs().max() <= math.sqrt(6 / (8 * 5 + 16 * 5))


def test_glorot_is_torchs() -> None:
    for shape in ((3, 4), (6, 2, 5), (3, 2, 4, 4)):
        ours, theirs = torch.empty(shape), torch.empty(shape)
        glorot(ours, torch.Generator().manual_seed(3))
        nn.init.xavier_uniform_(theirs, generator=torch.Generator().manual_seed(3))
        assert torch.equal(ours, theirs)


def test_normal_is_cut_off_at_two_deviations() -> None:
    weight = torch.empty(200, 200)
    normal(0.02)(weight, torch.Generator().manual_seed(0))
    assert weight.abs().max() <= 0.04
    assert weight.abs().max() > 0.039
    assert abs(weight.std() / 0.02 - 0.8796) < 0.01  # the deviation of what is left of a normal


def test_on_the_meta_device_nothing_is_filled() -> None:
    with torch.device("meta"):
        model = Small()
        initialise(model, 0)
    assert all(weight.is_meta for weight in model.parameters())


def test_a_vector_of_another_width(refused) -> None:  # type: ignore[no-untyped-def]
    text = "the input has width 5, the layer expects 3: give it vectors of that width"
    refused(ShapeError, text, lambda: Linear(3, 4)(torch.zeros(2, 5)))
