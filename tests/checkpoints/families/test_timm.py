"""Files of timm: Hugging Face's classes with the same weights under timm's names are the oracle."""

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
from glassformer import load
from glassformer.checkpoints import origin_of, parity, published_weights
from glassformer.errors import CheckpointError, ConfigError
from glassformer.models import ViT

SMALL = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 8, "patch_size": 4}
SMALL |= {"layer_norm_eps": 1e-6}
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
    model = hf.ViTForImageClassification(hf.ViTConfig(**SMALL, intermediate_size=20, qkv_bias=bias, num_labels=5))
    folder = write(tmp_path / "timm", as_timm(publish(model)))
    with torch.no_grad():
        ours = require_same(folder, peer(model)(IMAGE).logits)
    assert ours.config.image == (8, 8)
    assert ours.config.block.norm.eps == 1e-6
    assert gf.load(gf.save(load(folder), tmp_path / "saved"))(IMAGE.float()).shape == (2, 5)
    with pytest.raises(ConfigError, match="no class for the family timm"):
        parity(folder)


def test_gradients(hf: Any, publish: Any, tmp_path: Path) -> None:
    model = hf.ViTForImageClassification(hf.ViTConfig(**SMALL, intermediate_size=20, num_labels=5))
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
    config = hf.DeiTConfig(**SMALL, intermediate_size=20, num_labels=5)
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
    model = hf.Dinov2Model(hf.Dinov2Config(**SMALL, mlp_ratio=2, use_swiglu_ffn=gated))
    raw = RAW | {"architecture": "vit_giant_patch14_dinov2", "num_classes": 0}
    folder = write(tmp_path / "timm", as_timm(publish(model)), raw)
    with torch.no_grad():
        require_same(folder, peer(model)(IMAGE).pooler_output)


def test_registers_and_a_prefix_without_positions(hf: Any, publish: Any, tmp_path: Path) -> None:
    """timm adds the position of CLS to CLS itself, once, and leaves positions to the patches."""
    model = hf.Dinov2WithRegistersModel(hf.Dinov2WithRegistersConfig(**SMALL, mlp_ratio=2))
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
    config = {name: value for name, value in SMALL.items() if name != "layer_norm_eps"}
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
    model = hf.ViTForImageClassification(hf.ViTConfig(**SMALL, intermediate_size=20, num_labels=5))
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
    config = SMALL | {"hidden_size": 192, "num_hidden_layers": 1}
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
    model = hf.ViTForImageClassification(hf.ViTConfig(**SMALL, intermediate_size=20, num_labels=5))
    folder = write(tmp_path / "timm", as_timm(publish(model)))
    table = model.vit.embeddings.position_embeddings.data.double()
    grid = table[:, 1:].mT.unflatten(2, (2, 2))
    resized = interpolate(grid, size=(3, 4), mode="bicubic", antialias=True).flatten(2).mT
    wide = SMALL | {"image_size": (12, 16)}
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
        ({"pos_embed": torch.ones(1, 7, 12)}, ConfigError, "7 places"),
        ({"patch_embed.proj.weight": torch.ones(12, 48)}, CheckpointError, r"patch_embed.proj.weight has the shape"),
    ],
)
def test_bad_files_are_named(
    hf: Any, publish: Any, tmp_path: Path, change: dict[str, Tensor | None], kind: type[Exception], said: str
) -> None:
    model = hf.ViTForImageClassification(hf.ViTConfig(**SMALL, intermediate_size=20, num_labels=5))
    tensors = as_timm(publish(model)) | change
    folder = write(tmp_path / "timm", {name: tensor for name, tensor in tensors.items() if tensor is not None})
    with pytest.raises(kind, match=said):
        load(folder)
