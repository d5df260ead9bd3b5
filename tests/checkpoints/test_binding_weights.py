"""Weights in a file are matched with parameters, every one accounted for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from glassformer.checkpoints import FAMILIES, load_folder, recognise
from glassformer.checkpoints.assemble import assign, empty, require_numbers, restore_buffers
from glassformer.checkpoints.bind import bind
from glassformer.checkpoints.families.dinov2 import DINOV2
from glassformer.checkpoints.families.gpt2 import GPT2
from glassformer.checkpoints.family import Family
from glassformer.checkpoints.rules import fill, layer_index, linear, norm, same, skeleton
from glassformer.errors import CheckpointError, ConfigError
from glassformer.models import Decoder, Seq2Seq, ViT, decoder, seq2seq, vit

# A weight that is missing, too many, misshapen or not a float is named, in our words and in theirs.


C_ATTN = "transformer.h.1.attn.c_attn.weight"


def drop(tensors: dict[str, Tensor]) -> None:
    del tensors[C_ATTN]


def cut(tensors: dict[str, Tensor]) -> None:
    tensors[C_ATTN] = tensors[C_ATTN][:, :-1].contiguous()


def turned(tensors: dict[str, Tensor]) -> None:
    tensors[C_ATTN] = tensors[C_ATTN].T.contiguous()


def quantised(tensors: dict[str, Tensor]) -> None:
    tensors[C_ATTN] = tensors[C_ATTN].to(torch.int8)


def unknown(tensors: dict[str, Tensor]) -> None:
    tensors["transformer.h.1.adapter.weight"] = torch.ones(3)


def deeper(tensors: dict[str, Tensor]) -> None:
    tensors["transformer.h.2.ln_1.weight"] = torch.ones(12)


def no_number(tensors: dict[str, Tensor]) -> None:
    tensors[C_ATTN][0, 3] = float("nan")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (drop, rf"weight {C_ATTN} is missing \(our decoder\.1\.attention\.WQ\.weight and"),
        (cut, rf"weight {C_ATTN} is 12×35, and config\.json asks for 12×36 \(our decoder\.1\.attention\.WQ"),
        (turned, "is 36×12, and .* 12×36"),
        (quantised, rf"weight {C_ATTN} has dtype int8"),
        (unknown, r"weight transformer\.h\.1\.adapter\.weight does not belong"),
        (deeper, r"weight transformer\.h\.2\.ln_1\.weight has no place"),
        (no_number, rf"weight {C_ATTN} is nan at index 3"),
    ],
)
def test_bad_weights_are_named(tiny: Path, change: Callable[[dict[str, Tensor]], None], said: str) -> None:
    tensors = load_file(tiny / "model.safetensors")
    change(tensors)
    save_file(tensors, tiny / "model.safetensors")
    with pytest.raises(CheckpointError, match=said):
        load_folder(tiny)


def test_a_tied_weight_under_its_other_name(tiny: Path) -> None:
    """Some files keep the head and leave out the table."""
    tensors = load_file(tiny / "model.safetensors")
    plain = load_folder(tiny)
    tensors["lm_head.weight"] = tensors.pop("transformer.wte.weight")
    save_file(tensors, tiny / "model.safetensors")
    assert torch.equal(load_folder(tiny).decoder.embed.table.weight, plain.decoder.embed.table.weight)


def test_a_rule_for_two_weights_needs_both() -> None:
    """A gated net has W1 and W3 in one tensor of theirs, a plain one W1 in another."""
    plain = replace(vit.tiny(), classes=0)
    for gated in (False, True):
        block = replace(plain.block, ffn=replace(plain.block.ffn, gated=gated), gain=1.0)
        config = replace(plain, block=block)
        names = {name for one in bind(DINOV2, ViT(config), config).bound for name in one.theirs}
        assert ("dinov2.encoder.layer.1.mlp.weights_in.weight" in names) == gated
        assert ("dinov2.encoder.layer.1.mlp.fc1.weight" in names) == (not gated)


def test_write_is_linear_so_gradients_go_through_it() -> None:
    model = Decoder(decoder.tiny(), seed=1)
    binding = bind(GPT2, model, model.config)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    once, twice = binding.write(weights), binding.write({name: 2 * weight for name, weight in weights.items()})
    assert all(torch.equal(2 * once[name], twice[name]) for name in once)
    assert sum(tensor.numel() for tensor in once.values()) == sum(weight.numel() for weight in weights.values())


# A model without memory, filled piece by piece.


def test_empty_has_shapes_and_no_numbers() -> None:
    model = empty(Seq2Seq, seq2seq.transformer_base())
    assert all(weight.is_meta for weight in model.parameters())


def test_a_model_beyond_every_machine() -> None:
    with pytest.raises(ConfigError, match="no model can be built from this"):
        empty(lambda width: nn.Linear(width, width), 2**40)
    with pytest.raises(ConfigError, match="probabilities"):
        empty(nn.Dropout, 7.0)
    with pytest.raises(ConfigError, match="depth must be at least 1"):
        empty(Seq2Seq, replace(seq2seq.tiny(), source=replace(seq2seq.tiny().source, depth=0)))


def test_assign_keeps_the_memory_and_the_tie() -> None:
    model = empty(Seq2Seq, seq2seq.tiny())
    table = torch.randn(40, 16)
    assign(model, "encoder.embed.table.weight", table)
    assert model.decoder.embed.table.weight.data_ptr() == table.data_ptr()
    assert model.decoder.embed.table.weight.requires_grad


class Filters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bank", torch.arange(3.0), persistent=False)

    def fill_buffers(self, dtype: torch.dtype) -> None:
        self.register_buffer("bank", torch.arange(3, dtype=dtype), persistent=False)


class Forgetful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bank", torch.arange(3.0), persistent=False)


def test_buffers_come_back() -> None:
    with torch.device("meta"):
        model = nn.Sequential(Filters(), Seq2Seq(seq2seq.tiny()))
    restore_buffers(model, torch.float64)
    assert model[0].bank.tolist() == [0, 1, 2]
    assert all(buffer.dtype == torch.float64 and not buffer.is_meta for buffer in model.buffers())
    with torch.device("meta"):
        forgetful = Forgetful()
    with pytest.raises(TypeError, match=r"Forgetful\.bank"):
        restore_buffers(forgetful, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_what_is_not_a_number_is_named(dtype: torch.dtype) -> None:
    weight = torch.full((3, 4), torch.finfo(dtype).max, dtype=dtype)  # the largest number is one
    require_numbers("w", weight)
    require_numbers("steps", torch.tensor(3))
    require_numbers("nothing", torch.empty(0, 3, dtype=dtype))
    for value in (float("nan"), float("inf")):
        wrong = weight.clone()
        wrong[1, 2] = value
        with pytest.raises(CheckpointError, match=f"weight w is {value} at index 6"):
            require_numbers("w", wrong)


# Names in files, and which of them a family knows.


TOY = Family(
    name="toy",
    types=("toy",),
    architectures=("ToyModel",),
    model=lambda config: nn.Linear(2, 2),
    config=lambda f: None,
    rules=(*linear("W.{i}", "base.fc.{i}"), same("head", "head.weight|lm.weight")),
    prefix="base.",
    aliases=((".gamma", ".weight"),),
    skip=("base.fc.{i}.mask",),
    copies=(("head.weight", "table"),),
)


def test_usual_names() -> None:
    names = ["fc.0.gamma", "base.fc.1.bias", "lm.weight", "table", "fc.0.mask", "base.fc.3.mask"]
    assert TOY.usual(names) == {
        "base.fc.0.weight": "fc.0.gamma",
        "base.fc.1.bias": "base.fc.1.bias",
        "lm.weight": "lm.weight",
        "table": "table",
    }


@pytest.mark.parametrize("name", ["fc.0.scale", "base.head.weight", "fc.x.weight", "mask"])
def test_unknown_names_are_said(name: str) -> None:
    with pytest.raises(CheckpointError, match=name):
        TOY.usual(["table", name])


def test_one_weight_under_two_names() -> None:
    with pytest.raises(CheckpointError, match=r"fc\.0\.weight and base\.fc\.0\.gamma"):
        TOY.usual(["fc.0.weight", "base.fc.0.gamma"])


def test_architectures() -> None:
    TOY.require_architecture({})
    TOY.require_architecture({"architectures": ["ToyModel"]})
    with pytest.raises(ConfigError, match="ToyForDancing"):
        TOY.require_architecture({"architectures": ["ToyForDancing"]})


@pytest.mark.parametrize("raw", [{}, {"model_type": "mamba"}, {"model_type": ["bert"]}, {"model_type": 3}])
def test_unknown_families(raw: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="model_type"):
        recognise(raw)


def test_families_do_not_share_a_type() -> None:
    types = [name for family in FAMILIES.values() for name in family.types]
    assert len(types) == len(set(types))
    assert recognise({"model_type": "bert"}) is FAMILIES["bert"]


def test_very_many_names_are_quick() -> None:
    usual = FAMILIES["bert"].usual(f"encoder.layer.{i}.output.dense.bias" for i in range(30_000))
    assert len(usual) == 30_000


def test_a_weight_without_a_rule_is_said() -> None:
    with pytest.raises(CheckpointError, match="no name for weight weight"):
        bind(TOY, nn.Linear(2, 2), None)
    assert torch.is_grad_enabled()


# Templates fit the names they should and no others.


@pytest.mark.parametrize(
    ("template", "name", "expected"),
    [
        ("h.{i}.attn.c_attn.weight", "h.11.attn.c_attn.weight", "11"),
        ("h.{i}.attn.c_attn.weight", "h.x.attn.c_attn.weight", None),
        ("h.{i}.attn", "xh.1.attn", None),
        ("h.{i}.attn", "h.1.attn.bias", None),
        ("a.b", "a.b", ""),
        ("a.b", "axb", None),
        ("block.{i}.layer.0.k", "block.3.layer.0.k", "3"),
        ("block.{i}.layer.0.k", "block.3.layer.1.k", None),
        ("{i}.x.{i}", "2.x.2", "2"),
        ("{i}.x.{i}", "2.x.3", None),
        ("a.*", "a.b.c", ""),
    ],
)
def test_layer(template: str, name: str, expected: str | None) -> None:
    assert layer_index(template, name) == expected
    if expected and "*" not in template:
        assert fill(template, expected) == name
        assert skeleton(template) == skeleton(name)


def test_pairs() -> None:
    weight, bias = linear("ffn.W1", "fc1|dense")
    assert (weight.ours, weight.theirs) == (("ffn.W1.weight",), ("fc1.weight|dense.weight",))
    assert (bias.ours, bias.theirs) == (("ffn.W1.bias",), ("fc1.bias|dense.bias",))
    gamma, beta = norm("norm", "ln_f")
    assert (gamma.ours, gamma.theirs, beta.ours, beta.theirs) == (
        ("norm.gamma",),
        ("ln_f.weight",),
        ("norm.beta",),
        ("ln_f.bias",),
    )
    assert same("a", "b").layout == weight.layout
