"""Image models equal Hugging Face's: ViT, DeiT, DINOv2, CLIP, and the files of timm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import interpolate

import glassformer as gf
from glassformer import load, save
from glassformer.checkpoints import origin_of, parity, published_weights
from glassformer.checkpoints.float64 import Float64Mode
from glassformer.errors import CheckpointError, ConfigError
from glassformer.models import CLIP, ViT

# ViT against Hugging Face.


VIT_SMALL = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
VIT_SMALL |= {"image_size": 8, "patch_size": 4}


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("ViTForImageClassification", {"num_labels": 5}),
        ("ViTForImageClassification", {"qkv_bias": False, "layer_norm_eps": 0.1, "hidden_act": "gelu_new"}),
        ("ViTForImageClassification", {"hidden_size": 15, "image_size": (8, 12), "num_channels": 1}),
        ("ViTForImageClassification", {"patch_size": (4, 2), "hidden_act": "quick_gelu", "num_attention_heads": 1}),
        ("ViTModel", {"pooler_output_size": 7, "num_hidden_layers": 1}),
        ("ViTModel", {"hidden_act": "relu"}),
    ],
)
def test_vit_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    model = require_equal(publish(getattr(hf, kind)(hf.ViTConfig(**VIT_SMALL | changes))))
    assert isinstance(model, ViT)
    assert model.config.classes == (0 if kind == "ViTModel" else changes.get("num_labels", 2))
    assert model.config.hidden == (changes.get("pooler_output_size", 12) if kind == "ViTModel" else 0)


def test_without_a_pooler(hf: Any, publish: Any) -> None:
    """What comes out is the first token after the last norm."""
    folder = publish(hf.ViTModel(hf.ViTConfig(**VIT_SMALL), add_pooling_layer=False))
    image = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        theirs = hf.ViTModel.from_pretrained(folder, add_pooling_layer=False)(image).last_hidden_state
        torch.testing.assert_close(load(folder).features(image), theirs, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(load(folder)(image), theirs[:, 0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [(12, 12), (16, 8), (4, 16), (4, 4)])
def test_vit_other_sizes(hf: Any, publish: Any, size: tuple[int, int]) -> None:
    """Bicubic, without antialiasing; 4×16 has as many patches as 8×8, and is resized all the same."""
    kind = hf.ViTForImageClassification
    folder = publish(kind(hf.ViTConfig(**VIT_SMALL)))
    image = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad(), Float64Mode():
        theirs = kind.from_pretrained(folder, dtype=torch.float64)(image, interpolate_pos_encoding=True).logits
    with torch.no_grad():
        torch.testing.assert_close(load(folder, dtype=torch.float64)(image), theirs, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(load(folder)(image.float()), theirs.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"pooler_act": "relu"}, "pooler_act"),
        ({"image_size": 9}, "9×9 is not tiled"),
        ({"image_size": [8, 8, 8]}, "image_size"),
        ({"patch_size": 0}, "patch_size"),
        ({"architectures": ["ViTForMaskedImageModeling"]}, "ViTForMaskedImageModeling"),
        ({"num_attention_heads": 5}, "does not split into 5 heads"),
        ({"num_channels": 10**9}, "num_channels"),
    ],
)
def test_vit_what_is_not_supported_is_named(hf: Any, publish: Any, changes: dict[str, Any], named: str) -> None:
    folder = publish(hf.ViTModel(hf.ViTConfig(**VIT_SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | changes))
    with pytest.raises(ConfigError, match=named):
        load(folder)


def test_a_missing_head_and_a_larger_image_are_named(hf: Any, publish: Any) -> None:
    folder = publish(hf.ViTForImageClassification(hf.ViTConfig(**VIT_SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | {"image_size": 16}))
    with pytest.raises(CheckpointError, match=r"position_embeddings is 1×5×12, and config\.json asks for 1×17×12"):
        load(folder)
    tensors = load_file(folder / "model.safetensors")
    save_file({n: t for n, t in tensors.items() if not n.startswith("classifier")}, folder / "model.safetensors")
    with pytest.raises(ConfigError, match=r"classifier\.weight is not in the file"):
        load(folder)


# I-JEPA against Hugging Face.


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("IJepaForImageClassification", {"num_labels": 5, "layer_norm_eps": 0.1, "num_channels": 1}),
        ("IJepaForImageClassification", {"image_size": (8, 12), "hidden_size": 15, "qkv_bias": False}),
    ],
)
def test_ijepa_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    model = require_equal(publish(getattr(hf, kind)(hf.IJepaConfig(**VIT_SMALL | changes))))
    assert isinstance(model, ViT)
    assert (model.config.prefix, model.config.pool) == (0, "mean")


# DeiT against Hugging Face.


DEIT_SMALL = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
DEIT_SMALL |= {"image_size": 8, "patch_size": 4}
TEACHER = "DeiTForImageClassificationWithTeacher"


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (TEACHER, {"num_labels": 5, "layer_norm_eps": 0.1}),
        (TEACHER, {"image_size": (8, 12), "hidden_size": 15, "qkv_bias": False}),
        ("DeiTForImageClassification", {"num_labels": 3, "hidden_act": "gelu_new"}),
        ("DeiTModel", {"num_attention_heads": 4, "pooler_output_size": 9}),
    ],
)
def test_deit_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    model = require_equal(publish(getattr(hf, kind)(hf.DeiTConfig(**DEIT_SMALL | changes))))
    assert isinstance(model, ViT)
    assert model.config.prefix == 2
    assert model.config.teacher == (kind == TEACHER)


@pytest.mark.parametrize("size", [(12, 12), (16, 4)])
def test_deit_other_sizes(hf: Any, publish: Any, size: tuple[int, int]) -> None:
    kind = hf.DeiTForImageClassificationWithTeacher
    folder = publish(kind(hf.DeiTConfig(**DEIT_SMALL)))
    image = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad(), Float64Mode():
        theirs = kind.from_pretrained(folder, dtype=torch.float64)(image, interpolate_pos_encoding=True).logits
    with torch.no_grad():
        torch.testing.assert_close(load(folder, dtype=torch.float64)(image), theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("left_out", "named"),
    [("cls_classifier.weight", "cls_classifier"), ("deit.embeddings.distillation_token", "distillation_token")],
)
def test_what_is_missing_is_named(hf: Any, publish: Any, left_out: str, named: str) -> None:
    folder = publish(hf.DeiTForImageClassificationWithTeacher(hf.DeiTConfig(**DEIT_SMALL)))
    tensors = load_file(folder / "model.safetensors")
    del tensors[left_out]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises((CheckpointError, ConfigError), match=named):
        load(folder)


# DINOv2, with and without registers, against Hugging Face.


DINOV2_SMALL = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "mlp_ratio": 2}
DINOV2_SMALL |= {"image_size": 8, "patch_size": 4}


def build(hf: Any, kind: str, changes: dict[str, Any]) -> Any:
    config = hf.Dinov2WithRegistersConfig if "Registers" in kind else hf.Dinov2Config
    return getattr(hf, kind)(config(**DINOV2_SMALL | changes))


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("Dinov2Model", {"layer_norm_eps": 0.1, "mlp_ratio": 3}),
        ("Dinov2Model", {"use_swiglu_ffn": True, "use_mask_token": False}),
        ("Dinov2ForImageClassification", {"num_labels": 5, "hidden_size": 15, "qkv_bias": False}),
        ("Dinov2ForImageClassification", {"use_swiglu_ffn": True, "num_hidden_layers": 1}),
        ("Dinov2WithRegistersModel", {"num_register_tokens": 3, "hidden_act": "gelu_new"}),
        ("Dinov2WithRegistersForImageClassification", {"use_swiglu_ffn": True, "num_attention_heads": 2}),
    ],
)
def test_dinov2_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    model = require_equal(publish(build(hf, kind, changes)))
    assert isinstance(model, ViT)
    assert model.config.pool == ("both" if "Classification" in kind else "first")
    assert model.config.registers == (changes.get("num_register_tokens", 4) if "Registers" in kind else 0)
    assert model.config.resize.antialias == ("Registers" in kind)
    assert model.config.masked == changes.get("use_mask_token", True)


@pytest.mark.parametrize("kind", ["Dinov2ForImageClassification", "Dinov2WithRegistersForImageClassification"])
@pytest.mark.parametrize("size", [(12, 12), (16, 8), (4, 16), (4, 4)])
def test_dinov2_other_sizes(hf: Any, publish: Any, kind: str, size: tuple[int, int]) -> None:
    """Bicubic, with antialiasing only where there are registers."""
    folder = publish(build(hf, kind, {}))
    image = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad(), Float64Mode():
        theirs = getattr(hf, kind).from_pretrained(folder, dtype=torch.float64)(image).logits
    with torch.no_grad():
        torch.testing.assert_close(load(folder, dtype=torch.float64)(image), theirs, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(load(folder)(image.float()), theirs.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["Dinov2Model", "Dinov2WithRegistersModel"])
def test_hidden_patches(hf: Any, publish: Any, kind: str) -> None:
    folder = publish(build(hf, kind, {}))
    image = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    hidden = torch.tensor([[True, False, False, True], [False, False, True, False]])
    with torch.no_grad():
        theirs = getattr(hf, kind).from_pretrained(folder)(image, bool_masked_pos=hidden).last_hidden_state
        torch.testing.assert_close(load(folder).features(image, hidden), theirs, rtol=1e-4, atol=1e-4)


def test_dinov2_what_is_not_supported_is_named(hf: Any, publish: Any) -> None:
    folder = publish(build(hf, "Dinov2ForImageClassification", {}))
    tensors = load_file(folder / "model.safetensors")
    save_file({n: t for n, t in tensors.items() if not n.startswith("classifier")}, folder / "model.safetensors")
    with pytest.raises(ConfigError, match=r"classifier\.weight is not in the file"):
        load(folder)
    folder = publish(build(hf, "Dinov2Model", {"image_size": (8, 16)}), "wide")
    with pytest.raises(ConfigError, match="square"):
        load(folder)


# CLIP, both towers and each alone, against Hugging Face.


BLOCKS = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
VISION = BLOCKS | {"image_size": 8, "patch_size": 4}
TEXT = BLOCKS | {"vocab_size": 30, "max_position_embeddings": 9, "eos_token_id": 29, "bos_token_id": 28}


def both(hf: Any, vision: dict[str, Any], text: dict[str, Any], **more: Any) -> Any:
    return hf.CLIPModel(hf.CLIPConfig(vision_config=VISION | vision, text_config=TEXT | text, projection_dim=7, **more))


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("vision", "text"),
    [
        ({}, {}),
        ({"layer_norm_eps": 0.1, "hidden_act": "gelu"}, {"hidden_size": 15, "intermediate_size": 11}),
        ({"hidden_size": 10, "num_attention_heads": 2, "num_channels": 1}, {"eos_token_id": 2, "layer_norm_eps": 0.1}),
        ({"num_hidden_layers": 1, "patch_size": 2}, {"hidden_act": "gelu", "num_attention_heads": 1}),
    ],
)
def test_both_towers(hf: Any, publish: Any, require_equal: Any, vision: dict[str, Any], text: dict[str, Any]) -> None:
    model = require_equal(publish(both(hf, vision, text)))
    assert isinstance(model, CLIP)
    assert model.config.end == (None if text.get("eos_token_id") == 2 else 29)
    assert model.config.width == 7


@pytest.mark.parametrize("kind", ["CLIPVisionModel", "CLIPVisionModelWithProjection"])
def test_the_image_tower(hf: Any, publish: Any, require_equal: Any, kind: str) -> None:
    model = require_equal(publish(getattr(hf, kind)(hf.CLIPVisionConfig(**VISION, projection_dim=5))))
    assert model.config.text is None
    assert model.config.width == (5 if "Projection" in kind else 0)


@pytest.mark.variants(2)
@pytest.mark.parametrize("kind", ["CLIPTextModel", "CLIPTextModelWithProjection"])
@pytest.mark.parametrize("end", [2, 29])
def test_the_text_tower(hf: Any, publish: Any, require_equal: Any, kind: str, end: int) -> None:
    config = hf.CLIPTextConfig(**TEXT | {"eos_token_id": end}, projection_dim=5)
    model = require_equal(publish(getattr(hf, kind)(config)))
    assert model.config.vision is None
    assert model.config.width == (5 if "Projection" in kind else 0)


@pytest.mark.parametrize("size", [(12, 12), (16, 4)])
def test_clip_other_sizes(hf: Any, publish: Any, size: tuple[int, int]) -> None:
    folder = publish(both(hf, {}, {}))
    image = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    texts = torch.tensor([[3, 4, 29], [5, 29, 1], [29, 29, 29]])
    with torch.no_grad(), Float64Mode():
        peer = hf.CLIPModel.from_pretrained(folder, dtype=torch.float64)
        theirs = peer(texts, image, interpolate_pos_encoding=True)
    with torch.no_grad():
        model = load(folder, dtype=torch.float64)
        torch.testing.assert_close(model(image, texts), theirs.logits_per_image, rtol=1e-10, atol=1e-10)


def test_padding_as_tokenizers_make_it(hf: Any, publish: Any) -> None:
    """Theirs with its attention mask, ours without: what comes after the end is not seen."""
    folder = publish(both(hf, {}, {}))
    texts = torch.tensor([[28, 4, 5, 29], [28, 29, 1, 1]])
    real = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    with torch.no_grad():
        theirs = hf.CLIPModel.from_pretrained(folder).get_text_features(texts, real).pooler_output
        torch.testing.assert_close(load(folder).texts(texts), theirs, rtol=1e-4, atol=1e-5)


def test_old_files(hf: Any, publish: Any, tmp_path: Any) -> None:
    """position_ids among the weights, and a tower's config twice, of which the `…_dict` counts with its defaults."""
    folder = publish(both(hf, {}, {}))
    plain = load(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors |= {"text_model.embeddings.position_ids": torch.arange(9)[None]}
    tensors |= {"vision_model.embeddings.position_ids": torch.arange(5)[None]}
    save_file(tensors, folder / "model.safetensors")
    raw = json.loads((folder / "config.json").read_text())
    raw |= {"text_config_dict": TEXT, "vision_config_dict": VISION}
    raw["text_config"] = raw["text_config"] | {"eos_token_id": 2, "hidden_act": "relu"}
    (folder / "config.json").write_text(json.dumps(raw))
    assert load(folder).config == plain.config
    with torch.no_grad():
        again = load(save(load(folder), tmp_path / "saved"))
        there = again.state_dict()
        assert all(torch.equal(weight, there[name]) for name, weight in plain.state_dict().items())
        image, texts = torch.ones(1, 3, 8, 8), torch.tensor([[4, 29]])
        # where weights lie in memory decides on some processors which kernel runs, and so the last bit
        torch.testing.assert_close(again(image, texts), plain(image, texts))


def test_a_tower_under_its_old_name(hf: Any, publish: Any) -> None:
    """Earlier files of a tower have its name before all others."""
    folder = publish(hf.CLIPTextModel(hf.CLIPTextConfig(**TEXT)))
    plain = load(folder)
    tensors = {f"text_model.{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors")
    ids = torch.tensor([[4, 29]])
    assert torch.equal(load(folder).texts(ids), plain.texts(ids))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"architectures": ["CLIPForImageClassification"]}, "CLIPForImageClassification"),
        ({"vision_config": VISION | {"image_size": [8, 16]}}, "square"),
        ({"vision_config": 3}, "vision_config is 3"),
        ({"text_config": TEXT | {"num_hidden_layers": 10**9}}, "num_hidden_layers"),
        ({"projection_dim": 0}, "projection_dim"),
    ],
)
def test_clip_what_is_not_supported_is_named(hf: Any, publish: Any, changes: dict[str, Any], named: str) -> None:
    folder = publish(both(hf, {}, {}))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | changes))
    with pytest.raises(ConfigError, match=named):
        load(folder)


