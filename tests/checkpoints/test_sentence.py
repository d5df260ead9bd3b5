"""modules.json: which modules follow an encoder. The vectors themselves: families/test_bert.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoints.sentence import read_sentence
from glassformer.errors import ConfigError, GlassError
from glassformer.models import decoder, encoder
from glassformer.models.encoder import DenseConfig


def write(folder: Path, *modules: tuple[str, dict[str, Any]]) -> Path:
    listed = []
    for i, (kind, raw) in enumerate(modules):
        path = f"{i}_{kind}"
        listed.append({"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"})
        (folder / path).mkdir()
        (folder / path / "config.json").write_text(json.dumps(raw))
    (folder / "modules.json").write_text(json.dumps(listed))
    return folder


TRANSFORMER: tuple[str, dict[str, Any]] = ("Transformer", {})
MEAN: tuple[str, dict[str, Any]] = ("Pooling", {"pooling_mode_mean_tokens": True})


def test_a_plain_folder(tmp_path: Path) -> None:
    found = read_sentence(tmp_path)
    assert found.encoder == tmp_path
    assert found.amend(encoder.tiny()) == encoder.tiny()


def test_all_modules(tmp_path: Path) -> None:
    dense = {"in_features": 16, "out_features": 5, "activation_function": "torch.nn.modules.linear.Identity"}
    found = read_sentence(write(tmp_path, TRANSFORMER, MEAN, ("Dense", dense | {"bias": False}), ("Normalize", {})))
    assert found.encoder == tmp_path / "0_Transformer"
    assert (found.pooling, found.normalise, found.dense_folder) == ("mean", True, tmp_path / "2_Dense")
    assert found.dense == DenseConfig(width=5, activation=None, bias=False)
    assert found.amend(encoder.tiny()).dense == found.dense
    with pytest.raises(ConfigError, match="DecoderConfig"):
        found.amend(decoder.tiny())


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        ([TRANSFORMER, ("Pooling", {"pooling_mode_lasttoken": True})], "lasttoken"),
        ([TRANSFORMER, ("Pooling", {"pooling_mode": "weightedmean"})], "weightedmean"),
        ([TRANSFORMER, ("Pooling", {})], "nothing"),
        ([TRANSFORMER, ("Pooling", {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True})], "cls"),
        ([TRANSFORMER, MEAN, MEAN], "Pooling"),
        ([TRANSFORMER, MEAN, ("CNN", {})], "CNN"),
        ([TRANSFORMER, MEAN, ("Dense", {"out_features": 10**12})], "out_features"),
        ([TRANSFORMER, MEAN, ("Dense", {"out_features": 3, "activation_function": "a.Softplus"})], "Softplus"),
    ],
)
def test_what_we_do_not_have_is_named(tmp_path: Path, modules: list[tuple[str, dict[str, Any]]], said: str) -> None:
    with pytest.raises(GlassError, match=said):
        read_sentence(write(tmp_path, *modules))


@pytest.mark.parametrize("text", ["{}", "[1]", "null"])
def test_no_list_of_modules(tmp_path: Path, text: str) -> None:
    (tmp_path / "modules.json").write_text(text)
    with pytest.raises(ConfigError, match="does not list modules"):
        read_sentence(tmp_path)
