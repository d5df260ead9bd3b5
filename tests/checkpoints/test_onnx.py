from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoints import onnx, save
from glassformer.checkpoints.onnx import Call, explicit, export_onnx
from glassformer.errors import CheckpointError, InputError
from glassformer.models import (
    CLIP,
    Decoder,
    Encoder,
    Seq2Seq,
    ViT,
    Whisper,
    clip,
    decoder,
    encoder,
    seq2seq,
    vit,
    whisper,
)

pytestmark = pytest.mark.usefixtures("unchecked")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.mark.slow
def test_a_decoder_with_grouped_heads(tmp_path: Path) -> None:
    model = Decoder(decoder.tiny_modern(), seed=1)
    made = export_onnx(save(model, tmp_path / "model"), tmp_path / "model.onnx")
    assert made.apart is not None
    assert made.apart < 1e-5
    session = onnxruntime.InferenceSession(str(made.path))
    tokens = torch.randint(50, (4, 11), generator=torch.Generator().manual_seed(0))
    real = torch.ones(4, 11, dtype=torch.bool)
    real[2, :5] = False
    (theirs,) = session.run(None, {"tokens": tokens.numpy(), "real": real.numpy()})
    ours = model.eval()(tokens, real)
    torch.testing.assert_close(torch.from_numpy(theirs)[real], ours[real], atol=1e-5, rtol=1e-4)
    alone = model(tokens[2:3, 5:])  # padding changes nothing
    torch.testing.assert_close(torch.from_numpy(theirs)[2, 5:], alone[0], atol=1e-5, rtol=1e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.onnx"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: Encoder(encoder.tiny(), seed=1),
        lambda: Seq2Seq(seq2seq.tiny(), seed=1),
        lambda: ViT(vit.tiny(), seed=1),
        lambda: Whisper(whisper.tiny(), seed=1),
        lambda: CLIP(clip.tiny(), seed=1),
        lambda: Encoder(replace(encoder.tiny(), classes=3, pooler=True), seed=1),
    ],
)
def test_other_kinds(tmp_path: Path, make: Callable[[], Any]) -> None:
    made = export_onnx(save(make(), tmp_path / "model"), tmp_path / "model.onnx")
    assert made.apart is not None
    assert made.apart < 1e-4


@pytest.mark.slow
def test_a_masked_language_model_gives_token_logits(tmp_path: Path) -> None:
    model = Encoder(replace(encoder.tiny(), word_head=True), seed=1).eval()
    made = export_onnx(save(model, tmp_path / "model"), tmp_path / "model.onnx")
    assert made.output == "token logits"
    tokens, real = torch.tensor([[5, 6, 7]]), torch.ones(1, 3, dtype=torch.bool)
    (theirs,) = onnxruntime.InferenceSession(str(made.path)).run(None, {"tokens": tokens.numpy(), "real": real.numpy()})
    torch.testing.assert_close(torch.from_numpy(theirs), model.words(model(tokens, real)), atol=1e-5, rtol=1e-4)


def test_what_is_exported_is_stated() -> None:
    plain, words = (Encoder(replace(encoder.tiny(), word_head=head)) for head in (False, True))
    assert [Call(plain).output, Call(words).output, Call(words, pooled=True).output] == [
        "embeddings",
        "token logits",
        "embeddings",
    ]
    call = Call(words)
    assert call(*call.example(2, 5).values()).shape == (2, 5, words.config.text.vocabulary)


def test_layers_are_explicit_only_meanwhile() -> None:
    model = Decoder(decoder.tiny()).eval()
    before = model(torch.tensor([[1, 2, 3]]))
    with explicit(model):
        assert all(block.attention.A.edited for block in model.decoder.blocks())
        torch.testing.assert_close(model(torch.tensor([[1, 2, 3]])), before)
    assert not any(block.attention.A.edited for block in model.decoder.blocks())


def test_a_file_that_is_not_equal_is_not_kept(tmp_path: Path, monkeypatch: Any, refused: Any) -> None:
    class Wrong:
        def __init__(self, *_: Any, **__: Any) -> None: ...
        def get_inputs(self) -> list[Any]:
            return []

        def run(self, *_: Any) -> list[Any]:
            return [torch.zeros(1).numpy()]

    call = Call(Decoder(decoder.tiny()).eval())
    monkeypatch.setattr(onnxruntime, "InferenceSession", Wrong)
    refused(CheckpointError, "the ONNX file answers", lambda: onnx._compared(call, tmp_path))


def test_what_is_refused(tmp_path: Path, refused: Any) -> None:
    refused(InputError, "a.bin is not named as ONNX is", lambda: export_onnx(tmp_path, tmp_path / "a.bin"))
    (tmp_path / "a.onnx").write_text("")
    refused(InputError, f"{tmp_path / 'a.onnx'} is there already", lambda: export_onnx(tmp_path, tmp_path / "a.onnx"))