def test_a_missing_projection_is_named(hf: Any, publish: Any) -> None:
    folder = publish(hf.CLIPTextModelWithProjection(hf.CLIPTextConfig(**TEXT, projection_dim=5)))
    tensors = load_file(folder / "model.safetensors")
    del tensors["text_projection.weight"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"text_projection\.weight is missing"):
        load(folder)


# Files of timm: Hugging Face's classes with the same weights under timm's names are the oracle.


TIMM_SMALL = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 8, "patch_size": 4}
TIMM_SMALL |= {"layer_norm_eps": 1e-6}
RAW = {"architecture": "vit_base_patch4_8.ours", "model_args": {"num_heads": 3, "embed_dim": 12}, "num_classes": 5}
IMAGE = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

RENAMES = {
    "embeddings.cls_token": "cls_token",
    "embeddings.distillation_token": "dist_token",
    "embeddings.register_tokens": "reg_token",
    "embeddings.position_embeddings": "pos_embed",
    "embeddings.patch_embeddings.projection": "patch_embed.proj",
    "encoder.layer": "blocks",
    "attention.output.dense": "attn.proj",
    "layernorm_before": "norm1",
    "layernorm_after": "norm2",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
    "mlp.weights_in": "mlp.fc1",
    "mlp.weights_out": "mlp.fc2",
    "layer_scale1.lambda1": "ls1.gamma",
    "layer_scale2.lambda1": "ls2.gamma",
    "layernorm": "norm",
    "distillation_classifier": "head_dist",
    "cls_classifier": "head",
    "classifier": "head",
}


