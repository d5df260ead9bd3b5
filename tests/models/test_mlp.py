from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.models.mlp import MLP, FrameWindow, ImageInput, MLPConfig, TokenWindow, mnist, tiny

IMAGE = ImageInput(channels=3, height=4, width=5)
TOKENS = TokenWindow(vocabulary=11, length=6, width=3)
FRAMES = FrameWindow(features=4, length=6)

INPUTS = {
    "image": (IMAGE, torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))),
    "tokens": (TOKENS, torch.randint(11, (2, 6), generator=torch.Generator().manual_seed(0))),
    "frames": (FRAMES, torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))),
}


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("widths", [(), (7,), (7, 5, 9)])
def test_counts_its_parameters(kind, widths) -> None:
    reads, X = INPUTS[kind]
    config = MLPConfig(reads=reads, widths=widths, classes=10)
    model = MLP(config)
    assert config.parameters == sum(p.numel() for p in model.parameters())
    assert model(X).shape == (2, 10)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_equals_torchs_own_layers(dtype, tolerance) -> None:
    model = MLP(tiny(TOKENS, 5), seed=1).to(dtype)
    theirs = nn.Sequential(
        nn.Embedding(11, 3), nn.Flatten(), nn.Linear(18, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 5)
    ).to(dtype)
    theirs.load_state_dict(dict(zip(theirs.state_dict(), model.state_dict().values(), strict=True)))
    X = INPUTS["tokens"][1]
    ours, expected = model(X), theirs(X)
    torch.testing.assert_close(ours, expected, rtol=0, atol=tolerance)
    ours.square().sum().backward()
    expected.square().sum().backward()
    for a, b in zip(model.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=tolerance)


def test_the_seed_is_the_only_randomness() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (MLP(tiny(IMAGE, 5), seed=seed) for seed in (1, 1, 2))
    assert torch.random.get_rng_state().equal(before)
    assert one.W.weight.equal(same.W.weight)
    assert not one.W.weight.equal(other.W.weight)


def test_published_size() -> None:
    assert mnist().parameters == 784 * 800 + 800 + 800 * 800 + 800 + 8000 + 10


def test_layers_can_be_watched_and_edited() -> None:
    model = MLP(tiny(IMAGE, 5))
    seen: list[torch.Tensor] = []
    model.get_submodule("layers.0.F").watchers.append(seen.append)
    model(INPUTS["image"][1])
    assert seen[0].shape == (2, 16)
    assert (seen[0] >= 0).all()
    model.get_submodule("layers.1.F").editors.append(torch.zeros_like)
    torch.testing.assert_close(model(INPUTS["image"][1]), model.W.bias.expand(2, 5))


def test_dropout_acts_in_training_alone() -> None:
    model = MLP(MLPConfig(reads=IMAGE, widths=(50,), classes=5, dropout=0.5))
    X = INPUTS["image"][1]
    torch.manual_seed(0)
    assert not model(X).equal(model(X))
    assert model.eval()(X).equal(model(X))


@pytest.mark.parametrize(
    ("reads", "X", "message"),
    [
        (IMAGE, torch.zeros(2, 3, 5, 5), r"\(2, 3, 5, 5\): give \(batch, 3, 4, 5\), or build an MLP"),
        (TOKENS, torch.zeros(2, 7, dtype=torch.long), r"\(2, 7\): cut windows of 6 tokens"),
        (FRAMES, torch.zeros(2, 5, 4), r"\(2, 5, 4\): cut windows \(batch, 6, 4\)"),
    ],
)
def test_another_length_is_an_error(reads, X, message) -> None:
    with pytest.raises(ShapeError, match=message):
        MLP(tiny(reads, 5))(X)


def test_other_mistakes() -> None:
    with pytest.raises(InputError, match="token id 11"):
        MLP(tiny(TOKENS, 5))(torch.full((1, 6), 11))
    with pytest.raises(ConfigError, match=r"hidden widths are \(4, 0\)"):
        MLPConfig(reads=IMAGE, widths=(4, 0), classes=2)
    with pytest.raises(ConfigError, match="length is 0"):
        FrameWindow(features=2, length=0)
    model = MLP(tiny(IMAGE, 5))
    nn.init.constant_(model.layers[0].W.bias, float("nan"))
    with pytest.raises(InputError, match=r"weight layers\.0\.W\.bias holds nan"):
        model(INPUTS["image"][1])
