"""A weight that is missing, too many, misshapen or not a float is named, in our words and in theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from glassformer.checkpoints import load
from glassformer.checkpoints.bind import bind
from glassformer.checkpoints.families.dinov2 import DINOV2
from glassformer.checkpoints.families.gpt2 import GPT2
from glassformer.errors import CheckpointError
from glassformer.models import Decoder, ViT, decoder, vit

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
        (drop, rf"weight {C_ATTN} is missing, for our decoder\.1\.attention\.WQ\.weight and"),
        (cut, rf"weight {C_ATTN} is 12×35, and config\.json asks for 12×36 \(our decoder\.1\.attention\.WQ"),
        (turned, "is 36×12, and .* 12×36"),
        (quantised, rf"weight {C_ATTN} holds int8"),
        (unknown, r"weight transformer\.h\.1\.adapter\.weight has no place"),
        (deeper, r"weight transformer\.h\.2\.ln_1\.weight has no place"),
        (no_number, rf"weight {C_ATTN} holds nan at place 3"),
    ],
)
def test_bad_weights_are_named(tiny: Path, change: Callable[[dict[str, Tensor]], None], said: str) -> None:
    tensors = load_file(tiny / "model.safetensors")
    change(tensors)
    save_file(tensors, tiny / "model.safetensors")
    with pytest.raises(CheckpointError, match=said):
        load(tiny)


def test_a_tied_weight_under_its_other_name(tiny: Path) -> None:
    """Some files keep the head and leave out the table."""
    tensors = load_file(tiny / "model.safetensors")
    plain = load(tiny)
    tensors["lm_head.weight"] = tensors.pop("transformer.wte.weight")
    save_file(tensors, tiny / "model.safetensors")
    assert torch.equal(load(tiny).decoder.embed.table.weight, plain.decoder.embed.table.weight)


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