def as_timm(folder: Path) -> dict[str, Tensor]:
    """Hugging Face's file under timm's names."""
    tensors = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        for root in ("vit.", "deit.", "dinov2.", "dinov2_with_registers."):
            name = name.removeprefix(root)
        for old, new in RENAMES.items():
            name = name.replace(old, new)
        tensors[name] = tensor
    for name in [name for name in tensors if ".attention.attention.query." in name]:
        parts = [tensors.pop(name.replace("query", part)) for part in ("query", "key", "value")]
        tensors[name.replace("attention.attention.query", "attn.qkv")] = torch.cat(parts)
    tensors.pop("embeddings.mask_token", None)
    return tensors


def write(folder: Path, tensors: dict[str, Tensor], raw: dict[str, Any] = RAW) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(raw))
    save_file(tensors, folder / "model.safetensors")
    return folder


def peer(model: nn.Module) -> nn.Module:
    return model.double().eval()


@torch.no_grad()
def require_same(folder: Path, expected: Tensor, image: Tensor = IMAGE) -> ViT:
    exact = load(folder, dtype=torch.float64)
    torch.testing.assert_close(exact(image), expected, rtol=1e-10, atol=1e-10)
    single = load(folder)
    torch.testing.assert_close(single(image.float()), expected.float(), rtol=1e-4, atol=1e-4)
    back, given = load_file(folder / "model.safetensors"), published_weights(single)
    assert given.keys() == back.keys()
    assert all(torch.equal(tensor, back[name]) for name, tensor in given.items())
    return exact


