"""Templates fit the names they should and no others."""

from __future__ import annotations

import pytest

from glassformer.checkpoints.rules import fill, layer, linear, norm, same, skeleton


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
    assert layer(template, name) == expected
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
