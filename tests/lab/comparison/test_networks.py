from __future__ import annotations

import pytest
import torch

from glassformer.errors import InputError
from glassformer.lab.comparison.networks import (
    ARCHITECTURES,
    build_image_network,
    build_layer,
    build_sequence_network,
    matched_width,
    parameters,
)
from glassformer.nn import Linear


def test_the_nearest_width() -> None:
    build = lambda w: Linear(w, w, bias=False)
    assert matched_width(build, 100) == 10
    assert matched_width(build, 109) == 10
    assert matched_width(build, 111) == 11  # 121 is nearer than 100
    assert matched_width(build, 100, step=4) == 8  # 64 is nearer than 144
    with pytest.raises(InputError, match="16 parameters at width 4 exceed the budget of 10"):
        matched_width(build, 10, step=4)


@pytest.mark.parametrize("d", [64, 512])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_layers_have_the_parameters_of_attention(architecture: str, d: int) -> None:
    each = build_layer(architecture, d, seed=0)
    assert parameters(each.net) == pytest.approx(4 * d * d + 4 * d, rel=0.02)
    assert each.run(torch.randn(1, 4, d)).shape[:2] == (1, 4)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sequence_networks_have_the_budget_and_answer_at_the_end(architecture: str) -> None:
    net = build_sequence_network(architecture, 15_000, vocabulary=17, length=40, window=8, seed=0, positions="rotary")
    assert parameters(net) == pytest.approx(15_000, rel=0.05)
    X = torch.randint(0, 17, (3, 40))
    assert net(X).shape == (3, 17)
    assert net(X[:, :5]).shape == (3, 17)  # shorter than the window too
    again = build_sequence_network(architecture, 15_000, vocabulary=17, length=40, window=8, seed=0, positions="rotary")
    torch.testing.assert_close(again(X), net(X))
    other = build_sequence_network(architecture, 15_000, vocabulary=17, length=40, window=8, seed=1, positions="rotary")
    assert not torch.allclose(other(X), net(X))


def test_a_window_hides_what_is_before_it() -> None:
    X = torch.randint(0, 17, (1, 12))
    Y = X.clone()
    Y[0, 0] = (Y[0, 0] + 1) % 17
    for name, attends in (("MLP", None), ("Transformer", 3)):
        net = build_sequence_network(
            name, 4_000, vocabulary=17, length=12, window=8, seed=0, positions="rotary", attends=attends
        )
        torch.testing.assert_close(net(X), net(Y))
    net = build_sequence_network("Transformer", 4_000, vocabulary=17, length=12, window=8, seed=0)
    assert not torch.allclose(net(X), net(Y))


@pytest.mark.parametrize("architecture", ["Transformer", "CNN", "MLP"])
def test_image_networks_have_the_budget(architecture: str) -> None:
    net = build_image_network(architecture, 19_000, size=28, channels=1, patches=4, classes=10, seed=0).net
    assert parameters(net) == pytest.approx(19_000, rel=0.05)
    assert net(torch.randn(2, 1, 28, 28)).shape == (2, 10)


def test_a_recurrent_net_reads_no_images() -> None:
    with pytest.raises(InputError, match="'RNN' does not read images"):
        build_image_network("RNN", 19_000, size=28, channels=1, patches=4, classes=10, seed=0)