@pytest.mark.parametrize("bias", [True, False])
def test_vit(hf: Any, publish: Any, tmp_path: Path, bias: bool) -> None:
    model = hf.ViTForImageClassification(hf.ViTConfig(**TIMM_SMALL, intermediate_size=20, qkv_bias=bias, num_labels=5))
    folder = write(tmp_path / "timm", as_timm(publish(model)))
    with torch.no_grad():
        ours = require_same(folder, peer(model)(IMAGE).logits)
    assert ours.config.image == (8, 8)
    assert ours.config.block.norm.eps == 1e-6
    assert gf.load(gf.save(load(folder), tmp_path / "saved"))(IMAGE.float()).shape == (2, 5)
    with pytest.raises(ConfigError, match="no class for the family timm"):
        parity(folder)


def test_gradients(hf: Any, publish: Any, tmp_path: Path) -> None:
    model = hf.ViTForImageClassification(hf.ViTConfig(**TIMM_SMALL, intermediate_size=20, num_labels=5))
    folder = write(tmp_path / "timm", as_timm(publish(model)))
    peer(model)(IMAGE).logits.square().sum().backward()
    ours = load(folder, dtype=torch.float64)
    ours(IMAGE).square().sum().backward()
    block, theirs = ours.get_submodule("encoder.1"), model.vit.layers[1]
    for a, b in [
        (ours.embed.W.weight.grad, model.vit.embeddings.patch_embeddings.projection.weight.grad.flatten(1)),
        (ours.positions.grad, model.vit.embeddings.position_embeddings.grad[0]),
        (block.attention.WK.weight.grad, theirs.attention.k_proj.weight.grad),
        (block.ffn.W1.bias.grad, theirs.mlp.fc1.bias.grad),
    ]:
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_a_distilled_deit(hf: Any, publish: Any, tmp_path: Path) -> None:
    config = hf.DeiTConfig(**TIMM_SMALL, intermediate_size=20, num_labels=5)
    model = hf.DeiTForImageClassificationWithTeacher(config)
    raw = RAW | {"architecture": "deit_tiny_distilled_patch16_224"}
    folder = write(tmp_path / "timm", as_timm(publish(model)), raw)
    with torch.no_grad():
        ours = require_same(folder, peer(model)(IMAGE).logits)
    assert ours.config.teacher
    assert origin_of(ours).family == "timm_distilled"  # type: ignore[union-attr]


