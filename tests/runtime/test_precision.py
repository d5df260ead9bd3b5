"""Every precision agrees with float32 on every architecture, with taps watched and edited; int8 refuses to train."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cosine_similarity

import glassformer as gf
from glassformer.errors import ConfigError, InputError
from glassformer.lens import zero_head
from glassformer.runtime import bench, machine, precision_of, prepare
from glassformer.runtime.calibration import Group
from glassformer.runtime.example import example
from glassformer.runtime.kernels import Float32Kernel, Int8Kernel, Scaling
from glassformer.runtime.precision import AGREEMENT, choose, layers
from runtime.small_models import KINDS, make, tensor_of

ATTENDING = ("decoder", "llama", "encoder", "vit")
TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2, "int8": 3e-2}


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


@pytest.mark.parametrize(
    "scaling",
    [Scaling(), Scaling(exact=torch.tensor([3, 40])), Scaling(remainder=True),
     Scaling(exact=torch.tensor([3]), remainder=True)],
    ids=["per row", "exact", "remainder", "both"],
)  # fmt: skip
@torch.no_grad()
def test_large_channels_and_rows_do_not_drown_the_others(scaling: Scaling) -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(2, 5, 64, generator=generator), torch.randn(24, 64, generator=generator)
    bias = torch.randn(24, generator=generator)
    x[0, 1] *= 1000
    if scaling.exact is not None:
        x[..., 3] *= 200
    expected = torch.nn.functional.linear(x, weight, bias)
    found = Int8Kernel(scaling)(x, weight, bias)
    error = (found - expected).norm(dim=-1) / expected.norm(dim=-1)
    assert error.max() < 0.02
    assert (Int8Kernel()(x, weight, bias) - expected).norm(dim=-1).div(expected.norm(dim=-1)).max() > 0.2
    assert torch.equal(Int8Kernel(scaling)(x[1, 2:3] * 0, weight, None), torch.zeros(1, 24))


@torch.no_grad()
def test_the_remainder_leaves_the_rounding_of_the_weights() -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(7, 64, generator=generator), torch.randn(24, 64, generator=generator)
    scale = weight.abs().amax(1, keepdim=True) / 127
    expected = x @ ((weight / scale).round() * scale).T
    error = (Int8Kernel(Scaling(remainder=True))(x, weight, None) - expected).norm() / expected.norm()
    assert error < 2e-4
    assert (Int8Kernel(Scaling())(x, weight, None) - expected).norm() / expected.norm() > 10 * error


def with_outliers() -> gf.models.Decoder:
    """A decoder with a channel that is 150 times as large as the others after every norm."""
    model, _ = make("llama")
    for name, module in model.named_modules():
        if name.endswith("norm"):
            module.gamma.data[5] *= 150  # type: ignore[operator,union-attr,index]
    return model.eval()  # type: ignore[return-value]


@torch.no_grad()
def test_calibration_finds_outlier_channels_and_keeps_joint_products() -> None:
    model, (_, call) = with_outliers(), make("llama")
    expected = tensor_of(call(model))
    for layer in layers(model):
        layer.kernel = Int8Kernel()
    plain = cosine_similarity(tensor_of(call(model)), expected, dim=-1).mean()
    prepare(model, "int8")
    found = tensor_of(call(model))
    assert cosine_similarity(found, expected, dim=-1).mean() > max(0.998, float(plain))
    assert plain < 0.99
    assert precision_of(model) == "int8"
    attention = model.get_submodule("decoder.0.attention")
    Q, K, V = (getattr(attention, name).kernel for name in ("WQ", "WK", "WV"))
    assert Q.scaling is not None
    assert 5 in Q.scaling.exact
    assert Q.joins(K)
    assert Q.joins(V)
    assert not Q.joins(Int8Kernel())
    assert not Q.joins(Float32Kernel())
    X = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(0))
    one = attention.WK(X)
    joint = Q.joint(X, (attention.WQ, attention.WK, attention.WV))[1]
    torch.testing.assert_close(joint, one, rtol=1e-4, atol=1e-4 * float(one.abs().max()))
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(tensor_of(call(again)), found)
        kernels = [again.get_submodule(f"decoder.0.attention.{name}").kernel for name in ("WQ", "WK")]
        assert kernels[0].joins(kernels[1])
    prepare(model, "int8")
    assert torch.equal(tensor_of(call(model)), found), "the choice depends on the weights alone"


def test_a_model_without_an_example_is_prepared_without_calibration() -> None:
    tower = torch.nn.Sequential(gf.nn.Linear(8, 8))
    prepare(tower, "int8")
    assert [layer.kernel.scaling for layer in layers(tower)] == [None]  # type: ignore[union-attr]


def test_a_faster_way_is_taken_where_it_is_as_accurate() -> None:
    generator = torch.Generator().manual_seed(0)
    even, channel, row = (torch.randn(128, 768, generator=generator) for _ in range(3))
    channel[:, 7] *= 100
    row[4] *= 100
    found = []
    for x in (even, channel, row):
        group = Group(x)
        group.weights.append(torch.randn(64, 768, generator=generator))
        group.choose()
        found.append(group.scaling)
    assert found[0] is None
    assert 7 in found[1].exact  # type: ignore[union-attr,operator]
    assert found[2].exact is None  # type: ignore[union-attr]
