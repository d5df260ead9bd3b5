from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from glassformer.checkpoints import load_folder, save
from glassformer.core.positions import interpolate_2d
from glassformer.data.images import Images
from glassformer.errors import ConfigError, InputError
from glassformer.models import Decoder, Hybrid, Recurrent, ViT, decoder, hybrid, recurrent, vit
from glassformer.models.sequence_io import Frames
from glassformer.nn import Linear
from glassformer.pipelines.classify import classify
from glassformer.train import TrainArgs, fit
from glassformer.train.lora import LoRA, LoRALinear, adapters, add_adapters, merge_adapters
from glassformer.train.objectives.image_classification import ImageClassification, save_images, statistics
from glassformer.train.objectives.image_models import Size, build_image_model
from glassformer.train.transfer import classifier_heads, retarget

EVERY = LoRA(rank=2, alpha=4.0, layers=("encoder.*",))


def image(size: int = 8) -> torch.Tensor:
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def test_it_starts_equal_to_the_base() -> None:
    base = ViT(vit.tiny(), seed=1).eval()
    tuned = copy.deepcopy(base)
    paths = add_adapters(tuned, EVERY, seed=3)
    assert len(paths) == 2 * 6
    torch.testing.assert_close(tuned(image()), base(image()), rtol=1e-5, atol=1e-6)  # adapters run as modules
    merged = dict(merge_adapters(tuned).named_parameters())
    assert all(torch.equal(merged[name], weight) for name, weight in base.named_parameters())


