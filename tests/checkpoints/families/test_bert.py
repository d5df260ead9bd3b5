"""BERT, MiniLM and sentence-transformers folders against Hugging Face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import load
from glassformer.errors import CheckpointError, ConfigError
from glassformer.models.encoder import Encoder

SMALL = {"vocab_size": 30, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
SMALL |= {"max_position_embeddings": 16}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("BertForMaskedLM", {}),
        ("BertForMaskedLM", {"tie_word_embeddings": False, "hidden_act": "gelu_new"}),
        ("BertForPreTraining", {"layer_norm_eps": 0.1, "num_attention_heads": 1}),
        ("BertForSequenceClassification", {"num_labels": 5, "hidden_act": "relu", "type_vocab_size": 3}),
        ("BertForNextSentencePrediction", {"num_attention_heads": 12}),
        ("BertModel", {"hidden_size": 15, "hidden_act": "silu", "num_hidden_layers": 1}),
    ],
)
def test_bert_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    folder = publish(getattr(hf, kind)(hf.BertConfig(**SMALL | changes)))
    model = require_equal(folder)
    assert isinstance(model, Encoder)
    assert model.config.word_head == (kind in ("BertForMaskedLM", "BertForPreTraining"))


def test_old_names_and_buffers(hf: Any, publish: Any, require_equal: Any) -> None:
    """The first published BERT has gamma and beta, position_ids, and copies of what is tied."""
    folder = publish(hf.BertForMaskedLM(hf.BertConfig(**SMALL)))
    tensors = load_file(folder / "model.safetensors")
    old = {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
           for n, t in tensors.items()}
    old["bert.embeddings.position_ids"] = torch.arange(16)[None]
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"].clone()
    plain = load(folder)
    save_file(old, folder / "model.safetensors")
    again = load(folder)
    for (name, a), (_, b) in zip(plain.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(a, b), name
    assert again.config.tied
    old["cls.predictions.decoder.weight"][0, 0] += 1
    save_file(old, folder / "model.safetensors")
    assert not load(folder).config.tied  # two different tables are two, as Hugging Face has it too


@pytest.mark.parametrize("feature", [{"position_embedding_type": "relative_key"}, {"is_decoder": True}])
def test_other_features_are_named(hf: Any, publish: Any, feature: dict[str, Any]) -> None:
    folder = publish(hf.BertModel(hf.BertConfig(**SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | feature))
    with pytest.raises(ConfigError, match=next(iter(feature))):
        load(folder)


def test_heads_for_other_tasks_are_named(hf: Any, publish: Any) -> None:
    folder = publish(hf.BertForTokenClassification(hf.BertConfig(**SMALL)))
    with pytest.raises(ConfigError, match="BertForTokenClassification"):
        load(folder)


def test_a_missing_head_is_named(hf: Any, publish: Any) -> None:
    folder = publish(hf.BertForMaskedLM(hf.BertConfig(**SMALL)))
    tensors = load_file(folder / "model.safetensors")
    save_file({n: t for n, t in tensors.items() if not n.startswith("cls")}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"cls\.predictions.* is missing, for our"):
        load(folder)


def _sentence_folder(folder: Path, pooling: dict[str, Any], dense: bool) -> None:
    kinds = ["Transformer", "Pooling", *(["Dense"] if dense else []), "Normalize"]
    modules = [{"idx": i, "name": str(i), "path": "" if i == 0 else f"{i}_{kind}",
                "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 12} | pooling))
    if dense:
        (folder / "2_Dense").mkdir()
        raw = {"in_features": 12, "out_features": 7, "bias": True,
               "activation_function": "torch.nn.modules.activation.Tanh"}
        (folder / "2_Dense" / "config.json").write_text(json.dumps(raw))
        tensors = {"linear.weight": torch.randn(7, 12), "linear.bias": torch.randn(7)}
        save_file(tensors, folder / "2_Dense" / "model.safetensors")


@pytest.mark.parametrize(
    ("pooling", "dense"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, False),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, True),
        ({"pooling_mode": "max"}, True),
    ],
)
def test_sentence_vectors(hf: Any, publish: Any, require_equal: Any, pooling: dict[str, Any], dense: bool) -> None:
    """The vectors by their definition, from Hugging Face's hidden states."""
    folder = publish(hf.BertModel(hf.BertConfig(**SMALL)))
    _sentence_folder(folder, pooling, dense)
    model = load(folder)
    ids = torch.randint(1, 30, (3, 9), generator=torch.Generator().manual_seed(0))
    real = torch.arange(9) < torch.tensor([9, 4, 1])[:, None]
    with torch.no_grad():
        X = hf.BertModel.from_pretrained(folder)(ids, real.long()).last_hidden_state
        rows = [x[r] for x, r in zip(X, real, strict=True)]
        how = {"mean": lambda x: x.mean(0), "first": lambda x: x[0], "max": lambda x: x.amax(0)}[model.config.pooling]
        expected = torch.stack([how(x) for x in rows])
        if dense:
            tensors = load_file(folder / "2_Dense" / "model.safetensors")
            expected = torch.tanh(expected @ tensors["linear.weight"].T + tensors["linear.bias"])
        expected = expected / expected.norm(dim=-1, keepdim=True)
        found = model.sentences(model(ids, real), real)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"type": "sentence_transformers.models.LSTM"}, "LSTM"), ({"path": "../elsewhere"}, "elsewhere")],
)
def test_unknown_modules_are_named(hf: Any, publish: Any, changes: dict[str, Any], named: str) -> None:
    folder = publish(hf.BertModel(hf.BertConfig(**SMALL)))
    _sentence_folder(folder, {"pooling_mode": "mean"}, False)
    modules = json.loads((folder / "modules.json").read_text())
    modules[1] |= changes
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises((ConfigError, CheckpointError), match=named):
        load(folder)
