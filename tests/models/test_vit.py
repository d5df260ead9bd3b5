from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from glassformer.errors import ConfigError, InputError, ShapeError
from glassformer.models import ViT, ViTConfig, vit
from glassformer.models.vit import Resize
from glassformer.nn import NormConfig, Tap, patches

# torchvision's and DeiT's counts; those of Ti/32 and S/32 differ by the larger patches and fewer positions.
PUBLISHED = {
    vit.tiny_16: 5_717_416,
    vit.small_16: 22_050_664,
    vit.base_16: 86_567_656,
    vit.large_16: 304_326_632,
    vit.tiny_32: 5_717_416 + 192 * (3 * (32**2 - 16**2) - (14**2 - 7**2)),
    vit.small_32: 22_050_664 + 384 * (3 * (32**2 - 16**2) - (14**2 - 7**2)),
    vit.base_32: 88_224_232,
    vit.large_32: 306_535_400,
}


def image(height: int = 8, width: int = 8, seed: int = 0) -> Tensor:
    return torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build(**changes: object) -> ViT:
    model = ViT(replace(vit.tiny(), **changes)).double().eval()  # type: ignore[arg-type]
    with torch.no_grad():
        model.positions.mul_(50)  # large enough to be seen
    return model


@pytest.mark.parametrize("size", PUBLISHED, ids=lambda size: size.__name__)
def test_published_sizes_made_without_memory(size: Callable[[], ViTConfig]) -> None:
    with torch.device("meta"):
        model = ViT(size())
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    assert sum(weight.numel() for weight in model.parameters()) == PUBLISHED[size]
    assert model(torch.zeros(1, 3, 224, 224, device="meta")).shape == (1, 1000)


