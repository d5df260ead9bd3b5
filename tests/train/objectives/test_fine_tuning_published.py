"""Fine-tuned published models keep their layout, so that transformers loads what was trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from glassformer.errors import ConfigError


@pytest.mark.parametrize("lora", [None, 2])
def test_a_language_model(hf: Any, gpt2: Path, tmp_path: Path, lora: int | None) -> None:
    (tmp_path / "t.txt").write_text("the cat sat on the mat and the dog sat in the garden\n" * 80)
    trained = gf.train(
        "generate", tmp_path / "t.txt", from_=str(gpt2), steps=2, lora_rank=lora, batch_size=2, progress=False
    )
    folder = trained.save(tmp_path / "m")
    theirs = hf.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokens = torch.tensor([[5, 9, 17, 30]])
    ours = gf.load(folder)
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=1e-4, atol=1e-4)
        assert not torch.allclose(ours(tokens), gf.load(gpt2)(tokens)), "it was trained"


def test_a_sentence_encoder_on_pairs(hf: Any, bert: Path, tmp_path: Path, refused: Any) -> None:
    rows = [f"the cat sat {i},a cat was sitting {i}" for i in range(20)]
    (tmp_path / "p.csv").write_text("\n".join(["sentence1,sentence2", *rows]))
    trained = gf.train("embed", tmp_path / "p.csv", from_=str(bert), steps=3, batch_size=4, progress=False)
    assert set(trained.metrics) == {"nearest"}
    folder = trained.save(tmp_path / "m")
    assert gf.embed(gf.load(folder), "the cat").shape == gf.embed(gf.load(bert), "the cat").shape
    hf.AutoModel.from_pretrained(folder)
    said = "training on sentence pairs needs an encoder to fine-tune: add --from"
    refused(ConfigError, said, lambda: gf.train("embed", tmp_path / "p.csv", progress=False))
