"""Vision Transformers, hybrids, convolutional networks and CLIP: tokens, pooling, positions, invalid arguments."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, interpolate, max_pool2d
from torch.utils.flop_counter import FlopCounterMode
from transformers import ResNetConfig, ResNetForImageClassification

from glassformer.checkpoints import load_folder, save
from glassformer.core import cost
from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.lens import edit, trace
from glassformer.models import CLIP, CLIPConfig, Hybrid, HybridConfig, StemConfig, ViT, ViTConfig, clip, hybrid, vit
from glassformer.models.convolutional import (
    BatchNorm,
    ConvNet2d,
    ConvNet2dConfig,
    GroupNorm,
    resnet18,
    resnet20,
    resnet34,
    tiny,
)
from glassformer.models.vit import Resize
from glassformer.nn import NormConfig, Tap, patches

# torchvision's and DeiT's counts; those of Ti/32 and S/32 differ by the larger patches and fewer positions.
VIT_PUBLISHED = {
    vit.tiny_16: 5_717_416,
    vit.small_16: 22_050_664,
    vit.base_16: 86_567_656,
    vit.large_16: 304_326_632,
    vit.tiny_32: 5_717_416 + 192 * (3 * (32**2 - 16**2) - (14**2 - 7**2)),
    vit.small_32: 22_050_664 + 384 * (3 * (32**2 - 16**2) - (14**2 - 7**2)),
    vit.base_32: 88_224_232,
    vit.large_32: 306_535_400,
}


def image_vit(height: int = 8, width: int = 8, seed: int = 0) -> Tensor:
    return torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build_vit(**changes: object) -> ViT:
    model = ViT(replace(vit.tiny(), **changes)).double().eval()  # type: ignore[arg-type]
    with torch.no_grad():
        model.positions.mul_(50)  # large enough to be seen
    return model


@pytest.mark.variants(3)
@pytest.mark.parametrize("size", VIT_PUBLISHED, ids=lambda size: size.__name__)
def test_published_sizes_made_without_memory(size: Callable[[], ViTConfig]) -> None:
    with torch.device("meta"):
        model = ViT(size())
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    assert sum(weight.numel() for weight in model.parameters()) == VIT_PUBLISHED[size]
    assert model(torch.zeros(1, 3, 224, 224, device="meta")).shape == (1, 1000)


def test_the_same_seed_gives_the_same_model_and_global_randomness_is_untouched() -> None:
    before = torch.get_rng_state()
    one, same, other = (ViT(vit.tiny(), seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(weight, same.state_dict()[key]) for key, weight in one.state_dict().items())
    assert not torch.equal(one(image_vit().float()), other(image_vit().float()))
    assert all(weight.any() for weight in one.parameters() if weight.dim() > 1), "every matrix starts random"


@torch.no_grad()
def test_tokens_are_cls_and_patches_with_positions() -> None:
    model = build_vit()
    X = model.tokens(image_vit())
    assert X.shape == (2, 5, 16)
    assert model.prefix is not None
    torch.testing.assert_close(X[:, 0], (model.prefix[0] + model.positions[0]).expand(2, -1))
    torch.testing.assert_close(X[:, 1:], model.embed.W(patches(image_vit(), (4, 4))) + model.positions[1:])


@torch.no_grad()
def test_the_head_sees_cls_or_the_mean_of_the_patches() -> None:
    model = build_vit()
    X = model.features(image_vit())
    assert model.head is not None
    torch.testing.assert_close(model(image_vit()), model.head(X[:, 0]))
    mean = build_vit(pool="mean", registers=2)
    X = mean.features(image_vit())
    assert X.shape == (2, 1 + 2 + 4, 16)
    torch.testing.assert_close(mean(image_vit()), mean.head(X[:, 3:].mean(1)))  # type: ignore[misc]
    bare = build_vit(pool="mean", prefix=0)
    assert bare.prefix is None
    torch.testing.assert_close(bare(image_vit()), bare.head(bare.features(image_vit()).mean(1)))  # type: ignore[misc]


@torch.no_grad()
def test_cls_and_the_mean_side_by_side() -> None:
    model = build_vit(pool="both", registers=2)
    assert model.head is not None
    X = model.features(image_vit())
    torch.testing.assert_close(model(image_vit()), model.head(torch.cat([X[:, 0], X[:, 3:].mean(1)], 1)))
    assert model.head.in_features == 32
    assert build_vit(pool="both", classes=0)(image_vit()).shape == (2, 32)


@torch.no_grad()
def test_a_norm_after_pooling() -> None:
    model = build_vit(pool="mean", last_norm=None, pool_norm=NormConfig(eps=1e-3))
    assert model.encoder.norm is None
    assert model.head is not None
    x = model.features(image_vit())[:, 1:].mean(1)
    torch.testing.assert_close(model(image_vit()), model.head(torch.nn.functional.layer_norm(x, (16,), eps=1e-3)))


@torch.no_grad()
def test_the_heads_of_a_distilled_model_are_averaged() -> None:
    model = build_vit(prefix=2, teacher=True)
    assert model.head is not None
    assert model.teacher_head is not None
    X = model.features(image_vit())
    torch.testing.assert_close(model(image_vit()), (model.head(X[:, 0]) + model.teacher_head(X[:, 1])) / 2)


@torch.no_grad()
def test_a_prefix_without_positions() -> None:
    model = build_vit(prefix_positions=False, registers=2, patch_bias=False)
    assert model.prefix is not None
    assert model.registers is not None
    assert model.positions.shape == (4, 16)
    assert model.embed.W.bias is None
    X = model.tokens(image_vit())
    front = torch.cat([model.prefix, model.registers])
    torch.testing.assert_close(X[:, :3], front.expand(2, -1, -1))
    torch.testing.assert_close(X[:, 3:], model.embed(image_vit()) + model.positions)
    assert model.tokens(image_vit(12, 16)).shape == (2, 3 + 12, 16)


@torch.no_grad()
def test_the_head_of_pre_training_has_two_layers() -> None:
    model = build_vit(hidden=7)
    assert model.head is not None
    assert model.head_hidden is not None
    x = model.features(image_vit())[:, 0]
    torch.testing.assert_close(model(image_vit()), model.head(torch.tanh(model.head_hidden(x))))
    assert model.head.in_features == 7
    none = build_vit(classes=0)
    assert none.head is None
    torch.testing.assert_close(none(image_vit()), none.features(image_vit())[:, 0])


@torch.no_grad()
def test_registers_stand_between_cls_and_patches_and_have_no_position() -> None:
    model = build_vit(registers=3)
    X = model.tokens(image_vit())
    assert model.registers is not None
    torch.testing.assert_close(X[:, 1:4], model.registers.expand(2, -1, -1))
    torch.testing.assert_close(X[:, 4:], model.embed(image_vit()) + model.positions[1:])
    assert model.positions.shape == (5, 16)


@torch.no_grad()
def test_hidden_patches_are_the_learned_mask(refused) -> None:  # type: ignore[no-untyped-def]
    model, hidden = build_vit(masked=True), torch.tensor([[True, False, False, True], [False] * 4])
    assert model.mask is not None
    model.mask.normal_(generator=torch.Generator().manual_seed(0))
    X, plain = model.tokens(image_vit(), hidden), model.tokens(image_vit())
    torch.testing.assert_close(X[0, [1, 4]], model.mask + model.positions[[1, 4]])
    assert torch.equal(X[0, [0, 2, 3]], plain[0, [0, 2, 3]])
    assert torch.equal(X[1], plain[1])
    assert not torch.allclose(model.features(image_vit(), hidden)[0], model.features(image_vit())[0])
    none = "hidden patches were given, but this model has no mask vector: build it with masked=True"
    refused(ConfigError, none, lambda: build_vit().features(image_vit(), hidden))
    shape = "hidden is (2, 3) for 2 images of 4 patches: give one for each patch"
    refused(ShapeError, shape, lambda: model.features(image_vit(), hidden[:, :3]))


@torch.no_grad()
def test_a_norm_before_the_blocks() -> None:
    model = build_vit(first_norm=NormConfig())
    seen: list[Tensor] = []
    model.X.watchers.append(seen.append)
    model(image_vit())
    torch.testing.assert_close(seen[0].mean(-1), torch.zeros(2, 5, dtype=torch.float64), rtol=0, atol=1e-10)


@torch.no_grad()
def test_shuffled_patches_without_positions_are_the_same_class() -> None:
    model, order = build_vit(), torch.tensor([2, 0, 3, 1])
    cut = image_vit().unflatten(2, (2, 4)).unflatten(4, (2, 4)).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)  # b n c h w
    shuffled = cut[:, order].unflatten(1, (2, 2)).permute(0, 3, 1, 4, 2, 5).flatten(2, 3).flatten(3, 4)
    torch.testing.assert_close(patches(shuffled, (4, 4)), patches(image_vit(), (4, 4))[:, order])
    assert not torch.allclose(model(shuffled), model(image_vit()))
    model.positions.zero_()
    torch.testing.assert_close(model(shuffled), model(image_vit()))


@pytest.mark.parametrize("size", [(12, 12), (16, 4), (4, 16), (8, 12)])
@pytest.mark.parametrize("how", [Resize(), Resize(mode="bilinear", align_corners=True), Resize(antialias=True)])
@torch.no_grad()
def test_positions_are_interpolated_to_another_grid(size: tuple[int, int], how: Resize) -> None:
    """16×4 has as many patches as 8×8, and other positions all the same."""
    model = build_vit(resize=how)
    grid = size[0] // 4, size[1] // 4
    old = model.positions[1:].T.unflatten(1, (2, 2))[None]
    options = {"mode": how.mode, "antialias": how.antialias, "align_corners": how.align_corners}
    rows = interpolate(old, size=grid, **options)[0].flatten(1).T  # type: ignore[arg-type]
    X = model.tokens(image_vit(*size))
    torch.testing.assert_close(X[:, 1:], model.embed(image_vit(*size)) + rows)
    assert torch.equal(X[:, 0], model.tokens(image_vit())[:, 0])  # CLS keeps its own
    assert model(image_vit(*size)).shape == (2, 5)
    if grid[0] * grid[1] == 4:
        assert not torch.allclose(rows, model.positions[1:])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", [(8, 8), (12, 16)])
def test_it_can_be_exported(size: tuple[int, int]) -> None:
    model = ViT(vit.tiny()).eval()
    given = image_vit(*size).float()
    shapes = ({0: torch.export.Dim("batch", max=64)},)
    program = torch.export.export(model, (given,), dynamic_shapes=shapes, strict=False)
    for batch in (given, torch.cat([given, given, given])):
        torch.testing.assert_close(program.module()(batch), model(batch))


def test_copies_and_paths() -> None:
    model = build_vit()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(image_vit()), model(image_vit()))
    paths = dict(model.named_modules())
    assert all(isinstance(paths[path], Tap) for path in ("encoder.1.attention.A", "E", "X"))


def test_vit_configs_that_describe_no_model(refused) -> None:  # type: ignore[no-untyped-def]
    tiled = "an image of 10×8 is not tiled by patches of 4×4: choose an image size that the patch divides"
    refused(ConfigError, tiled, lambda: replace(vit.tiny(), image=(10, 8)))
    refused(ConfigError, "an image of 0×8 is not tiled by patches of 4×4", lambda: replace(vit.tiny(), image=(0, 8)))
    cls = "pool='first' needs a CLS token and prefix is 0: choose prefix=1 or pool='mean'"
    refused(ConfigError, cls, lambda: replace(vit.tiny(), prefix=0))
    pool = "there is no pooling 'max': choose first (CLS), mean (of the patches) or both"
    refused(ConfigError, pool, lambda: replace(vit.tiny(), pool="max"))
    teacher = "the teacher's head has prefix=1, pool='first' and classes=5: choose prefix=2, pool='first', hidden=0"
    refused(ConfigError, teacher, lambda: replace(vit.tiny(), teacher=True))


def test_images_that_do_not_fit(refused) -> None:  # type: ignore[no-untyped-def]
    model = build_vit()
    tiled = "an image of 9×8 is not tiled by patches of 4×4: resize it to 8×8, or choose another patch"
    refused(ShapeError, tiled, lambda: model(image_vit(9, 8)))
    channels = "the image has 1 channels, the model expects 3: convert it (grey is 1 channel, RGB is 3)"
    refused(ShapeError, channels, lambda: model(image_vit()[:, :1]))
    shape = "images have shape (3, 8, 8): give (batch, 3, height, width)"
    refused(ShapeError, shape, lambda: model(image_vit()[0]))
    bad = image_vit()
    bad[1, 0, 0, 0] = math.nan
    refused(InputError, "the output of ViT is not finite although every weight is: look for", lambda: model(bad))


@pytest.mark.parametrize("make", [build_vit, lambda: Hybrid(hybrid.tiny()), lambda: ConvNet2d(tiny())])
def test_every_image_model_checks_its_images_alike(make: Callable[[], nn.Module], refused) -> None:  # type: ignore[no-untyped-def]
    model, images = make(), torch.rand(2, 3, 8, 8)
    channels = "the image has 1 channels, the model expects 3: convert it (grey is 1 channel, RGB is 3)"
    refused(ShapeError, channels, lambda: model(images[:, :1]))
    refused(ShapeError, "images have shape (3, 8, 8): give (batch, 3, height, width)", lambda: model(images[0]))
    refused(ShapeError, "images have shape (2, 3, 0, 8): give (batch, 3", lambda: model(images[:, :, :0]))
    real = "images have dtype uint8: give floating-point pixels, scaled as in training"
    refused(InputError, real, lambda: model(images.to(torch.uint8)))


@pytest.mark.parametrize("name", ["embed.W.weight", "positions", "encoder.1.attention.WO.bias", "head.weight"])
def test_vit_a_weight_that_is_not_a_number_is_named(name: str, refused) -> None:  # type: ignore[no-untyped-def]
    model = build_vit()
    with torch.no_grad():
        model.get_parameter(name).view(-1)[0] = math.nan
    refused(InputError, f"weight {name} is nan at [0", lambda: model(image_vit()))


# Hassani et al. 2021, table 1
HYBRID_PUBLISHED = {hybrid.cct_2: 0.28, hybrid.cct_7: 3.76}


def image_hybrid(rows: int = 8, columns: int = 8, seed: int = 0) -> Tensor:
    return torch.randn(2, 3, rows, columns, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("size", HYBRID_PUBLISHED, ids=lambda size: size.__name__)
def test_published_sizes(size: type[HybridConfig]) -> None:
    with torch.device("meta"):
        model = Hybrid(size())
    millions = sum(weight.numel() for weight in model.parameters()) / 1e6
    assert millions == pytest.approx(HYBRID_PUBLISHED[size], abs=0.006)
    assert model(torch.zeros(1, 3, 32, 32, device="meta")).shape == (1, 10)


@torch.no_grad()
def test_tokens_are_convolutions_and_positions() -> None:
    model = Hybrid(hybrid.tiny()).eval()
    X = image_hybrid()
    for layer in model.stem:
        X = max_pool2d(conv2d(X, layer.W.weight, padding=1).relu(), 3, stride=2, padding=1)
    expected = X.permute(0, 2, 3, 1).reshape(2, 4, 16) + model.positions
    torch.testing.assert_close(model.tokens(image_hybrid()), expected)


@torch.no_grad()
def test_what_the_head_sees_is_a_weighted_mean_of_tokens() -> None:
    model = Hybrid(hybrid.tiny(), seed=1).eval()
    with trace(model) as run:
        y = model(image_hybrid())
    a, X = run["pool.a"], model.features(image_hybrid())
    assert a.shape == (2, 4)
    torch.testing.assert_close(a.sum(-1), torch.ones(2))
    torch.testing.assert_close(y, model.head(torch.einsum("bn,bnm->bm", a, X)))
    mean = Hybrid(replace(hybrid.tiny(), pool="mean")).eval()
    torch.testing.assert_close(mean(image_hybrid()), mean.head(mean.features(image_hybrid()).mean(1)))


@torch.no_grad()
def test_attention_is_watched_and_edited_as_in_a_vit() -> None:
    model = Hybrid(hybrid.tiny()).eval()
    with trace(model) as run:
        plain = model(image_hybrid())
    A = run["encoder.0.attention.A"]
    assert A.shape == (2, 2, 4, 4)
    torch.testing.assert_close(A.sum(-1), torch.ones(2, 2, 4))
    with edit(model, "encoder.0.attention.A", lambda A: torch.eye(4).expand_as(A)):
        changed = model(image_hybrid())
    assert not torch.allclose(plain, changed)


@torch.no_grad()
def test_another_size_has_another_grid_of_tokens() -> None:
    model = Hybrid(hybrid.tiny()).eval()
    assert model.tokens(image_hybrid(12, 10)).shape == (2, 9, 16)  # 12/4 and 10/4, both 3 when rounded up
    assert model.config.stem.grid((12, 10)) == (3, 3)
    assert model(image_hybrid(12, 10)).shape == (2, 5)


@pytest.mark.parametrize("norm", [None, BatchNorm(), GroupNorm(groups=4)], ids=str)
def test_saved_and_loaded(norm: BatchNorm | GroupNorm | None, tmp_path: object) -> None:
    stem = StemConfig(widths=(8, 16, 16), halves=(True, False, False), norm=norm, attending=1)
    config = replace(hybrid.tiny(), stem=stem)
    model = Hybrid(config, seed=3)
    model(image_hybrid())  # running statistics, if it keeps any
    save(model.eval(), str(tmp_path))
    again = load_folder(str(tmp_path))
    assert isinstance(again, Hybrid)
    assert again.config == config
    assert torch.equal(again(image_hybrid()), model(image_hybrid()))


@torch.no_grad()
def test_a_convolution_that_preserves_the_shape_is_residual() -> None:
    stem = StemConfig(widths=(8, 8, 8, 16), halves=(False, False, True, False), residual=True)
    model = Hybrid(replace(hybrid.tiny(), stem=stem, image=(8, 8)), seed=3)
    with trace(model) as run:
        model(image_hybrid())
    X = image_hybrid()
    for i, (adds, halve) in enumerate([(False, False), (True, False), (False, True), (False, False)]):
        Y = conv2d(X, model.state_dict()[f"stem.{i}.W.weight"], padding=1).relu()
        Y = max_pool2d(Y, 3, stride=2, padding=1) if halve else Y
        X = X + Y if adds else Y
        torch.testing.assert_close(run[f"stem.{i}.C"], X)


ATTENDING = StemConfig(
    widths=(8, 16, 16, 16), halves=(True, False, True, False), norm=BatchNorm(), residual=True, attending=2
)


@torch.no_grad()
def test_attention_can_be_each_convolution_of_the_stem() -> None:
    convolved = Hybrid(replace(hybrid.tiny(), stem=replace(ATTENDING, attending=0), image=(8, 8)), seed=3).eval()
    model = Hybrid(replace(convolved.config, stem=ATTENDING), seed=3).eval()
    own, old = model.state_dict(), convolved.state_dict()
    model.load_state_dict(own | {name: old[name] for name in own if name in old})
    for layer, convolution in zip(list(model.stem)[2:], list(convolved.stem)[2:], strict=True):
        layer.grid.WQ.weight.zero_()
        layer.grid.WQ.bias.zero_()
        layer.grid.WV.weight.copy_(torch.eye(16))
        layer.grid.WO.weight.copy_(convolution.W.weight.permute(0, 2, 3, 1).flatten(1))
        for i in range(9):
            down, right = i // 3 - 1 + hybrid.REACH, i % 3 - 1 + hybrid.REACH
            layer.positions[i, (2 * hybrid.REACH + 1) * down + right] = 50
    for size in ((8, 8), (12, 10)):
        torch.testing.assert_close(model(image_hybrid(*size)), convolved(image_hybrid(*size)))
    with trace(model) as run:
        model(image_hybrid(12, 10))
    for path, (rows, columns) in model.cell_grids((12, 10)).items():
        assert run[f"{path}.A"].shape == (2, 9, rows * columns, (rows + 2) * (columns + 2))


@pytest.mark.parametrize("stem", [hybrid.tiny().stem, ATTENDING], ids=["convolutions", "attention"])
def test_every_weight_gets_a_gradient(stem: StemConfig) -> None:
    model = Hybrid(replace(hybrid.tiny(), stem=stem))
    model(image_hybrid()).square().sum().backward()
    missing = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    # a bias of the pooling's scores moves all of them alike, and a bias of keys too: softargmax does not see it
    assert [name for name in missing if not name.endswith(("pool.W.bias", "WK.bias"))] == []


def test_invalid_arguments_are_errors() -> None:
    with pytest.raises(ConfigError, match="8 channels to blocks that are 16 wide"):
        replace(hybrid.tiny(), stem=StemConfig(widths=(4, 8), halves=(True, True)))
    with pytest.raises(ConfigError, match="halve"):
        StemConfig(widths=(4, 8), halves=(True,))
    with pytest.raises(ConfigError, match="3 groups"):
        StemConfig(widths=(4, 8), halves=(True, True), norm=GroupNorm(groups=3))
    with pytest.raises(ConfigError, match="2 of 2 convolutions"):
        StemConfig(widths=(8, 8), halves=(True, True), attending=2)
    with pytest.raises(ConfigError, match="one width"):
        StemConfig(widths=(4, 8), halves=(True, True), attending=1)
    with pytest.raises(ConfigError, match="pool"):
        replace(hybrid.tiny(), pool="cls")  # type: ignore[arg-type]


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
def test_convolutional_configs_that_describe_no_model(changes, message) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**changes)


def test_convolutional_a_weight_that_is_not_a_number_is_named() -> None:
    model = ConvNet2d(tiny()).eval()
    nn.init.constant_(model.blocks[1].W2.W.weight, float("nan"))
    with pytest.raises(
        InputError, match=r"weight blocks\.1\.W2\.W\.weight is nan at \[0, 0, 0, 0\]: load the weights again"
    ):
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


# Images and texts in one space.


def image_clip(n: int = 2) -> Tensor:
    return torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


TEXTS = torch.tensor([[3, 4, 29, 0, 0], [5, 29, 29, 29, 29], [1, 2, 3, 4, 29]])


def build_clip(**changes: object) -> CLIP:
    return CLIP(replace(clip.tiny(), **changes), seed=1).double().eval()  # type: ignore[arg-type]


def test_the_published_size() -> None:
    with torch.device("meta"):
        model = CLIP(clip.base_32())
    assert sum(weight.numel() for weight in model.parameters()) == 151_277_313
    seen, said = torch.zeros(1, 3, 224, 224, device="meta"), torch.zeros(2, 77, device="meta", dtype=torch.long)
    assert model(seen, said).shape == (1, 2)


@torch.no_grad()
def test_scores_are_cosines_over_the_temperature() -> None:
    model = build_clip()
    x, y = model.images(image_clip()), model.texts(TEXTS)
    assert x.shape == (2, 8)
    cosine = torch.nn.functional.cosine_similarity(x[:, None], y[None], dim=-1)
    torch.testing.assert_close(model(image_clip(), TEXTS), cosine / 0.07, rtol=1e-6, atol=1e-6)
    assert math.isclose(float(model.tau), 2.6592, abs_tol=1e-4)


@torch.no_grad()
def test_a_text_is_its_first_end_token_and_nothing_after_it() -> None:
    model = build_clip()
    other = TEXTS.clone()
    other[0, 3:] = 7
    torch.testing.assert_close(model.texts(other), model.texts(TEXTS))
    assert model.ends(TEXTS).tolist() == [2, 1, 4]
    torch.testing.assert_close(model.texts(TEXTS[:1, :3]), model.texts(TEXTS)[:1])
    X = model.text.decode(TEXTS)
    torch.testing.assert_close(model.texts(TEXTS)[1], model.text_projection(X[1, 1]))  # type: ignore[misc]
    old = build_clip(end=None)
    assert old.ends(torch.tensor([[3, 9, 2, 9], [1, 1, 8, 0]])).tolist() == [1, 2]


@torch.no_grad()
def test_one_tower_alone(refused) -> None:  # type: ignore[no-untyped-def]
    sees, reads = build_clip(text=None), build_clip(vision=None, width=0)
    assert sees.images(image_clip()).shape == (2, 8)
    assert reads.texts(TEXTS).shape == (3, 12)
    assert not hasattr(sees, "tau")
    refused(ConfigError, "this model has no text tower: load both", lambda: sees(image_clip(), TEXTS))
    refused(ConfigError, "this model has no image tower: load both", lambda: reads(image_clip(), TEXTS))


def test_seeds_copies_and_paths() -> None:
    before = torch.get_rng_state()
    model, same, other = (CLIP(clip.tiny(), seed=seed).double() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(model(image_clip(), TEXTS), same(image_clip(), TEXTS))
    assert not torch.equal(model(image_clip(), TEXTS), other(image_clip(), TEXTS))
    assert torch.equal(copy.deepcopy(model)(image_clip(), TEXTS), model(image_clip(), TEXTS))
    paths = dict(model.named_modules())
    wanted = ("vision.encoder.1.attention.A", "text.0.attention.A", "x", "y", "S")
    assert all(isinstance(paths[path], Tap) for path in wanted)
    model(image_clip(), TEXTS).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_clip_configs_that_describe_no_model(refused) -> None:  # type: ignore[no-untyped-def]
    neither = lambda: CLIPConfig(vision=None, text=None, width=3)
    refused(ConfigError, "CLIP has neither an image nor a text tower: give it", neither)
    classes = "the image tower has 5 classes: give it 0: texts are the classes"
    refused(ConfigError, classes, lambda: replace(clip.tiny(), vision=vit.tiny()))
    refused(ConfigError, "the joint space has width 0", lambda: replace(clip.tiny(), width=0))


def test_inputs_that_do_not_fit(refused) -> None:  # type: ignore[no-untyped-def]
    model = build_clip()
    no_end = "text 1 has no end token 29: let the tokenizer add it"
    refused(InputError, no_end, lambda: model.texts(torch.tensor([[3, 29], [4, 5]])))
    refused(ShapeError, "position 10 is beyond the 10 learned positions", lambda: model.texts(torch.full((1, 11), 29)))
    refused(InputError, "token 30 is outside the vocabulary of 30", lambda: model.texts(torch.tensor([[30, 29]])))


@pytest.mark.parametrize("name", ["tau", "text.1.ffn.W1.weight", "vision.prefix"])
def test_clip_a_weight_that_is_not_a_number_is_named(name: str, refused) -> None:  # type: ignore[no-untyped-def]
    model = build_clip()
    with torch.no_grad():
        model.get_parameter(name).fill_(math.nan)
    refused(InputError, f"weight {name.removeprefix('vision.')} is nan", lambda: model(image_clip(), TEXTS))