@given(rank=st.integers(1, 5), alpha=st.floats(0.1, 32.0), bias=st.booleans(), seed=st.integers(0, 99))
@torch.no_grad()
def test_the_explicit_sum(rank: int, alpha: float, bias: bool, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    base = Linear(6, 4, bias=bias).double()
    for weight in base.parameters():
        weight.normal_(generator=random)
    layer = LoRALinear(base, LoRA(rank=rank, alpha=alpha), random)
    layer.B.normal_(generator=random)
    W = base.weight + alpha / rank * sum(torch.outer(layer.B[:, i], layer.A[i]) for i in range(rank))
    x = torch.randn(3, 6, generator=random, dtype=torch.float64)
    expected = x @ W.T + (base.bias if bias else 0)
    torch.testing.assert_close(layer(x), expected)
    merged = layer.merged()
    assert type(merged) is Linear
    torch.testing.assert_close(merged.weight.data, W)
    torch.testing.assert_close(merged(x), expected)


def test_only_low_rank_weights_and_the_head_learn(shapes: Path) -> None:
    opened = Images.open(shapes / "train")
    mean, std = statistics(opened)
    held = Images.open(shapes / "test", labels=opened.labels)
    objective = ImageClassification(train=opened, val=held, mean=mean, std=std, batch_size=16)
    model = build_image_model("vit", (1, 8, 8), 3, Size(width=16, depth=2, heads=2), patch=2)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    paths = add_adapters(model, LoRA(rank=2))
    assert paths == [f"encoder.{i}.attention.{name}" for i in range(2) for name in ("WQ", "WV")]
    learning = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert learning == {f"{path}.{name}" for path in paths for name in "AB"} | {"head.weight", "head.bias"}
    fit(model, objective, TrainArgs(steps=6, lr=1e-2))
    after = dict(model.named_parameters())
    assert all(torch.equal(after[name], value) for name, value in before.items() if not name.startswith("head"))
    assert all(layer.B.any() for _, layer in adapters(model))
    expected = objective.predict(model)[0]
    merged = merge_adapters(model)
    assert {name for name, _ in merged.named_parameters()} == set(before), "an ordinary model again"
    torch.testing.assert_close(objective.predict(merged)[0], expected, rtol=1e-4, atol=1e-5)


def test_statistics_of_norms_rest_too() -> None:
    model = build_image_model("hybrid", (3, 8, 8), 3, Size(width=16, depth=1, heads=2))
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    assert before
    add_adapters(model, LoRA(rank=1))
    model.train()
    model(image())
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    merge_adapters(model)(image())
    assert any(not torch.equal(buffer, before[name]) for name, buffer in model.named_buffers()), "as usual again"


@torch.no_grad()
def test_a_tuned_model_is_saved_and_loaded_like_any_other(tmp_path: Path) -> None:
    model = ViT(vit.tiny(), seed=1).eval()
    add_adapters(model, EVERY)
    for _, layer in adapters(model):
        layer.B.normal_(generator=torch.Generator().manual_seed(1))
    expected = model(image())
    save(merge_adapters(model), tmp_path)
    torch.testing.assert_close(load_folder(tmp_path)(image()), expected, rtol=1e-4, atol=1e-5)


def test_words_are_adapters_too() -> None:
    model = Decoder(decoder.tiny(), seed=0)
    paths = add_adapters(model, LoRA(rank=1))
    assert paths
    assert {name.rsplit(".", 1)[1] for name, weight in model.named_parameters() if weight.requires_grad} == {"A", "B"}


@torch.no_grad()
def test_another_head_and_another_size() -> None:
    for base in (ViT(vit.tiny(), seed=1).eval(), Hybrid(hybrid.tiny(), seed=1).eval()):
        new = retarget(base, classes=7, image=(16, 12), seed=4).eval()
        assert isinstance(new, type(base))
        assert new.config == replace(base.config, classes=7, image=(16, 12))  # type: ignore[type-var]
        prefix = base.config.placed if isinstance(base, ViT) else 0
        table = interpolate_2d(base.positions, base.config.grid, new.config.grid, prefix=prefix)
        assert torch.equal(new.positions, table)
        assert new(torch.rand(1, 3, 16, 12)).shape == (1, 7)
        torch.testing.assert_close(new.features(image(16)), base.features(image(16)), atol=0.05, rtol=0.05)
        same = retarget(base, classes=7)
        assert torch.equal(same.eval().features(image()), base.features(image()))  # type: ignore[operator]
        assert torch.equal(retarget(base, classes=7, seed=4)(image()), retarget(base, classes=7, seed=4)(image()))


@pytest.mark.parametrize("kind", ["vit", "hybrid", "cnn", "mlp", "rnn"])
def test_from_a_folder_to_other_classes(kind: str, shapes: Path, tmp_path: Path) -> None:
    opened = Images.open(shapes / "train")
    mean, std = statistics(opened)
    held = Images.open(shapes / "test", labels=opened.labels)
    objective = ImageClassification(train=opened, val=held, mean=mean, std=std)
    five = build_image_model(kind, (1, 8, 8), 5, Size(width=16, depth=1, heads=2))
    save_images(five, tmp_path / "five", list("abcde"), objective.preprocess)
    three = retarget(tmp_path / "five", classes=3)
    own, new = five.state_dict(), three.state_dict()
    assert own.keys() == new.keys()
    head = classifier_heads(three)
    assert head
    for name in own:
        assert (name.split(".")[0] in head) == (own[name].shape != new[name].shape), name
        assert name.split(".")[0] in head or torch.equal(own[name], new[name])
    save_images(three, tmp_path / "three", objective.labels, objective.preprocess)
    found = classify(load_folder(tmp_path / "three"), shapes / "test/down/0.png")
    assert {guess.label for guess in found} == set(objective.labels)


def test_mistakes_are_errors() -> None:
    base = ViT(vit.tiny())
    with pytest.raises(InputError, match="classes must be at least 1, got 0"):
        retarget(base, classes=0)
    with pytest.raises(ConfigError, match="not tiled"):
        retarget(base, classes=3, image=(9, 9))
    rows = Recurrent(recurrent.tiny(Frames(features=4), 3, "mean"))
    assert retarget(rows, classes=4, image=(9, 4)).config.classes == 4
    with pytest.raises(InputError, match="one width only"):
        retarget(rows, classes=4, image=(8, 8))
    with pytest.raises(InputError, match="no classification head"):
        retarget(Decoder(decoder.tiny()), classes=3)
    with pytest.raises(ConfigError, match=r"no linear layer matches \*.nothing"):
        add_adapters(base, LoRA(layers=("*.nothing",)))
    with pytest.raises(ConfigError, match="rank is 0"):
        LoRA(rank=0)
    assert isinstance(base.head, nn.Linear)
