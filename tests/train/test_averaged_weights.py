"""Oracle: torch.optim.swa_utils.AveragedModel."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from glassformer.train.ema import EMA, load_tensors, swapped, tensors_of


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()


def test_it_is_torchs_average() -> None:
    model = small()
    ours = EMA(model, 0.7)
    theirs = AveragedModel(model, avg_fn=lambda mean, new, _: mean, use_buffers=True)
    theirs.n_averaged += 1  # its first update would copy, ours starts from the weights that are there
    for step in range(40):
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight))
        model(torch.randn(5, 3, dtype=torch.float64))
        ours.update(step)
        decay = min(0.7, (1 + step) / (10 + step))
        theirs.avg_fn = lambda mean, new, _, d=decay: d * mean + (1 - d) * new
        theirs.update_parameters(model)
    for name, weight in theirs.module.named_parameters():
        torch.testing.assert_close(ours.tensors[name], weight.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.tensors["1.running_var"], theirs.module[1].running_var, rtol=1e-12, atol=1e-12)
    assert int(ours.tensors["1.num_batches_tracked"]) == int(model[1].num_batches_tracked) == 40


def test_a_short_run_forgets_its_start() -> None:
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1000.0)
    ours = EMA(model, 0.9999)
    with torch.no_grad():
        model.weight.fill_(1.0)
    for step in range(100):
        ours.update(step)
    assert float(ours.tensors["weight"]) < 1.1


def test_swapped_values_go_back_even_after_an_error() -> None:
    model = small()
    own = {name: tensor.detach().clone() for name, tensor in tensors_of(model).items()}
    other = {name: torch.zeros_like(tensor) for name, tensor in own.items()}
    try:
        with swapped(model, other):
            assert float(model[0].weight.detach().abs().sum()) == 0
            raise RuntimeError
    except RuntimeError:
        pass
    assert all(torch.equal(tensor, own[name]) for name, tensor in tensors_of(model).items())
    with swapped(model, None):
        assert torch.equal(model[0].weight, own["0.weight"])


def test_tied_weights_and_passing_buffers() -> None:
    model = nn.Module()
    model.one = nn.Linear(2, 2)
    model.two = nn.Linear(2, 2)
    model.two.weight = model.one.weight
    model.register_buffer("shown", torch.zeros(1))
    model.register_buffer("hidden", torch.zeros(1), persistent=False)
    assert tensors_of(model).keys() == {"one.weight", "one.bias", "two.bias", "shown"}
    load_tensors(model, {name: torch.ones_like(tensor) for name, tensor in tensors_of(model).items()})
    assert float(model.two.weight.detach().sum()) == 4