def test_the_same_seed_gives_the_same_model_and_global_randomness_is_untouched() -> None:
    before = torch.get_rng_state()
    one, same, other = (ViT(vit.tiny(), seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(weight, same.state_dict()[key]) for key, weight in one.state_dict().items())
    assert not torch.equal(one(image().float()), other(image().float()))
    assert all(weight.any() for weight in one.parameters() if weight.dim() > 1), "every matrix starts random"


@torch.no_grad()
def test_tokens_are_cls_and_patches_with_positions() -> None:
    model = build()
    X = model.tokens(image())
    assert X.shape == (2, 5, 16)
    assert model.prefix is not None
    torch.testing.assert_close(X[:, 0], (model.prefix[0] + model.positions[0]).expand(2, -1))
    torch.testing.assert_close(X[:, 1:], model.embed.W(patches(image(), (4, 4))) + model.positions[1:])


@torch.no_grad()
def test_the_head_sees_cls_or_the_mean_of_the_patches() -> None:
    model = build()
    X = model.features(image())
    assert model.head is not None
    torch.testing.assert_close(model(image()), model.head(X[:, 0]))
    mean = build(pool="mean", registers=2)
    X = mean.features(image())
    assert X.shape == (2, 1 + 2 + 4, 16)
    torch.testing.assert_close(mean(image()), mean.head(X[:, 3:].mean(1)))  # type: ignore[misc]
    bare = build(pool="mean", prefix=0)
    assert bare.prefix is None
    torch.testing.assert_close(bare(image()), bare.head(bare.features(image()).mean(1)))  # type: ignore[misc]


@torch.no_grad()
def test_cls_and_the_mean_side_by_side() -> None:
    model = build(pool="both", registers=2)
    assert model.head is not None
    X = model.features(image())
    torch.testing.assert_close(model(image()), model.head(torch.cat([X[:, 0], X[:, 3:].mean(1)], 1)))
    assert model.head.in_features == 32
    assert build(pool="both", classes=0)(image()).shape == (2, 32)


@torch.no_grad()
def test_a_norm_after_pooling() -> None:
    model = build(pool="mean", last_norm=None, pool_norm=NormConfig(eps=1e-3))
    assert model.encoder.norm is None
    assert model.head is not None
    x = model.features(image())[:, 1:].mean(1)
    torch.testing.assert_close(model(image()), model.head(torch.nn.functional.layer_norm(x, (16,), eps=1e-3)))


@torch.no_grad()
def test_the_heads_of_a_distilled_model_are_averaged() -> None:
    model = build(prefix=2, teacher=True)
    assert model.head is not None
    assert model.teacher_head is not None
    X = model.features(image())
    torch.testing.assert_close(model(image()), (model.head(X[:, 0]) + model.teacher_head(X[:, 1])) / 2)


@torch.no_grad()
def test_a_prefix_without_positions() -> None:
    model = build(prefix_positions=False, registers=2, patch_bias=False)
    assert model.prefix is not None
    assert model.registers is not None
    assert model.positions.shape == (4, 16)
    assert model.embed.W.bias is None
    X = model.tokens(image())
    front = torch.cat([model.prefix, model.registers])
    torch.testing.assert_close(X[:, :3], front.expand(2, -1, -1))
    torch.testing.assert_close(X[:, 3:], model.embed(image()) + model.positions)
    assert model.tokens(image(12, 16)).shape == (2, 3 + 12, 16)


@torch.no_grad()
def test_the_head_of_pre_training_has_two_layers() -> None:
    model = build(hidden=7)
    assert model.head is not None
    assert model.head_hidden is not None
    x = model.features(image())[:, 0]
    torch.testing.assert_close(model(image()), model.head(torch.tanh(model.head_hidden(x))))
    assert model.head.in_features == 7
    none = build(classes=0)
    assert none.head is None
    torch.testing.assert_close(none(image()), none.features(image())[:, 0])


@torch.no_grad()
def test_registers_stand_between_cls_and_patches_and_have_no_position() -> None:
    model = build(registers=3)
    X = model.tokens(image())
    assert model.registers is not None
    torch.testing.assert_close(X[:, 1:4], model.registers.expand(2, -1, -1))
    torch.testing.assert_close(X[:, 4:], model.embed(image()) + model.positions[1:])
    assert model.positions.shape == (5, 16)


@torch.no_grad()
def test_hidden_patches_are_the_learned_mask(refused) -> None:  # type: ignore[no-untyped-def]
    model, hidden = build(masked=True), torch.tensor([[True, False, False, True], [False] * 4])
    assert model.mask is not None
    model.mask.normal_(generator=torch.Generator().manual_seed(0))
    X, plain = model.tokens(image(), hidden), model.tokens(image())
    torch.testing.assert_close(X[0, [1, 4]], model.mask + model.positions[[1, 4]])
    assert torch.equal(X[0, [0, 2, 3]], plain[0, [0, 2, 3]])
    assert torch.equal(X[1], plain[1])
    assert not torch.allclose(model.features(image(), hidden)[0], model.features(image())[0])
    none = "patches are to be hidden, and this model has no mask: build it with masked=True"
    refused(ConfigError, none, lambda: build().features(image(), hidden))
    shape = "hidden is (2, 3) for 2 images of 4 patches: give one for each patch"
    refused(ShapeError, shape, lambda: model.features(image(), hidden[:, :3]))


@torch.no_grad()
def test_a_norm_before_the_blocks() -> None:
    model = build(first_norm=NormConfig())
    seen: list[Tensor] = []
    model.X.watchers.append(seen.append)
    model(image())
    torch.testing.assert_close(seen[0].mean(-1), torch.zeros(2, 5, dtype=torch.float64), rtol=0, atol=1e-10)


@torch.no_grad()
def test_shuffled_patches_without_positions_are_the_same_class() -> None:
    model, order = build(), torch.tensor([2, 0, 3, 1])
    cut = image().unflatten(2, (2, 4)).unflatten(4, (2, 4)).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)  # b n c h w
    shuffled = cut[:, order].unflatten(1, (2, 2)).permute(0, 3, 1, 4, 2, 5).flatten(2, 3).flatten(3, 4)
    torch.testing.assert_close(patches(shuffled, (4, 4)), patches(image(), (4, 4))[:, order])
    assert not torch.allclose(model(shuffled), model(image()))
    model.positions.zero_()
    torch.testing.assert_close(model(shuffled), model(image()))


