"""Our own format: what is loaded is what was saved, as a whole or not at all."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import glassformer as gf
from glassformer.checkpoints import native, origin_of
from glassformer.errors import CheckpointError, ConfigError, GlassError
from glassformer.models import Decoder, Encoder, Seq2Seq, ViT, decoder, encoder, seq2seq, vit

MODELS = [
    (Decoder, decoder.tiny()),
    (Decoder, decoder.tiny_modern()),
    (Encoder, encoder.tiny()),
    (Seq2Seq, seq2seq.tiny()),
    (Seq2Seq, seq2seq.tiny_modern()),
    (ViT, vit.tiny()),
]


@pytest.mark.parametrize(("kind", "config"), MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_there_and_back(tmp_path: Path, kind: type[nn.Module], config: Any, dtype: torch.dtype) -> None:
    model = kind(config, seed=3).to(dtype)
    again = gf.load(gf.save(model, tmp_path / "a" / "b"), dtype=dtype)
    assert type(again) is kind
    assert again.config == config
    assert not again.training
    for (name, a), (other, b) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert name == other
        assert torch.equal(a, b)
    assert all(not buffer.is_meta for buffer in again.buffers())
    origin = origin_of(again)
    assert origin is not None
    assert origin.family == ""


def test_what_came_with_it_goes_on(tiny: Path, tmp_path: Path) -> None:
    (tiny / "tokenizer.json").write_text("{}")
    model = gf.load(tiny)
    gf.save(model, tmp_path / "own")
    again = gf.load(tmp_path / "own")
    assert again.origin.raw == model.origin.raw
    assert (again.origin.family, again.origin.names) == ("gpt2", model.origin.names)
    assert again.origin.tokenizer == tmp_path / "own" / "tokenizer.json"
    gf.save(again, tmp_path / "own")  # over the file that it is mapped from
    assert torch.equal(gf.load(tmp_path / "own").decoder.embed.table.weight, model.decoder.embed.table.weight)
    assert sorted(p.name for p in (tmp_path / "own").iterdir()) == [
        "glassformer.json",
        "model.safetensors",
        "tokenizer.json",
    ]


def test_two_saves_are_not_mixed(tmp_path: Path) -> None:
    gf.save(Decoder(decoder.tiny(), seed=0), tmp_path / "a")
    gf.save(Decoder(decoder.tiny_modern(), seed=0), tmp_path / "b")
    (tmp_path / "a" / native.CARD).write_bytes((tmp_path / "b" / native.CARD).read_bytes())
    with pytest.raises(CheckpointError, match="not of one save"):
        gf.load(tmp_path / "a")


def test_a_save_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Decoder(decoder.tiny(), seed=0)
    gf.save(old, tmp_path / "a")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(native, "save_file", fail)
    with pytest.raises(CheckpointError, match=r"model.safetensors cannot be written \(No space left on device\): make"):
        gf.save(Decoder(decoder.tiny(), seed=1), tmp_path / "a")
    again = gf.load(tmp_path / "a")
    assert torch.equal(again.decoder.embed.table.weight, old.decoder.embed.table.weight)
    assert len(list((tmp_path / "a").iterdir())) == 2


def rewrite(folder: Path, card: dict[str, Any]) -> None:
    """A card of someone else's making, with the digest that belongs to it."""
    text = json.dumps(card)
    (folder / native.CARD).write_text(text)
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors, folder / "model.safetensors", metadata={"card": native._digest(text)})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda card: card | {"format": 2}, "format 2"),
        (lambda card: card | {"kind": "os"}, "no architecture 'os'"),
        (lambda card: card | {"kind": "Encoder"}, "config is"),
        (lambda card: card | {"config": None}, "config is 'None'"),
        (lambda card: card | {"origin": {"folder": "/etc"}}, "origin"),
        (lambda card: card | {"origin": 3}, "origin"),
        (lambda card: deep(card, 10**9), "depth is 1000000000"),
        (lambda card: deep(card, 3), r"decoder\.2\..* is missing"),
        (lambda card: deep(card, 1), r"decoder\.1\..* has no place"),
    ],
)
def test_hostile_cards(tmp_path: Path, change: Any, said: str) -> None:
    gf.save(Decoder(decoder.tiny(), seed=0), tmp_path)
    rewrite(tmp_path, change(json.loads((tmp_path / native.CARD).read_text())))
    with pytest.raises(GlassError, match=said):
        gf.load(tmp_path)


def deep(card: dict[str, Any], depth: int) -> dict[str, Any]:
    card["config"]["text"]["depth"] = depth
    return card


def test_only_our_models(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a Linear cannot be saved"):
        gf.save(nn.Linear(2, 2), tmp_path)


def test_weights_are_reproducible_and_have_the_mode_of_other_files(tmp_path: Path) -> None:
    model = ViT(vit.tiny(), seed=0)
    before = os.umask(0o027)
    try:
        files = [gf.save(model, tmp_path / str(i)) / "model.safetensors" for i in range(6)]
    finally:
        os.umask(before)
    assert len({path.read_bytes() for path in files}) == 1
    assert {oct(path.stat().st_mode & 0o777) for path in files} == {"0o640"}
    assert sorted(path.name for path in (tmp_path / "0").iterdir()) == ["glassformer.json", "model.safetensors"]