@pytest.mark.parametrize("gated", [True, False])
def test_dinov2(hf: Any, publish: Any, tmp_path: Path, gated: bool) -> None:
    """Layer scale, SwiGLU in one matrix; no classes."""
    model = hf.Dinov2Model(hf.Dinov2Config(**TIMM_SMALL, mlp_ratio=2, use_swiglu_ffn=gated))
    raw = RAW | {"architecture": "vit_giant_patch14_dinov2", "num_classes": 0}
    folder = write(tmp_path / "timm", as_timm(publish(model)), raw)
    with torch.no_grad():
        require_same(folder, peer(model)(IMAGE).pooler_output)


def test_registers_and_a_prefix_without_positions(hf: Any, publish: Any, tmp_path: Path) -> None:
    """timm adds the position of CLS to CLS itself, once, and leaves positions to the patches."""
    model = hf.Dinov2WithRegistersModel(hf.Dinov2WithRegistersConfig(**TIMM_SMALL, mlp_ratio=2))
    tensors = as_timm(publish(model))
    tensors["cls_token"] = tensors["cls_token"] + tensors["pos_embed"][:, :1]
    tensors["pos_embed"] = tensors["pos_embed"][:, 1:].contiguous()
    raw = RAW | {"architecture": "vit_base_patch14_reg4_dinov2", "num_classes": 0}
    folder = write(tmp_path / "timm", tensors, raw)
    with torch.no_grad():
        expected = peer(model)(IMAGE).pooler_output
        torch.testing.assert_close(load(folder, dtype=torch.float64)(IMAGE), expected, rtol=1e-6, atol=1e-6)
        wide = torch.cat([IMAGE, IMAGE], 3)  # antialiased, as their registers' model has it
        expected = peer(model)(wide).pooler_output
        torch.testing.assert_close(load(folder, dtype=torch.float64)(wide), expected, rtol=1e-5, atol=1e-5)