@pytest.mark.parametrize("size", [(12, 12), (16, 4), (4, 16), (8, 12)])
@pytest.mark.parametrize("how", [Resize(), Resize(mode="bilinear", align_corners=True), Resize(antialias=True)])
@torch.no_grad()
def test_positions_are_interpolated_to_another_grid(size: tuple[int, int], how: Resize) -> None:
    """16×4 has as many patches as 8×8, and other positions all the same."""
    model = build(resize=how)
    grid = size[0] // 4, size[1] // 4
    old = model.positions[1:].T.unflatten(1, (2, 2))[None]
    options = {"mode": how.mode, "antialias": how.antialias, "align_corners": how.align_corners}
    rows = interpolate(old, size=grid, **options)[0].flatten(1).T  # type: ignore[arg-type]
    X = model.tokens(image(*size))
    torch.testing.assert_close(X[:, 1:], model.embed(image(*size)) + rows)
    assert torch.equal(X[:, 0], model.tokens(image())[:, 0])  # CLS keeps its own
    assert model(image(*size)).shape == (2, 5)
    if grid[0] * grid[1] == 4:
        assert not torch.allclose(rows, model.positions[1:])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", [(8, 8), (12, 16)])
def test_it_can_be_exported(size: tuple[int, int]) -> None:
    model = ViT(vit.tiny()).eval()
    given = image(*size).float()
    shapes = ({0: torch.export.Dim("batch", max=64)},)
    program = torch.export.export(model, (given,), dynamic_shapes=shapes, strict=False)
    for batch in (given, torch.cat([given, given, given])):
        torch.testing.assert_close(program.module()(batch), model(batch))


def test_copies_and_paths() -> None:
    model = build()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(image()), model(image()))
    paths = dict(model.named_modules())
    assert all(isinstance(paths[path], Tap) for path in ("encoder.1.attention.A", "E", "X"))


def test_configs_that_describe_no_model(refused) -> None:  # type: ignore[no-untyped-def]
    tiled = "an image of 10×8 is not tiled by patches of 4×4: choose an image size that the patch divides"
    refused(ConfigError, tiled, lambda: replace(vit.tiny(), image=(10, 8)))
    refused(ConfigError, "an image of 0×8 is not tiled by patches of 4×4", lambda: replace(vit.tiny(), image=(0, 8)))
    cls = "pool='first' needs a CLS token and prefix is 0: choose prefix=1 or pool='mean'"
    refused(ConfigError, cls, lambda: replace(vit.tiny(), prefix=0))
    pool = "there is no pooling 'max': choose first (CLS), mean (of the patches) or both"
    refused(ConfigError, pool, lambda: replace(vit.tiny(), pool="max"))
    teacher = "a teacher's head on 1 prefix tokens, pool='first', 5 classes: choose prefix=2, pool='first', hidden=0"
    refused(ConfigError, teacher, lambda: replace(vit.tiny(), teacher=True))


def test_images_that_do_not_fit(refused) -> None:  # type: ignore[no-untyped-def]
    model = build()
    tiled = "an image of 9×8 is not tiled by patches of 4×4: resize it to 8×8, or choose another patch"
    refused(ShapeError, tiled, lambda: model(image(9, 8)))
    channels = "an image with 1 channels came to a model of 3: convert it (grey is 1 channel, RGB is 3)"
    refused(ShapeError, channels, lambda: model(image()[:, :1]))
    shape = "an image of shape (3, 8, 8): give (batch, channels, height, width)"
    refused(ShapeError, shape, lambda: model(image()[0]))
    bad = image()
    bad[1, 0, 0, 0] = math.nan
    refused(InputError, "the output of ViT is not finite although every weight is: look for", lambda: model(bad))


@pytest.mark.parametrize("name", ["embed.W.weight", "positions", "encoder.1.attention.WO.bias", "head.weight"])
def test_a_weight_that_is_not_a_number_is_named(name: str, refused) -> None:  # type: ignore[no-untyped-def]
    model = build()
    with torch.no_grad():
        model.get_parameter(name).view(-1)[0] = math.nan
    refused(InputError, f"weight {name} holds nan at [0", lambda: model(image()))
