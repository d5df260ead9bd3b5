"""Choosing, preparing, saving and exporting in every precision; int8 refuses to train."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

import glassformer as gf
from glassformer.errors import ConfigError, InputError
from glassformer.models import Decoder, seq2seq
from glassformer.pipelines.real_inputs import real_sample
from glassformer.pipelines.tokenizers import tokenizer_of
from glassformer.runtime import bench, calibration, machine, precision_of, prepare
from glassformer.runtime.calibration import Group, one_by_one
from glassformer.runtime.example import example
from glassformer.runtime.kernels import KERNELS, PLAIN, Float32Kernel, HalfKernel, Int8Kernel, Scaling
from glassformer.runtime.machine import why_not
from glassformer.runtime.precision import AGREEMENT, choose, layers
from runtime.small_models import KINDS, TOKENS, make, tensor_of


def able(precision: str) -> str:
    if precision not in machine().chosen:
        pytest.skip(f"{precision} does not run on this processor: {dict(machine().refused)}")
    return precision


@pytest.mark.parametrize("kind", ["decoder", "llama", "encoder", "vit"])
@torch.no_grad()
def test_lazy_patterns_give_the_outputs_of_the_heads_in_int8(kind: str) -> None:
    model, call = make(kind)
    prepare(model.eval(), "int8")
    path = next(name for name, _ in model.named_modules() if name.endswith(".0.attention.A")).removesuffix("A")
    with gf.trace(model, *(path + name for name in "AVH")) as run:
        call(model)
    A, V, H = (run[path + name] for name in "AVH")
    V = V.repeat_interleave(A.shape[1] // V.shape[1], dim=1)
    assert torch.allclose(A.sum(-1), torch.ones_like(A[..., 0]), atol=1e-5)
    assert torch.allclose(A @ V, H, atol=1e-5)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_low_precision_refuses_gradients(precision: str) -> None:
    model, call = make("decoder")
    prepare(model, able(precision))
    call(model)  # nothing asks for gradients
    model.requires_grad_(True)
    with pytest.raises(InputError, match=f"prepared for {precision} has no gradients"):
        call(model)


@pytest.mark.parametrize("kind", KINDS)
def test_int8_refuses_training_mode(kind: str) -> None:
    model, call = make(kind)
    prepare(model, "int8").train()
    if any(layers(model)):
        with pytest.raises(InputError, match='int8 has no gradients: load it with precision="fp32" to train it'):
            call(model)
    with torch.no_grad():
        call(model)  # dropout alone needs no gradients


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_torch_exports_a_prepared_model(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.runtime.precision.PACKED_FROM", 0)
    model, _ = make("encoder")
    expected = model.eval()(TOKENS)
    prepare(model, able(precision)).requires_grad_(False)
    program = torch.export.export(model, (TOKENS,))
    torch.testing.assert_close(program.module()(TOKENS), expected, rtol=1e-4, atol=1e-5)


def test_auto_does_not_freeze_a_model() -> None:
    model, call = make("decoder")
    model.get_submodule("decoder.embed").requires_grad_(False)
    wanted = [weight.requires_grad for weight in model.parameters()]
    choose(model, lambda: call(model), rounds=1)
    assert [weight.requires_grad for weight in model.parameters()] == wanted
    tensor_of(call(model.train())).sum().backward()


def test_auto_takes_fp32_for_other_weights() -> None:
    for kind in ("decoder", "vit"):
        model, _ = make(kind)
        model.double()
        assert choose(model).precision == "fp32"
        assert precision_of(prepare(model, "auto")) == "fp32"


@pytest.mark.slow
def test_auto_compares_on_real_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Tensor] = []
    respond = Decoder.respond
    monkeypatch.setattr(Decoder, "respond", lambda self, X: (seen.append(X), respond(self, X))[1])
    model = gf.load("writer", precision="auto", device="cpu")
    assert f"precision {precision_of(model)} (" in capsys.readouterr().err
    words = tokenizer_of(model)
    assert any("Alice was beginning to get very tired" in words.decode(X[0].tolist()) for X in seen)


def test_a_precision_that_does_not_work_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {"BFloat16Kernel": "no bfloat16 products", "OneDNNInt8Kernel": "no AMX"}
    here = replace(machine(), chosen={"fp32": "torch", "int8": "Int8Kernel"}, refused=refused)
    monkeypatch.setattr("glassformer.runtime.precision.machine", lambda: here)
    with pytest.raises(InputError, match=r"on this machine \(no bfloat16 products\): use fp32 or int8$"):
        prepare(make("decoder")[0], "bf16")


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


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_an_example(kind: str) -> None:
    model, _ = make(kind)
    run, other = example(model.eval()), example(model, seed=1)
    with torch.no_grad():
        assert torch.equal(run(), run())
        assert not torch.equal(run(), other())


def test_the_example_of_two_vocabularies_has_tokens_of_both() -> None:
    config = seq2seq.tiny()
    config = replace(config, source=replace(config.source, vocabulary=20), shared=False)
    with torch.no_grad():
        example(seq2seq.Seq2Seq(config).eval(), length=64)()


@pytest.mark.parametrize("kind", ["recurrent-seq2seq", "convnet2d"])
def test_models_without_a_start_token_or_a_size_are_measured(kind: str) -> None:
    model, _ = make(kind)
    assert {row.precision for row in bench(model, rounds=1, length=8)} >= {"torch", "int8"}
    assert precision_of(prepare(model, "int8")) == "int8"


def test_bench_measures_every_precision_and_leaves_the_model_in_float32() -> None:
    model, call = make("decoder")
    before = tensor_of(call(model.eval()))
    rows = bench(model, rounds=1, length=8)
    assert [row.precision for row in rows] == ["torch", *(p for p in ("fp32", "bf16", "int8") if p in machine().chosen)]
    assert rows[0].relative == 1.0
    assert rows[0].kernel == "torch"
    assert rows[1].kernel == machine().small, "no layer is large enough for oneDNN"
    assert rows[-1].kernel == machine().chosen["int8"]
    assert all(row.tokens_per_second and row.tokens_per_second > 0 and row.cosine > 0.99 for row in rows)
    assert precision_of(model) == "fp32"
    assert torch.allclose(tensor_of(call(model)), before, atol=1e-5)
    assert all(weight.requires_grad for weight in model.parameters()), "it is not frozen"


@pytest.fixture(params=KERNELS["int8"])
def kernel(request: pytest.FixtureRequest) -> type[Int8Kernel]:
    if request.param.__name__ in machine().refused:
        pytest.skip(machine().refused[request.param.__name__])
    return request.param  # type: ignore[no-any-return]


@torch.no_grad()
def test_large_sums_do_not_overflow(kernel: type[Int8Kernel]) -> None:
    """Processors without VNNI add products in 16 bits."""
    x, weight = torch.ones(32, 256), torch.ones(64, 256)
    torch.testing.assert_close(kernel()(x, weight, None), x @ weight.T, rtol=1e-2, atol=0.0)
    torch.testing.assert_close(kernel()(x, -weight, None), x @ -weight.T, rtol=1e-2, atol=0.0)


@pytest.mark.parametrize("outlier", ["row", "channel", "both"])
@torch.no_grad()
def test_large_channels_and_rows_do_not_drown_the_others(outlier: str, kernel: type[Int8Kernel]) -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(2, 5, 64, generator=generator), torch.randn(24, 64, generator=generator)
    bias, divisor = torch.randn(24, generator=generator), None
    if outlier != "channel":
        x[0, 1] *= 1000
    if outlier != "row":
        x[..., 3] *= 200
        weight[:, 3] /= 200
        divisor = torch.ones(64).index_fill(0, torch.tensor([3]), 200.0)
    expected = torch.nn.functional.linear(x, weight, bias)
    scaling = Scaling(divisor=divisor, per_row=outlier != "channel")
    found = kernel(scaling)(x, weight, bias)
    error = (found - expected).norm(dim=-1) / expected.norm(dim=-1)
    assert error.max() < 0.03
    assert (kernel()(x, weight, bias) - expected).norm(dim=-1).div(expected.norm(dim=-1)).max() > 0.2
    assert torch.equal(kernel(scaling)(x[1, 2:3] * 0, weight, None), torch.zeros(1, 24))


def with_outliers() -> gf.models.Decoder:
    """A decoder with a channel that is 60 times as large as the others after every norm."""
    model, _ = make("llama")
    for name, module in model.named_modules():
        if name.endswith("norm"):
            module.gamma.data[5] *= 60  # type: ignore[operator,union-attr,index]
    return model.eval()  # type: ignore[return-value]


@torch.no_grad()
def test_calibration_finds_outlier_channels_and_keeps_joint_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "ONE_ROW", calibration.ONE_ROW._replace(exact=1e6))  # small layers would be exact
    model, (_, call) = with_outliers(), make("llama")
    expected = tensor_of(call(model))
    for layer in layers(model):
        layer.kernel = Int8Kernel()
    plain = cosine_similarity(tensor_of(call(model)), expected, dim=-1).mean()
    prepare(model, "int8")
    found = tensor_of(call(model))
    assert cosine_similarity(found, expected, dim=-1).mean() > max(0.998, float(plain))
    assert plain < 0.998
    assert precision_of(model) == "int8"
    attention = model.get_submodule("decoder.0.attention")
    Q, K, V = (getattr(attention, name).kernel for name in ("WQ", "WK", "WV"))
    assert Q.scaling.divisor.argmax() == 5
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


def test_a_model_without_an_example_says_that_it_is_not_calibrated() -> None:
    tower = torch.nn.Sequential(gf.nn.Linear(8, 8))
    with pytest.warns(UserWarning, match="int8 is not calibrated and may be inaccurate: there is no example input"):
        prepare(tower, "int8")
    assert [layer.kernel.scaling for layer in layers(tower)] == [PLAIN]  # type: ignore[union-attr]


def test_errors_of_the_ways_to_round() -> None:
    generator = torch.Generator().manual_seed(0)
    even, channel, row = (torch.randn(128, 768, generator=generator) for _ in range(3))
    channel[:, 7] *= 100
    row[4] *= 100
    weight = torch.randn(1024, 768, generator=generator)
    found = []
    for x in (even, channel, row):
        group = Group(x)
        group.weights.append(weight)
        one, divided, per_row, outliers, both, exact = group.methods(127)
        assert one.time < divided.time < per_row.time < both.time < exact.time
        assert divided.time < outliers.time < both.time
        assert exact.scaling is None
        assert 7 in outliers.scaling.exact or x is not channel  # type: ignore[union-attr]
        found.append([one.error, divided.error, per_row.error, outliers.error])
    assert found[0][0] < 0.02
    assert found[1][1] < 0.3 * found[1][0], "divisors help against a large channel"
    assert found[1][3] < 0.8 * found[1][1], "and float32 for it even more"
    assert found[2][2] < 0.1 * found[2][1], "and a scale for each row against a large row"


@pytest.mark.parametrize("per_row", [False, True])
@torch.no_grad()
def test_exact_channels_are_not_rounded(per_row: bool, kernel: type[Int8Kernel]) -> None:
    """With all but one channel exact, and nothing in that one, the product is that of float32."""
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(2, 5, 64, generator=generator), torch.randn(24, 64, generator=generator)
    bias, divisor = torch.randn(24, generator=generator), torch.rand(64, generator=generator) + 0.5
    x[..., 3] = 0
    x[0, 1] *= 1e20
    exact = torch.tensor([i for i in range(64) if i != 3])
    for one in (None, divisor):
        chosen = kernel(Scaling(divisor=one, exact=exact, per_row=per_row))
        expected = torch.nn.functional.linear(x, weight, bias)
        error = (chosen(x, weight, bias) - expected).norm(dim=-1) / expected.norm(dim=-1)
        assert error.max() < 1e-5
        strided = x[1:].transpose(0, 1)
        torch.testing.assert_close(chosen(strided, weight, bias), expected[1:].transpose(0, 1), rtol=1e-4, atol=1e-4)
        assert torch.equal(copy.deepcopy(chosen)(x * 0, weight, None), torch.zeros(2, 5, 24))
        if kernel is Int8Kernel:  # oneDNN's operator drops the other axes
            assert chosen(x[:, :0], weight, bias).shape == (2, 0, 24)
    rounded = kernel(Scaling(exact=exact[:8], per_row=True))(x[1], weight, bias)
    expected = torch.nn.functional.linear(x[1], weight, bias)
    assert 0 < (rounded - expected).norm() / expected.norm() < 0.02


@torch.no_grad()
def test_float16_weights_are_nearly_exact() -> None:
    if why_not(HalfKernel) is not None:
        pytest.skip(str(why_not(HalfKernel)))
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(2, 5, 64, generator=generator), torch.randn(24, 64, generator=generator)
    x[0, 1] *= 1e20  # activations stay float32
    bias = torch.randn(24, generator=generator)
    expected = torch.nn.functional.linear(x, weight.half().float(), bias)
    torch.testing.assert_close(HalfKernel()(x, weight, bias), expected, rtol=1e-4, atol=1e-4)
    assert HalfKernel()(x[:, :0], weight, bias).shape == (2, 0, 24)
    first, second = (gf.nn.Linear(64, 24) for _ in range(2))
    for layer in (first, second):
        layer.weight.normal_(generator=generator)
        layer.kernel = HalfKernel()
    joint = first.kernel.joint(x, (first, second))
    assert torch.equal(joint[1], second(x))
    again = pickle.loads(pickle.dumps(copy.deepcopy(second)))
    assert torch.equal(again(x), second(x))


def test_layers_that_generators_give_one_row_at_a_time() -> None:
    assert one_by_one(make("encoder")[0]) == set()
    decoder, _ = make("llama")
    assert set(layers(decoder)) <= one_by_one(decoder)
    for kind in ("seq2seq", "whisper"):
        model, _ = make(kind)
        found = {name for name, layer in model.named_modules() if layer in one_by_one(model)}
        assert "decoder.0.attention.WK" in found
        assert "decoder.0.cross.WQ" in found
        assert not {name for name in found if name.startswith("encoder") or name.endswith(("cross.WK", "cross.WV"))}


@torch.no_grad()
def test_int8_that_does_not_agree_is_replaced_layer_by_layer() -> None:
    """Weights whose rows have one huge entry round all others to 0, whatever the input."""
    model, call = make("decoder")
    expected = tensor_of(call(model.eval()))
    prepare(model, "int8")
    assert precision_of(model) == "int8"
    for block in range(2):
        W = model.get_submodule(f"decoder.{block}.ffn.W2")
        W.weight[:, 0] *= 3000  # type: ignore[operator,index]
        W1 = model.get_submodule(f"decoder.{block}.ffn.W1")
        generator = torch.Generator().manual_seed(block)
        W1.weight[0] = 0.01 * torch.randn(W1.weight.shape[1], generator=generator)  # type: ignore[operator,index,union-attr,arg-type]
    prepare(model, "fp32")
    expected = tensor_of(call(model))
    prepare(model, "int8")
    found = tensor_of(call(model))
    assert cosine_similarity(found, expected, dim=-1).mean() > 0.998
    assert precision_of(model) == "int8"


@pytest.mark.parametrize(("name", "compared"), [("tiny:vit", "random input"), ("digits", "pictures of Fashion-MNIST"),
                                                ("listener", "read speech")])  # fmt: skip
def test_auto_says_what_it_compared(name: str, compared: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = gf.load(name, precision="auto", device="cpu")
    said = capsys.readouterr().err
    assert f"precision {precision_of(model)} (" in said
    assert f"compared on {compared}" in said
    assert ("int8 is calibrated on random input" in said) == name.startswith("tiny:")


def test_calibration_and_comparison_have_different_inputs() -> None:
    for name in ("digits", "listener", "finder"):
        model = gf.load(name, device="cpu")
        with torch.no_grad():
            one, other = (real_sample(model, purpose).run() for purpose in ("calibrate", "compare"))
        assert one.shape != other.shape or not torch.allclose(one, other)
