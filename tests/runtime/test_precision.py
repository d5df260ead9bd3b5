"""Every precision agrees with float32 on every architecture, with taps watched and edited; int8 refuses to train."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cosine_similarity

import glassformer as gf
from glassformer.errors import ConfigError, InputError
from glassformer.lens import zero_head
from glassformer.runtime import bench, machine, precision_of, prepare
from glassformer.runtime.example import example
from glassformer.runtime.precision import AGREEMENT, choose, layers
from runtime.small_models import KINDS, make, tensor_of

ATTENDING = ("decoder", "llama", "encoder", "vit")
TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2, "int8": 6e-2}


def able(precision: str) -> str:
    if precision not in machine().chosen:
        pytest.skip(f"{precision} does not run on this processor: {dict(machine().refused)}")
    return precision


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_every_precision_agrees_with_float32(kind: str, precision: str) -> None:
    model, call = make(kind)
    model.eval()
    expected = tensor_of(call(model))
    prepare(model, able(precision))
    found = tensor_of(call(model))
    assert precision_of(model) == (precision if list(layers(model)) else "fp32")
    assert found.dtype == torch.float32
    scale = expected.abs().amax()
    assert (found - expected).abs().amax() <= TOLERANCE[precision] * scale


@pytest.mark.parametrize("kind", ATTENDING)
@torch.no_grad()
def test_taps_are_watched_and_edited_in_int8(kind: str) -> None:
    model, call = make(kind)
    prepare(model.eval(), "int8")
    path = next(name for name, _ in model.named_modules() if name.endswith(".0.attention.A"))
    with gf.trace(model, path, path.removesuffix("A") + "H", path.removesuffix("A") + "V") as run:
        plain = tensor_of(call(model))
    A, V, H = (run[path.removesuffix("A") + name] for name in "AVH")
    V = V.repeat_interleave(A.shape[1] // V.shape[1], dim=1)
    assert torch.allclose(A.sum(-1), torch.ones_like(A[..., 0]), atol=1e-5)
    assert torch.allclose(A @ V, H, atol=1e-5), "A recomputed lazily gives the head outputs that the fused kernel gave"
    with gf.edit(model, path, zero_head(0)):
        edited = tensor_of(call(model))
    assert not torch.equal(edited, plain)
    assert torch.equal(tensor_of(call(model)), plain), "the model is as before"


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_low_precision_refuses_gradients(precision: str) -> None:
    model, call = make("decoder")
    prepare(model, able(precision))
    call(model)  # nothing asks for gradients
    model.requires_grad_(True)
    with pytest.raises(InputError, match=f"prepared for {precision} has no gradients"):
        call(model)


def test_float32_still_trains_after_it_was_prepared() -> None:
    model, call = make("decoder")
    plain = copy.deepcopy(model)
    prepare(model, "fp32")
    for each in (model, plain):
        tensor_of(call(each)).square().sum().backward()
    for (name, ours), theirs in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad), name  # type: ignore[arg-type]


@torch.no_grad()
def test_a_changed_weight_is_packed_again() -> None:
    model, call = make("decoder")
    prepare(model.eval(), "int8")
    before = tensor_of(call(model))
    model.get_submodule("decoder.0.ffn.W2").weight.mul_(3.0)  # type: ignore[operator]
    after = tensor_of(call(model))
    assert not torch.allclose(before, after)
    prepare(model, "fp32")
    assert cosine_similarity(tensor_of(call(model)).flatten(), after.flatten(), dim=0) > 0.99


def test_saving_an_int8_model_saves_its_float32_weights(tmp_path: Path) -> None:
    model, _ = make("decoder")
    prepare(model, "int8")
    gf.save(model, tmp_path / "saved")
    again = gf.load(tmp_path / "saved")
    for (name, ours), theirs in zip(model.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(ours, theirs), name


def test_auto_takes_only_what_agrees() -> None:
    model, call = make("llama")
    chosen = choose(model.eval(), lambda: call(model))
    assert chosen.cosine["fp32"] == pytest.approx(1.0)
    assert chosen.cosine[chosen.precision] >= AGREEMENT or chosen.precision == "fp32"
    assert chosen.precision in str(chosen)


def test_an_unknown_precision_is_refused() -> None:
    model, _ = make("decoder")
    with pytest.raises(ConfigError, match="precision='int4' is not known"):
        prepare(model, "int4")


@pytest.mark.parametrize("kind", ["decoder", "seq2seq", "vit", "hybrid", "whisper", "speech", "clip", "recurrent"])
def test_every_kind_has_an_example(kind: str) -> None:
    model, _ = make(kind)
    run = example(model.eval())
    with torch.no_grad():
        assert torch.equal(run(), run())


def test_bench_measures_every_precision_and_leaves_the_model_in_float32() -> None:
    model, call = make("decoder")
    before = tensor_of(call(model.eval()))
    rows = bench(model, rounds=1, length=8)
    assert [row.precision for row in rows] == ["torch", *(p for p in ("fp32", "bf16", "int8") if p in machine().chosen)]
    assert rows[0].relative == 1.0
    assert all(row.tokens_per_second and row.tokens_per_second > 0 and row.cosine > 0.99 for row in rows)
    assert precision_of(model) == "fp32"
    assert torch.allclose(tensor_of(call(model)), before, atol=1e-5)
