"""Names in files, and which of them a family knows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from glassformer.checkpoints import FAMILIES, recognise
from glassformer.checkpoints.bind import bind
from glassformer.checkpoints.family import Family
from glassformer.checkpoints.rules import linear, same
from glassformer.errors import CheckpointError, ConfigError

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
