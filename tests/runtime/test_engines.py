"""ONNX Runtime and OpenVINO with a key/value cache, padding, changed weights and saving; what they refuse."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.errors import ConfigError, InputError
from glassformer.models import Decoder, Seq2Seq, decoder, seq2seq
from glassformer.runtime import engine_of, precision_of, prepare, use_engine
from runtime.small_models import TOKENS, WITHOUT_BLOCKS, make, tensor_of

TOLERANCE = 1e-5


def on_engine(model: nn.Module, engine: str) -> nn.Module:
    pytest.importorskip(engine)
    return use_engine(model.eval(), engine)


def decode(model: nn.Module) -> Tensor:
    """Prompts of several lengths, a few steps, rows that change places, another step."""
    session = model.session() if isinstance(model, Decoder) else model.session(start=(1,), ends=(2,))  # type: ignore[operator]
    logits = [session.prefill([torch.arange(3, 9), torch.arange(3, 6)], 6)]
    logits += [session.step(torch.tensor([5 + i, 7 + i])) for i in range(3)]
    session.reorder(torch.tensor([1, 0]))
    return torch.stack([*logits, session.step(torch.tensor([5, 6]))])


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("kind", ["plain", "modern", "translator"])
def test_decoding_with_a_cache_and_padding(kind: str, engine: str, runs: list[bool]) -> None:
    models = {
        "plain": lambda: Decoder(decoder.tiny(), seed=1),
        "modern": lambda: Decoder(decoder.tiny_modern(), seed=1),
        "translator": lambda: Seq2Seq(seq2seq.tiny_modern(), seed=1),
    }
    model = models[kind]().eval()
    expected = decode(model)
    found = decode(on_engine(model, engine))
    assert all(runs)
    assert (found - expected).abs().amax() <= TOLERANCE * expected.abs().amax()


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
@torch.no_grad()
def test_padding_does_not_change_a_sequence(engine: str, runs: list[bool]) -> None:
    model, _ = make("encoder")
    on_engine(model, engine)
    real = torch.ones_like(TOKENS, dtype=torch.bool)
    real[1, 7:] = False
    alone = model(TOKENS[1:, :7])
    torch.testing.assert_close(model(TOKENS, real)[1:, :7], alone, rtol=1e-4, atol=1e-5)
    assert all(runs)


@torch.no_grad()
def test_a_changed_weight_gives_a_new_graph() -> None:
    model, call = make("decoder")
    on_engine(model, "onnxruntime")
    call(model)
    model.get_submodule("decoder.0.ffn.W2").weight.mul_(3.0)  # type: ignore[operator]
    found = tensor_of(call(model))
    torch.testing.assert_close(found, tensor_of(call(use_engine(model, "torch"))), rtol=1e-4, atol=1e-4)


def test_loading_and_saving(tmp_path: Path) -> None:
    model, _ = make("decoder")
    gf.save(model, tmp_path / "plain")
    pytest.importorskip("onnxruntime")
    loaded = gf.load(tmp_path / "plain", engine="onnxruntime", device="cpu")
    assert engine_of(loaded) == "onnxruntime"
    gf.save(loaded, tmp_path / "again")
    for (name, ours), theirs in zip(model.named_parameters(), gf.load(tmp_path / "again").parameters(), strict=True):
        assert torch.equal(ours, theirs), name


def test_it_refuses_to_train() -> None:
    model, call = make("decoder")
    on_engine(model, "onnxruntime")
    assert not any(weight.requires_grad for weight in model.parameters())
    with pytest.raises(InputError, match="'onnxruntime' is frozen: load it without an engine to train it"):
        call(model.train())


def test_an_engine_and_a_precision_exclude_each_other() -> None:
    model, _ = make("decoder")
    prepare(model, "int8")
    assert precision_of(on_engine(model, "onnxruntime")) == "fp32"
    with pytest.raises(InputError, match="'int8' does not apply to a model with an engine"):
        prepare(model, "int8")


@pytest.mark.parametrize("kind", WITHOUT_BLOCKS)
def test_a_model_without_blocks_is_refused(kind: str) -> None:
    with pytest.raises(InputError, match=r"runs Transformer blocks, and a .* has none"):
        use_engine(make(kind)[0], "onnxruntime")


def test_other_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = make("decoder")
    with pytest.raises(ConfigError, match="engine='tensorrt' is not known: choose one of torch, onnxruntime, openvino"):
        use_engine(model, "tensorrt")
    for engine in ("onnxruntime", "openvino"):
        for precision in ("int8", "bf16", "auto"):
            with pytest.raises(ConfigError, match=f"'{engine}' computes in fp32, not in precision='{precision}'"):
                use_engine(model, engine, precision)
    with pytest.raises(InputError, match="needs float32 weights on the CPU"):
        use_engine(copy.deepcopy(model).double(), "onnxruntime")
    import importlib

    find = importlib.import_module
    missing = lambda name: (_ for _ in ()).throw(ImportError) if name == "openvino" else find(name)
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(InputError, match=r"needs the package openvino, .*pip install glassformer\[openvino\]"):
        use_engine(model, "openvino")


@pytest.mark.skipif(sys.platform != "linux", reason="checks a signal stack of Linux")
@pytest.mark.variants(1)
@pytest.mark.parametrize("deleted", [True, False])
def test_a_signal_is_handled_after_openvino_has_run(deleted: bool) -> None:
    pytest.importorskip("openvino")
    program = (
        "import faulthandler, os, signal, torch\n"
        "from glassformer.models import Seq2Seq, seq2seq\n"
        "from glassformer.runtime import use_engine\n"
        "faulthandler.enable()\n"  # as pytest does; handlers of Python run on its stack
        "signal.signal(signal.SIGUSR1, lambda *_: print('handled'))\n"
        "model = use_engine(Seq2Seq(seq2seq.tiny(), seed=0).eval(), 'openvino')\n"
        "model(torch.tensor([[4, 5, 6]]), torch.tensor([[1, 8]]))\n"
        f"{'del model' if deleted else ''}\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "handled\n", "")
