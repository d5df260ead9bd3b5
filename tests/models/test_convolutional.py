from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import ResNetConfig, ResNetForImageClassification

from glassformer.core import cost
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.models.convolutional import (
    ConvNet2d,
    ConvNet2dConfig,
    GroupNorm,
    resnet18,
    resnet20,
    resnet34,
    tiny,
)


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def copy_into(theirs: nn.Module, ours: ConvNet2d) -> None:
    """Our names in Hugging Face's, block by block."""
    weights = ours.state_dict()
    names = {"stem": "resnet.embedder.embedder", "W": "classifier.1"}
    depths = [(stage, block) for stage, depth in enumerate(ours.config.depths) for block in range(depth)]
    for n, (stage, block) in enumerate(depths):
        there = f"resnet.encoder.stages.{stage}.layers.{block}"
        names |= {
            f"blocks.{n}.W1": f"{there}.layer.0",
            f"blocks.{n}.W2": f"{there}.layer.1",
            f"blocks.{n}.WX": f"{there}.shortcut",
        }
    renamed = {}
    for name, weight in weights.items():
        ours_prefix = max((prefix for prefix in names if name.startswith(prefix + ".")), key=len)
        rest = name.removeprefix(ours_prefix + ".")
        if ours_prefix != "W":
            rest = rest.replace("W.", "convolution.").replace("norm.", "normalization.")
        renamed[f"{names[ours_prefix]}.{rest}"] = weight
    theirs.load_state_dict(renamed)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_equals_hugging_face(dtype, tolerance, training) -> None:
    config = ConvNet2dConfig(channels=3, classes=5, widths=(4, 8, 6), depths=(2, 1, 2), stem="large")
    ours = ConvNet2d(config, seed=1).to(dtype).train(training)
    for module in ours.modules():  # norms that do something
        if isinstance(module, nn.BatchNorm2d):
            with torch.no_grad():
                module.weight.copy_(1 + 0.2 * draw(len(module.weight), seed=1))
                module.bias.copy_(0.2 * draw(len(module.bias), seed=2))
                module.running_mean.copy_(0.2 * draw(len(module.bias), seed=3))
    theirs = ResNetForImageClassification(
        ResNetConfig(embedding_size=4, hidden_sizes=[4, 8, 6], depths=[2, 1, 2], layer_type="basic", num_labels=5)
    ).to(dtype)
    copy_into(theirs, ours)
    theirs.train(training)
    X = draw(3, 3, 33, 40, dtype=dtype)
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    a, b = ours(x), theirs(y).logits
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    a.square().sum().backward()
    b.square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=10 * tolerance, atol=10 * tolerance)
    grads = {name: p.grad for name, p in theirs.named_parameters()}
    for name, there in (("stem.W", "resnet.embedder.embedder.convolution"), ("W", "classifier.1")):
        grad = ours.get_parameter(f"{name}.weight").grad
        torch.testing.assert_close(grad, grads[f"{there}.weight"], rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize(
    ("config", "published"), [(resnet18(), 11_689_512), (resnet34(), 21_797_672), (resnet20(), None), (tiny(), None)]
)
def test_counts_its_parameters(config, published) -> None:
    with torch.device("meta"):
        real = sum(p.numel() for p in ConvNet2d(config).parameters())
    assert config.parameters == real
    assert published in (None, real)


@pytest.mark.parametrize("groups", [1, 2])
def test_counts_its_parameters_with_groups(groups) -> None:
    config = ConvNet2dConfig(
        channels=1, classes=4, widths=(4, 4, 6), depths=(1, 2, 1), stem="large", norm=GroupNorm(groups=groups)
    )
    assert config.parameters == sum(p.numel() for p in ConvNet2d(config).parameters())


ONE_STAGE = ConvNet2dConfig(channels=3, classes=2, widths=(6,), depths=(2,), stem="small")


@pytest.mark.parametrize("config", [tiny(), ONE_STAGE])
def test_a_shifted_image_has_shifted_features(config) -> None:
    """By the product of the strides, away from the border: with one stage that is one pixel."""
    model = ConvNet2d(config).double().eval()
    X = draw(1, 3, 48, 48, dtype=torch.float64)
    step = config.stride
    Y, shifted = model.features(X), model.features(X.roll((step, step), (2, 3)))
    edge = 12 // step
    inside = slice(edge, Y.shape[2] - edge)
    torch.testing.assert_close(shifted.roll((-1, -1), (2, 3))[:, :, inside, inside], Y[:, :, inside, inside])
    assert not torch.allclose(shifted[:, :, inside, inside], Y[:, :, inside, inside])


def test_any_size_of_image_and_the_features_stride() -> None:
    model = ConvNet2d(tiny()).eval()
    for size in (1, 7, 16):
        assert model(draw(2, 3, size, size + 1)).shape == (2, 10)
        stride = model.config.stride
        expected = (2, 8, -(-size // stride), -(-(size + 1) // stride))
        assert model.features(draw(2, 3, size, size + 1)).shape == expected


def test_with_group_norm_the_batch_does_not_matter() -> None:
    config = ConvNet2dConfig(
        channels=3, classes=4, widths=(4, 8), depths=(1, 1), stem="small", norm=GroupNorm(groups=2)
    )
    model = ConvNet2d(config).train()
    X = draw(4, 3, 8, 8)
    torch.testing.assert_close(model(X)[1:2], model(X[1:2]))
    batch = ConvNet2d(tiny()).train()
    assert not torch.allclose(batch(X)[1:2], batch(X[1:2]))


def test_learns() -> None:
    """Vertical from horizontal stripes, in a few steps."""
    X = torch.zeros(8, 3, 8, 8)
    X[:4, :, ::2], X[4:, :, :, ::2] = 1, 1
    X, y = X + 0.1 * draw(8, 3, 8, 8), torch.tensor([0] * 4 + [1] * 4)
    model = ConvNet2d(tiny(classes=2))
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(15):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(X), y).backward()
        optimiser.step()
    assert (model(X).argmax(1) == y).all()


def test_the_seed_is_the_only_randomness() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (ConvNet2d(tiny(), seed=seed) for seed in (1, 1, 2))
    assert torch.random.get_rng_state().equal(before)
    assert one.stem.W.weight.equal(same.stem.W.weight)
    assert not one.stem.W.weight.equal(other.stem.W.weight)


def test_blocks_can_be_watched_and_edited() -> None:
    model, seen = ConvNet2d(tiny()).eval(), []
    model.get_submodule("blocks.1.Y").watchers.append(seen.append)
    X = draw(2, 3, 8, 8)
    assert model.features(X) is seen[0]
    model.get_submodule("blocks.1.Y").editors.append(torch.zeros_like)
    torch.testing.assert_close(model(X), model.W.bias.expand(2, 10))


def config(**changes: object) -> ConvNet2dConfig:
    fields = {"channels": 3, "classes": 2, "widths": (4, 8), "depths": (1, 1), "stem": "small"}
    return ConvNet2dConfig(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"channels": 0}, "channels is 0"),
        ({"stem": "huge"}, "stem 'huge' is unknown: choose one of small, large"),
        ({"depths": (1,)}, r"stages are \(4, 8\) wide and \(1,\) deep: give one width and one depth"),
        ({"widths": (), "depths": ()}, "give one width"),
        ({"norm": GroupNorm(groups=3)}, r"3 groups do not split widths \(4, 8\): choose groups that divide"),
        ({"norm": GroupNorm(groups=0)}, "0 groups"),
    ],
)
def test_configs_that_describe_no_model(changes, message) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**changes)


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 4, 8, 8), (1, 3, 0, 8)])
def test_images_of_another_shape(shape) -> None:
    with pytest.raises(ShapeError, match=r"give \(batch, 3, height, width\)"):
        ConvNet2d(tiny())(torch.zeros(shape))


def test_a_weight_that_is_not_a_number_is_named() -> None:
    model = ConvNet2d(tiny()).eval()
    nn.init.constant_(model.blocks[1].W2.W.weight, float("nan"))
    with pytest.raises(InputError, match=r"weight blocks\.1\.W2\.W\.weight holds nan at \[0, 0, 0, 0\]: load it again"):
        model(draw(1, 3, 8, 8))


def test_what_it_costs() -> None:
    model, side = ConvNet2d(tiny()).eval(), 8
    expected = cost.convolution((side, side), 3, 4, 3, padding=1, bias=False) + cost.linear(1, 8, 10)
    for inputs, outputs, step in model.config.blocks:
        before, side = (side, side), side // step
        expected += cost.convolution(before, inputs, outputs, 3, stride=step, padding=1, bias=False)
        expected += cost.convolution((side, side), outputs, outputs, 3, padding=1, bias=False)
        if inputs != outputs:
            expected += cost.convolution(before, inputs, outputs, 1, stride=step, bias=False)
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 3, 8, 8))
    assert counter.get_total_flops() == expected.flops
