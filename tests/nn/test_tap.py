from __future__ import annotations

import copy
import pickle

import torch
from torch import nn

from glassformer.models import Encoder, encoder
from glassformer.nn import MultiHeadAttention, Tap, heads


def test_a_tap_with_nothing_attached_returns_the_very_same_object() -> None:
    thing = object()
    assert Tap()(thing) is thing


def test_editors_come_in_their_order_and_watchers_see_what_goes_on() -> None:
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
