"""Taps that watch and edit quantities; checks that find a number that is not finite."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import nn

from glassformer.errors import InputError
from glassformer.models import Encoder, encoder
from glassformer.nn import Linear, MultiHeadAttention, Tap, heads, require_finite, require_finite_weights
from glassformer.nn.finite import unchecked_finite


def test_a_tap_with_nothing_attached_returns_the_very_same_object() -> None:
    thing = object()
    assert Tap()(thing) is thing


def test_editors_run_in_order_and_watchers_see_the_result() -> None:
    tap, seen = Tap(), []
    tap.editors += [lambda x: x + 1, lambda x: x * 10]
    tap.watchers += [seen.append, lambda x: seen.append(-x)]
    assert tap(2) == 30
    assert seen == [30, -30]
    assert tap.edited
    assert tap.watched
    assert repr(tap) == "Tap(watchers=2, editors=2)"


def test_an_idle_tap() -> None:
    tap = Tap()
    assert not tap.edited
    assert not tap.watched
    assert repr(tap) == "Tap()"


def test_paths_read_like_the_model() -> None:
    paths = {name for name, module in Encoder(encoder.tiny()).named_modules() if isinstance(module, Tap)}
    assert {f"encoder.1.attention.{symbol}" for symbol in "QKVSAHO"} <= paths
    assert {"encoder.embed.X", "encoder.embed.E", "encoder.0.X", "encoder.0.R", "encoder.0.O"} <= paths
    assert {"encoder.0.ffn.P", "encoder.0.ffn.F", "encoder.0.ffn.O"} <= paths


def test_weights_know_nothing_of_taps() -> None:
    layer = MultiHeadAttention(heads(8, 2))
    assert set(layer.state_dict()) == {f"W{letter}.{part}" for letter in "QKVO" for part in ("weight", "bias")}


def test_models_with_taps_can_be_copied_and_sent_between_processes() -> None:
    model = Encoder(encoder.tiny()).eval()
    tokens = torch.tensor([[1, 2, 3]])
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(tokens), model(tokens))
        other.encoder.get_submodule("0.attention.A").watchers.append(print)
        assert not model.encoder.get_submodule("0.attention.A").watched


def test_a_tap_is_a_module_without_weights() -> None:
    tap = Tap()
    assert isinstance(tap, nn.Module)
    assert not list(tap.parameters())
    assert not list(tap.buffers())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_found_wherever_it_stands(wrong: float, dtype: torch.dtype, refused) -> None:  # type: ignore[no-untyped-def]
    model, Y = nn.Sequential(Linear(2, 2)), torch.zeros(3, 70, dtype=dtype)
    assert require_finite(Y, model) is Y
    for place in ((0, 0), (2, 69), (1, 33)):
        bad = Y.clone()
        bad[place] = wrong
        text = "the output of Sequential is not finite although every weight is: look for an input that is not finite"
        refused(InputError, text, lambda bad=bad: require_finite(bad, model))


def test_the_weight_is_named(refused) -> None:  # type: ignore[no-untyped-def]
    model = nn.Sequential(Linear(2, 3), Linear(3, 4))
    require_finite_weights(model)
    with torch.no_grad():
        model[1].weight[2, 1] = math.nan
    text = "weight 1.weight is nan at [2, 1]: load the weights again, or an earlier checkpoint"
    refused(InputError, text, lambda: require_finite_weights(model))
    refused(InputError, text, lambda: require_finite(model(torch.ones(1, 2)), model))
    with torch.no_grad():
        model[0].bias[1] = -math.inf
    refused(InputError, "weight 0.bias is -inf at [1]", lambda: require_finite_weights(model))


def test_nothing_is_checked_where_someone_else_looks(refused) -> None:  # type: ignore[no-untyped-def]
    Y, model = torch.tensor([math.nan]), nn.Linear(1, 1)
    with unchecked_finite():
        assert require_finite(Y, model) is Y
    refused(InputError, "the output of Linear is not finite", lambda: require_finite(Y, model))


def test_large_numbers_are_numbers() -> None:
    Y = torch.full((100,), torch.finfo(torch.float16).max, dtype=torch.float16, requires_grad=True)
    assert require_finite(Y, nn.Identity()) is Y


def test_what_has_no_numbers_is_let_through() -> None:
    for Y in (torch.zeros(0, 3), torch.zeros(2, device="meta")):
        assert require_finite(Y, nn.Identity()) is Y
