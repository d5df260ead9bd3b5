"""Fine-tuned published models have the losses of Hugging Face's, and keep a layout that transformers loads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

import glassformer as gf
from glassformer.errors import ConfigError
from glassformer.train import Batch, TrainArgs, fit
from glassformer.train.objectives import build

DROPOUT = ("resid_pdrop", "embd_pdrop", "attn_pdrop", "hidden_dropout_prob", "attention_probs_dropout_prob")
STILL = dict.fromkeys(DROPOUT, 0.0)  # its random numbers differ


def losses(
    theirs: torch.nn.Module, batches: Iterator[Batch], loss: Callable[[Batch], Tensor], lr: float
) -> list[float]:
    """Those of torch's AdamW on these batches."""
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=lr, weight_decay=0.0)
    found = []
    for batch in batches:
        value = loss(batch)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        found.append(float(value.detach()))
    return found


@pytest.mark.parametrize("task", ["generate", "embed"])
def test_losses_equal_hugging_faces(
    hf: Any, gpt2: Path, bert: Path, edited: Callable[..., Path], tmp_path: Path, task: str
) -> None:
    """Plain text and sentence pairs on the same batches: Hugging Face's model and its own loss."""
    folder = edited(gpt2 if task == "generate" else bert, config=STILL)
    if task == "generate":
        data = tmp_path / "t.txt"
        data.write_text("".join(f"the cat sat on {i} mats and the dog sat in the garden\n" for i in range(60)))
    else:
        data = tmp_path / "p.csv"
        data.write_text("\n".join(["anchor,positive", *(f"the cat sat on {i},a dog sat in {i}" for i in range(12))]))
    args = TrainArgs(
        task=task, data=str(data), val=str(data), from_=str(folder), batch_size=4, steps=4, lr=3e-3, log_every=1,
        schedule="constant", warmup=0, weight_decay=0.0, grad_clip=0.0,
    )  # fmt: skip
    model, objective = build(args)
    epochs = [*objective.epoch(0), *objective.epoch(1)][:4]
    batches = (batch for rows in epochs if (batch := objective.batch(rows, 0)) is not None)
    if task == "generate":
        theirs = hf.AutoModelForCausalLM.from_pretrained(folder).train()

        def loss(batch: Batch) -> Tensor:
            x, y = batch["tokens"][:, :-1], batch["tokens"][:, 1:].contiguous()
            return theirs(input_ids=x, labels=x, shift_labels=y).loss

    else:
        theirs = hf.AutoModel.from_pretrained(folder, add_pooling_layer=False).train()

        def loss(batch: Batch) -> Tensor:
            n, real = int(batch["pairs"]), batch["real"][..., None].float()
            X = theirs(input_ids=batch["tokens"], attention_mask=batch["real"].long()).last_hidden_state
            X = normalize((X * real).sum(1) / real.sum(1), dim=-1)
            S = 20 * X[:n] @ X[n:].mT  # the scale of sentence-transformers
            return hf.models.clip.modeling_clip.image_text_contrastive_loss(S)

    expected = losses(theirs, batches, loss, 3e-3)
    trained = fit(model, objective, args)
    found = [line["loss"] for line in trained.history]
    assert found == pytest.approx(expected, rel=2e-4)
    assert len(set(found)) == 4


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
    assert set(trained.metrics) == {"nearest", "loss"}
    assert len(trained.figures["curves"].axes[0].get_lines()) == 2, "training and validation in one panel"
    folder = trained.save(tmp_path / "m")
    assert gf.embed(gf.load(folder), "the cat").shape == gf.embed(gf.load(bert), "the cat").shape
    hf.AutoModel.from_pretrained(folder)
    said = "training on sentence pairs needs an encoder to fine-tune: add --from"
    refused(ConfigError, said, lambda: gf.train("embed", tmp_path / "p.csv", progress=False))