def test_clip(hf: Any, publish: Any, tmp_path: Path) -> None:
    """A norm before the blocks, no bias of patches, eps 1e-5, QuickGELU by name."""
    config = {name: value for name, value in TIMM_SMALL.items() if name != "layer_norm_eps"}
    model = hf.CLIPVisionModel(hf.CLIPVisionConfig(**config, intermediate_size=20))
    names = {"class_embedding": "cls_token", "position_embedding.weight": "pos_embed"}
    names |= {"patch_embedding": "patch_embed.proj"}
    names |= {"pre_layrnorm": "norm_pre", "post_layernorm": "norm", "encoder.layers": "blocks", "layer_norm": "norm"}
    names |= {"self_attn.out_proj": "attn.proj", "embeddings.": ""}
    tensors = {}
    for name, tensor in load_file(publish(model) / "model.safetensors").items():
        for old, new in names.items():
            name = name.replace(old, new)
        tensors[name] = tensor
    for name in [name for name in tensors if "q_proj" in name]:
        parts = [tensors.pop(name.replace("q_proj", part)) for part in ("q_proj", "k_proj", "v_proj")]
        tensors[name.replace("self_attn.q_proj", "attn.qkv")] = torch.cat(parts)
    tensors["cls_token"], tensors["pos_embed"] = tensors["cls_token"][None, None], tensors["pos_embed"][None]
    raw = RAW | {"architecture": "vit_base_patch32_clip_quickgelu_224.openai", "num_classes": 0}
    folder = write(tmp_path / "timm", tensors, raw)
    with torch.no_grad():
        require_same(folder, peer(model)(IMAGE).pooler_output)


