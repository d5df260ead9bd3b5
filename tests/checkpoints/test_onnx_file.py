from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoints import onnx_file, save
from glassformer.checkpoints.onnx_file import Call, explicit, export_onnx
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
    (theirs,) = session.run(None, {"tokens": tokens.numpy()})
    torch.testing.assert_close(torch.from_numpy(theirs), model.eval()(tokens), atol=1e-5, rtol=1e-4)
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
    refused(CheckpointError, "the ONNX file answers", lambda: onnx_file._compared(call, tmp_path))


def test_what_is_refused(tmp_path: Path, refused: Any) -> None:
    refused(InputError, "a.bin is not named as ONNX is", lambda: export_onnx(tmp_path, tmp_path / "a.bin"))
    (tmp_path / "a.onnx").write_text("")
    refused(InputError, f"{tmp_path / 'a.onnx'} is there already", lambda: export_onnx(tmp_path, tmp_path / "a.onnx"))
