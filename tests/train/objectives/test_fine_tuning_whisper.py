"""Fine-tuning Whisper: losses as Hugging Face computes them on the same labels, and the layout it came in."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
import webdataset
from tokenizers import Tokenizer, models

import glassformer as gf
from glassformer.train import TrainArgs, Trained, fit
from glassformer.train.objectives import build


@pytest.fixture(scope="module")
def whisper(hf: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whisper")
    names = ["endoftext", "startoftranscript", "en", "it", "transcribe", "translate", "nospeech", "notimestamps"]
    special = [f"<|{name}|>" for name in (*names, *(f"{i * 0.02:.2f}" for i in range(101)))]
    letters = [" ", *map(chr, range(97, 123))]
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate([*letters, *special])}, []))
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    token = tokenizer.token_to_id
    sides = {"layers": 2, "ffn_dim": 24, "attention_heads": 2}
    config = hf.WhisperConfig(
        vocab_size=len(letters) + len(special), num_mel_bins=80, d_model=12, max_source_positions=100,
        max_target_positions=64, pad_token_id=token("<|endoftext|>"), bos_token_id=token("<|endoftext|>"),
        eos_token_id=token("<|endoftext|>"), decoder_start_token_id=token("<|startoftranscript|>"),
        suppress_tokens=None, begin_suppress_tokens=None,
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sides.items()},
    )  # fmt: skip
    torch.manual_seed(0)
    model = hf.WhisperForConditionalGeneration(config)
    model.generation_config = hf.GenerationConfig(
        lang_to_id={f"<|{name}|>": token(f"<|{name}|>") for name in ("en", "it")},
        task_to_id={name: token(f"<|{name}|>") for name in ("transcribe", "translate")},
        no_timestamps_token_id=token("<|notimestamps|>"), decoder_start_token_id=token("<|startoftranscript|>"),
        eos_token_id=token("<|endoftext|>"), pad_token_id=token("<|endoftext|>"),
    )  # fmt: skip
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for i in range(6):
        soundfile.write(tmp_path / f"{i}.wav", 0.1 * random.standard_normal(8000 + 1600 * i), 16000)
    rows = [f"{i}.wav,{'ciao ' * (i + 1)}bella" for i in range(6)]
    (tmp_path / "metadata.csv").write_text("\n".join(["file_name,transcription", *rows, "7.wav,missing"]) + "\n")
    return tmp_path


@pytest.mark.slow
def test_losses_equal_hugging_faces(hf: Any, whisper: Path, clips: Path, tmp_path: Path) -> None:
    args = TrainArgs(
        task="transcribe", data=str(clips), val=str(clips), from_=str(whisper), language="it", augment=False, steps=4,
        batch_size=3, lr=1e-2, log_every=1, schedule="constant", warmup=0, weight_decay=0.0, grad_clip=0.0,
    )  # fmt: skip
    model, objective = build(args)
    theirs = hf.WhisperForConditionalGeneration.from_pretrained(whisper)
    trainable = [weight for weight in theirs.parameters() if weight.requires_grad]
    optimizer, expected = torch.optim.AdamW(trainable, lr=1e-2, weight_decay=0.0), []
    words = Tokenizer.from_file(str(whisper / "tokenizer.json"))
    for rows in [*objective.epoch(0), *objective.epoch(1)][:4]:
        batch = objective.batch(rows, 0)
        usable = [row for row in rows if row < 6]
        before = "<|it|><|transcribe|><|notimestamps|>"
        ids = [words.encode(f"{before} {'ciao ' * (row + 1)}bella<|endoftext|>").ids for row in usable]
        longest = max(map(len, ids))
        labels = torch.tensor([[*one, *[-100] * (longest - len(one))] for one in ids])
        out = theirs(input_features=batch["frames"].mT, labels=labels)
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
        expected.append(float(out.loss.detach()))
    trained = fit(model, objective, args)
    found = [line["loss"] for line in trained.history]
    assert found == pytest.approx(expected, rel=2e-4)
    assert found[0] - found[-1] > 0.1, "it learned"
    assert objective.faults.summary() == ["missing recording: 1 (7.wav)"]
    folder = trained.save(tmp_path / "m")
    again = hf.WhisperForConditionalGeneration.from_pretrained(folder)
    frames, tokens = torch.randn(1, 200, 80), torch.tensor([[28, 3, 4]])
    with torch.no_grad():
        peer = again(input_features=frames.mT, decoder_input_ids=tokens).logits
        torch.testing.assert_close(gf.load(folder)(frames, tokens), peer, rtol=1e-4, atol=1e-4)
    same = gf.load(whisper).state_dict()["positions"]
    assert torch.equal(gf.load(folder).state_dict()["positions"], same), "the positions are a formula"


def test_lora_and_the_language(
    hf: Any, whisper: Path, clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = gf.train("transcribe", clips, from_=str(whisper), lora_rank=2, steps=2, batch_size=2)
    assert "language of the recordings: " in capsys.readouterr().err
    assert set(trained.metrics) == {"wer", "loss"}
    _, left = hf.WhisperForConditionalGeneration.from_pretrained(trained.save(tmp_path / "m"), output_loading_info=True)
    assert not any(left.values()), left
    model = gf.load(trained.save(tmp_path / "m"))
    assert isinstance(gf.transcribe(model, clips / "0.wav").text, str)


@pytest.mark.slow
def test_a_stream_of_recordings(whisper: Path, clips: Path, streams_like_files: Callable[..., Trained]) -> None:
    file = io.BytesIO()
    with webdataset.TarWriter(file) as sink:
        for i in range(6):
            sink.write({"__key__": str(i), "wav": (clips / f"{i}.wav").read_bytes(), "txt": "ciao bella"})
    same: dict[str, Any] = {"from_": str(whisper), "language": "it", "batch_size": 1, "lr": 1e-2}
    streams_like_files("transcribe", file.getvalue(), ".tar", rows=2, **same)