@pytest.mark.parametrize("norm", ["norm", "fc_norm"])
@torch.no_grad()
def test_the_mean_of_patches(hf: Any, publish: Any, tmp_path: Path, norm: str) -> None:
    """Pooled by avg, the last norm moves behind the pooling (fc_norm), unless it stays."""
    model = hf.ViTForImageClassification(hf.ViTConfig(**TIMM_SMALL, intermediate_size=20, num_labels=5))
    tensors = as_timm(publish(model))
    if norm == "fc_norm":
        tensors |= {f"fc_norm.{part}": tensors.pop(f"norm.{part}") for part in ("weight", "bias")}
    folder = write(tmp_path / "timm", tensors, RAW | {"global_pool": "avg"})
    X = IMAGE
    states: list[Tensor] = []
    peer(model).vit.layers[-1].register_forward_hook(lambda _m, _x, y: states.append(y))
    model(X)
    after = model.vit.layernorm
    x = after(states[0][:, 1:].mean(1)) if norm == "fc_norm" else after(states[0])[:, 1:].mean(1)
    require_same(folder, model.classifier(x))


@torch.no_grad()
def test_a_file_alone_is_named_by_its_architecture(hf: Any, publish: Any, tmp_path: Path) -> None:
    config = TIMM_SMALL | {"hidden_size": 192, "num_hidden_layers": 1}
    model = hf.ViTForImageClassification(hf.ViTConfig(**config, intermediate_size=20, num_labels=5))
    file = tmp_path / "vit_tiny_patch4_8.safetensors"
    save_file(as_timm(publish(model, "hf")), file)
    ours = load(file, dtype=torch.float64)
    torch.testing.assert_close(ours(IMAGE), peer(model)(IMAGE).logits, rtol=1e-10, atol=1e-10)
    assert origin_of(ours).folder == tmp_path  # type: ignore[union-attr]
    other = file.rename(tmp_path / "weights.safetensors")
    with pytest.raises(ConfigError, match=r"architecture is 'weights'.*needs its config\.json"):
        load(other)
    (tmp_path / "config.json").write_text(json.dumps(RAW | {"model_args": {"num_heads": 3}}))
    torch.testing.assert_close(load(other, dtype=torch.float64)(IMAGE), ours(IMAGE))
    in_folder = load(tmp_path / "hf" / "model.safetensors", dtype=torch.float64)  # beside Hugging Face's config.json
    torch.testing.assert_close(in_folder(IMAGE), ours(IMAGE), rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_other_sizes_are_antialiased(hf: Any, publish: Any, tmp_path: Path) -> None:
    model = hf.ViTForImageClassification(hf.ViTConfig(**TIMM_SMALL, intermediate_size=20, num_labels=5))
    folder = write(tmp_path / "timm", as_timm(publish(model)))
    table = model.vit.embeddings.position_embeddings.data.double()
    grid = table[:, 1:].mT.unflatten(2, (2, 2))
    resized = interpolate(grid, size=(3, 4), mode="bicubic", antialias=True).flatten(2).mT
    wide = TIMM_SMALL | {"image_size": (12, 16)}
    larger = hf.ViTForImageClassification(hf.ViTConfig(**wide, intermediate_size=20, num_labels=5))
    state = model.double().state_dict()
    state["vit.embeddings.position_embeddings"] = torch.cat([table[:, :1], resized], 1)
    larger.double().load_state_dict(state)
    image = torch.randn(2, 3, 12, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = larger.eval()(image).logits
    torch.testing.assert_close(load(folder, dtype=torch.float64)(image), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ({"head.weight": None, "head.bias": None}, CheckpointError, "head.weight is missing"),
        ({"blocks.0.mlp.fc1.weight": None}, CheckpointError, "fc1.weight is missing"),
        ({"blocks.1.attn.qkv.weight": None}, CheckpointError, "qkv.weight is missing"),
        ({"blocks.0.attn.q_norm.weight": torch.ones(4)}, CheckpointError, "q_norm"),
        ({"pos_embed": torch.ones(1, 7, 12)}, ConfigError, "7 positions"),
        ({"patch_embed.proj.weight": torch.ones(12, 48)}, CheckpointError, r"patch_embed.proj.weight has the shape"),
    ],
)
def test_bad_files_are_named(
    hf: Any, publish: Any, tmp_path: Path, change: dict[str, Tensor | None], kind: type[Exception], said: str
) -> None:
    model = hf.ViTForImageClassification(hf.ViTConfig(**TIMM_SMALL, intermediate_size=20, num_labels=5))
    tensors = as_timm(publish(model)) | change
    folder = write(tmp_path / "timm", {name: tensor for name, tensor in tensors.items() if tensor is not None})
    with pytest.raises(kind, match=said):
        load(folder)
