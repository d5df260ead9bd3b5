"""The Llama kind against Hugging Face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer import load
from glassformer.checkpoints import parity
from glassformer.errors import ConfigError

SMALL = {"vocab_size": 30, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 6, "intermediate_size": 20}
SMALL |= {"num_key_value_heads": 2, "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 1}
SCALED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SCALED |= {"original_max_position_embeddings": 16, "rope_theta": 100.0}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("Llama", {}),
        ("Llama", {"tie_word_embeddings": True, "num_key_value_heads": 6, "rms_norm_eps": 0.1}),
        ("Llama", {"head_dim": 6, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1}),
        ("Llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "hidden_act": "gelu"}),
        ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 50.0}}),
        ("Llama", {"rope_parameters": SCALED, "hidden_size": 18, "intermediate_size": 7, "head_dim": 4}),
        ("Mistral", {"sliding_window": None, "head_dim": 2}),
        ("Mistral", {"sliding_window": 5}),
        ("Qwen2", {"use_sliding_window": False}),
    ],
)
def test_llama_is_theirs(hf: Any, publish: Any, require_equal: Any, kind: str, changes: dict[str, Any]) -> None:
    config = getattr(hf, f"{kind}Config")(**SMALL | changes)
    model = require_equal(publish(getattr(hf, f"{kind}ForCausalLM")(config)))
    assert model.config.tied == changes.get("tie_word_embeddings", False)


@pytest.mark.parametrize("old", [{"type": "linear", "factor": 4.0}, None])
def test_older_names_of_rotary_settings(hf: Any, publish: Any, require_equal: Any, old: dict[str, Any] | None) -> None:
    folder = publish(hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    del raw["rope_parameters"]
    (folder / "config.json").write_text(json.dumps(raw | {"rope_theta": 321.0, "rope_scaling": old}))
    model = require_equal(folder)
    assert model.config.text.relative.base == 321.0
    assert (model.config.text.relative.scaling is None) == (old is None)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
        ({"sliding_window": 7}, "sliding_window"),
        ({"model_type": "qwen2", "use_sliding_window": True, "architectures": []}, "use_sliding_window"),
        ({"model_type": "mistral", "sliding_window": -3, "architectures": ["MistralForCausalLM"]}, "sliding_window"),
        ({"hidden_act": "mish"}, "mish"),
        ({"rope_parameters": [1]}, "rope_parameters"),
    ],
)
def test_other_features_are_named(hf: Any, publish: Any, change: dict[str, Any], named: str) -> None:
    folder = publish(hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL)))
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | change))
    with pytest.raises(ConfigError, match=named):
        load(folder)


def rewrite(folder: Path, drop: str, **changes: Any) -> Path:
    raw = json.loads((folder / "config.json").read_text())
    raw.pop(drop, None)
    (folder / "config.json").write_text(json.dumps(raw | changes))
    return folder


def test_mistral_without_a_window_in_its_file_has_theirs(hf: Any, publish: Any) -> None:
    folder = publish(hf.MistralForCausalLM(hf.MistralConfig(**SMALL)))
    rewrite(folder, "sliding_window")
    assert hf.MistralConfig.from_pretrained(folder).sliding_window == 4096
    assert load(folder).config.text.window == 4096
    report = parity(folder)
    assert report.equal
    assert report.untried == ("a sliding window of 4096 tokens",)
    assert "not tried: a sliding window of 4096 tokens" in str(report)


def test_parity_crosses_the_window(hf: Any, publish: Any) -> None:
    """A window that is one token off shows only in inputs longer than it."""
    folder = publish(hf.MistralForCausalLM(hf.MistralConfig(**SMALL, sliding_window=20)))
    assert parity(folder).lengths == (12, 25)
    assert parity(folder).equal


def test_llama3_scaling_without_the_original_length_has_theirs(hf: Any, publish: Any, require_equal: Any) -> None:
    given = {name: value for name, value in SCALED.items() if name != "original_max_position_embeddings"}
    folder = publish(hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL | {"max_position_embeddings": 64})))
    rewrite(folder, "rope_parameters", rope_parameters=given)
    assert require_equal(folder).config.text.relative.scaling.trained == 64


def test_sharded(hf: Any, publish: Any, require_equal: Any) -> None:
    folder = publish(hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL)), max_shard_size="4KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    require_equal(folder)
