"""Small random models of Hugging Face's own classes, saved as they save them: the oracle for every family."""

from __future__ import annotations

import json
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers is imported: nothing is fetched

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from glassformer.checkpoints import FAMILIES, load_folder, open_published, origin_of, parity, published_weights
from glassformer.checkpoints.bind import bind
from glassformer.checkpoints.float64 import Float64Mode
from glassformer.checkpoints.parity import hugging_face, paired, record_values
from glassformer.checkpoints.samples import random_sample
from glassformer.models import Decoder, decoder

HEADS = ("word_head", "class_head", "pooler", "head", "head_hidden", "teacher_head", "")
HEADS += ("x", "y", "S", "image_projection", "text_projection")


@pytest.fixture(scope="session")
def hf() -> Any:
    """transformers itself; seconds to import, so only the tests that need it do."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    return transformers


def scramble(model: nn.Module, seed: int = 0) -> nn.Module:
    """Every weight random: as they are made, biases are 0 and gains 1, and a mistake in them would not show."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if "embed_positions" not in name:  # a table that follows from its formula
            base = 1.0 if weight.dim() == 1 and "bias" not in name else 0.0
            weight.data = base + 0.3 * torch.randn(weight.shape, generator=generator)
    for name, buffer in model.named_buffers():
        if name.endswith("final_logits_bias"):
            buffer.copy_(torch.randn(buffer.shape, generator=generator))
    return model


@pytest.fixture
def write_gpt2() -> Callable[..., Path]:
    """Our model as a folder that Hugging Face could have saved, made without transformers."""

    def write(folder: Path, model: Decoder, dtype: torch.dtype = torch.float32) -> Path:
        folder.mkdir()
        text = model.config.text
        raw = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": text.vocabulary}
        raw |= {"n_embd": text.width, "n_layer": text.depth, "n_head": text.block.attention.heads}
        (folder / "config.json").write_text(json.dumps(raw | {"n_positions": model.config.length}))
        tensors = {name: tensor.contiguous().to(dtype) for name, tensor in published_weights(model, "gpt2").items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return write


@pytest.fixture
def tiny(tmp_path: Path, write_gpt2: Callable[..., Path]) -> Path:
    """A published folder of the GPT-2 family, 2 layers of width 12."""
    return write_gpt2(tmp_path / "tiny", Decoder(decoder.plain(30, 12, 2, 3, 20), seed=0))


@pytest.fixture
def publish(tmp_path: Path) -> Callable[..., Path]:
    """A model with random weights as a folder."""

    def save(model: nn.Module, name: str = "published", **how: Any) -> Path:
        scramble(model).save_pretrained(tmp_path / name, **how)
        return tmp_path / name

    return save


@pytest.fixture
def require_equal(hf: Any) -> Callable[[Path], nn.Module]:
    """Every quantity, every gradient and every byte as in the folder; gives our model."""

    def check(folder: Path) -> nn.Module:
        report = parity(folder)
        assert report.equal, str(report)
        assert max(row.exact for row in report.rows) < 1e-10, str(report)
        assert max(row.single for row in report.rows) < 1e-4, str(report)
        require_equal_gradients(hf, folder)
        require_round_trip(folder)
        return load_folder(folder)

    return check


def require_equal_gradients(hf: Any, folder: Path) -> None:
    """∂ Σ y² / ∂ W of the last quantities y, mapped back to their names, is theirs in float64."""
    model = load_folder(folder, dtype=torch.float64).requires_grad_()  # a table that is not trained too
    origin = origin_of(model)
    assert origin is not None
    family = FAMILIES[origin.family]
    test = random_sample(model)
    with Float64Mode():
        peer = hugging_face(hf, origin.raw, folder, torch.float64)
        pairs = list(paired(family, model, peer))
        ends = [pair for pair in pairs if pair.ours in HEADS]
        ends += [pair for pair in pairs if pair.ours.endswith(".O")][-1:]  # the last block
        with record_values(peer, [(pair.theirs, pair.item) for pair in ends]) as theirs:
            peer(**test.given(peer))
        ends = [pair for pair in ends if (pair.theirs, pair.item) in theirs]
        loss = sum(energy(theirs[pair.theirs, pair.item], test.real.get(pair.ours.partition(".")[0])) for pair in ends)
        loss.backward()
    with record_values(model, [(pair.ours, 0) for pair in ends]) as ours:
        test.ours(model)
    sum(energy(ours[pair.ours, 0], test.real.get(pair.ours.partition(".")[0])) for pair in ends).backward()
    gradients = {name: zeros_for_none(weight) for name, weight in model.named_parameters()}
    binding = bind(family, model, model.config, open_published(folder).usual)
    found = binding.write(gradients)
    expected = {name: zeros_for_none(weight) for name, weight in peer.named_parameters()}
    if not {name.removeprefix(family.prefix) for name in found} <= {n.removeprefix(family.prefix) for n in expected}:
        expected |= gradients_as_saved(peer, folder.with_name("gradients"))
    compared, noise = 0, 1e-3 * max(float(gradient.abs().max()) for gradient in expected.values())
    for name, gradient in found.items():
        name = name if name in expected else name.removeprefix(family.prefix)
        if name in expected:
            scale = max(float(expected[name].abs().max()), noise)  # some are 0 in truth
            assert float((gradient - expected[name]).abs().max()) / scale < 1e-10, f"gradient of {name}"
            compared += 1
    assert compared >= len(found) - 1  # Marian's bias on the logits is a buffer with them


def gradients_as_saved(peer: Any, folder: Path) -> dict[str, Tensor]:
    """Under the names that its weights have in files: Hugging Face's own reading of them, backwards."""
    for weight in peer.parameters():
        weight.data = zeros_for_none(weight)
    peer.save_pretrained(folder)
    buffers = dict(peer.named_buffers())
    return {name: tensor for name, tensor in load_file(folder / "model.safetensors").items() if name not in buffers}


def zeros_for_none(weight: Tensor) -> Tensor:
    return torch.zeros_like(weight) if weight.grad is None else weight.grad


def energy(y: Tensor, real: Tensor | None) -> Tensor:
    return (y if real is None or y.dim() != 3 else y[real]).square().sum()


def require_round_trip(folder: Path) -> None:
    """What goes out is what came in, name for name and bit for bit; copies and buffers aside."""
    published = open_published(folder)
    given = published_weights(load_folder(folder))
    assert given.keys() <= set(published.weights)
    for name, tensor in given.items():
        assert torch.equal(tensor, published.weights.read(name)), name
    left = set(published.usual.values()) - given.keys()
    copies = {name for group in published.family.copies for name in group} | set(published.family.unused)
    assert {usual for usual, own in published.usual.items() if own in left} <= copies
