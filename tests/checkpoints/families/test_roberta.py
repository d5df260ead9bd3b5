"""RoBERTa against Hugging Face."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import load

SMALL = {"vocab_size": 30, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
SMALL |= {"max_position_embeddings": 18, "type_vocab_size": 1, "layer_norm_eps": 1e-5}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("RobertaForMaskedLM", {}),
        ("RobertaForMaskedLM", {"tie_word_embeddings": False, "hidden_act": "relu"}),
        ("RobertaForSequenceClassification", {"num_labels": 4, "num_attention_heads": 1, "pad_token_id": 3}),
        ("RobertaModel", {"hidden_size": 9, "num_hidden_layers": 1, "layer_norm_eps": 0.1}),
    ],
)
def test_roberta_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    model = require_equal(publish(getattr(hf, kind)(hf.RobertaConfig(**SMALL | changes))))
    assert model.config.text.positions.offset == changes.get("pad_token_id", 1) + 1
    assert model.config.text.positions.length == 18 - model.config.text.positions.offset


def test_the_other_names_of_the_family(hf: Any, publish: Any, require_equal: Any) -> None:
    require_equal(publish(hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**SMALL))))


def test_a_pooler_that_nobody_uses(hf: Any, publish: Any, require_equal: Any) -> None:
    """Classifiers made from a whole RobertaModel carry its pooler along; Hugging Face drops it too."""
    folder = publish(hf.RobertaForSequenceClassification(hf.RobertaConfig(**SMALL)))
    tensors = load_file(folder / "model.safetensors")
    extra = {"roberta.pooler.dense.weight": torch.ones(12, 12), "roberta.pooler.dense.bias": torch.ones(12)}
    plain = load(folder)
    save_file(tensors | extra, folder / "model.safetensors")
    assert torch.equal(plain.pooler.weight, load(folder).pooler.weight)
